//! Control tokens written as one private-use character each, in an alphabet that can be moved to where no text is. It
//! refuses to know whose text it writes in.

use crate::tokenizer::pieces::split;
use crate::tokenizer::{AddedToken, Piece};
use std::collections::BTreeSet;

/// Markers inside of messages, which are no control tokens even where a tokenizer calls them so: templates look for them in
/// contents.
const IN_MESSAGES: [&str; 6] =
    ["<think>", "</think>", "<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>"];
/// The planes of private use, each without its last two code points, which are no characters.
const PLANES: [(u32, u32); 2] = [(0xF_0000, 0xF_FFFD), (0x10_0000, 0x10_FFFD)];

/// The control tokens of a tokenizer.
pub(super) struct Aliases {
    /// The longest first, with its place in an alphabet.
    tokens: Vec<(String, u32)>,
    /// Markers of messages that this tokenizer calls control tokens; text would leave them text.
    in_messages: Vec<AddedToken>,
}

/// Where an alphabet begins: how many alphabets of private-use characters stand before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Alphabet(u32);

impl Aliases {
    pub(super) fn of(added: &[AddedToken]) -> Self {
        let special = added.iter().filter(|token| token.special);
        let (in_messages, control): (Vec<&AddedToken>, Vec<&AddedToken>) =
            special.partition(|token| IN_MESSAGES.contains(&token.content.as_str()));
        let tokens = control.into_iter().map(|token| (token.content.clone(), token.id)).collect();
        Self { tokens, in_messages: in_messages.into_iter().cloned().collect() }
    }

    /// The control tokens' texts.
    pub(super) fn tokens(&self) -> impl Iterator<Item = &str> + Clone {
        self.tokens.iter().map(|(token, _)| token.as_str())
    }

    /// The first alphabet of which no character is used; none if all are, or if there are too many control tokens.
    pub(super) fn alphabet(&self, used: &BTreeSet<char>) -> Option<Alphabet> {
        let size = self.tokens.len().max(1) as u32;
        let free = |index: &u32| {
            (0..size).all(|place| private(index * size + place).is_some_and(|letter| !used.contains(&letter)))
        };
        (0..private_count() / size).find(free).map(Alphabet)
    }

    /// The text with every control token as its letter.
    pub(super) fn write(&self, text: &str, alphabet: Alphabet) -> String {
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(one) = rest.chars().next() {
            let token = self.tokens.iter().position(|(token, _)| rest.starts_with(token.as_str()));
            let length = match token.and_then(|place| Some((place, self.letter(place, alphabet)?))) {
                Some((place, letter)) => {
                    out.push(letter);
                    self.tokens[place].0.len()
                }
                None => {
                    out.push(one);
                    one.len_utf8()
                }
            };
            rest = &rest[length..];
        }
        out
    }

    /// A rendering cut at the letters.
    pub(super) fn pieces<'a>(&self, text: &'a str, alphabet: Alphabet) -> Vec<Piece<'a>> {
        let first = alphabet.0 * self.tokens.len() as u32;
        let (mut pieces, mut begun) = (Vec::new(), 0);
        for (at, letter) in text.char_indices().filter(|(_, one)| place(*one).is_some()) {
            let token = place(letter)
                .and_then(|place| place.checked_sub(first))
                .and_then(|place| self.tokens.get(place as usize));
            let Some((_, id)) = token else { continue };
            pieces.extend(self.text(&text[begun..at]));
            pieces.push(Piece::Control(*id));
            begun = at + letter.len_utf8();
        }
        pieces.extend(self.text(&text[begun..]));
        pieces
    }

    fn text<'a>(&self, text: &'a str) -> Vec<Piece<'a>> {
        split(text, &self.in_messages)
    }

    fn letter(&self, place: usize, alphabet: Alphabet) -> Option<char> {
        private(alphabet.0 * self.tokens.len() as u32 + place as u32)
    }
}

/// How many characters of private use there are.
fn private_count() -> u32 {
    PLANES.iter().map(|(first, last)| last - first + 1).sum()
}

/// A character of private use by its number.
fn private(number: u32) -> Option<char> {
    let mut number = number;
    for (first, last) in PLANES {
        let count = last - first + 1;
        if number < count {
            return char::from_u32(first + number);
        }
        number -= count;
    }
    None
}

/// The number of a character of private use.
pub(super) fn place(one: char) -> Option<u32> {
    let mut before = 0;
    for (first, last) in PLANES {
        if (first..=last).contains(&u32::from(one)) {
            return Some(before + u32::from(one) - first);
        }
        before += last - first + 1;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn private_characters_are_counted_over_both_planes() {
        assert_eq!(private(0), Some('\u{F0000}'));
        assert_eq!(private(0xFFFE), Some('\u{100000}'));
        assert_eq!(private(private_count() - 1), Some('\u{10FFFD}'));
        assert_eq!(private(private_count()), None);
        for number in [0, 1, 0xFFFD, 0xFFFE, private_count() - 1] {
            assert_eq!(place(private(number).unwrap()), Some(number));
        }
        assert_eq!(place('\u{E000}'), None);
    }
}
