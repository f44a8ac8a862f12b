//! Vectors in a Qdrant server: the collection, resumable upserts, batched search with filters.
//!
//! The only async room of this crate; callers bring the runtime. It refuses to know models and our own index of
//! words. A document's point has an id made from its docid alone and carries the docid and the digest of the
//! vectors in its payload, so that a second upsert writes only what is missing.

mod convert;

use crate::error::RetrievalError;
use crate::index::Index;
use convert::{Unpacked, filter_of, payload_of, unpack};
use qdrant_client::qdrant::{
    CountPoints, CreateCollection, Distance, GetPoints, PayloadIncludeSelector, PointId, PointStruct, QueryBatchPoints,
    QueryPoints, SearchParams, UpsertPoints, VectorParams, VectorsConfig, WithPayloadSelector, vectors_config,
    with_payload_selector,
};
use qdrant_client::{Qdrant, QdrantError};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::time::Duration;

/// Bytes of vectors of one upsert.
pub const UPSERT_BYTES: usize = 4 * 1024 * 1024;
/// Points of one upsert.
pub const UPSERT_POINTS: usize = 512;
/// Queries of one search request.
pub const SEARCH_QUERIES: usize = 128;
/// Most documents asked for with one query.
pub const MAX_SEARCH_DEPTH: usize = 10_000;

/// A secret that prints as `[key]`.
#[derive(Clone, PartialEq, Eq)]
pub struct ApiKey(String);

/// Where the server is and how to ask it.
#[derive(Clone, Debug, PartialEq)]
pub struct QdrantSettings {
    /// The gRPC address, such as `http://127.0.0.1:6334`.
    pub url: String,
    /// The key, where the server wants one.
    pub api_key: Option<ApiKey>,
    /// The collection's name.
    pub collection: String,
    /// How the server searches.
    pub search: ServerSearch,
    /// Longest wait for a connection.
    pub connect_timeout_ms: u64,
    /// Longest wait for an answer.
    pub request_timeout_ms: u64,
}

/// How the server searches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ServerSearch {
    /// Every vector is compared.
    Exact,
    /// Through the graph, with a beam of this size.
    Hnsw {
        /// The beam: larger is more exact and slower.
        ef: u64,
    },
}

/// Conditions on the payload, all of which must hold: `docid`, `title`, `url`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// Keys that must have one of the values.
    pub any_of: Vec<(String, Vec<String>)>,
    /// Keys that must have none of the values.
    pub none_of: Vec<(String, Vec<String>)>,
}

/// How far an upsert is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UpsertProgress {
    /// Documents that were there already.
    pub present: u64,
    /// Documents written.
    pub written: u64,
}

/// One collection of a server.
pub struct QdrantCollection {
    client: Qdrant,
    url: String,
    collection: String,
    search: ServerSearch,
    dim: usize,
}

impl ApiKey {
    /// Hides a key.
    pub fn new(key: impl Into<String>) -> Self {
        Self(key.into())
    }
}

impl fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[key]")
    }
}

/// The id of a document's point: a version 8 UUID of the docid's BLAKE3 digest. Qdrant takes numbers and UUIDs only.
pub fn point_id(docid: &str) -> String {
    let digest = blake3::hash(docid.as_bytes());
    let mut id = [0_u8; 16];
    id.copy_from_slice(&digest.as_bytes()[..16]);
    id[6] = id[6] & 0x0f | 0x80;
    id[8] = id[8] & 0x3f | 0x80;
    let mut text = String::with_capacity(36);
    for (i, byte) in id.iter().enumerate() {
        if matches!(i, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        text.push_str(&format!("{byte:02x}"));
    }
    text
}

impl QdrantCollection {
    /// A client for vectors of `dim` values. Nothing is sent yet.
    ///
    /// # Errors
    /// An address that is none.
    pub fn new(settings: &QdrantSettings, dim: usize) -> Result<Self, RetrievalError> {
        let QdrantSettings { url, api_key, collection, search, connect_timeout_ms, request_timeout_ms } = settings;
        let mut config = Qdrant::from_url(url)
            .connect_timeout(Duration::from_millis(*connect_timeout_ms))
            .timeout(Duration::from_millis(*request_timeout_ms))
            // The check would write to standard output and open a connection here.
            .skip_compatibility_check();
        config.api_key = api_key.as_ref().map(|key| key.0.clone());
        let client = config.build().map_err(|error| RetrievalError::Qdrant {
            url: url.clone(),
            collection: collection.clone(),
            what: error.to_string(),
            cure: "write the address as http://host:6334, the server's gRPC port",
        })?;
        Ok(Self { client, url: url.clone(), collection: collection.clone(), search: *search, dim })
    }

    /// Values of one vector.
    pub fn dim(&self) -> usize {
        self.dim
    }

    /// Creates the collection, or checks that the one there has this dimension and the distance Dot. True if created.
    ///
    /// # Errors
    /// A dead server, or a collection of another form.
    pub async fn ensure(&self) -> Result<bool, RetrievalError> {
        if !self.client.collection_exists(&self.collection).await.map_err(|e| self.failed(&e))? {
            let params =
                VectorParams { size: self.dim as u64, distance: Distance::Dot.into(), ..VectorParams::default() };
            let config = VectorsConfig { config: Some(vectors_config::Config::Params(params)) };
            let request = CreateCollection {
                collection_name: self.collection.clone(),
                vectors_config: Some(config),
                ..CreateCollection::default()
            };
            match self.client.create_collection(request).await {
                Ok(_) => return Ok(true),
                // Someone else may have created it meanwhile; then its form is what counts.
                Err(QdrantError::ResponseError { status }) if status.code() == tonic::Code::AlreadyExists => {}
                Err(error) => return Err(self.failed(&error)),
            }
        }
        let info = self.client.collection_info(&self.collection).await.map_err(|e| self.failed(&e))?;
        let params = info.result.and_then(|r| r.config).and_then(|c| c.params).and_then(|p| p.vectors_config);
        let got = match params.and_then(|v| v.config) {
            Some(vectors_config::Config::Params(p)) if p.size == self.dim as u64 && p.distance() == Distance::Dot => {
                return Ok(false);
            }
            Some(vectors_config::Config::Params(p)) => format!("{} values by {:?}", p.size, p.distance()),
            Some(vectors_config::Config::ParamsMap(_)) => "named vectors".to_owned(),
            None => "no vectors".to_owned(),
        };
        let what = format!("expected vectors of {} values by Dot, got {got}", self.dim);
        Err(self.refused(what, "name another collection, or delete this one"))
    }

    /// Number of points.
    ///
    /// # Errors
    /// A dead server or a missing collection.
    pub async fn count(&self) -> Result<u64, RetrievalError> {
        let request =
            CountPoints { collection_name: self.collection.clone(), exact: Some(true), ..CountPoints::default() };
        let response = self.client.count(request).await.map_err(|e| self.failed(&e))?;
        Ok(response.result.map_or(0, |r| r.count))
    }

    /// Number of vectors that the server's graph reaches so far; the others it compares one by one.
    ///
    /// # Errors
    /// A dead server or a missing collection.
    pub async fn indexed(&self) -> Result<u64, RetrievalError> {
        let info = self.client.collection_info(&self.collection).await.map_err(|e| self.failed(&e))?;
        Ok(info.result.and_then(|r| r.indexed_vectors_count).unwrap_or(0))
    }

    /// Deletes the collection, with all its points.
    ///
    /// # Errors
    /// A dead server.
    pub async fn delete(&self) -> Result<(), RetrievalError> {
        self.client.delete_collection(&self.collection).await.map(|_| ()).map_err(|e| self.failed(&e))
    }

    /// Writes the vectors of `index`, batch by batch; what is there already from the same vectors is left as it is,
    /// so an interrupted upsert is resumed by calling this again.
    ///
    /// # Errors
    /// An index without vectors or with others than of this dimension, a dead server (what was written stays), or
    /// a collection that then holds other points too.
    pub async fn upsert(
        &self,
        index: &Index,
        progress: &mut (dyn FnMut(UpsertProgress) + Send),
    ) -> Result<UpsertProgress, RetrievalError> {
        let dim_of_index = index.dense().map(|d| d.dim());
        let digest = match &index.manifest().vectors {
            Some(record) if dim_of_index == Some(self.dim) => record.digest.clone(),
            _ => {
                let what = format!("expected an index with vectors of {} values, got {dim_of_index:?}", self.dim);
                return Err(self.refused(what, "give the index vectors of this dimension"));
            }
        };
        let batch = (UPSERT_BYTES / (self.dim * size_of::<f32>())).clamp(1, UPSERT_POINTS);
        let numbers: Vec<u32> = (0..index.len() as u32).collect();
        let mut done = UpsertProgress::default();
        for numbers in numbers.chunks(batch) {
            let missing = self.missing(index, numbers, &digest).await?;
            done.present += (numbers.len() - missing.len()) as u64;
            if !missing.is_empty() {
                let points = missing.iter().map(|&n| point(index, n, &digest)).collect::<Result<Vec<_>, _>>()?;
                let request = UpsertPoints {
                    collection_name: self.collection.clone(),
                    // Waiting bounds what the server has to hold, and what was reported as written is.
                    wait: Some(true),
                    points,
                    ..UpsertPoints::default()
                };
                self.client.upsert_points(request).await.map_err(|e| self.failed(&e))?;
                done.written += missing.len() as u64;
            }
            progress(done);
        }
        let count = self.count().await?;
        if count != index.len() as u64 {
            let what = format!("expected {} points, one a document, got {count}", index.len());
            return Err(self.refused(what, "use a collection of its own for each index"));
        }
        Ok(done)
    }

    /// Which of the documents have no point from the vectors of this digest.
    async fn missing(&self, index: &Index, numbers: &[u32], digest: &str) -> Result<Vec<u32>, RetrievalError> {
        let mut ids = Vec::with_capacity(numbers.len());
        for &number in numbers {
            ids.push(PointId::from(point_id(index.document(number)?.docid)));
        }
        let request = GetPoints {
            collection_name: self.collection.clone(),
            ids,
            with_payload: Some(only(&[convert::DOCID, convert::VECTORS])),
            ..GetPoints::default()
        };
        let response = self.client.get_points(request).await.map_err(|e| self.failed(&e))?;
        let mut present = std::collections::HashSet::new();
        for point in &response.result {
            let Unpacked { docid, vectors } = unpack(&point.payload);
            if vectors == Some(digest) {
                present.extend(docid);
            }
        }
        let mut missing = Vec::new();
        for &number in numbers {
            if !present.contains(index.document(number)?.docid) {
                missing.push(number);
            }
        }
        Ok(missing)
    }

    /// For each query the `k` documents of greatest inner product that pass the filter, best first, equal scores
    /// in the order of ids. Which of several documents with the score at the end come in is the server's choice.
    ///
    /// # Errors
    /// A dead server, a missing collection, points without a docid, or too deep a search.
    pub async fn search(
        &self,
        queries: &[&[f32]],
        k: usize,
        filter: &Filter,
    ) -> Result<Vec<Vec<(String, f32)>>, RetrievalError> {
        if k > MAX_SEARCH_DEPTH {
            let got = k.to_string();
            return Err(RetrievalError::Setting { name: "search depth", expected: "at most 10000", got });
        }
        let mut lists = Vec::with_capacity(queries.len());
        if k == 0 {
            lists.resize(queries.len(), Vec::new());
            return Ok(lists);
        }
        for queries in queries.chunks(SEARCH_QUERIES) {
            let request = QueryBatchPoints {
                collection_name: self.collection.clone(),
                query_points: queries.iter().map(|q| self.query(q, k, filter)).collect(),
                ..QueryBatchPoints::default()
            };
            let response = self.client.query_batch(request).await.map_err(|e| self.failed(&e))?;
            if response.result.len() != queries.len() {
                let what = format!("expected {} answers, got {}", queries.len(), response.result.len());
                return Err(self.refused(what, "check the server's version"));
            }
            for batch in response.result {
                lists.push(self.list(&batch.result)?);
            }
        }
        Ok(lists)
    }

    fn query(&self, vector: &[f32], k: usize, filter: &Filter) -> QueryPoints {
        let params = match self.search {
            ServerSearch::Exact => SearchParams { exact: Some(true), ..SearchParams::default() },
            ServerSearch::Hnsw { ef } => SearchParams { hnsw_ef: Some(ef), ..SearchParams::default() },
        };
        QueryPoints {
            collection_name: self.collection.clone(),
            query: Some(qdrant_client::qdrant::Query::new_nearest(vector.to_vec())),
            filter: filter_of(filter),
            params: Some(params),
            limit: Some(k as u64),
            with_payload: Some(only(&[convert::DOCID])),
            ..QueryPoints::default()
        }
    }

    fn list(&self, points: &[qdrant_client::qdrant::ScoredPoint]) -> Result<Vec<(String, f32)>, RetrievalError> {
        let mut list = Vec::with_capacity(points.len());
        for point in points {
            let Some(docid) = unpack(&point.payload).docid else {
                let what = "expected a docid in the payload of every point, got a point without";
                return Err(self.refused(what.to_owned(), "use a collection that this program filled"));
            };
            if !point.score.is_finite() {
                let what = format!("expected a finite score for {docid:?}, got {}", point.score);
                return Err(self.refused(what, "check the vectors in the collection"));
            }
            list.push((docid.to_owned(), point.score));
        }
        list.sort_by(|a, b| b.1.total_cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        Ok(list)
    }

    fn refused(&self, what: String, cure: &'static str) -> RetrievalError {
        RetrievalError::Qdrant { url: self.url.clone(), collection: self.collection.clone(), what, cure }
    }

    /// Tells a server that is down or overwhelmed from one that says no.
    fn failed(&self, error: &QdrantError) -> RetrievalError {
        use tonic::Code;
        let unavailable = |what: String| RetrievalError::QdrantUnavailable { url: self.url.clone(), what };
        match error {
            QdrantError::ResourceExhaustedError { status, retry_after_seconds } => {
                unavailable(format!("{}, asks to wait {retry_after_seconds} s", status.message()))
            }
            QdrantError::ResponseError { status } => {
                let what = format!("{:?}: {}", status.code(), status.message());
                match status.code() {
                    // The client reports a refused connection as an internal error of its own.
                    Code::Internal if !status.message().starts_with("Failed to connect") => {
                        self.refused(what, "look into the server's log")
                    }
                    Code::Unavailable
                    | Code::DeadlineExceeded
                    | Code::Cancelled
                    | Code::ResourceExhausted
                    | Code::Internal
                    | Code::Unknown
                    | Code::Aborted => unavailable(what),
                    Code::NotFound => self.refused(what, "create the collection by upserting the index"),
                    Code::Unauthenticated | Code::PermissionDenied => self.refused(what, "check the api key"),
                    _ => self.refused(what, "check that server and collection are those meant"),
                }
            }
            QdrantError::Io(_) => unavailable(error.to_string()),
            _ => self.refused(error.to_string(), "check that server and collection are those meant"),
        }
    }
}

/// The point of a document.
fn point(index: &Index, number: u32, digest: &str) -> Result<PointStruct, RetrievalError> {
    let document = index.document(number)?;
    let vector = index.dense().and_then(|d| d.vector(number)).unwrap_or_default().to_vec();
    let payload = payload_of(&document, digest);
    Ok(PointStruct::new(point_id(document.docid), vector, qdrant_client::Payload::from(payload)))
}

/// Asks for these payload keys only.
fn only(keys: &[&str]) -> WithPayloadSelector {
    let fields = keys.iter().map(|&key| key.to_owned()).collect();
    with_payload_selector::SelectorOptions::Include(PayloadIncludeSelector { fields }).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_never_shows() {
        assert_eq!(format!("{:?}", Some(ApiKey::new("secret"))), "Some([key])");
    }

    #[test]
    fn point_ids_are_uuids_of_the_docid_alone() {
        let id = point_id("12");
        assert_eq!(id, point_id("12"));
        assert_ne!(id, point_id("012"));
        let parts: Vec<usize> = id.split('-').map(str::len).collect();
        assert_eq!(parts, [8, 4, 4, 4, 12]);
        assert!(id.as_bytes()[14] == b'8' && b"89ab".contains(&id.as_bytes()[19]));
    }

    #[test]
    fn an_address_that_is_none_is_refused() {
        let settings = QdrantSettings {
            url: "not an address".into(),
            api_key: None,
            collection: "c".into(),
            search: ServerSearch::Exact,
            connect_timeout_ms: 1,
            request_timeout_ms: 1,
        };
        let error = QdrantCollection::new(&settings, 3).err().unwrap();
        assert!(error.to_string().contains("http://host:6334"), "{error}");
    }
}
