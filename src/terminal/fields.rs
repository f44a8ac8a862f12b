//! Texts of single figures, shared by the live view and plain lines. What data or a model named is made safe here,
//! and only here.

use legwork_protocol::id::EpisodeKey;
use legwork_protocol::untrusted::Untrusted;
use legwork_report::number::{self, UNDEFINED};

/// Characters of an id or a name that are shown.
const NAME_CHARS_MAX: usize = 64;
/// Characters of a longer text that are shown.
const TEXT_CHARS_MAX: usize = 1_000;

/// A name that data or a configuration chose, on one line and without control characters.
pub(crate) fn name(text: &str) -> String {
    let text = Untrusted::new(text);
    // The log's form writes out all that the terminal's form does, and line ends and tabs as well.
    text.for_log(NAME_CHARS_MAX).into_owned()
}

/// A text of any origin on one line, such as the story of a failure.
pub(crate) fn text(text: &str) -> String {
    Untrusted::new(text).for_log(TEXT_CHARS_MAX).into_owned()
}

/// An episode as `question#round`.
pub(crate) fn episode(key: &EpisodeKey) -> String {
    format!("{}#{}", name(key.question.as_str()), key.round)
}

/// A rate with as many decimals as tell something.
pub(crate) fn rate(rate: Option<f64>) -> String {
    match rate {
        None => UNDEFINED.to_owned(),
        Some(rate) if rate >= 100.0 => number::count(rate.round() as u64),
        Some(rate) => format!("{rate:.1}"),
    }
}

/// A duration, or a dash.
pub(crate) fn duration(ms: Option<u64>) -> String {
    // Whole seconds: a view that counts tenths flickers.
    ms.map_or_else(
        || UNDEFINED.to_owned(),
        |ms| if ms < 60_000 { format!("{} s", ms / 1_000) } else { number::duration(ms) },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_can_not_steer_the_terminal() {
        let key = EpisodeKey { round: 1, question: "q\x1b[2J\n\u{202e}1".into() };
        assert_eq!(episode(&key), "q\\x1b[2J\\n\\u{202e}1#1");
    }

    #[test]
    fn a_long_id_is_cut_and_says_so() {
        let cut = name(&"x".repeat(1_000));
        assert!(cut.ends_with("… (+936 characters)"), "{cut}");
    }

    #[test]
    fn rates_and_durations_are_short() {
        assert_eq!(rate(None), "–");
        assert_eq!(rate(Some(2.52)), "2.5");
        assert_eq!(rate(Some(12_345.6)), "12,346");
        assert_eq!(duration(Some(59_999)), "59 s");
        assert_eq!(duration(Some(61_000)), "1 min 01 s");
    }
}
