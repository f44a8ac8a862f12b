//! Text that others wrote: pages, model output, judge text. It has no `Display` and no way out but the
//! conversions below, one for each place it may reach: a prompt, a terminal, HTML, a file name, a log.

mod control;
#[cfg(test)]
mod tests;

pub use control::{CONTROL_TOKENS_MAX, ControlTokens, ControlTokensError};

use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

/// Bytes of a file name at most, so that a suffix and a temporary ending still fit into 255.
pub const FILE_NAME_BYTES_MAX: usize = 120;

/// Characters that `Debug` shows.
const DEBUG_CHARS_MAX: usize = 64;

/// Names that a Windows file system takes for devices, with or without an ending.
const DEVICES: [&str; 6] = ["con", "prn", "aux", "nul", "conin$", "conout$"];

/// Text that others wrote. Cloning costs a pointer; in serde it is a plain string.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Untrusted(Arc<str>);

impl Untrusted {
    /// Marks a text as somebody else's.
    pub fn new(text: impl Into<Arc<str>>) -> Self {
        Self(text.into())
    }

    /// Whether there is nothing to read in it.
    pub fn is_blank(&self) -> bool {
        self.0.trim().is_empty()
    }

    /// Length in bytes of UTF-8.
    pub fn bytes(&self) -> usize {
        self.0.len()
    }

    /// For a prompt: no control string is left in it, whatever it held. Each is broken by a backslash
    /// behind its first character; all else is unchanged, and nothing is copied where there is none.
    pub fn for_prompt(&self, control: &ControlTokens) -> Cow<'_, str> {
        control.break_in(&self.0)
    }

    /// For a terminal: control characters, escape sequences and characters that reorder or hide text are
    /// written out as `\x1b` or `\u{202e}`. Line ends and tabs stay.
    pub fn for_terminal(&self) -> Cow<'_, str> {
        written_out(&self.0, |c| acts(c) && !matches!(c, '\n' | '\t'))
    }

    /// For HTML, as an element's text or a quoted attribute's value.
    pub fn for_html(&self) -> Cow<'_, str> {
        let plain = written_out(&self.0, |c| acts(c) && !matches!(c, '\n' | '\t'));
        if !plain.contains(['&', '<', '>', '"', '\'', '`']) {
            return plain;
        }
        let mut html = String::with_capacity(plain.len() + 16);
        for c in plain.chars() {
            match c {
                '&' => html.push_str("&amp;"),
                '<' => html.push_str("&lt;"),
                '>' => html.push_str("&gt;"),
                '"' => html.push_str("&quot;"),
                '\'' => html.push_str("&#39;"),
                '`' => html.push_str("&#96;"),
                _ => html.push(c),
            }
        }
        Cow::Owned(html)
    }

    /// For one part of a path: ASCII letters, digits, `-`, `_` and `.` only, at most
    /// [`FILE_NAME_BYTES_MAX`] bytes, never empty, hidden, an option, a device or a way up. Whatever had to
    /// be changed ends in a digest of the original, so that different texts keep different names.
    pub fn for_file_name(&self) -> Cow<'_, str> {
        if is_file_name(&self.0) {
            return Cow::Borrowed(&self.0);
        }
        const DIGEST_HEX: usize = 16;
        let kept = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.') { c } else { '_' };
        let head: String = self.0.chars().take(FILE_NAME_BYTES_MAX - DIGEST_HEX - 2).map(kept).collect();
        let head = head.trim_start_matches(['.', '-', '_']).trim_end_matches('.');
        let digest = blake3::hash(self.0.as_bytes()).to_hex();
        // The leading `x` keeps device names and empty heads from being taken for anything else.
        Cow::Owned(format!("x{head}-{}", &digest[..DIGEST_HEX]))
    }

    /// For one line of a log: line ends are written out too, and at most `max` characters are kept, with
    /// the number of those left out.
    pub fn for_log(&self, max: usize) -> Cow<'_, str> {
        let Some((cut, _)) = self.0.char_indices().nth(max) else { return written_out(&self.0, acts) };
        let left_out = self.0[cut..].chars().count();
        Cow::Owned(format!("{}… (+{left_out} characters)", written_out(&self.0[..cut], acts)))
    }
}

impl From<String> for Untrusted {
    fn from(text: String) -> Self {
        Self::new(text)
    }
}

impl From<&str> for Untrusted {
    fn from(text: &str) -> Self {
        Self::new(text)
    }
}

impl From<Arc<str>> for Untrusted {
    fn from(text: Arc<str>) -> Self {
        Self(text)
    }
}

impl fmt::Debug for Untrusted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Untrusted({})", self.for_log(DEBUG_CHARS_MAX))
    }
}

/// Whether a character does something other than show itself: controls, line and paragraph separators,
/// reordering, the byte order mark, invisible tags and interlinear marks. Joiners stay: scripts need them.
fn acts(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

/// The text with some characters written as escapes.
fn written_out(text: &str, is_written: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.contains(&is_written) {
        return Cow::Borrowed(text);
    }
    let mut written = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match c {
            _ if !is_written(c) => written.push(c),
            '\n' => written.push_str("\\n"),
            '\r' => written.push_str("\\r"),
            '\t' => written.push_str("\\t"),
            _ if u32::from(c) < 0x100 => written.push_str(&format!("\\x{:02x}", u32::from(c))),
            _ => written.push_str(&format!("\\u{{{:x}}}", u32::from(c))),
        }
    }
    Cow::Owned(written)
}

fn is_file_name(text: &str) -> bool {
    let stem = text.split('.').next().unwrap_or_default().to_ascii_lowercase();
    let numbered = stem.strip_prefix("com").or_else(|| stem.strip_prefix("lpt"));
    let is_device = DEVICES.contains(&stem.as_str()) || numbered.is_some_and(|rest| rest.len() == 1);
    let is_kept = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    !text.is_empty()
        && text.len() <= FILE_NAME_BYTES_MAX
        && text.bytes().all(is_kept)
        && !text.starts_with(['.', '-'])
        && !text.ends_with('.')
        && !is_device
}
