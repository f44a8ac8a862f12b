//! The conversions of somebody else's text: into a prompt, a terminal, HTML, a file name and a log, each with what must
//! not be in it afterwards, whatever was in it before.

use super::text as lossy;
use legwork_protocol::untrusted::{ControlTokens, FILE_NAME_BYTES_MAX, Untrusted};

/// Characters of a log line that are asked for.
const LOG_CHARS: usize = 40;

pub fn text(bytes: &[u8]) {
    let text = lossy(bytes);
    let untrusted = Untrusted::from(&*text);
    let control = ControlTokens::default();
    let prompt = untrusted.for_prompt(&control);
    assert!(!control.is_in(&prompt), "{prompt}");
    assert_eq!(Untrusted::from(&*prompt).for_prompt(&control), prompt, "a second pass finds nothing to do");
    // Backslashes are all that is put in.
    assert_eq!(text.replace('\\', ""), prompt.replace('\\', ""));

    let shown = untrusted.for_terminal();
    assert!(!shown.chars().any(|c| acts(c) && !matches!(c, '\n' | '\t')), "{shown:?}");
    let html = untrusted.for_html();
    assert!(!html.contains(['<', '>', '"', '\'', '`']) && !html.chars().any(|c| acts(c) && !matches!(c, '\n' | '\t')));
    let log = untrusted.for_log(LOG_CHARS);
    assert!(!log.chars().any(acts), "{log:?}");

    let name = untrusted.for_file_name();
    let is_kept = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    assert!(!name.is_empty() && name.len() <= FILE_NAME_BYTES_MAX && name.bytes().all(is_kept), "{name}");
    assert!(!name.starts_with(['.', '-']) && !name.ends_with('.'), "{name}");
    assert_eq!(Untrusted::from(&*name).for_file_name(), name, "a file name stays what it is");
}

/// Whether a character could do something to a terminal or to the order of a line.
fn acts(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
}
