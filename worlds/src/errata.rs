//! Corrections of published gold answers, kept in a list that names the reason of each, and not in code. Applying a
//! list reports every change.

use crate::error::WorldError;
use legwork_protocol::id::QuestionId;
use legwork_protocol::question::Question;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::Path;

/// A list of corrections.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Errata {
    file: String,
    errata: Vec<Erratum>,
}

/// One correction.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Erratum {
    /// The question's id.
    pub question: String,
    /// The right answers: the answer, then its aliases.
    pub answers: Vec<String>,
    /// Why the published one is wrong.
    pub reason: String,
}

/// A correction as it was applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Corrected {
    /// The question.
    pub question: QuestionId,
    /// The answers before.
    pub before: Vec<String>,
    /// The answers now.
    pub after: Vec<String>,
    /// Why.
    pub reason: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct List {
    erratum: Vec<toml::Spanned<Erratum>>,
}

impl Errata {
    /// Reads a TOML file of `[[erratum]]` tables with `question`, `answers` and `reason`.
    pub fn read(path: &Path) -> Result<Errata, WorldError> {
        let unreadable = |source| WorldError::Unreadable { file: path.to_owned(), source };
        let text = std::fs::read_to_string(path).map_err(unreadable)?;
        Self::parse(&path.display().to_string(), &text)
    }

    /// Reads a list from text; `name` stands for the file in errors.
    pub fn parse(name: &str, text: &str) -> Result<Errata, WorldError> {
        let bad = |problem, cure| WorldError::BadErratum { file: name.to_owned(), problem, cure };
        let list: List = toml::from_str(text).map_err(|error| {
            bad(
                error.to_string().trim_end().to_owned(),
                "write [[erratum]] tables with `question`, `answers` and `reason`",
            )
        })?;
        let mut lines: BTreeMap<String, usize> = BTreeMap::new();
        let mut errata = Vec::new();
        for spanned in list.erratum {
            let line = text[..spanned.span().start.min(text.len())].matches('\n').count() + 1;
            let erratum = spanned.into_inner();
            let id = &erratum.question;
            if let Some(first) = lines.insert(id.clone(), line) {
                let problem = format!("line {line}: question {id:?} is corrected already in line {first}");
                return Err(bad(problem, "keep one of the two"));
            }
            if erratum.answers.is_empty() || erratum.answers.iter().any(|answer| answer.trim().is_empty()) {
                return Err(bad(
                    format!("line {line}: question {id:?} gets an empty answer"),
                    "write the right answer",
                ));
            }
            if erratum.reason.trim().is_empty() {
                return Err(bad(
                    format!("line {line}: question {id:?} has no reason"),
                    "say why the published answer is wrong",
                ));
            }
            errata.push(erratum);
        }
        Ok(Errata { file: name.to_owned(), errata })
    }

    /// The corrections in their order.
    pub fn entries(&self) -> &[Erratum] {
        &self.errata
    }

    /// Replaces the answers of the listed questions and reports each change. Nothing is changed when a question is
    /// not in the set or has the listed answers already: then the list is out of date.
    pub fn apply(&self, questions: &mut [Question]) -> Result<Vec<Corrected>, WorldError> {
        let bad = |problem, cure| WorldError::BadErratum { file: self.file.clone(), problem, cure };
        let mut places = Vec::new();
        for erratum in &self.errata {
            let id = &erratum.question;
            let at = questions.iter().position(|question| question.id.as_str() == id).ok_or_else(|| {
                bad(format!("question {id:?} is not in the set"), "check the id, or remove the erratum")
            })?;
            if questions[at].answers == erratum.answers {
                return Err(bad(format!("question {id:?} has these answers already"), "remove the erratum"));
            }
            places.push(at);
        }
        let apply = |(at, erratum): (usize, &Erratum)| Corrected {
            question: questions[at].id.clone(),
            before: std::mem::replace(&mut questions[at].answers, erratum.answers.clone()),
            after: erratum.answers.clone(),
            reason: erratum.reason.clone(),
        };
        Ok(places.into_iter().zip(&self.errata).map(apply).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &str =
        "[[erratum]]\nquestion = \"7\"\nanswers = [\"Kelmvoor\", \"Kelm\"]\nreason = \"a typo in the set\"\n";

    fn questions() -> Vec<Question> {
        let line = br#"{"id": "7", "question": "Which town?", "answers": ["Klemvoor"]}"#;
        crate::plain::parse_questions("set.jsonl", line).unwrap()
    }

    #[test]
    fn a_correction_replaces_the_answers_and_is_reported() {
        let mut set = questions();
        let corrected = Errata::parse("errata.toml", LIST).unwrap().apply(&mut set).unwrap();
        assert_eq!(set[0].answers, ["Kelmvoor", "Kelm"]);
        assert_eq!(
            (corrected[0].before.as_slice(), corrected[0].reason.as_str()),
            (&["Klemvoor".to_owned()][..], "a typo in the set")
        );
    }

    #[test]
    fn a_list_that_is_out_of_date_changes_nothing() {
        let mut set = questions();
        let two = format!("{LIST}{}", LIST.replace("\"7\"", "\"07\""));
        let message = Errata::parse("errata.toml", &two).unwrap().apply(&mut set).unwrap_err().to_string();
        assert!(message.contains("errata.toml") && message.contains("\"07\" is not in the set"), "{message}");
        assert_eq!(set, questions());
        Errata::parse("errata.toml", LIST).unwrap().apply(&mut set).unwrap();
        let again = Errata::parse("errata.toml", LIST).unwrap().apply(&mut set).unwrap_err().to_string();
        assert!(again.contains("has these answers already"), "{again}");
    }

    #[test]
    fn bad_lists_are_named_with_their_line() {
        let message = |text: &str| Errata::parse("errata.toml", text).unwrap_err().to_string();
        assert!(message(&format!("{LIST}{LIST}")).contains("line 5: question \"7\" is corrected already in line 1"));
        assert!(message(&LIST.replace("a typo in the set", " ")).contains("line 1: question \"7\" has no reason"));
        assert!(message(&LIST.replace("[\"Kelmvoor\", \"Kelm\"]", "[]")).contains("empty answer"));
        assert!(message(&LIST.replace("reason", "raeson")).contains("raeson"));
        assert!(message(&LIST.replace("\"7\"", "7")).contains("expected a string"));
    }
}
