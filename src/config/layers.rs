//! Layers of TOML and where each value came from.

use super::ConfigError;
use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

/// Where a value came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The defaults of every run.
    Default,
    /// An embedded profile.
    Profile(&'static str),
    /// A TOML file.
    File(PathBuf),
    /// A flag of the command line.
    Flag(String),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Default => f.write_str("default"),
            Origin::Profile(name) => write!(f, "profile {name}"),
            Origin::File(path) => write!(f, "{}", path.display()),
            Origin::Flag(flag) => f.write_str(flag),
        }
    }
}

/// Layers, the last on top.
#[derive(Debug, Default)]
pub struct Layers {
    table: toml::Table,
    origins: BTreeMap<String, Origin>,
}

/// All layers as one.
#[derive(Debug)]
pub struct Resolved {
    /// The values.
    pub table: toml::Table,
    /// Where each came from, by dotted key.
    pub origins: BTreeMap<String, Origin>,
}

impl Layers {
    /// Lays a table on top.
    pub fn lay(&mut self, origin: Origin, table: toml::Table) {
        for (key, value) in table {
            self.lay_value(&origin, key.clone(), &[key], value);
        }
    }

    /// Puts one value on top, by dotted key.
    pub fn put(&mut self, origin: Origin, key: &str, value: toml::Value) {
        let path: Vec<String> = key.split('.').map(str::to_owned).collect();
        self.lay_value(&origin, key.to_owned(), &path, value);
    }

    /// All layers as one.
    pub fn resolve(self) -> Resolved {
        Resolved { table: self.table, origins: self.origins }
    }

    fn lay_value(&mut self, origin: &Origin, key: String, path: &[String], value: toml::Value) {
        match value {
            toml::Value::Table(table) if !is_replaced_whole(&key, &table) => {
                for (name, value) in table {
                    let mut path = path.to_vec();
                    path.push(name.clone());
                    self.lay_value(origin, format!("{key}.{name}"), &path, value);
                }
            }
            value => {
                let below = format!("{key}.");
                self.origins.retain(|known, _| !known.starts_with(&below));
                self.origins.insert(key, origin.clone());
                insert(&mut self.table, path, value);
            }
        }
    }
}

/// What has a kind is replaced as a whole where the kind is given: an endpoint laid over a mock must not keep the
/// mock's fields, nor another world the archive's seed.
fn is_replaced_whole(key: &str, table: &toml::Table) -> bool {
    let is_model = key.split_once('.').is_some_and(|(section, name)| section == "models" && !name.contains('.'));
    match key {
        "world" => table.contains_key("kind"),
        "embedder" => table.contains_key("url") || table.contains_key("local"),
        _ => is_model && (["mock", "url", "local"].iter().any(|kind| table.contains_key(*kind))),
    }
}

fn insert(table: &mut toml::Table, path: &[String], value: toml::Value) {
    let Some((first, rest)) = path.split_first() else { return };
    if rest.is_empty() {
        table.insert(first.clone(), value);
        return;
    }
    let below = table.entry(first.clone()).or_insert_with(|| toml::Value::Table(toml::Table::new()));
    if !below.is_table() {
        *below = toml::Value::Table(toml::Table::new());
    }
    if let toml::Value::Table(below) = below {
        insert(below, rest, value);
    }
}

/// Reads `key=value`; a value that is not TOML is text.
pub(super) fn read_set(text: &str) -> Result<(String, toml::Value), ConfigError> {
    let bad = || ConfigError::BadSet { text: text.to_owned() };
    let (key, value) = text.split_once('=').ok_or_else(bad)?;
    let key = key.trim();
    if key.is_empty() || key.split('.').any(str::is_empty) {
        return Err(bad());
    }
    let value = value.trim();
    let parsed = format!("value = {value}").parse::<toml::Table>().ok().and_then(|mut table| table.remove("value"));
    Ok((key.to_owned(), parsed.unwrap_or_else(|| toml::Value::String(value.to_owned()))))
}

/// The nearest of some names, if it is near.
pub(super) fn nearest_of<'a>(name: &str, names: impl Iterator<Item = &'a str>) -> Option<String> {
    let near = names.map(|known| (strsim::damerau_levenshtein(name, known), known)).min()?;
    (near.0 <= 1 + name.len() / 3).then(|| near.1.to_owned())
}

impl Resolved {
    /// One line a value, with where it came from.
    pub fn to_text(&self) -> String {
        let mut text = String::new();
        let width = self.origins.keys().map(|key| key.len() + self.value(key).len()).max().unwrap_or(0).min(72);
        for (key, origin) in &self.origins {
            let line = format!("{key} = {}", self.value(key));
            text.push_str(&format!("{line:<pad$}  # {origin}\n", pad = width + 3));
        }
        text
    }

    /// The value of a dotted key, as TOML writes it.
    pub fn value(&self, key: &str) -> String {
        let mut value: Option<&toml::Value> = None;
        for part in key.split('.') {
            value = match value {
                None => self.table.get(part),
                Some(toml::Value::Table(table)) => table.get(part),
                Some(_) => None,
            };
        }
        value.map(ToString::to_string).unwrap_or_default()
    }

    /// The layer that a key, or the first key below it, came from.
    pub fn origin_of(&self, key: &str) -> String {
        let below = format!("{key}.");
        let found = self.origins.iter().find(|(known, _)| *known == key || known.starts_with(&below));
        found.map_or_else(|| "configuration".to_owned(), |(_, origin)| origin.to_string())
    }
}
