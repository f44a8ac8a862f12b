//! Tells a thought from what is said: an answer that opens with `<think>`, or begins within a thought, is thinking until
//! `</think>`. It reads text as it comes, however it is cut, and holds back only what may yet be a tag.

/// Opens a thought.
const OPEN: &str = "<think>";
/// Ends a thought.
const CLOSE: &str = "</think>";

/// A part of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// Of the thought; with its tags where they are kept.
    Thought(String),
    /// After it.
    Text(String),
}

/// The state between two pieces of text.
#[derive(Debug)]
pub(super) struct Thoughts {
    stage: Stage,
    held: String,
    keep: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Nothing but white space and the beginning of a tag has come.
    Opening,
    /// In a thought, of which nothing has come.
    Entered,
    Thinking,
    /// After a thought, before text.
    Left,
    Speaking,
}

impl Thoughts {
    /// Reads an answer that begins in a thought or may open one. Where tags are not to be kept, they go, and so do the
    /// line feeds around them, which Qwen's templates put back.
    pub(super) fn new(in_thought: bool, keep: bool) -> Self {
        let stage = if in_thought { Stage::Entered } else { Stage::Opening };
        Self { stage, held: String::new(), keep }
    }

    /// Takes the next piece.
    pub(super) fn push(&mut self, text: &str) -> Vec<Part> {
        self.held.push_str(text);
        let mut parts = Vec::new();
        while self.step(&mut parts) {}
        parts
    }

    /// What was held back when the answer ended.
    pub(super) fn finish(&mut self) -> Vec<Part> {
        let rest = std::mem::take(&mut self.held);
        match self.stage {
            _ if rest.is_empty() => Vec::new(),
            Stage::Entered | Stage::Thinking => vec![Part::Thought(rest)],
            Stage::Left => Vec::new(),
            Stage::Opening | Stage::Speaking => vec![Part::Text(rest)],
        }
    }

    /// Goes on by one stage; false where more text is needed.
    fn step(&mut self, parts: &mut Vec<Part>) -> bool {
        match self.stage {
            Stage::Opening => self.opening(parts),
            Stage::Entered | Stage::Left => {
                if !self.keep {
                    let feeds = self.held.len() - self.held.trim_start_matches('\n').len();
                    self.held.drain(..feeds);
                }
                if self.held.is_empty() {
                    return false;
                }
                self.stage = if self.stage == Stage::Entered { Stage::Thinking } else { Stage::Speaking };
                true
            }
            Stage::Thinking => self.thinking(parts),
            Stage::Speaking => {
                self.give(self.held.len(), Part::Text, parts);
                false
            }
        }
    }

    fn opening(&mut self, parts: &mut Vec<Part>) -> bool {
        let begun = self.held.trim_start();
        if begun.starts_with(OPEN) {
            let end = self.held.len() - begun.len() + OPEN.len();
            match self.keep {
                true => self.give(end, Part::Thought, parts),
                false => drop(self.held.drain(..end)),
            }
            self.stage = Stage::Entered;
            return true;
        }
        if OPEN.starts_with(begun) {
            return false;
        }
        self.stage = Stage::Speaking;
        true
    }

    fn thinking(&mut self, parts: &mut Vec<Part>) -> bool {
        if let Some(at) = self.held.find(CLOSE) {
            let end = at + CLOSE.len();
            match self.keep {
                true => self.give(end, Part::Thought, parts),
                false => {
                    let thought = self.held[..at].trim_end_matches('\n').len();
                    self.give(thought, Part::Thought, parts);
                    self.held.drain(..end - thought);
                }
            }
            self.stage = Stage::Left;
            return true;
        }
        let mut safe = self.held.len() - beginning_of(CLOSE, &self.held);
        if !self.keep {
            safe = self.held[..safe].trim_end_matches('\n').len();
        }
        self.give(safe, Part::Thought, parts);
        false
    }

    fn give(&mut self, end: usize, part: fn(String) -> Part, parts: &mut Vec<Part>) {
        if end > 0 {
            let rest = self.held.split_off(end);
            parts.push(part(std::mem::replace(&mut self.held, rest)));
        }
    }
}

/// How many bytes at the end of `text` are the beginning of `tag`.
pub(super) fn beginning_of(tag: &str, text: &str) -> usize {
    let longest = tag.len().min(text.len() + 1) - 1;
    (1..=longest).rev().find(|&length| text.as_bytes().ends_with(&tag.as_bytes()[..length])).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Thought and text of an answer that comes in these pieces.
    fn read<'a>(in_thought: bool, keep: bool, pieces: impl IntoIterator<Item = &'a str>) -> (String, String) {
        let mut thoughts = Thoughts::new(in_thought, keep);
        let mut parts: Vec<Part> = pieces.into_iter().flat_map(|piece| thoughts.push(piece)).collect();
        parts.extend(thoughts.finish());
        let (mut thought, mut said) = (String::new(), String::new());
        for part in parts {
            match part {
                Part::Thought(text) => thought.push_str(&text),
                Part::Text(text) => said.push_str(&text),
            }
        }
        (thought, said)
    }

    #[test]
    fn what_is_thought_is_told_from_what_is_said() {
        for (in_thought, answer, thought, said) in [
            (false, "<think>\na\nb\n</think>\n\nc\n", "a\nb", "c\n"),
            (false, "\n <think>a</think>c", "a", "c"),
            (false, "<think>\n\n</think>\n\nc", "", "c"),
            (false, "c <think>a</think>", "", "c <think>a</think>"),
            (false, "<thin", "", "<thin"),
            (false, " \n", "", " \n"),
            (true, "a\n</think>\n\nc", "a", "c"),
            (true, "a</thin", "a</thin", ""),
            (false, "<think>a", "a", ""),
            (false, "", "", ""),
        ] {
            assert_eq!(read(in_thought, false, [answer]), (thought.into(), said.into()), "{answer:?}");
        }
    }

    #[test]
    fn kept_tags_stay_where_they_were() {
        let answer = "<think>\na\n</think>\n\nc";
        assert_eq!(read(false, true, [answer]), ("<think>\na\n</think>".into(), "\n\nc".into()));
    }

    #[test]
    fn a_thought_is_told_while_it_is_thought() {
        let mut thoughts = Thoughts::new(false, false);
        assert_eq!(thoughts.push("<think>\nab\n</"), [Part::Thought("ab".into())]);
        assert_eq!(thoughts.push("x"), [Part::Thought("\n</x".into())]);
    }

    proptest! {
        #[test]
        fn any_cut_gives_the_same_and_kept_text_is_whole(
            words in prop::collection::vec(prop::sample::select(vec!["<think>", "</think>", "\n", "<th", "é", "a", "</"]), 0..8),
            in_thought: bool, keep: bool, size in 1usize..5,
        ) {
            let answer = words.concat();
            let letters: Vec<char> = answer.chars().collect();
            let pieces: Vec<String> = letters.chunks(size).map(|piece| piece.iter().collect()).collect();
            let whole = read(in_thought, keep, [answer.as_str()]);
            prop_assert_eq!(&whole, &read(in_thought, keep, pieces.iter().map(String::as_str)));
            if keep {
                prop_assert_eq!(whole.0 + &whole.1, answer);
            }
        }
    }
}
