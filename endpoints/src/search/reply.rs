//! The envelope of the search server's answers, `{results: [{docid, url, text, score}], took_ms}`, read leniently where
//! servers differ (numbers as ids, no score, no url) and strictly where a result would be lost in silence.

use crate::fault::{Fault, one_line};
use crate::json::{self, unite};
use legwork_protocol::id::DocId;
use legwork_protocol::retrieval::{Hit, Page, PageRef};
use serde_json::Value;
use std::sync::Arc;

/// Results of one answer at most; the server is asked for far fewer.
const RESULTS_MAX: usize = 100_000;
/// The server's words for a page that it does not have. They come under status 200, in place of the text.
const NO_SUCH_PAGE: [&str; 2] = ["Missing docid and url, or url not indexed.", "Document not found for given docid."];
/// The server's words for a document that it ranked and cannot fetch; its url is then `ERROR`.
const UNFETCHED: &str = "Fetch document error.";
/// Bytes of a body that is no JSON which the message quotes.
const QUOTED_BYTES: usize = 200;

struct Row {
    docid: Option<DocId>,
    url: Option<String>,
    title: Option<String>,
    text: String,
    score: Option<f64>,
}

/// The JSON of a whole body.
pub(crate) fn json(body: &[u8]) -> Result<Value, Fault> {
    json::parse(body).map_err(|error| {
        let begin = one_line(&String::from_utf8_lossy(&body[..body.len().min(QUOTED_BYTES)]));
        Fault::bad(format!("json was expected, got {begin} ({error}): is `url` a search server's?"))
    })
}

/// Hits, best first, and whether some could not be fetched or the server says that a part of it was down, which ours
/// does.
pub(crate) fn hits(value: Value) -> Result<(Vec<Hit>, bool), String> {
    let told = value.get("degraded").and_then(Value::as_bool).unwrap_or(false);
    let rows = rows(value)?;
    let count = rows.len();
    let mut hits = Vec::with_capacity(count);
    for (place, row) in rows.into_iter().enumerate() {
        if row.text.trim() == UNFETCHED && row.url.as_deref().is_none_or(|url| url == "ERROR") {
            continue;
        }
        let docid = row.docid.ok_or_else(|| format!("`results[{place}]` of a search has no `docid`"))?;
        let score = row.score.unwrap_or(0.0);
        hits.push(Hit { docid, url: row.url, title: row.title, text: Arc::from(row.text), score });
    }
    let degraded = told || hits.len() < count;
    Ok((hits, degraded))
}

/// The page that was asked for, if that is what came.
pub(crate) fn page(asked: &PageRef, value: Value) -> Result<Option<Page>, String> {
    let Some(row) = rows(value)?.into_iter().next() else { return Ok(None) };
    let Some(docid) = row.docid else { return Ok(None) };
    // A page is never a mere sentence of the server's: a found row carries the document's own url.
    let is_notice = row.score.is_none() && NO_SUCH_PAGE.contains(&row.text.trim());
    let is_other = matches!(asked, PageRef::DocId(asked) if *asked != docid);
    if is_notice || is_other {
        return Ok(None);
    }
    Ok(Some(Page { docid, url: row.url, title: row.title, text: Arc::from(row.text) }))
}

fn rows(value: Value) -> Result<Vec<Row>, String> {
    let Value::Object(mut envelope) = value else {
        return Err(format!("an object with `results` was expected, got {}", kind_of(&value)));
    };
    let results = match envelope.remove("results") {
        Some(Value::Array(results)) => results,
        Some(other) => return Err(format!("`results` must be a list, got {}", kind_of(&other))),
        None => {
            return Err("an object with `results` was expected, got one without: is `url` a search server's?".into());
        }
    };
    if results.len() > RESULTS_MAX {
        return Err(format!("{} results came, more than {RESULTS_MAX}", results.len()));
    }
    results
        .into_iter()
        .enumerate()
        .map(|(place, row)| read_row(row).map_err(|what| format!("`results[{place}]` {what}")))
        .collect()
}

fn read_row(row: Value) -> Result<Row, String> {
    let Value::Object(mut row) = row else { return Err(format!("must be an object, got {}", kind_of(&row))) };
    let mut text = |name: &str| match row.remove(name) {
        Some(Value::String(text)) => Ok(Some(unite(text))),
        None | Some(Value::Null) => Ok(None),
        // Ids are opaque text here; a server that keeps them as numbers writes them so.
        Some(Value::Number(number)) if name == "docid" => Ok(Some(number.to_string())),
        Some(other) => Err(format!("has a `{name}` that must be text, got {}", kind_of(&other))),
    };
    let docid = text("docid")?.map(DocId::from);
    let (url, title) = (text("url")?.filter(|url| !url.is_empty()), text("title")?.filter(|title| !title.is_empty()));
    let text = text("text")?.ok_or("has no `text`")?;
    let score = row.get("score").and_then(Value::as_f64).filter(|score| score.is_finite());
    Ok(Row { docid, url, title, text, score })
}

fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}
