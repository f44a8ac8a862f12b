//! The retriever: searches and opens pages for every worker of a run. What stands behind it is a `Library`: an
//! index of ours, somebody's search server, or a mock. It caches answers by query, bounded, and lets lookups run
//! beside the mailbox.

mod cache;
mod local;
mod server;

pub use cache::AnswerCache;
pub use local::{BATCH_MAX, LocalLibrary, QUEUE_MAX};
pub use server::ServerLibrary;

use crate::address::Reply;
use crate::stage::Stage;
use futures::future::BoxFuture;
use legwork_protocol::environment::{Lookup, LookupAnswer};
use legwork_protocol::failure::{Failure, FailureKind};
use legwork_protocol::retrieval::{Page, PageRef, SearchAnswer};
use ractor::{Actor, ActorProcessingErr, ActorRef};
use std::sync::Arc;

/// Answers kept for queries asked again, at most.
pub const CACHED_ANSWERS_MAX: usize = 4096;

/// A lookup whose retriever died is asked of its successors, so often in all.
pub const LOOKUP_ATTEMPTS_MAX: u32 = 3;

/// What a retriever is asked.
#[derive(Debug)]
pub enum RetrieverMsg {
    /// Documents for a query. Owes: the best `k`.
    Search(String, u32, Reply<Result<SearchAnswer, Failure>>),
    /// One document. Owes: it, or none if there is no such document.
    Open(PageRef, Reply<Result<Option<Page>, Failure>>),
}

/// What stands behind a retriever.
pub trait Library: Send + Sync {
    /// What it is, for the manifest.
    fn name(&self) -> &str;
    /// The best `k` documents for a query.
    fn search(&self, query: String, k: u32) -> BoxFuture<'_, Result<SearchAnswer, Failure>>;
    /// One document.
    fn open(&self, page: PageRef) -> BoxFuture<'_, Result<Option<Page>, Failure>>;
}

/// The retriever over a library.
pub struct Retriever;

/// A library and the answers that it gave before.
pub struct RetrieverState {
    library: Arc<dyn Library>,
    cache: Arc<AnswerCache>,
}

impl Actor for Retriever {
    type Msg = RetrieverMsg;
    type State = RetrieverState;
    type Arguments = Arc<dyn Library>;

    async fn pre_start(
        &self,
        _myself: ActorRef<RetrieverMsg>,
        library: Arc<dyn Library>,
    ) -> Result<RetrieverState, ActorProcessingErr> {
        Ok(RetrieverState { library, cache: Arc::new(AnswerCache::new(CACHED_ANSWERS_MAX)) })
    }

    async fn handle(
        &self,
        _myself: ActorRef<RetrieverMsg>,
        message: RetrieverMsg,
        state: &mut RetrieverState,
    ) -> Result<(), ActorProcessingErr> {
        let library = Arc::clone(&state.library);
        match message {
            RetrieverMsg::Search(query, k, mut reply) => {
                if let Some(answer) = state.cache.get(&query, k) {
                    reply.send(Ok(answer));
                    return Ok(());
                }
                let cache = Arc::clone(&state.cache);
                tokio::spawn(async move {
                    tokio::select! {
                        biased;
                        () = reply.abandoned() => {}
                        answer = library.search(query.clone(), k) => {
                            // A degraded answer is not kept: the missing part may be back for the next asker.
                            if let Ok(answer) = &answer && !answer.degraded {
                                cache.put(query, k, answer.clone());
                            }
                            reply.send(answer);
                        }
                    }
                });
            }
            RetrieverMsg::Open(page, mut reply) => {
                tokio::spawn(async move {
                    tokio::select! {
                        biased;
                        () = reply.abandoned() => {}
                        answer = library.open(page) => reply.send(answer),
                    }
                });
            }
        }
        Ok(())
    }
}

impl Stage {
    /// Carries lookups out side by side. Returns their answers in order and how long the slowest was served, in
    /// milliseconds. A retriever that died is followed by another, who is asked again.
    pub async fn look_up(&self, lookups: Vec<Lookup>) -> (Vec<LookupAnswer>, u64) {
        let began_ms = self.clock.elapsed_ms();
        let answers = futures::future::join_all(lookups.into_iter().map(|lookup| self.look_up_one(lookup))).await;
        (answers, self.clock.elapsed_ms() - began_ms)
    }

    async fn look_up_one(&self, lookup: Lookup) -> LookupAnswer {
        let died =
            |answer: &LookupAnswer| matches!(answer, LookupAnswer::Failed(why) if why.kind == FailureKind::ActorDied);
        let mut answer = self.ask_retriever(&lookup).await;
        for _again in 1..LOOKUP_ATTEMPTS_MAX {
            if !died(&answer) {
                break;
            }
            answer = self.ask_retriever(&lookup).await;
        }
        self.board.tell(crate::board::BoardMsg::LookedUp);
        answer
    }

    async fn ask_retriever(&self, lookup: &Lookup) -> LookupAnswer {
        let timeout = self.lookup_timeout();
        let answer = match lookup {
            Lookup::Search { query, k } => {
                let asked = self.retriever.ask(timeout, |reply| RetrieverMsg::Search(query.clone(), *k, reply)).await;
                asked.and_then(|answer| answer).map(LookupAnswer::Found)
            }
            Lookup::Open(page) => {
                let asked = self.retriever.ask(timeout, |reply| RetrieverMsg::Open(page.clone(), reply)).await;
                asked.and_then(|answer| answer).map(LookupAnswer::Page)
            }
        };
        answer.unwrap_or_else(LookupAnswer::Failed)
    }
}
