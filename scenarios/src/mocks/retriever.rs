//! A retriever without a library: a rule from lookup to answer, in the place of the real actor.

use legwork_actors::cast::{SharedRole, role};
use legwork_actors::retriever::RetrieverMsg;
use legwork_actors::stage::Stage;
use legwork_protocol::failure::Failure;
use legwork_protocol::retrieval::{Page, PageRef, SearchAnswer};
use ractor::{Actor, ActorProcessingErr, ActorRef};
use std::sync::Arc;

type Search = dyn Fn(&str, u32) -> Result<SearchAnswer, Failure> + Send + Sync;
type Open = dyn Fn(&PageRef) -> Result<Option<Page>, Failure> + Send + Sync;

/// Answers every lookup by its rules, at once.
#[derive(Clone)]
pub struct MockRetriever {
    search: Arc<Search>,
    open: Arc<Open>,
}

impl MockRetriever {
    /// A retriever that searches and opens by these rules.
    pub fn new(
        search: impl Fn(&str, u32) -> Result<SearchAnswer, Failure> + Send + Sync + 'static,
        open: impl Fn(&PageRef) -> Result<Option<Page>, Failure> + Send + Sync + 'static,
    ) -> Self {
        Self { search: Arc::new(search), open: Arc::new(open) }
    }

    /// A retriever that finds nothing and has no page.
    pub fn empty() -> Self {
        Self::new(|_, _| Ok(SearchAnswer::default()), |_| Ok(None))
    }

    /// The role that it plays: `cast.retriever = mock.role()`.
    pub fn role(&self) -> SharedRole<RetrieverMsg> {
        let mock = self.clone();
        role("mock: retriever by a rule", move |_stage: Arc<Stage>| (mock.clone(), ()))
    }
}

impl Actor for MockRetriever {
    type Msg = RetrieverMsg;
    type State = ();
    type Arguments = ();

    async fn pre_start(&self, _myself: ActorRef<RetrieverMsg>, (): ()) -> Result<(), ActorProcessingErr> {
        Ok(())
    }

    async fn handle(
        &self,
        _myself: ActorRef<RetrieverMsg>,
        message: RetrieverMsg,
        (): &mut (),
    ) -> Result<(), ActorProcessingErr> {
        match message {
            RetrieverMsg::Search(query, k, reply) => reply.send((self.search)(&query, k)),
            RetrieverMsg::Open(page, reply) => reply.send((self.open)(&page)),
        }
        Ok(())
    }
}
