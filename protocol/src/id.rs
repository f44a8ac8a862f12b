//! Names of things: questions, documents, episodes and the scopes inside one.
//! Ids are opaque text: `1`, `01` and ` 1` are three ids. Nothing here parses them.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::Arc;

macro_rules! opaque_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(Arc<str>);

        impl $name {
            /// Takes the text as it is: no trimming, no number parsing.
            pub fn new(text: impl AsRef<str>) -> Self {
                Self(Arc::from(text.as_ref()))
            }

            /// The text, unchanged.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:?}", &*self.0)
            }
        }

        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                Self::new(text)
            }
        }

        impl From<String> for $name {
            fn from(text: String) -> Self {
                Self(Arc::from(text))
            }
        }
    };
}

opaque_id!(
    /// A question's id, opaque.
    QuestionId
);
opaque_id!(
    /// A document's id, opaque.
    DocId
);

/// One episode of a run: one question in one round (a round is one pass over the questions, from 0).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct EpisodeKey {
    /// The pass over the questions, from 0.
    pub round: u32,
    /// The question asked.
    pub question: QuestionId,
}

impl fmt::Display for EpisodeKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}#{}", self.question, self.round)
    }
}

/// Which machine of an episode an event belongs to. Each scope is a log of its own and can be
/// replayed by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// The episode's own machine.
    Episode,
    /// The coordinator's machine.
    Coordinator,
    /// The n-th worker of the episode, from 0 in order of delegation.
    Worker(u32),
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Scope::Episode => f.write_str("episode"),
            Scope::Coordinator => f.write_str("coordinator"),
            Scope::Worker(index) => write!(f, "worker/{index}"),
        }
    }
}

impl Scope {
    /// Reads what `Display` writes.
    pub fn parse(text: &str) -> Option<Scope> {
        match text {
            "episode" => Some(Scope::Episode),
            "coordinator" => Some(Scope::Coordinator),
            other => other.strip_prefix("worker/")?.parse().ok().map(Scope::Worker),
        }
    }
}
