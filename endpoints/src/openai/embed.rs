//! Embeddings over the OpenAI-compatible route, in batches.

use super::BYTES_PER_TOKEN_ESTIMATE;
use super::request::{misconfigured, sealed};
use crate::Embedder;
use crate::call::{Caller, Reader};
use crate::config::{Api, Checked, EndpointConfig, Kind};
use crate::error::EndpointError;
use crate::fault::{Fault, is_error_body, one_line};
use crate::http::{Ask, Scheme, join};
use crate::json;
use crate::shared::Shared;
use futures::future::BoxFuture;
use futures::{StreamExt, TryStreamExt, stream};
use legwork_protocol::failure::{Failure, FailureKind};
use reqwest::Url;
use serde::Deserialize;
use serde_json::{Map, json};

/// The most texts of one call of the embedder.
pub(crate) const TEXTS_MAX: usize = 1_000_000;
/// The longest vector that is believed.
pub(crate) const DIMENSIONS_MAX: usize = 65_536;

pub(crate) struct OpenAiEmbedder {
    caller: Caller,
    config: EndpointConfig,
    url: Url,
}

impl OpenAiEmbedder {
    pub(crate) fn new(
        name: &str,
        config: &EndpointConfig,
        checked: Checked,
        shared: &Shared,
    ) -> Result<Self, EndpointError> {
        if config.kind != Kind::Openai || config.api != Api::Chat {
            return Err(EndpointError::Unsupported {
                name: name.to_owned(),
                kind: config.kind.name(),
                feature: "embeddings",
                cure: "use kind `openai` and leave `api` out; SGLang, vLLM and llama.cpp serve /v1/embeddings",
            });
        }
        let url = join(&checked.url, "/embeddings");
        let caller = Caller::new(name, config, &checked, Scheme::Bearer, shared)?;
        Ok(Self { caller, config: config.clone(), url })
    }

    async fn embed(&self, texts: Vec<String>) -> Result<Vec<Vec<f32>>, Failure> {
        if texts.len() > TEXTS_MAX {
            let got = texts.len();
            return Err(misconfigured(format!(
                "at most {TEXTS_MAX} texts a call were expected, {got} came: split them"
            )));
        }
        let size = self.config.embed_batch;
        let batches = (0..texts.len()).step_by(size).map(|start| &texts[start..texts.len().min(start + size)]);
        let calls: Vec<BoxFuture<'_, _>> =
            batches.map(|batch| -> BoxFuture<'_, _> { Box::pin(self.batch(batch)) }).collect();
        let vectors: Vec<Vec<f32>> = stream::iter(calls).buffered(self.config.concurrency).try_concat().await?;
        let expected = self.config.dimensions.or_else(|| vectors.first().map(Vec::len)).unwrap_or_default();
        match vectors.iter().find(|vector| vector.len() != expected) {
            None => Ok(vectors),
            Some(vector) => Err(Failure::new(
                FailureKind::BadResponse,
                format!(
                    "vectors of {expected} numbers were expected, one of {} came: check `model` and `dimensions`",
                    vector.len()
                ),
            )),
        }
    }

    async fn batch(&self, texts: &[String]) -> Result<Vec<Vec<f32>>, Failure> {
        let mut body = Map::new();
        body.insert("model".into(), json!(self.config.model));
        body.insert("input".into(), json!(texts));
        body.insert("encoding_format".into(), json!("float"));
        let body = sealed(&self.config, body);
        let estimate = body.len() as u64 / BYTES_PER_TOKEN_ESTIMATE;
        let most_ms = self.config.timeout_ms.saturating_mul(u64::from(self.config.retries.tries_max));
        let reader = || EmbedReader::of(texts.len());
        let prepare = || (Ask { url: self.url.clone(), body: body.clone() }, reader());
        let served = self.caller.call(most_ms, estimate, prepare).await?;
        Ok(served.out)
    }
}

impl Embedder for OpenAiEmbedder {
    fn name(&self) -> &str {
        self.caller.name()
    }

    fn embed(&self, texts: Vec<String>) -> BoxFuture<'_, Result<Vec<Vec<f32>>, Failure>> {
        Box::pin(self.embed(texts))
    }
}

/// Reads the vectors of so many texts.
pub(crate) struct EmbedReader {
    expected: usize,
}

impl EmbedReader {
    pub(crate) fn of(expected: usize) -> Self {
        Self { expected }
    }
}

#[derive(Deserialize)]
struct Answer {
    data: Vec<Item>,
}

#[derive(Deserialize)]
struct Item {
    index: Option<usize>,
    embedding: Vec<Option<f64>>,
}

impl Reader for EmbedReader {
    type Out = Vec<Vec<f32>>;

    fn event(&mut self, _: &str) -> Result<(), Fault> {
        Err(Fault::bad("embeddings were expected as one JSON body, a stream came"))
    }

    fn complete(&self) -> bool {
        false
    }

    fn finish(self) -> Result<Self::Out, Fault> {
        Err(Fault::bad("embeddings were expected as one JSON body, an empty stream came"))
    }

    fn whole(self, body: &[u8]) -> Result<Self::Out, Fault> {
        let answer: Answer = serde_json::from_slice(body).map_err(|error| unreadable(body, &error))?;
        if answer.data.len() != self.expected {
            let (got, expected) = (answer.data.len(), self.expected);
            return Err(Fault::bad(format!("{expected} vectors were expected, {got} came")));
        }
        let mut vectors: Vec<Option<Vec<f32>>> = vec![None; self.expected];
        for (place, item) in answer.data.into_iter().enumerate() {
            let index = item.index.unwrap_or(place);
            match vectors.get_mut(index) {
                Some(slot @ None) => *slot = Some(finite(index, &item.embedding)?),
                Some(_) => {
                    return Err(Fault::bad(format!("one vector an index was expected, index {index} came twice")));
                }
                None => return Err(Fault::bad(format!("indices below {} were expected, {index} came", self.expected))),
            }
        }
        // As many vectors as places, no index twice, none beyond: every place is filled.
        Ok(vectors.into_iter().flatten().collect())
    }

    fn tokens(_: &Self::Out) -> Option<u64> {
        None
    }
}

/// What a body is that is not embeddings: an error, broken off, or something else altogether.
fn unreadable(body: &[u8], error: &serde_json::Error) -> Fault {
    match json::parse(body) {
        Ok(value) if is_error_body(&value) => Fault::from_error_body(&value),
        Ok(value) => Fault::bad(format!("embeddings were expected ({error}): {}", one_line(&value.to_string()))),
        Err(_) if error.is_eof() => Fault::cut(format!("the JSON of the embeddings is cut short ({error})")),
        Err(_) => Fault::bad(format!("the embeddings cannot be read ({error}): NaN and infinities are not JSON")),
    }
}

fn finite(index: usize, numbers: &[Option<f64>]) -> Result<Vec<f32>, Fault> {
    if numbers.is_empty() || numbers.len() > DIMENSIONS_MAX {
        let got = numbers.len();
        return Err(Fault::bad(format!(
            "1 to {DIMENSIONS_MAX} numbers a vector were expected, vector {index} has {got}"
        )));
    }
    let mut vector = Vec::with_capacity(numbers.len());
    for (place, number) in numbers.iter().enumerate() {
        match number.map(|number| number as f32).filter(|number| number.is_finite()) {
            Some(number) => vector.push(number),
            None => {
                return Err(Fault::bad(format!("finite numbers were expected, vector {index} has none at {place}")));
            }
        }
    }
    Ok(vector)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(body: &str, expected: usize) -> Result<Vec<Vec<f32>>, Fault> {
        EmbedReader { expected }.whole(body.as_bytes())
    }

    #[test]
    fn vectors_are_put_in_the_order_of_their_indices() {
        let body = r#"{"data":[{"index":1,"embedding":[2,3.5]},{"index":0,"embedding":[0.5,-1e-3]}]}"#;
        assert_eq!(read(body, 2).unwrap(), [vec![0.5, -0.001], vec![2.0, 3.5]]);
        assert_eq!(read(r#"{"data":[{"embedding":[1]},{"embedding":[2]}]}"#, 2).unwrap(), [vec![1.0], vec![2.0]]);
    }

    #[test]
    fn wrong_counts_indices_and_numbers_are_refused() {
        for (body, word) in [
            (r#"{"data":[{"index":0,"embedding":[1]}]}"#, "2 vectors were expected, 1 came"),
            (r#"{"data":[{"index":0,"embedding":[1]},{"index":0,"embedding":[1]}]}"#, "twice"),
            (r#"{"data":[{"index":0,"embedding":[1]},{"index":7,"embedding":[1]}]}"#, "7 came"),
            (r#"{"data":[{"index":0,"embedding":[1]},{"index":1,"embedding":[null]}]}"#, "none at 0"),
            (r#"{"data":[{"index":0,"embedding":[1]},{"index":1,"embedding":[1e300]}]}"#, "finite"),
            (r#"{"data":[{"index":0,"embedding":[1]},{"index":1,"embedding":[]}]}"#, "has 0"),
            (r#"{"data":[{"index":0,"embedding":[NaN]}]}"#, "NaN"),
            (r#"{"data":[{"index":0,"embedding":[1e999]}]}"#, "cannot be read"),
            (r#"{"error":{"message":"no such model"}}"#, "no such model"),
            (r#"{"data":[{"index":0,"embed"#, "cut short"),
        ] {
            let fault = read(body, 2).unwrap_err();
            assert!(fault.detail.contains(word), "{body}: {}", fault.detail);
            assert_eq!(fault.again, word == "cut short");
        }
    }
}
