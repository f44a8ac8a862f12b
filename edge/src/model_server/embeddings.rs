//! `POST /v1/embeddings`: texts or token ids in, vectors out, as numbers or as base64 of little-endian 32-bit floats.

use super::chat::HARMLESS;
use super::completions::prompts;
use super::fields::{Fields, wrong};
use super::model::{Embedded, ModelCard, Prompt};
use super::refused::Refused;
use super::sampling::Bounds;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

/// The longest vector that a request may name.
const DIMENSIONS_MAX: u32 = 65_536;

/// A request as read.
pub(super) struct EmbedRequest {
    pub(super) prompts: Vec<Prompt>,
    pub(super) as_base64: bool,
}

/// Reads a body for the model of this card.
pub(super) fn read(mut fields: Fields, bounds: Bounds<'_>, card: &ModelCard) -> Result<EmbedRequest, Refused> {
    let Some(dimensions) = card.embedding_dimensions else {
        let detail = format!("the model {:?} does not embed: ask another one of /v1/models", card.id);
        return Err(Refused::Unsupported { param: Some("model".to_owned()), detail });
    };
    let asked = fields.count("dimensions", 1..=DIMENSIONS_MAX)?;
    if asked.is_some_and(|asked| asked as usize != dimensions) {
        let got = asked.unwrap_or_default();
        let detail =
            format!("`dimensions` must be {dimensions}, the length of this model's vectors, or left out, got {got}");
        return Err(Refused::asked("dimensions", detail));
    }
    let as_base64 = match fields.take("encoding_format") {
        None => false,
        Some(Value::String(format)) if format == "float" => false,
        Some(Value::String(format)) if format == "base64" => true,
        Some(other) => return Err(wrong("encoding_format", "\"float\" or \"base64\"", &other)),
    };
    let prompts = prompts("input", fields.take("input"), bounds.config.inputs_max, bounds.vocabulary)?;
    fields.ignore_rest(HARMLESS);
    Ok(EmbedRequest { prompts, as_base64 })
}

/// Writes an answer; vectors that are not what the card promises are a failure of the model.
pub(super) fn write(
    request: &EmbedRequest,
    count: usize,
    card: &ModelCard,
    embedded: &Embedded,
) -> Result<Value, Refused> {
    let dimensions = card.embedding_dimensions.unwrap_or_default();
    let vectors = &embedded.vectors;
    if vectors.len() != count {
        return Err(Refused::failed(format!("{count} vectors were expected of the model, {} came", vectors.len())));
    }
    if let Some(place) =
        vectors.iter().position(|vector| vector.len() != dimensions || vector.iter().any(|x| !x.is_finite()))
    {
        let detail = format!(
            "vectors of {dimensions} finite numbers were expected of the model, the one of input {place} is none"
        );
        return Err(Refused::failed(detail));
    }
    let item = |(index, vector): (usize, &Vec<f32>)| {
        let wire = if request.as_base64 { json!(encode(vector)) } else { json!(vector) };
        json!({"object": "embedding", "index": index, "embedding": wire})
    };
    let data: Vec<Value> = vectors.iter().enumerate().map(item).collect();
    let tokens = embedded.prompt_tokens;
    Ok(json!({
        "object": "list",
        "data": data,
        "model": card.id,
        "usage": { "prompt_tokens": tokens, "total_tokens": tokens },
    }))
}

fn encode(vector: &[f32]) -> String {
    let bytes: Vec<u8> = vector.iter().flat_map(|number| number.to_le_bytes()).collect();
    STANDARD.encode(bytes)
}

#[cfg(test)]
mod tests {
    use super::super::config::ModelServerConfig;
    use super::*;

    fn card() -> ModelCard {
        ModelCard { id: "e".into(), vocabulary: 100, embedding_dimensions: Some(2), ..ModelCard::default() }
    }

    fn request(body: Value) -> Result<EmbedRequest, Refused> {
        let config = ModelServerConfig { inputs_max: 2, ..ModelServerConfig::default() };
        read(Fields::of_body(body)?, Bounds { config: &config, vocabulary: 100 }, &card())
    }

    #[test]
    fn base64_is_little_endian_floats() {
        assert_eq!(encode(&[1.0, -2.0]), "AACAPwAAAMA=");
    }

    #[test]
    fn what_cannot_be_is_refused_by_name() {
        for (body, said) in [
            (json!({}), "`input` must be a string"),
            (json!({"input": ["a", "b", "c"]}), "`input` may have at most 2 entries, got 3"),
            (json!({"input": "a", "dimensions": 3}), "`dimensions` must be 2"),
            (json!({"input": "a", "encoding_format": "int8"}), "`encoding_format` must be \"float\" or \"base64\""),
        ] {
            let told = request(body.clone()).err().unwrap().to_string();
            assert!(told.contains(said), "{body}: {told}");
        }
    }

    #[test]
    fn vectors_that_break_the_cards_promise_are_a_failure_of_the_model() {
        let asked = request(json!({"input": "a", "dimensions": 2})).unwrap();
        for vectors in [vec![], vec![vec![1.0]], vec![vec![1.0, f32::NAN]]] {
            let told = write(&asked, 1, &card(), &Embedded { vectors, prompt_tokens: 1 }).unwrap_err();
            assert_eq!(told.status(), 503);
        }
        let body = write(&asked, 1, &card(), &Embedded { vectors: vec![vec![0.5, 1.0]], prompt_tokens: 3 }).unwrap();
        assert_eq!((&body["data"][0]["embedding"], &body["usage"]["total_tokens"]), (&json!([0.5, 1.0]), &json!(3)));
    }
}
