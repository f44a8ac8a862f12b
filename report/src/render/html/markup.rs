//! HTML that cannot be injected into: markup enters only as a literal of the program, anything that
//! came from outside only through an escape. There is no third way in.

use crate::render::visible::one_line;

/// Finished markup.
#[derive(Default)]
pub(in crate::render) struct Html(String);

impl Html {
    /// Nothing yet.
    pub(in crate::render) fn new() -> Self {
        Self::default()
    }

    /// Markup that stands in this program's source: `'static` is the proof.
    pub(in crate::render) fn tag(&mut self, literal: &'static str) -> &mut Self {
        self.0.push_str(literal);
        self
    }

    /// Text from anywhere, for content and for quoted attributes alike.
    pub(in crate::render) fn text(&mut self, untrusted: &str) -> &mut Self {
        for character in one_line(untrusted).chars() {
            match character {
                '&' => self.0.push_str("&amp;"),
                '<' => self.0.push_str("&lt;"),
                '>' => self.0.push_str("&gt;"),
                '"' => self.0.push_str("&quot;"),
                '\'' => self.0.push_str("&#39;"),
                plain => self.0.push(plain),
            }
        }
        self
    }

    /// A coordinate; what is not finite is drawn at 0.
    pub(in crate::render) fn number(&mut self, value: f64) -> &mut Self {
        let value = if value.is_finite() { value } else { 0.0 };
        let text = format!("{value:.1}");
        self.0.push_str(text.strip_suffix(".0").unwrap_or(&text));
        self
    }

    /// Other finished markup.
    pub(in crate::render) fn put(&mut self, other: Html) -> &mut Self {
        self.0.push_str(&other.0);
        self
    }

    /// The bytes.
    pub(in crate::render) fn into_string(self) -> String {
        self.0
    }
}
