//! What a folder says of its embedder beside its modules: how long a text may be, and whether letters keep their case.
//!
//! It refuses to know weights.

use crate::config::{Fields, Pooling, SentenceConfig, limits};
use crate::error::ModelError;
use crate::folder::{ModelFiles, ModelShape, json_object};
use crate::tokenizer::Tokenizer;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;

/// What sentence-transformers makes of an encoder without modules.
pub(super) fn mean() -> SentenceConfig {
    SentenceConfig {
        pooling: Pooling::Mean,
        normalise: false,
        include_prompt: true,
        tokens_max: None,
        prompts: BTreeMap::new(),
        default_prompt: None,
    }
}

/// Tokens of a text at most: what the modules say, else what the tokenizer says, and never more than there are positions.
pub(super) fn tokens_max(files: &ModelFiles, sentence: &SentenceConfig) -> Result<usize, ModelError> {
    let positions = match &files.shape {
        ModelShape::Encoder(config) => config.positions,
        ModelShape::Decoder(config) => config.context,
    };
    let stated = match sentence.tokens_max {
        Some(stated) => Some(stated),
        None => of_tokenizer(&files.path.join("tokenizer_config.json"))?,
    };
    Ok(stated.map_or(positions, |stated| stated.min(positions)))
}

/// `model_max_length`, which is 10³⁰ where the tokenizer knows no end.
fn of_tokenizer(path: &Path) -> Result<Option<usize>, ModelError> {
    if !path.is_file() {
        return Ok(None);
    }
    let map = json_object(path)?;
    let fields = Fields::new(path, &map);
    let Some(stated) = fields.number_if("model_max_length")? else { return Ok(None) };
    if stated < 1.0 {
        return Err(fields.wrong("model_max_length", "a number from 1 on", &Value::from(stated)));
    }
    Ok(Some(stated.min(limits::CONTEXT_MAX as f64) as usize))
}

/// Refuses a folder that asks for small letters which its tokenizer does not make.
pub(super) fn check_case(folder: &Path, tokenizer: &Tokenizer) -> Result<(), ModelError> {
    const PROBE: [&str; 2] = ["ONE Letter And Another", "one letter and another"];
    const CURE: &str = "give the model a tokenizer.json whose normalizer makes small letters";
    let path = folder.join("sentence_bert_config.json");
    if !path.is_file() {
        return Ok(());
    }
    let map = json_object(&path)?;
    let fields = Fields::new(&path, &map);
    if fields.flag("do_lower_case", false)? && tokenizer.encode(PROBE[0])? != tokenizer.encode(PROBE[1])? {
        let expected = "false where the tokenizer keeps capital letters";
        return Err(fields.refused("do_lower_case", expected, "true", CURE));
    }
    Ok(())
}
