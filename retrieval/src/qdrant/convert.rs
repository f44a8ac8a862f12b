//! Documents and filters in the words of Qdrant's protocol, and back.

use super::Filter;
use crate::store::StoredDocument;
use qdrant_client::qdrant::{self, Condition, Value, value::Kind};
use std::collections::HashMap;

/// Payload key of the docid.
pub(super) const DOCID: &str = "docid";
/// Payload key of the digest of all vectors that this one was written with.
pub(super) const VECTORS: &str = "vectors";

/// What this program wrote into a point.
pub(super) struct Unpacked<'a> {
    pub(super) docid: Option<&'a str>,
    pub(super) vectors: Option<&'a str>,
}

pub(super) fn payload_of(document: &StoredDocument<'_>, digest: &str) -> HashMap<String, Value> {
    let fields =
        [(DOCID, Some(document.docid)), (VECTORS, Some(digest)), ("title", document.title), ("url", document.url)];
    let given = fields.into_iter().filter_map(|(key, value)| Some((key.to_owned(), Value::from(value?))));
    given.collect()
}

pub(super) fn unpack(payload: &HashMap<String, Value>) -> Unpacked<'_> {
    let text = |key: &str| match payload.get(key).and_then(|v| v.kind.as_ref()) {
        Some(Kind::StringValue(text)) => Some(text.as_str()),
        _ => None,
    };
    Unpacked { docid: text(DOCID), vectors: text(VECTORS) }
}

/// No filter at all where there is no condition.
pub(super) fn filter_of(filter: &Filter) -> Option<qdrant::Filter> {
    let conditions = |list: &[(String, Vec<String>)]| -> Vec<Condition> {
        list.iter().map(|(key, values)| Condition::matches(key.as_str(), values.clone())).collect()
    };
    let (must, must_not) = (conditions(&filter.any_of), conditions(&filter.none_of));
    if must.is_empty() && must_not.is_empty() {
        return None;
    }
    Some(qdrant::Filter { must, must_not, ..qdrant::Filter::default() })
}
