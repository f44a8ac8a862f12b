//! A prompt as pieces: text, and control tokens by id. Finding control tokens in a rendered text follows the library's
//! own rules (the leftmost, then the longest; tokens that take the blanks beside them), so the ids come out the same.

use super::AddedToken;

/// A piece of a prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Piece<'a> {
    /// Text, whatever stands in it.
    Text(&'a str),
    /// A control token.
    Control(u32),
}

impl<'a> Piece<'a> {
    /// The text, if it is one.
    pub fn text(&self) -> Option<&'a str> {
        match self {
            Self::Text(text) => Some(text),
            Self::Control(_) => None,
        }
    }
}

/// Cuts a rendered text at its control tokens. `added` has the longest first.
pub(crate) fn split<'a>(text: &'a str, added: &[AddedToken]) -> Vec<Piece<'a>> {
    let (mut pieces, mut begun, mut at) = (Vec::new(), 0, 0);
    // Few characters begin a token, and most of a text can be passed over by looking at one byte.
    let mut begins = [false; 256];
    added.iter().for_each(|token| begins[usize::from(token.content.as_bytes()[0])] = true);
    while at < text.len() {
        let found = begins[usize::from(text.as_bytes()[at])]
            .then(|| added.iter().find(|token| text.as_bytes()[at..].starts_with(token.content.as_bytes())))
            .flatten();
        let Some(token) = found else {
            at += 1;
            continue;
        };
        let behind = at + token.content.len();
        if token.special && !(token.single_word && in_word(&text[..at], &text[behind..])) {
            if begun < at {
                pieces.push(Piece::Text(&text[begun..at]));
            }
            pieces.push(Piece::Control(token.id));
            begun = behind;
        }
        at = behind;
    }
    if begun < text.len() {
        pieces.push(Piece::Text(&text[begun..]));
    }
    pieces
}

/// The pieces without the blanks that control tokens take, and without texts of which nothing is left.
pub(super) fn trimmed<'a>(pieces: &[Piece<'a>], added: &[AddedToken]) -> Vec<Piece<'a>> {
    let token = |piece: Option<&Piece<'a>>| match piece {
        Some(Piece::Control(id)) => added.iter().find(|token| token.id == *id),
        _ => None,
    };
    let mut kept = Vec::with_capacity(pieces.len());
    for (index, piece) in pieces.iter().enumerate() {
        let Piece::Text(mut text) = *piece else {
            kept.push(*piece);
            continue;
        };
        let before = index.checked_sub(1).and_then(|before| pieces.get(before));
        if token(before).is_some_and(|token| token.rstrip) {
            text = text.trim_start();
        }
        if token(pieces.get(index + 1)).is_some_and(|token| token.lstrip) {
            text = text.trim_end();
        }
        if !text.is_empty() {
            kept.push(Piece::Text(text));
        }
    }
    kept
}

/// The text that the pieces were cut from.
pub(super) fn joined(pieces: &[Piece<'_>], added: &[AddedToken]) -> String {
    let content = |id: u32| added.iter().find(|token| token.id == id).map_or("", |token| token.content.as_str());
    pieces
        .iter()
        .map(|piece| match piece {
            Piece::Text(text) => text,
            Piece::Control(id) => content(*id),
        })
        .collect()
}

fn in_word(before: &str, behind: &str) -> bool {
    let word = |one: Option<char>| one.is_some_and(|one| one.is_alphanumeric() || one == '_');
    word(before.chars().next_back()) || word(behind.chars().next())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(id: u32, content: &str) -> AddedToken {
        let content = content.to_owned();
        AddedToken { id, content, special: true, lstrip: false, rstrip: false, single_word: false }
    }

    #[test]
    fn the_leftmost_and_then_the_longest_token_is_cut() {
        let added = [token(1, "<a><b>"), token(2, "<a>"), token(3, "<b>")];
        let pieces = split("é<a><b><b>x<a>", &added);
        assert_eq!(
            pieces,
            [Piece::Text("é"), Piece::Control(1), Piece::Control(3), Piece::Text("x"), Piece::Control(2)]
        );
        assert_eq!(joined(&pieces, &added), "é<a><b><b>x<a>");
    }

    #[test]
    fn a_marker_hides_a_control_token_that_begins_inside_it() {
        let added = [AddedToken { special: false, ..token(1, "<x<a") }, token(2, "<a>")];
        assert_eq!(split("<x<a><a>", &added), [Piece::Text("<x<a>"), Piece::Control(2)]);
    }

    #[test]
    fn tokens_take_blanks_and_mind_words_as_they_say() {
        let strips = AddedToken { lstrip: true, rstrip: true, ..token(1, "<s>") };
        let added = [strips, AddedToken { single_word: true, ..token(2, "end") }];
        let pieces = trimmed(&split("a \n<s>\t b<s>  <s>", &added), &added);
        let expected = [Piece::Text("a"), Piece::Control(1), Piece::Text("b"), Piece::Control(1), Piece::Control(1)];
        assert_eq!(pieces, expected);
        assert_eq!(split("bend end", &added), [Piece::Text("bend "), Piece::Control(2)]);
    }
}
