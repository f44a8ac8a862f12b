//! Libraries that hold no index: one whose answers all have the same size, and one that always finds what a
//! question needs.

use futures::FutureExt;
use futures::future::BoxFuture;
use legwork_actors::retriever::Library;
use legwork_protocol::failure::Failure;
use legwork_protocol::id::DocId;
use legwork_protocol::question::Question;
use legwork_protocol::retrieval::{Hit, Page, PageRef, SearchAnswer};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Every search finds the same documents.
pub struct FixedLibrary {
    hits: Vec<Hit>,
}

impl FixedLibrary {
    /// A library whose observations are about `bytes` long, in `entries` entries.
    pub fn of_size(entries: usize, bytes: usize) -> Self {
        let words = "lorem ".repeat((bytes / entries.max(1)).saturating_sub(60) / 6);
        let text: Arc<str> = Arc::from(words.trim_end());
        let hit = |place: usize| Hit {
            docid: DocId::new(format!("d{place}")),
            url: None,
            title: None,
            text: Arc::clone(&text),
            score: 1.0 / (1 + place) as f64,
        };
        Self { hits: (0..entries.max(1)).map(hit).collect() }
    }
}

impl Library for FixedLibrary {
    fn name(&self) -> &str {
        "mock: the same documents for every query"
    }

    fn search(&self, _query: String, k: u32) -> BoxFuture<'_, Result<SearchAnswer, Failure>> {
        let hits = self.hits.iter().take(k as usize).cloned().collect();
        futures::future::ready(Ok(SearchAnswer { hits, degraded: false, served_ms: 0 })).boxed()
    }

    fn open(&self, page: PageRef) -> BoxFuture<'_, Result<Option<Page>, Failure>> {
        let found = self.hits.iter().find(|hit| matches!(&page, PageRef::DocId(docid) if *docid == hit.docid));
        let page =
            found.map(|hit| Page { docid: hit.docid.clone(), url: None, title: None, text: Arc::clone(&hit.text) });
        futures::future::ready(Ok(page)).boxed()
    }
}

/// Every search whose query stands in a question's text or steps finds that question's evidence: an upper bound on
/// any retriever.
pub struct GoldLibrary {
    pages: BTreeMap<DocId, Page>,
    questions: Vec<Question>,
}

impl GoldLibrary {
    /// A library over these pages that knows these questions.
    pub fn new(pages: impl IntoIterator<Item = Page>, questions: Vec<Question>) -> Self {
        Self { pages: pages.into_iter().map(|page| (page.docid.clone(), page)).collect(), questions }
    }
}

impl Library for GoldLibrary {
    fn name(&self) -> &str {
        "mock: gold documents"
    }

    fn search(&self, query: String, k: u32) -> BoxFuture<'_, Result<SearchAnswer, Failure>> {
        let asked = |question: &&Question| {
            question.text.contains(&query)
                || query.contains(&question.text)
                || question.decomposition.iter().any(|step| query.contains(&step.question))
        };
        let docids =
            self.questions.iter().filter(asked).flat_map(|question| question.evidence.iter().chain(&question.gold));
        let mut hits: Vec<Hit> = Vec::new();
        for docid in docids {
            if hits.iter().any(|hit| hit.docid == *docid) || hits.len() >= k as usize {
                continue;
            }
            if let Some(page) = self.pages.get(docid) {
                let (docid, text) = (page.docid.clone(), Arc::clone(&page.text));
                hits.push(Hit { docid, url: page.url.clone(), title: page.title.clone(), text, score: 1.0 });
            }
        }
        futures::future::ready(Ok(SearchAnswer { hits, degraded: false, served_ms: 0 })).boxed()
    }

    fn open(&self, page: PageRef) -> BoxFuture<'_, Result<Option<Page>, Failure>> {
        let found = match &page {
            PageRef::DocId(docid) => self.pages.get(docid).cloned(),
            PageRef::Url(url) => self.pages.values().find(|page| page.url.as_ref() == Some(url)).cloned(),
        };
        futures::future::ready(Ok(found)).boxed()
    }
}
