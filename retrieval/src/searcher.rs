//! One way to search: by words, by vectors, or by both fused, whatever stands behind the vectors.
//!
//! It refuses to embed: a query brings its vector. With vectors in process a search is synchronous; with a
//! Qdrant server the caller drives [`Searcher::search_remote`], or asks the server itself and hands the lists
//! to [`Searcher::search_with`]. Words alone answer for a dead server only where that is allowed, and say so.

use crate::bm25::Ranked;
use crate::error::RetrievalError;
use crate::fusion::{FusionSettings, reciprocal_rank};
use crate::index::Index;
use crate::qdrant::{Filter, QdrantCollection};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Most queries of one batch.
pub const MAX_BATCH_QUERIES: usize = 65_536;

/// What is searched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Words alone.
    Bm25,
    /// Vectors alone.
    Dense,
    /// Both, fused by reciprocal rank.
    Hybrid,
}

/// How to search.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct SearchSettings {
    /// What is searched.
    pub mode: Mode,
    /// How the two are fused in [`Mode::Hybrid`].
    pub fusion: FusionSettings,
    /// Whether a hybrid search may be answered by words alone while the vector server is down.
    pub allow_degraded: bool,
}

/// One query.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Query {
    /// Its words; never parsed as a query language.
    pub text: String,
    /// Its vector, needed unless the mode is [`Mode::Bm25`].
    pub vector: Option<Vec<f32>>,
}

/// A document found.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// Its number in the index; see [`Index::document`].
    pub number: u32,
    /// Its id.
    pub docid: String,
    /// Higher is better; only comparable within one answer.
    pub score: f64,
}

/// The answer to one query.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Answer {
    /// Best first; equal scores in the order of ids.
    pub hits: Vec<Found>,
    /// Why the vectors had no part in it, where they should have had.
    pub degraded: Option<String>,
}

/// Searches one index in one mode; any number of threads may use it.
pub struct Searcher {
    index: Arc<Index>,
    settings: SearchSettings,
    remote: Option<QdrantCollection>,
}

/// Documents found by a vector server: for each query ids with scores, best first.
pub type RemoteLists = Vec<Vec<(String, f32)>>;

impl Searcher {
    /// A searcher over `index`. With `remote` that collection holds the vectors, and those of the index are not used.
    ///
    /// # Errors
    /// Settings out of range, or a mode that needs vectors over an index without any.
    pub fn new(
        index: Arc<Index>,
        settings: SearchSettings,
        remote: Option<QdrantCollection>,
    ) -> Result<Self, RetrievalError> {
        settings.fusion.checked()?;
        if settings.mode != Mode::Bm25 && remote.is_none() && index.dense().is_none() {
            let what = "expected an index with vectors, got one without";
            return Err(RetrievalError::file(index.folder(), what, "give the index vectors, or search by bm25"));
        }
        Ok(Self { index, settings, remote })
    }

    /// The index.
    pub fn index(&self) -> &Arc<Index> {
        &self.index
    }

    /// The settings.
    pub fn settings(&self) -> &SearchSettings {
        &self.settings
    }

    /// The vector server, if that is where the vectors are.
    pub fn remote(&self) -> Option<&QdrantCollection> {
        self.remote.as_ref().filter(|_| self.settings.mode != Mode::Bm25)
    }

    /// Answers a batch with at most `k` documents each, in process. In hybrid mode no more can come than the two
    /// depths together hold.
    ///
    /// # Errors
    /// A query that lacks its vector or has a bad one, too large a batch, or vectors that lie on a server.
    pub fn search(&self, queries: &[Query], k: usize) -> Result<Vec<Answer>, RetrievalError> {
        if self.remote().is_some() {
            return Err(RetrievalError::Setting {
                name: "search",
                expected: "vectors in process",
                got: "vectors on a server: use search_remote".to_owned(),
            });
        }
        self.check(queries)?;
        let words = || self.words(queries, k);
        let (words, vectors) = match (self.settings.mode, self.index.dense()) {
            (Mode::Bm25, _) | (_, None) => (words(), Ok(Vec::new())),
            (Mode::Dense, Some(dense)) => (Ok(Vec::new()), dense.search(&flat(queries), k)),
            (Mode::Hybrid, Some(dense)) => {
                let depth = self.settings.fusion.dense_depth;
                rayon::join(words, || dense.search(&flat(queries), depth))
            }
        };
        self.answers(queries.len(), words?, vectors?, k, None)
    }

    /// As [`Searcher::search`], with the vectors on the server, in one batched request.
    ///
    /// # Errors
    /// As [`Searcher::search`], and a dead or refusing server unless words alone are allowed to answer.
    pub async fn search_remote(&self, queries: &[Query], k: usize) -> Result<Vec<Answer>, RetrievalError> {
        let Some(remote) = self.remote() else { return self.search(queries, k) };
        self.check(queries)?;
        let vectors: Vec<&[f32]> = queries.iter().filter_map(|q| q.vector.as_deref()).collect();
        let lists = remote.search(&vectors, self.remote_depth(k), &Filter::default()).await;
        self.search_with(queries, k, lists)
    }

    /// How many documents to ask of a vector server for each query.
    pub fn remote_depth(&self, k: usize) -> usize {
        if self.settings.mode == Mode::Hybrid { self.settings.fusion.dense_depth } else { k }
    }

    /// Answers a batch given what the vector server said, for callers that ask it themselves.
    ///
    /// # Errors
    /// As [`Searcher::search_remote`]; ids that the index does not have.
    pub fn search_with(
        &self,
        queries: &[Query],
        k: usize,
        lists: Result<RemoteLists, RetrievalError>,
    ) -> Result<Vec<Answer>, RetrievalError> {
        self.check(queries)?;
        let words = || if self.settings.mode == Mode::Dense { Ok(Vec::new()) } else { self.words(queries, k) };
        match lists {
            Ok(lists) => {
                let vectors = lists.into_iter().map(|list| self.ranked(list)).collect::<Result<Vec<_>, _>>()?;
                if vectors.len() != queries.len() {
                    let what =
                        format!("expected {} lists from the vector server, got {}", queries.len(), vectors.len());
                    return Err(RetrievalError::file(self.index.folder(), what, "check the server's version"));
                }
                self.answers(queries.len(), words()?, vectors, k, None)
            }
            Err(error) => {
                let allowed = self.settings.allow_degraded && self.settings.mode == Mode::Hybrid;
                if !(allowed && error.is_unavailable()) {
                    return Err(error);
                }
                self.answers(queries.len(), words()?, Vec::new(), k, Some(error.to_string()))
            }
        }
    }

    fn check(&self, queries: &[Query]) -> Result<(), RetrievalError> {
        if queries.len() > MAX_BATCH_QUERIES {
            return Err(RetrievalError::Setting {
                name: "batch",
                expected: "at most 65536 queries",
                got: queries.len().to_string(),
            });
        }
        if self.settings.mode == Mode::Bm25 {
            return Ok(());
        }
        let dim = match (&self.remote, self.index.dense()) {
            (Some(remote), _) => remote.dim(),
            (None, Some(dense)) => dense.dim(),
            (None, None) => return Ok(()),
        };
        for (number, query) in queries.iter().enumerate() {
            let refuse = |what, cure| Err(RetrievalError::Query { number, what, cure });
            match &query.vector {
                None => return refuse("expected a vector, got none".to_owned(), "embed the query, or search by bm25"),
                Some(vector) if vector.len() != dim => {
                    let what = format!("expected a vector of {dim} values, got {}", vector.len());
                    return refuse(what, "embed queries with the model that embedded the corpus");
                }
                Some(vector) if vector.iter().any(|v| !v.is_finite()) => {
                    return refuse("expected finite values, got NaN or infinity".to_owned(), "embed the query anew");
                }
                Some(_) => {}
            }
        }
        Ok(())
    }

    /// BM25's list for each query, as deep as the mode needs.
    fn words(&self, queries: &[Query], k: usize) -> Result<Vec<Vec<Ranked>>, RetrievalError> {
        let depth = if self.settings.mode == Mode::Hybrid { self.settings.fusion.bm25_depth } else { k };
        let search = |(number, query): (usize, &Query)| {
            self.index.bm25().search(number, &query.text, depth, self.index.numbers())
        };
        match queries {
            [only] => Ok(vec![search((0, only))?]),
            _ => queries.par_iter().enumerate().map(search).collect(),
        }
    }

    /// A server's list by document numbers, equal scores in the order of ids.
    fn ranked(&self, list: Vec<(String, f32)>) -> Result<Vec<Ranked>, RetrievalError> {
        let mut ranked = Vec::with_capacity(list.len());
        for (docid, score) in list {
            let Some(rank) = self.index.number_of_docid(&docid)? else {
                let what = format!("the vector server has docid {docid:?}, which the index lacks");
                return Err(RetrievalError::file(self.index.folder(), what, "upsert the vectors of this index"));
            };
            ranked.push(Ranked { rank, score: f64::from(score) });
        }
        ranked.sort_by(|a, b| b.score.total_cmp(&a.score).then(a.rank.cmp(&b.rank)));
        Ok(ranked)
    }

    /// Fuses or passes on. A side that has no lists took no part.
    fn answers(
        &self,
        count: usize,
        words: Vec<Vec<Ranked>>,
        vectors: Vec<Vec<Ranked>>,
        k: usize,
        degraded: Option<String>,
    ) -> Result<Vec<Answer>, RetrievalError> {
        let fusion = &self.settings.fusion;
        let numbers = |list: &[Ranked]| list.iter().map(|r| r.rank).collect::<Vec<_>>();
        let mut answers = Vec::with_capacity(count);
        for i in 0..count {
            let ranked: Vec<(u32, f64)> = match (words.get(i), vectors.get(i)) {
                (Some(words), Some(vectors)) => {
                    let (words, vectors) = (numbers(words), numbers(vectors));
                    let lists = [(words.as_slice(), fusion.bm25_weight), (vectors.as_slice(), fusion.dense_weight)];
                    reciprocal_rank(&lists, fusion.k, k)
                }
                // Words alone in hybrid mode keep the scores of fusion, so that an answer's scale does not jump.
                (Some(words), None) if self.settings.mode == Mode::Hybrid => {
                    reciprocal_rank(&[(numbers(words).as_slice(), fusion.bm25_weight)], fusion.k, k)
                }
                (Some(list), None) | (None, Some(list)) => list.iter().take(k).map(|r| (r.rank, r.score)).collect(),
                (None, None) => Vec::new(),
            };
            let hits = ranked.into_iter().map(|(number, score)| {
                let docid = self.index.document(number)?.docid.to_owned();
                Ok(Found { number, docid, score })
            });
            let hits = hits.collect::<Result<_, RetrievalError>>()?;
            answers.push(Answer { hits, degraded: degraded.clone() });
        }
        Ok(answers)
    }
}

/// The vectors of a checked batch, one after the other.
fn flat(queries: &[Query]) -> Vec<f32> {
    queries.iter().filter_map(|q| q.vector.as_deref()).flatten().copied().collect()
}

#[cfg(test)]
mod tests;
