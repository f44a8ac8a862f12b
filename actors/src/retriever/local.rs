//! A library over an index of ours. Searching is work, so it happens on named threads behind a bounded queue;
//! queries that wait together are answered as one batch. Vectors of queries come from an embedder, documents'
//! vectors lie in the index or on a Qdrant server.

use super::Library;
use futures::FutureExt;
use futures::future::BoxFuture;
use legwork_endpoints::Embedder;
use legwork_protocol::failure::{Failure, FailureKind};
use legwork_protocol::id::DocId;
use legwork_protocol::retrieval::{Hit, Page, PageRef, SearchAnswer};
use legwork_retrieval::searcher::{Found, RemoteLists};
use legwork_retrieval::{Answer, Mode, Query, RetrievalError, Searcher};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

/// Searches that may wait for a thread.
pub const QUEUE_MAX: usize = 1024;
/// Searches answered as one batch.
pub const BATCH_MAX: usize = 64;

struct Job {
    query: Query,
    k: usize,
    /// What the vector server said, if it was asked.
    lists: Option<Result<RemoteLists, RetrievalError>>,
    reply: oneshot::Sender<Result<SearchAnswer, Failure>>,
}

/// A library over an index of ours.
pub struct LocalLibrary {
    name: String,
    searcher: Arc<Searcher>,
    embedder: Option<Arc<dyn Embedder>>,
    query_prefix: String,
    jobs: mpsc::Sender<Job>,
}

impl LocalLibrary {
    /// Starts `threads` searching threads. `query_prefix` is put before a query for its embedding.
    ///
    /// # Errors
    /// If a mode needs vectors and there is no embedder for queries, or a thread cannot be started.
    pub fn start(
        searcher: Searcher,
        embedder: Option<Arc<dyn Embedder>>,
        query_prefix: String,
        threads: usize,
    ) -> Result<Self, Failure> {
        let settings = *searcher.settings();
        if settings.mode != Mode::Bm25 && embedder.is_none() {
            let detail = "search by vectors needs an embedder for queries; give one under [embedder], or set retrieval.mode = \"bm25\"";
            return Err(Failure::new(FailureKind::Misconfigured, detail));
        }
        let searcher = Arc::new(searcher);
        let (jobs, queue) = mpsc::channel(QUEUE_MAX);
        let queue = Arc::new(Mutex::new(queue));
        for number in 0..threads.max(1) {
            let (searcher, queue) = (Arc::clone(&searcher), Arc::clone(&queue));
            std::thread::Builder::new()
                .name(format!("retriever-{number}"))
                .spawn(move || serve(&searcher, &queue))
                .map_err(|error| {
                    Failure::new(FailureKind::Retrieval, format!("cannot start a searching thread: {error}"))
                })?;
        }
        let vectors = if searcher.remote().is_some() { "qdrant" } else { "exact" };
        let name = match settings.mode {
            Mode::Bm25 => "index: bm25".to_owned(),
            Mode::Dense => format!("index: dense ({vectors})"),
            Mode::Hybrid => format!("index: bm25 + dense ({vectors}), reciprocal rank fusion"),
        };
        Ok(Self { name, searcher, embedder, query_prefix, jobs })
    }

    async fn answer(&self, text: String, k: u32) -> Result<SearchAnswer, Failure> {
        let began = Instant::now();
        let mut query = Query { text, vector: None };
        if let (Some(embedder), true) = (&self.embedder, self.searcher.settings().mode != Mode::Bm25) {
            let prefixed = format!("{}{}", self.query_prefix, query.text);
            query.vector = embedder.embed(vec![prefixed]).await?.pop();
        }
        let k = k as usize;
        let lists = match (self.searcher.remote(), &query.vector) {
            (Some(remote), Some(vector)) => {
                let depth = self.searcher.remote_depth(k);
                Some(remote.search(&[vector.as_slice()], depth, &Default::default()).await)
            }
            _ => None,
        };
        let (reply, owed) = oneshot::channel();
        let ended = || Failure::new(FailureKind::Retrieval, "the searching threads have ended; restart the run");
        self.jobs.send(Job { query, k, lists, reply }).await.map_err(|_| ended())?;
        let mut answer = owed.await.map_err(|_| ended())??;
        answer.served_ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
        Ok(answer)
    }

    fn page(&self, page: &PageRef) -> Result<Option<Page>, RetrievalError> {
        let index = self.searcher.index();
        let number = match page {
            PageRef::DocId(docid) => index.number_of_docid(docid.as_str())?,
            PageRef::Url(url) => index.number_of_url(url)?,
        };
        let Some(number) = number else { return Ok(None) };
        let document = index.document(number)?;
        Ok(Some(Page {
            docid: DocId::new(document.docid),
            url: document.url.map(str::to_owned),
            title: document.title.map(str::to_owned),
            text: Arc::from(document.text),
        }))
    }
}

impl Library for LocalLibrary {
    fn name(&self) -> &str {
        &self.name
    }

    fn search(&self, query: String, k: u32) -> BoxFuture<'_, Result<SearchAnswer, Failure>> {
        self.answer(query, k).boxed()
    }

    fn open(&self, page: PageRef) -> BoxFuture<'_, Result<Option<Page>, Failure>> {
        futures::future::ready(self.page(&page).map_err(|error| failure(&error))).boxed()
    }
}

fn serve(searcher: &Searcher, queue: &Mutex<mpsc::Receiver<Job>>) {
    loop {
        let mut jobs = Vec::new();
        {
            let mut queue = queue.lock().unwrap_or_else(PoisonError::into_inner);
            if queue.blocking_recv_many(&mut jobs, BATCH_MAX) == 0 {
                return;
            }
        }
        jobs.retain(|job| !job.reply.is_closed());
        let (with_lists, plain): (Vec<Job>, Vec<Job>) = jobs.into_iter().partition(|job| job.lists.is_some());
        answer_batch(searcher, plain);
        for mut job in with_lists {
            let lists = job.lists.take().unwrap_or(Ok(Vec::new()));
            let answer = searched(|| searcher.search_with(std::slice::from_ref(&job.query), job.k, lists));
            let answer = answer.and_then(|mut answers| found(searcher, answers.pop(), job.k));
            let _asker_has_gone = job.reply.send(answer);
        }
    }
}

/// One search for all: each gets as many of the best as it asked for.
fn answer_batch(searcher: &Searcher, jobs: Vec<Job>) {
    let Some(deepest) = jobs.iter().map(|job| job.k).max() else { return };
    let (queries, asks): (Vec<Query>, Vec<_>) = jobs.into_iter().map(|job| (job.query, (job.k, job.reply))).unzip();
    match searched(|| searcher.search(&queries, deepest)) {
        Ok(answers) => {
            for ((k, reply), answer) in asks.into_iter().zip(answers) {
                let _asker_has_gone = reply.send(found(searcher, Some(answer), k));
            }
        }
        // One bad query must not take its neighbours with it: each is asked alone.
        Err(_) if queries.len() > 1 => {
            for (query, (k, reply)) in queries.into_iter().zip(asks) {
                answer_batch(searcher, vec![Job { query, k, lists: None, reply }]);
            }
        }
        Err(failure) => asks.into_iter().for_each(|(_, reply)| drop(reply.send(Err(failure.clone())))),
    }
}

/// A search that panics is a search that failed: the thread goes on with the next.
fn searched<T>(search: impl FnOnce() -> Result<T, RetrievalError>) -> Result<T, Failure> {
    match catch_unwind(AssertUnwindSafe(search)) {
        Ok(answer) => answer.map_err(|error| failure(&error)),
        Err(_) => {
            Err(Failure::new(FailureKind::Retrieval, "the search panicked, as told before this; another query may do"))
        }
    }
}

fn found(searcher: &Searcher, answer: Option<Answer>, k: usize) -> Result<SearchAnswer, Failure> {
    let answer = answer.unwrap_or_default();
    let hit = |found: Found| -> Result<Hit, RetrievalError> {
        let document = searcher.index().document(found.number)?;
        Ok(Hit {
            docid: DocId::new(document.docid),
            url: document.url.map(str::to_owned),
            title: document.title.map(str::to_owned),
            text: Arc::from(document.text),
            score: found.score,
        })
    };
    let hits = answer.hits.into_iter().take(k).map(hit).collect::<Result<Vec<_>, _>>();
    let hits = hits.map_err(|error| failure(&error))?;
    Ok(SearchAnswer { hits, degraded: answer.degraded.is_some(), served_ms: 0 })
}

fn failure(error: &RetrievalError) -> Failure {
    let kind = if error.is_unavailable() { FailureKind::Unreachable } else { FailureKind::Retrieval };
    Failure::new(kind, error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_search_that_panics_has_failed_and_its_thread_lives_on() {
        let failed = searched(|| -> Result<(), RetrievalError> { panic!("a query that no index takes") }).unwrap_err();
        assert!(failed.kind == FailureKind::Retrieval && failed.detail.contains("panicked"), "{failed}");
        assert_eq!(searched(|| Ok(7)), Ok(7));
    }
}
