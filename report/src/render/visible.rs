//! Untrusted text on one line: whatever moves a cursor, turns the writing direction or cannot be seen
//! is spelled out, so that it can neither hide nor act. Refuses to know any format's own escapes.

use super::Charset;

/// The text with control, direction and invisible characters spelled out as `\u{1b}`. Line breaks and
/// tabs become blanks: the result is one line.
pub fn one_line(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '\n' | '\r' | '\t' => line.push(' '),
            hidden if is_hidden(hidden) => line.extend(hidden.escape_unicode()),
            plain => line.push(plain),
        }
    }
    line
}

/// [`one_line`] in what the terminal can show. In ASCII the report's own typography gets a plain stand-in
/// and everything else is spelled out, so that two ids never look alike.
pub fn for_terminal(text: &str, charset: Charset) -> String {
    let line = one_line(text);
    match charset {
        Charset::Unicode => line,
        Charset::Ascii => line.chars().fold(String::with_capacity(line.len()), |mut plain, character| {
            match character {
                '–' | '—' | '−' => plain.push('-'),
                '±' => plain.push_str("+/-"),
                '·' => plain.push('*'),
                '…' => plain.push_str("..."),
                ascii if ascii.is_ascii() => plain.push(ascii),
                other => plain.extend(other.escape_unicode()),
            }
            plain
        }),
    }
}

/// Columns that a terminal gives the text: two for East Asian wide characters and emoji, else one.
pub fn columns(text: &str) -> usize {
    text.chars().map(|character| if is_wide(character) { 2 } else { 1 }).sum()
}

fn is_hidden(character: char) -> bool {
    character.is_control()
        || matches!(character,
            '\u{00ad}' | '\u{034f}' | '\u{061c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
            | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
            | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}'
            | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}

fn is_wide(character: char) -> bool {
    matches!(character,
        '\u{1100}'..='\u{115e}' | '\u{2e80}'..='\u{a4cf}' | '\u{ac00}'..='\u{d7a3}' | '\u{f900}'..='\u{faff}'
        | '\u{fe30}'..='\u{fe6f}' | '\u{ff00}'..='\u{ff60}' | '\u{ffe0}'..='\u{ffe6}' | '\u{1f300}'..='\u{1faff}'
        | '\u{20000}'..='\u{3fffd}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escape_sequences_and_direction_marks_are_spelled_out() {
        assert_eq!(one_line("a\u{1b}[2Jb\nc\0"), "a\\u{1b}[2Jb c\\u{0}");
        assert_eq!(one_line("x\u{202e}y\u{200b}z"), "x\\u{202e}y\\u{200b}z");
    }

    #[test]
    fn ascii_keeps_different_ids_different() {
        assert_eq!(for_terminal("64.33–78.57 % ± é", Charset::Ascii), "64.33-78.57 % +/- \\u{e9}");
        assert!(for_terminal("日本 \u{7f}", Charset::Ascii).bytes().all(|byte| (32..127).contains(&byte)));
    }

    #[test]
    fn wide_characters_take_two_columns() {
        assert_eq!((columns("easy"), columns("日本")), (4, 4));
    }
}
