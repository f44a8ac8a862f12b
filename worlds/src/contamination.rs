//! Finds test questions where they must not be: in training splits and in texts about to be published or trained on.
//! It compares normalised words only; paraphrases are beyond it.

use legwork_protocol::id::QuestionId;
use legwork_protocol::question::Question;
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use unicode_normalization::UnicodeNormalization;

/// So many words in a row, normalised, are taken as a trace of a question; a shorter question is one trace as a whole.
pub const TRACE_WORDS: usize = 13;

/// The question's words: compatibility forms unfolded (NFKC), lower case, and everything that is neither letter nor
/// digit taken as space. Texts that differ only so are the same question.
pub fn normalised(question: &str) -> String {
    let folded: String = question.nfkc().flat_map(char::to_lowercase).collect();
    let words: Vec<&str> =
        folded.split(|letter: char| !letter.is_alphanumeric()).filter(|word| !word.is_empty()).collect();
    words.join(" ")
}

/// SHA-256 of the normalised question, in hexadecimal.
pub fn question_hash(question: &str) -> String {
    let digest = Sha256::digest(normalised(question).as_bytes());
    digest.iter().fold(String::with_capacity(64), |mut hex, byte| {
        // Writing to a string cannot fail.
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}

/// What two questions of different splits share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Shared {
    /// The id.
    Id,
    /// The normalised text.
    Text,
    /// The same evidence documents, at least two.
    Evidence,
}

/// Two questions of different splits that share something.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Overlap {
    /// The training question.
    pub train: QuestionId,
    /// The test question.
    pub test: QuestionId,
    /// What they share.
    pub shared: Shared,
}

/// Every overlap of two splits, in order.
pub fn overlaps(train: &[Question], test: &[Question]) -> Vec<Overlap> {
    let mut found = BTreeSet::new();
    let keys = |question: &Question| -> Vec<(Shared, String)> {
        let docids: BTreeSet<&str> = question.evidence.iter().map(|docid| docid.as_str()).collect();
        let mut keys = vec![(Shared::Id, question.id.to_string()), (Shared::Text, question_hash(&question.text))];
        if docids.len() > 1 {
            keys.push((Shared::Evidence, docids.into_iter().collect::<Vec<_>>().join("\n")));
        }
        keys
    };
    let mut by_key: BTreeMap<(Shared, String), Vec<&Question>> = BTreeMap::new();
    for question in test {
        keys(question).into_iter().for_each(|key| by_key.entry(key).or_default().push(question));
    }
    for question in train {
        for key in keys(question) {
            for other in by_key.get(&key).into_iter().flatten() {
                found.insert(Overlap { train: question.id.clone(), test: other.id.clone(), shared: key.0 });
            }
        }
    }
    found.into_iter().collect()
}

/// The traces of a set of questions, to look for in texts.
#[derive(Clone, Debug, Default)]
pub struct Traces {
    by_length: BTreeMap<usize, BTreeMap<String, BTreeSet<QuestionId>>>,
    of: BTreeMap<QuestionId, usize>,
}

/// How many of a question's traces a text holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    /// Different traces of the question in the text; 1 at least.
    pub traces: usize,
    /// Different traces of the question.
    pub of: usize,
}

impl Held {
    /// Whether the text holds half of the question's traces or more: it quotes the question. Fewer may be a turn of phrase that
    /// questions share, as where they were made from patterns.
    pub fn is_quote(&self) -> bool {
        2 * self.traces >= self.of
    }
}

impl Traces {
    /// The traces of these questions.
    pub fn of(questions: &[Question]) -> Traces {
        let mut traces = Traces::default();
        for question in questions {
            let text = normalised(&question.text);
            let words: Vec<&str> = text.split(' ').filter(|word| !word.is_empty()).collect();
            let length = words.len().min(TRACE_WORDS);
            if length == 0 {
                continue;
            }
            for window in words.windows(length) {
                let of_length = traces.by_length.entry(length).or_default();
                if of_length.entry(window.join(" ")).or_default().insert(question.id.clone()) {
                    *traces.of.entry(question.id.clone()).or_default() += 1;
                }
            }
        }
        traces
    }

    /// The questions of which the text holds a trace, and how many of theirs.
    pub fn found_in(&self, text: &str) -> BTreeMap<QuestionId, Held> {
        let text = normalised(text);
        let words: Vec<&str> = text.split(' ').filter(|word| !word.is_empty()).collect();
        let mut found: BTreeMap<QuestionId, BTreeSet<&str>> = BTreeMap::new();
        for (length, traces) in &self.by_length {
            for window in words.windows(*length) {
                if let Some((trace, questions)) = traces.get_key_value(&window.join(" ")) {
                    questions.iter().for_each(|id| _ = found.entry(id.clone()).or_default().insert(trace));
                }
            }
        }
        let of = |id: &QuestionId| self.of.get(id).copied().unwrap_or_default();
        found.into_iter().map(|(id, held)| (id.clone(), Held { traces: held.len(), of: of(&id) })).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HELD: Held = Held { traces: 2, of: 5 };

    fn question(id: &str, text: &str, evidence: &[&str]) -> Question {
        Question {
            id: id.into(),
            text: text.to_owned(),
            answers: vec!["x".to_owned()],
            tier: "all".to_owned(),
            gold: Vec::new(),
            evidence: evidence.iter().map(|docid| (*docid).into()).collect(),
            decomposition: Vec::new(),
        }
    }

    #[test]
    fn case_space_punctuation_and_compatibility_forms_do_not_matter() {
        assert_eq!(normalised("  Who—really—WROTE \u{fb01}ve “plays”?\n"), "who really wrote five plays");
        // printf 'who really wrote five plays' | sha256sum
        assert_eq!(
            question_hash("Who really wrote: ﬁve plays?!"),
            "d4ef8c90d0e3ced2e9021d27f193c45b376ba9372c3d64b46ba76f25ad027bba"
        );
        assert_ne!(question_hash("Who wrote 5 plays?"), question_hash("Who wrote 6 plays?"));
    }

    #[test]
    fn overlaps_name_both_questions_and_what_they_share() {
        let train = [question("a", "Who wrote it?", &["d1", "d2"]), question("b", "Where?", &["d3"])];
        let test = [question("b", "When?", &["d3"]), question("c", "who wrote it", &["d2", "d1"])];
        let found: Vec<_> =
            overlaps(&train, &test).into_iter().map(|o| (o.train.to_string(), o.test.to_string(), o.shared)).collect();
        let expected = [("a", "c", Shared::Text), ("a", "c", Shared::Evidence), ("b", "b", Shared::Id)];
        assert_eq!(found, expected.map(|(train, test, shared)| (train.to_owned(), test.to_owned(), shared)));
    }

    #[test]
    fn a_quoted_question_is_found_in_a_text_and_a_part_of_thirteen_words_is_enough() {
        let long = "In which town was the teacher of the person who founded the school of two rivers born?";
        let traces = Traces::of(&[question("long", long, &[]), question("short", "Who wrote it?", &[])]);
        let quoted =
            "Notes: WHO wrote it; also: town was the teacher of the person who founded the school of two rivers, then";
        // Of 17 words there are five traces; the text holds the two that begin with `town` and `was`.
        let found = traces.found_in(quoted);
        assert_eq!(found, BTreeMap::from([("long".into(), HELD), ("short".into(), Held { traces: 1, of: 1 })]));
        assert!(!HELD.is_quote() && traces.found_in(long)[&"long".into()].is_quote());
        assert!(traces.found_in("town was the teacher of the person who founded the house of two rivers").is_empty());
        assert!(Traces::of(&[question("none", "?!", &[])]).found_in("?! anything").is_empty());
    }
}
