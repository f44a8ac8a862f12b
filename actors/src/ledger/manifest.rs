//! A run's manifest: everything that its figures depend on, by value or by digest. A resumed run must have the
//! same one, but for differences that were accepted by name.

use legwork_protocol::coordinator::Script;
use legwork_protocol::profile::Profile;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// Everything that a run's figures depend on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// The run's name.
    pub run: String,
    /// When it was begun, in milliseconds since the Unix epoch.
    pub began_epoch_ms: u64,
    /// The version of legwork that began it.
    pub legwork: String,
    /// The world's name.
    pub world: String,
    /// The resolved profile.
    pub profile: Profile,
    /// Where every draw comes from.
    pub seed: u64,
    /// Passes over the questions.
    pub rounds: u32,
    /// Questions in each round.
    pub questions: u32,
    /// Whether a mock plays the worker's model: then the figures are no model's.
    pub mock: bool,
    /// Names of everything else with a digest or a plain description: questions, corpus, index, prompts,
    /// tokenizers, models, sampler, cast, binary.
    pub inputs: BTreeMap<String, String>,
    /// Lines of the scripted coordinator, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub script: Option<Script>,
    /// The run and cut that this one was forked from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forked_from: Option<String>,
}

/// One thing in which two manifests differ.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Difference {
    /// What: a dotted path into the manifest.
    pub name: String,
    /// How it was.
    pub was: String,
    /// How it is.
    pub is: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} was {}, is {}", self.name, self.was, self.is)
    }
}

impl Manifest {
    /// The manifest as it is kept and chained to.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("a manifest holds only what JSON can write")
    }

    /// What differs, in a stable order, but for names and times that identify the run itself.
    pub fn differences(&self, is: &Manifest) -> Vec<Difference> {
        differences(&self.flat(), &is.flat())
    }

    fn flat(&self) -> BTreeMap<String, String> {
        let mut value = serde_json::to_value(self).expect("a manifest holds only what JSON can write");
        if let Some(map) = value.as_object_mut() {
            ["run", "began_epoch_ms", "forked_from"].iter().for_each(|name| drop(map.remove(*name)));
        }
        let mut flat = BTreeMap::new();
        flatten("", &value, &mut flat);
        flat
    }
}

/// What differs between two flattened manifests, in a stable order.
pub(crate) fn differences(was: &BTreeMap<String, String>, is: &BTreeMap<String, String>) -> Vec<Difference> {
    let names: std::collections::BTreeSet<&String> = was.keys().chain(is.keys()).collect();
    let value = |of: &BTreeMap<String, String>, name: &String| of.get(name).cloned().unwrap_or("absent".into());
    names
        .into_iter()
        .map(|name| Difference { name: name.clone(), was: value(was, name), is: value(is, name) })
        .filter(|difference| difference.was != difference.is)
        .collect()
}

/// A value's leaves by their dotted paths.
pub(crate) fn flatten(path: &str, value: &serde_json::Value, into: &mut BTreeMap<String, String>) {
    match value {
        serde_json::Value::Object(map) => {
            for (name, value) in map {
                let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                flatten(&path, value, into);
            }
        }
        serde_json::Value::String(text) => drop(into.insert(path.to_owned(), text.clone())),
        other => drop(into.insert(path.to_owned(), other.to_string())),
    }
}
