//! What can be wrong with a configuration, before any request is sent. What goes wrong in a call is a
//! `Failure` of the protocol instead.

use std::path::PathBuf;

/// A configuration that cannot work.
#[derive(Debug, thiserror::Error)]
pub enum EndpointError {
    /// A key was written into the configuration.
    #[error(
        "endpoint `{name}` holds a key inline: put it into an environment variable and name that as `key_env`, or \
         into a file of its own and name that as `key_file`"
    )]
    InlineKey {
        /// The endpoint.
        name: String,
    },
    /// Two sources of the key.
    #[error("endpoint `{name}` names both `key_env` and `key_file`: keep one")]
    TwoKeys {
        /// The endpoint.
        name: String,
    },
    /// The environment variable is not there.
    #[error("endpoint `{name}` takes its key from the environment variable `{variable}`, which is not set: export it")]
    KeyUnset {
        /// The endpoint.
        name: String,
        /// The variable.
        variable: String,
    },
    /// The key file cannot be read.
    #[error("endpoint `{name}` takes its key from {}, which cannot be read ({reason}): make the file readable", path.display())]
    KeyFile {
        /// The endpoint.
        name: String,
        /// The file.
        path: PathBuf,
        /// Why not.
        reason: String,
    },
    /// The key cannot be sent in a header.
    #[error("endpoint `{name}`: the key from {origin} is {problem}: it must be one line of printable ascii")]
    KeyUnfit {
        /// The endpoint.
        name: String,
        /// The variable or file it came from.
        origin: String,
        /// What is wrong with it; never the key.
        problem: &'static str,
    },
    /// The URL cannot be used.
    #[error("endpoint `{name}`: url `{url}` {problem}")]
    Url {
        /// The endpoint.
        name: String,
        /// The URL, secrets replaced.
        url: String,
        /// What is wrong with it and the cure.
        problem: String,
    },
    /// A number out of its range, or a text that cannot be.
    #[error("endpoint `{name}`: `{field}` must be {expected}, got {got}")]
    Field {
        /// The endpoint.
        name: String,
        /// The field.
        field: &'static str,
        /// What it may be.
        expected: String,
        /// What it is.
        got: String,
    },
    /// Something that this kind of endpoint does not do.
    #[error("endpoint `{name}` of kind `{kind}` does not do `{feature}`: {cure}")]
    Unsupported {
        /// The endpoint.
        name: String,
        /// Its kind.
        kind: &'static str,
        /// What was asked for.
        feature: &'static str,
        /// What to do instead.
        cure: &'static str,
    },
    /// Token ids are to be sent, and nobody can make them.
    #[error("endpoint `{name}` sends token ids and was given no prompt encoder: configure the model's tokenizer")]
    EncoderMissing {
        /// The endpoint.
        name: String,
    },
    /// The HTTP client could not be set up.
    #[error("endpoint `{name}`: the http client cannot be set up ({reason}): check the system's certificates")]
    Client {
        /// The endpoint.
        name: String,
        /// Why not.
        reason: String,
    },
}
