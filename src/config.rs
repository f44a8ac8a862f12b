//! Configuration: defaults, a profile, a TOML file and flags, each laid over the one before; a flag that replaces a whole section
//! is laid before the values that are set in it. Every value remembers which of them it came from. It refuses to know what the values are for.

mod layers;
mod settings;

pub use layers::{Layers, Origin, Resolved};
pub use settings::{
    CastSettings, EmbedderSettings, IndexSettings, LocalModelSettings, MockSettings, ModelSettings, QdrantServer,
    RunSettings, Settings, TokenizerSettings, WorldSettings,
};

use std::path::PathBuf;

/// The embedded profiles by name.
pub const PROFILES: [(&str, &str); 4] = [
    ("archive", include_str!("profiles/archive.toml")),
    ("archive-mock", include_str!("profiles/archive-mock.toml")),
    ("card", include_str!("profiles/card.toml")),
    ("foldagent", include_str!("profiles/foldagent.toml")),
];
const DEFAULTS: &str = include_str!("profiles/defaults.toml");
/// What some profiles have besides: a world, and who plays in it.
const WORLDS: [(&str, &str); 2] = [
    ("archive", include_str!("profiles/archive-world.toml")),
    ("archive-mock", include_str!("profiles/archive-mock-world.toml")),
];
/// The largest configuration file, in bytes.
const FILE_MAX_BYTES: u64 = 1024 * 1024;

/// What can be wrong with a configuration.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// A file cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// A file is too large to be a configuration.
    #[error("{} has {bytes} bytes, a configuration has at most {FILE_MAX_BYTES}; is it the right file?", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// Its length.
        bytes: u64,
    },
    /// A layer is not TOML.
    #[error("{origin}: {detail}")]
    Syntax {
        /// Which layer.
        origin: String,
        /// Where and what.
        detail: String,
    },
    /// There is no such profile.
    #[error("no profile is called `{name}`{}; there are {}", nearest(near), PROFILES.map(|(name, _)| name).join(", "))]
    NoProfile {
        /// The name asked for.
        name: String,
        /// The nearest there is.
        near: Option<String>,
    },
    /// A flag `--set` is not `key=value`.
    #[error("--set {text}: expected key=value, such as --set worker.turns_max=20")]
    BadSet {
        /// What came.
        text: String,
    },
    /// A key that nothing reads.
    #[error("{origin}: nothing is called `{key}`{}; expected one of {expected}", nearest(near))]
    UnknownKey {
        /// Which layer.
        origin: String,
        /// The key.
        key: String,
        /// The nearest key there is.
        near: Option<String>,
        /// The keys there are.
        expected: String,
    },
    /// A value that cannot be.
    #[error("{section}: {detail}")]
    Value {
        /// Where.
        section: String,
        /// What was expected and what came.
        detail: String,
    },
}

fn nearest(near: &Option<String>) -> String {
    near.as_ref().map(|near| format!(" (did you mean `{near}`?)")).unwrap_or_default()
}

/// What a command line gives a configuration.
#[derive(Clone, Debug, Default)]
pub struct Given {
    /// The profile's name.
    pub profile: Option<String>,
    /// The TOML file.
    pub file: Option<PathBuf>,
    /// `key=value` pairs.
    pub sets: Vec<String>,
    /// Flags that stand for a key: the flag's name, the key and the value.
    pub flags: Vec<(&'static str, &'static str, toml::Value)>,
}

/// Resolves a configuration.
///
/// # Errors
/// What is wrong, with the layer it is in and the nearest thing that would be right.
pub fn resolve(given: &Given) -> Result<Resolved, ConfigError> {
    let mut layers = Layers::default();
    layers.lay(Origin::Default, parse("the defaults", DEFAULTS)?);
    let file = given.file.as_ref().map(read).transpose()?;
    let of_file =
        file.as_ref().and_then(|table| table.get("profile")).and_then(|name| name.as_str().map(str::to_owned));
    let name = given.profile.clone().or(of_file).unwrap_or_else(|| "archive".to_owned());
    let (name, text) = profile(&name)?;
    layers.lay(Origin::Profile(name), parse(name, text)?);
    if let Some((_, world)) = WORLDS.iter().find(|(of, _)| *of == name) {
        layers.lay(Origin::Profile(name), parse(name, world)?);
    }
    if let (Some(mut table), Some(path)) = (file, &given.file) {
        table.remove("profile");
        layers.lay(Origin::File(path.clone()), table);
    }
    // A flag that replaces a whole section goes first: values that are set beside it are of the new section.
    let (wholes, singles): (Vec<_>, Vec<_>) = given.flags.iter().partition(|(_, _, value)| value.is_table());
    let put = |layers: &mut Layers, (flag, key, value): &(&'static str, &'static str, toml::Value)| {
        layers.put(Origin::Flag((*flag).to_owned()), key, value.clone());
    };
    wholes.iter().for_each(|whole| put(&mut layers, whole));
    for text in &given.sets {
        let (key, value) = layers::read_set(text)?;
        layers.put(Origin::Flag("--set".into()), &key, value);
    }
    singles.iter().for_each(|single| put(&mut layers, single));
    let resolved = layers.resolve();
    for (flag, key, value) in wholes {
        let replaced = value
            .as_table()
            .into_iter()
            .flatten()
            .any(|(name, value)| resolved.value(&format!("{key}.{name}")) != value.to_string());
        if replaced {
            let detail = format!("a --set gives `{key}` too, and otherwise; leave one of them out");
            return Err(ConfigError::Value { section: (*flag).to_owned(), detail });
        }
    }
    Ok(resolved)
}

fn profile(name: &str) -> Result<(&'static str, &'static str), ConfigError> {
    let found = PROFILES.iter().find(|(known, _)| *known == name).copied();
    found.ok_or_else(|| ConfigError::NoProfile {
        name: name.to_owned(),
        near: layers::nearest_of(name, PROFILES.iter().map(|(known, _)| *known)),
    })
}

fn parse(origin: &str, text: &str) -> Result<toml::Table, ConfigError> {
    text.parse()
        .map_err(|error: toml::de::Error| ConfigError::Syntax { origin: origin.to_owned(), detail: error.to_string() })
}

pub(crate) fn read(path: &PathBuf) -> Result<toml::Table, ConfigError> {
    let io = |source| ConfigError::Io { path: path.clone(), source };
    let bytes = std::fs::metadata(path).map_err(io)?.len();
    if bytes > FILE_MAX_BYTES {
        return Err(ConfigError::TooLarge { path: path.clone(), bytes });
    }
    let text = std::fs::read_to_string(path).map_err(io)?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    parse(&path.display().to_string(), text)
}

#[cfg(test)]
mod tests;
