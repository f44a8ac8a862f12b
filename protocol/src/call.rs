//! The grammar of calls: model text (or native tool calls) in, calls and at most one fault out, and back.
//! Two readers over the same text: `foldagent` keeps that environment's behaviour, quirks included;
//! `strict` is ours. Neither knows which functions exist or what they do, and neither panics on any text.

mod foldagent;
mod json;
pub(crate) mod python;
mod strict;
#[cfg(test)]
mod tests;

use crate::message::ToolCall;
use serde::{Deserialize, Serialize};
use std::fmt;

pub use foldagent::{last_function, last_part};

/// Calls of one reading at most; later ones are dropped and the fault says so.
pub const CALLS_MAX: usize = 256;

/// Which reader reads a model's calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Grammar {
    /// FoldAgent's two parsers, quirks included.
    Foldagent,
    /// Ours.
    Strict,
}

/// One call, as read: nothing is checked yet.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Call {
    /// The function's name as written.
    pub name: String,
    /// Names and values in the order written; a name may come twice.
    pub arguments: Vec<(String, String)>,
}

/// What a text holds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reading {
    /// The calls to carry out, in order.
    pub calls: Vec<Call>,
    /// What could not be read. Calls beside a fault are those that were complete, and they stand.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fault: Option<ReadFault>,
}

/// Why something in a text is not a call. `Display` is written for the model that made the text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReadFault {
    /// There is no call.
    NoCall,
    /// `<think>` was opened and never closed, so nothing after it counts.
    UnclosedThink,
    /// A call without its closing tag, often one cut by the token limit.
    Unclosed {
        /// The function begun.
        name: String,
    },
    /// The arguments are not what the function's form asks for: cut JSON, a list where text is due.
    BadArguments {
        /// The function called.
        name: String,
        /// What was expected and what came.
        detail: String,
    },
    /// The only call stands in a code fence, where it is taken as an example.
    InCodeFence {
        /// The function named there.
        name: String,
    },
    /// More calls than are carried out at once; those beyond were dropped.
    TooMany {
        /// The most that are carried out.
        limit: usize,
    },
}

impl Call {
    /// A call with its arguments in order.
    pub fn new<K: Into<String>, V: Into<String>>(
        name: impl Into<String>,
        arguments: impl IntoIterator<Item = (K, V)>,
    ) -> Self {
        Self {
            name: name.into(),
            arguments: arguments.into_iter().map(|(key, value)| (key.into(), value.into())).collect(),
        }
    }

    /// The value of an argument; of duplicates the last.
    pub fn argument(&self, name: &str) -> Option<&str> {
        self.arguments.iter().rev().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// All values of an argument in order: what a list of a native tool call was read into.
    pub fn values(&self, name: &str) -> impl Iterator<Item = &str> {
        self.arguments.iter().filter(move |(key, _)| key == name).map(|(_, value)| value.as_str())
    }
}

impl Grammar {
    /// Reads the calls of a model's turn. Where the server returned native tool calls (`native` is not
    /// empty), those are read and the text is not.
    pub fn read(self, text: &str, native: &[ToolCall]) -> Reading {
        match self {
            Grammar::Foldagent => foldagent::read(text, native),
            Grammar::Strict => strict::read(text, native),
        }
    }

    /// Writes calls so that [`Grammar::read`] gives them back. `strict` escapes tags within values;
    /// `foldagent` has no escape, so there a value that holds a closing tag is cut at it when read.
    pub fn render(self, calls: &[Call]) -> String {
        match self {
            Grammar::Foldagent => foldagent::render(calls),
            Grammar::Strict => strict::render(calls),
        }
    }
}

impl fmt::Display for ReadFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReadFault::NoCall => f.write_str("no function call was found in the reply"),
            ReadFault::UnclosedThink => {
                f.write_str("the thinking was not closed with </think>, so no function call was read")
            }
            ReadFault::Unclosed { name } => {
                write!(f, "the call of `{name}` has no closing </function> and was not carried out")
            }
            ReadFault::BadArguments { name, detail } => {
                write!(f, "the arguments of `{name}` could not be read: {detail}")
            }
            ReadFault::InCodeFence { name } => {
                write!(f, "the call of `{name}` stands in a code fence and was not carried out; write it without one")
            }
            ReadFault::TooMany { limit } => write!(f, "only the first {limit} calls of the reply were carried out"),
        }
    }
}
