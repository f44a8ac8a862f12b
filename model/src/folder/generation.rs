//! How a model wants to be sampled and which tokens end its texts, from `generation_config.json`, `config.json` or GGUF's
//! metadata. These are defaults; whoever asks may say otherwise.

use super::json_object;
use crate::config::Fields;
use crate::error::ModelError;
use crate::gguf::Gguf;
use serde_json::{Map, Value};
use std::path::Path;

/// Tokens that end a text at most.
const EOS_MAX: usize = 64;
/// What to do about ids that are none.
const MEND: &str = "mend the file, or fetch the model anew";

/// How a model wants to be sampled; none where it does not say.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GenerationDefaults {
    /// False where the most likely token is to be taken always.
    pub sample: Option<bool>,
    /// Divides the logits; 0 takes the most likely token.
    pub temperature: Option<f64>,
    /// Tokens are drawn from the most likely ones that together have this probability.
    pub top_p: Option<f64>,
    /// Tokens are drawn from this many; 0 means all.
    pub top_k: Option<u64>,
    /// Tokens below this share of the most likely one's probability are left out.
    pub min_p: Option<f64>,
    /// Divides the logits of tokens that are there already.
    pub repetition_penalty: Option<f64>,
    /// Each of these ends a text.
    pub eos: Vec<u32>,
    /// Begins a text.
    pub bos: Option<u32>,
    /// Fills up.
    pub pad: Option<u32>,
}

impl GenerationDefaults {
    /// Reads `generation_config.json` of a folder, and from `config.json` the ids that it lacks.
    pub(super) fn of_folder(folder: &Path, config: &Map<String, Value>, vocabulary: usize) -> Result<Self, ModelError> {
        let path = folder.join("generation_config.json");
        let own = if path.exists() { json_object(&path)? } else { Map::new() };
        let mut found = Self::from_json(&path, &own, vocabulary)?;
        let path = folder.join(super::CONFIG);
        let other = Fields::new(&path, config);
        if found.eos.is_empty() {
            found.eos = ids(&other, "eos_token_id", vocabulary)?;
        }
        if found.bos.is_none() {
            found.bos = ids(&other, "bos_token_id", vocabulary)?.first().copied();
        }
        Ok(found)
    }

    /// Reads an object as `generation_config.json` holds it.
    ///
    /// # Errors
    /// A number out of its range, an id that is in no vocabulary of that size.
    pub fn from_json(path: &Path, config: &Map<String, Value>, vocabulary: usize) -> Result<Self, ModelError> {
        let fields = Fields::new(path, config);
        let within = |field: &str, least: f64, most: f64| match fields.number_if(field)? {
            Some(number) if !(least..=most).contains(&number) => {
                let expected = format!("a number from {least} to {most}");
                Err(fields.refused(field, expected, number.to_string(), MEND))
            }
            found => Ok(found),
        };
        let top_k = match fields.value("top_k") {
            None => None,
            Some(value) => {
                Some(value.as_u64().ok_or_else(|| fields.wrong("top_k", "a number that is not below 0", value))?)
            }
        };
        Ok(Self {
            sample: fields.value("do_sample").map(|_| fields.flag("do_sample", false)).transpose()?,
            temperature: within("temperature", 0.0, 100.0)?,
            top_p: within("top_p", 0.0, 1.0)?,
            top_k,
            min_p: within("min_p", 0.0, 1.0)?,
            repetition_penalty: within("repetition_penalty", 1e-3, 1e3)?,
            eos: ids(&fields, "eos_token_id", vocabulary)?,
            bos: ids(&fields, "bos_token_id", vocabulary)?.first().copied(),
            pad: ids(&fields, "pad_token_id", vocabulary)?.first().copied(),
        })
    }

    /// Reads GGUF's metadata: ids, and the settings of sampling that newer files carry.
    pub(super) fn of_gguf(gguf: &Gguf, vocabulary: usize) -> Result<Self, ModelError> {
        let id = |name: &str| gguf_id(gguf, &format!("tokenizer.ggml.{name}_token_id"), vocabulary);
        let number = |name: &str| gguf.value(&format!("general.sampling.{name}")).and_then(|value| value.as_f64());
        let mut eos = Vec::new();
        // The end of a turn, and of a message that calls a tool, end a text as its end does.
        for name in ["eos", "eot", "eom"] {
            eos.extend(id(name)?.filter(|id| !eos.contains(id)));
        }
        Ok(Self {
            sample: None,
            temperature: number("temp").filter(|value| (0.0..=100.0).contains(value)),
            top_p: number("top_p").filter(|value| (0.0..=1.0).contains(value)),
            top_k: gguf.value("general.sampling.top_k").and_then(|value| value.as_u64()),
            min_p: number("min_p").filter(|value| (0.0..=1.0).contains(value)),
            repetition_penalty: number("penalty_repeat").filter(|value| (1e-3..=1e3).contains(value)),
            eos,
            bos: id("bos")?,
            pad: id("padding")?,
        })
    }
}

/// An id or a list of ids.
fn ids(fields: &Fields<'_>, field: &str, vocabulary: usize) -> Result<Vec<u32>, ModelError> {
    let Some(value) = fields.value(field) else { return Ok(Vec::new()) };
    let list = value.as_array().map_or(std::slice::from_ref(value), Vec::as_slice);
    let id = |value: &Value| {
        let id = value.as_u64().filter(|id| *id < vocabulary as u64);
        id.and_then(|id| u32::try_from(id).ok())
    };
    let ids: Option<Vec<u32>> = list.iter().map(id).collect();
    let expected = || format!("at most {EOS_MAX} ids below the vocabulary of {vocabulary}");
    ids.filter(|ids| ids.len() <= EOS_MAX).ok_or_else(|| fields.wrong(field, expected(), value))
}

/// An id of GGUF's metadata.
pub(super) fn gguf_id(gguf: &Gguf, key: &str, vocabulary: usize) -> Result<Option<u32>, ModelError> {
    let Some(value) = gguf.value(key) else { return Ok(None) };
    let id = value.as_u64().filter(|id| *id < vocabulary as u64).and_then(|id| u32::try_from(id).ok());
    let expected = || format!("an id below the vocabulary of {vocabulary}");
    id.map(Some).ok_or_else(|| gguf.wrong(key, expected(), value.shown(), MEND))
}
