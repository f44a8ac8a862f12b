//! What a conversation shows of the way so far: what was searched, listed and opened, and which steps of the question the pages
//! that were opened answer. It refuses to know what is not in the conversation, but for how the question is taken apart.

use crate::mocks::keyed::query_of;
use legwork_protocol::id::DocId;
use legwork_protocol::message::{Message, Role};
use legwork_protocol::question::{Question, Stated, Step};
use std::sync::Arc;

/// An entry of a search.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Listed {
    pub(super) docid: String,
    pub(super) title: String,
}

/// A page that was opened.
#[derive(Debug)]
struct Page {
    docid: String,
    title: String,
    text: String,
}

/// A step that a page answers.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Found {
    pub(super) title: String,
    /// What of the page says so, as far as the world knows.
    pub(super) stated: Stated,
}

/// The way so far.
#[derive(Debug, Default)]
pub(super) struct Trail {
    /// What answers the first steps, in the steps' order.
    pub(super) found: Vec<Found>,
    /// How many steps were answered before the last observation.
    pub(super) found_before: usize,
    /// The page that the last observation shows, if it shows one.
    pub(super) opened_now: Option<Listed>,
    /// Every query.
    pub(super) queries: Vec<String>,
    /// What the last search listed.
    pub(super) listed: Vec<Listed>,
    /// Searches since the step became the one to answer.
    pub(super) searches_for_step: usize,
    /// Pages opened since the last search.
    pub(super) opened_since_search: usize,
    pages: Vec<Page>,
}

impl Trail {
    pub(super) fn read(messages: &[Arc<Message>], question: &Question) -> Self {
        let mut trail = Trail::default();
        for message in messages.iter().skip(2) {
            match message.role {
                Role::Assistant => trail.asked(&message.content),
                _ => trail.observed(&message.content, question),
            }
        }
        trail
    }

    /// Whether the page that was opened last shows a sentence.
    pub(super) fn shows(&self, sentence: &str) -> bool {
        self.pages.last().is_some_and(|page| page.text.contains(sentence))
    }

    pub(super) fn is_opened(&self, docid: &str) -> bool {
        self.pages.iter().any(|page| page.docid == docid)
    }

    fn asked(&mut self, said: &str) {
        if let Some(query) = query_of(said) {
            self.queries.push(query);
            self.searches_for_step += 1;
            self.opened_since_search = 0;
        }
    }

    fn observed(&mut self, text: &str, question: &Question) {
        (self.found_before, self.opened_now) = (self.found.len(), None);
        let entries = entries(text);
        if text.contains("[Opened Page Content]") {
            let Some(entry) = entries.into_iter().next() else { return };
            self.opened_since_search += 1;
            self.opened_now = Some(entry.clone());
            self.pages.push(Page { docid: entry.docid, title: entry.title, text: text.to_owned() });
            self.look_through(question);
        } else if text.contains("[Search Results for") {
            self.listed = entries;
        }
    }

    /// Takes every page that was opened for each step that is still open, in the steps' order.
    fn look_through(&mut self, question: &Question) {
        while let Some(step) = question.decomposition.get(self.found.len()) {
            let at = self.found.len();
            let Some(page) = self.pages.iter().find(|page| says(page, question, at, step)) else { return };
            let stated = step.stated.iter().find(|stated| stated.docid.as_str() == page.docid);
            let unknown = || Stated { docid: DocId::new(page.docid.as_str()), sentences: Vec::new() };
            self.found.push(Found { title: page.title.clone(), stated: stated.cloned().unwrap_or_else(unknown) });
            self.searches_for_step = 0;
        }
    }
}

/// Whether a page can be seen to answer a step: it has the answer's words and is one that states the step; where the world does
/// not know which do, it is the document that the step names, or has the names that the step asks with as well.
fn says(page: &Page, question: &Question, at: usize, step: &Step) -> bool {
    if !page.text.contains(&step.answer) {
        return false;
    }
    if !step.stated.is_empty() {
        return step.stated.iter().any(|stated| {
            let are_shown = stated.sentences.iter().all(|sentence| page.text.contains(sentence.as_str()));
            stated.docid.as_str() == page.docid && are_shown
        });
    }
    let is_stated = step.gold.as_ref().is_some_and(|gold| gold.as_str() == page.docid);
    let mut asked_with = (0..at)
        .filter(|earlier| step.question.contains(&format!("#{}", earlier + 1)))
        .map(|earlier| &question.decomposition[earlier].answer)
        .peekable();
    is_stated || (asked_with.peek().is_some() && asked_with.all(|name| page.text.contains(name.as_str())))
}

/// The entries of an observation: a docid, and the title where there is one.
fn entries(text: &str) -> Vec<Listed> {
    let mut entries: Vec<Listed> = Vec::new();
    for line in text.lines() {
        if let Some(docid) = line.strip_prefix("docid: ") {
            entries.push(Listed { docid: docid.trim().to_owned(), title: String::new() });
        } else if let (Some(title), Some(last)) = (line.strip_prefix("title: "), entries.last_mut())
            && last.title.is_empty()
        {
            last.title = title.trim().to_owned();
        }
    }
    // A title that is nothing would be found in every question.
    entries.iter_mut().filter(|entry| entry.title.is_empty()).for_each(|entry| entry.title.clone_from(&entry.docid));
    entries
}
