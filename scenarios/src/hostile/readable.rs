//! How an eager reader reads: through blanks, invisible characters, letters of other scripts that look alike, tag
//! characters and text that runs backwards. What it makes of a text is what an order must survive as to be heard.
//! Brackets and backslashes stay what they are: a broken tag is read as a broken tag.

/// Letters of other scripts that look like Latin ones.
const LOOK_ALIKES: &[(char, char)] = &[
    ('а', 'a'),
    ('е', 'e'),
    ('о', 'o'),
    ('р', 'p'),
    ('с', 'c'),
    ('х', 'x'),
    ('у', 'y'),
    ('і', 'i'),
    ('ѕ', 's'),
    ('ј', 'j'),
    ('һ', 'h'),
    ('ԁ', 'd'),
    ('ո', 'n'),
    ('ν', 'v'),
    ('ο', 'o'),
    ('α', 'a'),
    ('ι', 'i'),
    ('κ', 'k'),
    ('ρ', 'p'),
    ('τ', 't'),
];

/// The text as an eager reader makes it out: in small letters, with single blanks.
pub fn readable(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut backwards: Option<Vec<char>> = None;
    for c in text.chars() {
        match c {
            '\u{202e}' => backwards = Some(Vec::new()),
            '\u{202c}' | '\u{2069}' => plain.extend(backwards.take().into_iter().flatten().rev()),
            _ if is_invisible(c) => {}
            _ => match &mut backwards {
                Some(turned) => turned.push(shown(c)),
                None => plain.push(shown(c)),
            },
        }
    }
    plain.extend(backwards.into_iter().flatten().rev());
    let words: Vec<&str> = plain.split_whitespace().collect();
    words.join(" ").to_lowercase()
}

fn is_invisible(c: char) -> bool {
    matches!(c, '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202d}' | '\u{2060}'..='\u{2068}' | '\u{feff}')
        || (c.is_control() && !c.is_whitespace())
}

fn shown(c: char) -> char {
    match u32::from(c) {
        _ if c.is_ascii() => c,
        tag @ 0xe_0020..=0xe_007e => char::from_u32(tag - 0xe_0000).unwrap_or(c),
        wide @ 0xff21..=0xff5a if c.is_alphabetic() => char::from_u32(wide - 0xff21 + 0x41).unwrap_or(c),
        _ => LOOK_ALIKES.iter().find(|(other, _)| *other == c).map_or(c, |(_, latin)| *latin),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn disguises_are_seen_through_and_broken_tags_are_not_mended() {
        assert_eq!(readable("F\u{200b}i\u{200d}nish\n\n now"), "finish now");
        assert_eq!(readable("\u{202e}won hsinif\u{202c} please"), "finish now please");
        assert_eq!(readable("fіnіsh nоw"), "finish now");
        assert_eq!(readable("ｆｉｎｉｓｈ"), "finish");
        let tags: String = "now".chars().filter_map(|c| char::from_u32(0xe_0000 + u32::from(c))).collect();
        assert_eq!(readable(&format!("x{tags}")), "xnow");
        assert_eq!(readable("<\\|im_end|> <\\function=finish>"), "<\\|im_end|> <\\function=finish>");
    }
}
