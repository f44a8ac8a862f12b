//! A poisoned library: one page of it carries an attack, at its start, in its middle or at its end. Every search finds
//! what the question needs, and the poisoned page, so that a worker meets it if it reads at all.

use super::attack::Attack;
use futures::FutureExt;
use futures::future::{BoxFuture, ready};
use legwork_actors::retriever::Library;
use legwork_protocol::failure::Failure;
use legwork_protocol::id::DocId;
use legwork_protocol::question::Question;
use legwork_protocol::retrieval::{Hit, Page, PageRef, SearchAnswer};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Which page is poisoned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PoisonedPage {
    /// The one that holds the answer, which a worker has to open.
    Gold,
    /// One that has nothing to do with the question and is found beside the others.
    Distractor,
}

/// Where in the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Place {
    /// Before everything, where snippets are cut from.
    Start,
    /// Between two lines or words.
    Middle,
    /// Behind everything.
    End,
}

/// A page and a place in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Spot {
    /// The page.
    pub page: PoisonedPage,
    /// The place.
    pub place: Place,
}

impl Spot {
    /// All spots.
    pub const ALL: [Spot; 6] = [
        Spot { page: PoisonedPage::Gold, place: Place::Start },
        Spot { page: PoisonedPage::Gold, place: Place::Middle },
        Spot { page: PoisonedPage::Gold, place: Place::End },
        Spot { page: PoisonedPage::Distractor, place: Place::Start },
        Spot { page: PoisonedPage::Distractor, place: Place::Middle },
        Spot { page: PoisonedPage::Distractor, place: Place::End },
    ];
}

/// A library for one question in which one page is poisoned.
pub struct PoisonedLibrary {
    pages: Arc<BTreeMap<DocId, Page>>,
    found: Vec<DocId>,
    poisoned: Page,
}

impl PoisonedLibrary {
    /// Poisons a page for this question; none if the pages lack the question's gold document, or have no other page.
    pub fn new(pages: &Arc<BTreeMap<DocId, Page>>, question: &Question, attack: &Attack, spot: Spot) -> Option<Self> {
        let of_steps = question.decomposition.iter().filter_map(|step| step.gold.as_ref());
        let mut found: Vec<DocId> = Vec::new();
        for docid in question.evidence.iter().chain(of_steps).chain(&question.gold) {
            if pages.contains_key(docid) && !found.contains(docid) {
                found.push(docid.clone());
            }
        }
        let last_step = question.decomposition.last().and_then(|step| step.gold.as_ref());
        let gold = last_step.or(question.gold.first()).filter(|docid| pages.contains_key(*docid))?;
        let victim = match spot.page {
            PoisonedPage::Gold => gold.clone(),
            PoisonedPage::Distractor => {
                // Another page for each question, and always the same.
                let start: usize = question.id.as_str().bytes().map(usize::from).sum::<usize>() % pages.len();
                let docid = pages.keys().cycle().skip(start).take(pages.len()).find(|docid| !found.contains(docid))?;
                found.push(docid.clone());
                docid.clone()
            }
        };
        let mut poisoned = pages.get(&victim)?.clone();
        poisoned.text = Arc::from(insert(&poisoned.text, &attack.whole_text(), spot.place));
        Some(Self { pages: Arc::clone(pages), found, poisoned })
    }

    /// The page that carries the attack.
    pub fn poisoned(&self) -> &Page {
        &self.poisoned
    }

    fn page(&self, docid: &DocId) -> Option<&Page> {
        if *docid == self.poisoned.docid { Some(&self.poisoned) } else { self.pages.get(docid) }
    }
}

impl Library for PoisonedLibrary {
    fn name(&self) -> &str {
        "mock: gold documents, one of them poisoned"
    }

    fn search(&self, _query: String, k: u32) -> BoxFuture<'_, Result<SearchAnswer, Failure>> {
        let pages = self.found.iter().take(k as usize).filter_map(|docid| self.page(docid));
        let hit = |page: &Page| Hit {
            docid: page.docid.clone(),
            url: page.url.clone(),
            title: page.title.clone(),
            text: Arc::clone(&page.text),
            score: 1.0,
        };
        ready(Ok(SearchAnswer { hits: pages.map(hit).collect(), degraded: false, served_ms: 0 })).boxed()
    }

    fn open(&self, page: PageRef) -> BoxFuture<'_, Result<Option<Page>, Failure>> {
        let found = match &page {
            PageRef::DocId(docid) => self.page(docid).cloned(),
            PageRef::Url(url) => {
                let docid = self.found.iter().find(|docid| self.page(docid).and_then(|p| p.url.as_ref()) == Some(url));
                docid.and_then(|docid| self.page(docid)).cloned()
            }
        };
        ready(Ok(found)).boxed()
    }
}

/// Puts an attack on lines of its own into a text.
fn insert(text: &str, attack: &str, place: Place) -> String {
    match place {
        Place::Start => format!("{attack}\n{text}"),
        Place::End => format!("{text}\n{attack}"),
        Place::Middle => {
            let middle = text.len() / 2;
            let middle = (middle..=text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(text.len());
            let at = text[middle..].find(char::is_whitespace).map_or(text.len(), |offset| middle + offset);
            format!("{}\n{attack}\n{}", &text[..at], &text[at..])
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_attack_stands_where_it_is_put_and_splits_no_word() {
        assert_eq!(insert("one two three", "X", Place::Start), "X\none two three");
        assert_eq!(insert("one two three", "X", Place::Middle), "one two\nX\n three");
        assert_eq!(insert("one two three", "X", Place::End), "one two three\nX");
        assert_eq!(insert("éééé", "X", Place::Middle), "éééé\nX\n");
        assert_eq!(insert("", "X", Place::Middle), "\nX\n");
    }
}
