//! The house's own templates, in its own words, held byte for byte to what the published Qwen3 template and its
//! variants render. They are one body under three rules for past thinking. It refuses to know which model is served.

use super::Template;
use crate::error::ModelError;

/// A template of the house.
///
/// A message without content, or whose content is null, is taken as one with an empty text; the published template fails
/// on most of those. A conversation without messages renders no head, where the published one fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum House {
    /// As published: thinking before the last question is dropped, and behind it an answer without any gets an empty block
    /// only if it is the last message.
    Qwen3,
    /// Behind the last question always a block; with `clear_thinking` false, everywhere.
    Qwen3Fixed,
    /// A block everywhere, as in training; with `clear_thinking` true, behind the last question only.
    KeepThink,
}

impl House {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Qwen3, Self::Qwen3Fixed, Self::KeepThink];

    /// What it is called in settings.
    pub fn name(self) -> &'static str {
        match self {
            Self::Qwen3 => "qwen3",
            Self::Qwen3Fixed => "qwen3_fixed",
            Self::KeepThink => "keep_think",
        }
    }

    /// The one of a name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.name() == name)
    }

    /// The whole source: it stands alone, and transformers renders it alike.
    pub fn source(self) -> String {
        let rule = match self {
            Self::Qwen3 => include_str!("../../templates/qwen3.jinja"),
            Self::Qwen3Fixed => include_str!("../../templates/qwen3_fixed.jinja"),
            Self::KeepThink => include_str!("../../templates/keep_think.jinja"),
        };
        format!("{rule}{}", include_str!("../../templates/qwen3_body.jinja"))
    }

    /// The template.
    ///
    /// # Errors
    /// None: the sources are whole, which the tests see to.
    pub fn template(self) -> Result<Template, ModelError> {
        Template::parse(self.name(), &self.source())
    }
}
