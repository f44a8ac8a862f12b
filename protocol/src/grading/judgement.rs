//! What a judge's words mean, read in two ways: as the published code reads them, for figures that can be
//! compared, and robustly, where what is unclear is no verdict rather than a wrong one.

use super::read_confidence;
use regex::Regex;
use std::sync::LazyLock;
use unicode_normalization::UnicodeNormalization;

/// What a judge said.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Judgement {
    /// None if there is no verdict, or more than one.
    pub correct: Option<bool>,
    /// The answer that the judge found in the response; none where it found none.
    pub extracted: Option<String>,
    /// The judge's reasons.
    pub reasoning: Option<String>,
    /// 0 to 100.
    pub confidence: Option<f64>,
}

/// The published pattern of one field in its three spellings, of which the first that matches counts.
struct Published([Regex; 3]);

static EXTRACTED: LazyLock<Published> = LazyLock::new(|| Published::new("extracted_final_answer", r"\s*([^\n]*)"));
static REASONING: LazyLock<Published> = LazyLock::new(|| {
    let mut field = Published::new("reasoning", r"\s*(.*?)(?:\n\*\*correct:\*\*|\n\*\*correct\*\*:|\ncorrect:|\z)");
    // The last spelling ends at the last spelling only.
    field.0[2] = pattern(r"(?is)reasoning:\s*(.*?)(?:\ncorrect:|\z)");
    field
});
static CORRECT: LazyLock<Published> = LazyLock::new(|| Published::new("correct", r"\s*(yes|no)"));
static CONFIDENCE: LazyLock<Published> = LazyLock::new(|| Published::new("confidence", r"\s*(\d+(?:\.\d+)?)"));

impl Published {
    fn new(field: &str, value: &str) -> Self {
        let spellings = [format!(r"\*\*{field}:\*\*"), format!(r"\*\*{field}\*\*:"), format!("{field}:")];
        Self(spellings.map(|spelling| pattern(&format!("(?is){spelling}{value}"))))
    }

    fn find<'t>(&self, text: &'t str) -> Option<&'t str> {
        let found = self.0.iter().find_map(|spelling| spelling.captures(text))?;
        found.get(1).map(|value| value.as_str().trim())
    }
}

fn pattern(text: &str) -> Regex {
    Regex::new(text).expect("the patterns of this file are constants, and each is used by a test")
}

/// Reads a judgement, as the published code does or robustly.
pub fn read_judgement(text: &str, published: bool) -> Judgement {
    if published { read_published(text) } else { read_robust(text) }
}

/// Reads a judgement as the published graders do (both FoldAgent's and BrowseComp-Plus'): `incorrect: no`
/// is a `no`, `correct: **yes**` is nothing, and a confidence above 100 is 100.
pub fn read_published(text: &str) -> Judgement {
    Judgement {
        correct: CORRECT.find(text).map(|word| word.eq_ignore_ascii_case("yes")),
        extracted: EXTRACTED.find(text).map(str::to_owned),
        reasoning: REASONING.find(text).map(str::to_owned),
        confidence: CONFIDENCE.find(text).and_then(|number| number.parse().ok()).map(|number: f64| number.min(100.0)),
    }
}

/// What may stand before a field at a line's start: list marks, brackets, quotes, numbers.
const LINE_HEAD: &str = r#"(?im)^[\s>|\-+•{\["',(]*(?:\d+[.)]\s*)?["']?"#;
/// A verdict's word, not followed by more of a word.
const WORD: &str = r#"[\s"'(\[]*(yes|no|true|false|y|n)\b"#;

static VERDICT_LINE: LazyLock<Regex> =
    LazyLock::new(|| pattern(&format!(r#"{LINE_HEAD}correct["']?\s*(?:[:=|]|-+|–|—)\s*{WORD}"#)));
static VERDICT_WITHIN: LazyLock<Regex> =
    LazyLock::new(|| pattern(&format!(r#"(?i)(?:^|[^\p{{L}}\p{{N}}_-])correct["']?\s*[:=]\s*{WORD}"#)));
static OTHER_WORD: LazyLock<Regex> =
    LazyLock::new(|| pattern(r#"(?i)\A["']?\s*(?:/|\||or\b)\s*["']?(yes|no|true|false|y|n)\b"#));
static EXTRACTED_LINE: LazyLock<Regex> = LazyLock::new(|| field("extracted[_ ]final[_ ]answer"));
static REASONING_LINE: LazyLock<Regex> = LazyLock::new(|| field("reasoning"));
static CONFIDENCE_LINE: LazyLock<Regex> = LazyLock::new(|| field("confidence"));

fn field(name: &str) -> Regex {
    pattern(&format!(r#"{LINE_HEAD}{name}["']?\s*(?:[:=|]|-+|–|—)\s*(.*)$"#))
}

/// Reads a judgement through Markdown, JSON, quotes, other colons and invisible characters. `incorrect:` is
/// another word; verdicts that contradict each other are none; so is an unfilled `yes or no`.
pub fn read_robust(text: &str) -> Judgement {
    let folded = fold(text);
    let answer = folded.rsplit_once("</think>").map_or(folded.as_str(), |(_, after)| after);
    let mut verdicts = verdicts(&VERDICT_LINE, answer);
    if verdicts.is_empty() {
        verdicts = self::verdicts(&VERDICT_WITHIN, answer);
    }
    let correct = verdicts.first().copied().filter(|first| verdicts.iter().all(|verdict| verdict == first));
    let value =
        |field: &Regex| field.captures(answer).map(|found| bare(&found[1]).to_owned()).filter(|text| !text.is_empty());
    Judgement {
        correct,
        extracted: value(&EXTRACTED_LINE).filter(|text| !text.eq_ignore_ascii_case("none")),
        reasoning: value(&REASONING_LINE),
        confidence: value(&CONFIDENCE_LINE).and_then(|text| read_confidence(&text)),
    }
}

/// Compatibility forms folded (full-width colons and letters), invisible characters and Markdown's marks
/// taken out, quotes and line ends made plain. JSON on one line is broken into lines.
fn fold(text: &str) -> String {
    let mut folded = String::with_capacity(text.len());
    for c in text.nfkc() {
        match c {
            '\u{200b}'..='\u{200f}' | '\u{2060}' | '\u{feff}' | '\u{ad}' | '*' | '`' | '#' => {}
            '“' | '”' | '„' | '«' | '»' => folded.push('"'),
            '‘' | '’' => folded.push('\''),
            '\r' => folded.push('\n'),
            _ => folded.push(c),
        }
    }
    match json_lines(&folded) {
        Some(lines) => lines,
        None => folded,
    }
}

/// A JSON object with a member `correct` as lines of fields.
fn json_lines(text: &str) -> Option<String> {
    let (start, end) = (text.find('{')?, text.rfind('}')?);
    let object: serde_json::Map<String, serde_json::Value> = serde_json::from_str(text.get(start..=end)?).ok()?;
    object.get("correct")?;
    let line = |(key, value): (&String, &serde_json::Value)| {
        let value = value.as_str().map_or_else(|| value.to_string(), |text| text.replace('\n', " "));
        format!("{key}: {value}\n")
    };
    let lines: String = object.iter().map(line).collect();
    // What stands around the object stays, so that a contradiction there is seen.
    Some(format!("{}\n{lines}{}", &text[..start], &text[end + 1..]))
}

fn verdicts(field: &Regex, text: &str) -> Vec<bool> {
    let mut verdicts = Vec::new();
    for found in field.captures_iter(text) {
        let Some(word) = found.get(1) else { continue };
        let rest = &text[word.end()..];
        if let Some(other) = OTHER_WORD.captures(rest) {
            verdicts.extend([is_yes(word.as_str()), is_yes(&other[1])]);
        } else if !rest.starts_with('/') {
            verdicts.push(is_yes(word.as_str()));
        }
    }
    verdicts
}

fn is_yes(word: &str) -> bool {
    matches!(word.as_bytes().first(), Some(b'y' | b'Y' | b't' | b'T'))
}

/// A value without the quotes and the comma of JSON or a table around it.
fn bare(value: &str) -> &str {
    let value = value.trim().trim_end_matches([',', '|', '}']).trim();
    value.strip_prefix('"').and_then(|value| value.strip_suffix('"')).unwrap_or(value).trim()
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: &str =
        "extracted_final_answer: Paris\nreasoning: Same city.\nBoth agree.\ncorrect: yes\nconfidence: 85%";

    #[test]
    fn both_readers_read_the_plain_form() {
        let published = read_published(WHOLE);
        assert_eq!(published.correct, Some(true));
        assert_eq!(published.extracted.as_deref(), Some("Paris"));
        assert_eq!(published.reasoning.as_deref(), Some("Same city.\nBoth agree."));
        assert_eq!(published.confidence, Some(85.0));
        let robust = read_robust(WHOLE);
        assert_eq!((robust.correct, robust.confidence), (Some(true), Some(85.0)));
        assert_eq!((robust.extracted.as_deref(), robust.reasoning.as_deref()), (Some("Paris"), Some("Same city.")));
    }

    #[test]
    fn the_same_words_in_both_readings() {
        // Text, published, robust.
        let cases = [
            ("correct: yes", Some(true), Some(true)),
            ("**correct:** no", Some(false), Some(false)),
            ("**Correct**: Yes", Some(true), Some(true)),
            ("correct: **yes**", None, Some(true)),
            ("\"correct\": \"yes\"", None, Some(true)),
            ("{\"correct\": \"no\", \"confidence\": 50}", None, Some(false)),
            ("{\"correct\": true}", None, Some(true)),
            ("```json\n{\"reasoning\": \"x\", \"correct\": false}\n```", None, Some(false)),
            ("Correct - yes", None, Some(true)),
            ("correct：yes", None, Some(true)),
            ("correct: \u{200b}yes", None, Some(true)),
            ("correct:\u{200b} yes", None, Some(true)),
            ("correct: y", None, Some(true)),
            ("correct: N", None, Some(false)),
            ("correct: 'yes'", None, Some(true)),
            ("correct: “no”", None, Some(false)),
            ("| correct | yes |", None, Some(true)),
            ("3. correct: yes", Some(true), Some(true)),
            ("- **correct**: yes, it agrees", Some(true), Some(true)),
            ("extracted_final_answer: x reasoning: y correct: yes confidence: 9", Some(true), Some(true)),
            ("incorrect: no\ncorrect: yes", Some(false), Some(true)),
            ("incorrect: no", Some(false), None),
            ("correct: yes\ncorrect: no", Some(true), None),
            ("correct: yes\n{\"correct\": \"no\"}", Some(true), None),
            ("correct: yes or no", Some(true), None),
            ("correct: yes/no", Some(true), None),
            ("correct: n/a", None, None),
            ("correct: not sure", Some(false), None),
            ("correct: yesterday", Some(true), None),
            ("The answer is correct - no doubt", None, None),
            ("Is it correct? Yes.", None, None),
            ("<think>\ncorrect: no\n</think>\ncorrect: yes", Some(false), Some(true)),
            ("CORRECT = NO", None, Some(false)),
            ("correct:\nyes", Some(true), Some(true)),
            ("correct:", None, None),
            ("", None, None),
            ("Ambiguous", None, None),
        ];
        for (text, published, robust) in cases {
            assert_eq!(read_published(text).correct, published, "published: {text}");
            assert_eq!(read_robust(text).correct, robust, "robust: {text}");
        }
    }

    #[test]
    fn confidences_in_both_readings() {
        let cases = [
            ("confidence: 101 %", Some(100.0), None),
            ("confidence: N/A", None, None),
            ("confidence: 0.9", Some(0.9), Some(90.0)),
            ("confidence: 90", Some(90.0), Some(90.0)),
            ("**confidence**: 72.5%", Some(72.5), Some(72.5)),
            ("{\"correct\": \"yes\", \"confidence\": 60}", None, Some(60.0)),
            ("confidence：７５％", None, Some(75.0)),
        ];
        for (text, published, robust) in cases {
            assert_eq!(read_published(text).confidence, published, "published: {text}");
            assert_eq!(read_robust(text).confidence, robust, "robust: {text}");
        }
    }

    #[test]
    fn no_answer_is_no_answer() {
        assert_eq!(read_robust("extracted_final_answer: None\ncorrect: no").extracted, None);
        assert_eq!(read_robust("\"extracted_final_answer\": \"Rome\",").extracted.as_deref(), Some("Rome"));
    }

    proptest::proptest! {
        #![proptest_config(proptest::test_runner::Config { failure_persistence: None, ..Default::default() })]

        #[test]
        fn no_text_makes_a_reader_panic(text in "(?s)(correct|: |yes|no|[*\"'{}\n/]|\\PC|.){0,40}") {
            read_published(&text);
            read_robust(&text);
            read_confidence(&text);
        }
    }
}
