//! A worker's model whose conversations are worth learning from: it knows how a question is taken apart, and nothing else that
//! its conversation does not show. It plans aloud, searches step by step, opens what is listed by what can be seen of it, takes
//! for an answer only what stands on a page that it has opened, and quotes it before it goes on.
//!
//! It refuses to know dice: the same conversation has the same next turn.

mod trail;

use super::keyed::{asked, brief_of, by_text, completed, finish};
use futures::FutureExt;
use futures::future::BoxFuture;
use legwork_endpoints::{Endpoint, Tally};
use legwork_protocol::call::{Call, Grammar};
use legwork_protocol::failure::Failure;
use legwork_protocol::generation::{Completion, GenerateRequest};
use legwork_protocol::id::DocId;
use legwork_protocol::message::Message;
use legwork_protocol::question::Question;
use legwork_worlds::telling::{Reading, Telling, asked_of, read, said};
use std::collections::BTreeMap;
use std::sync::Arc;
use trail::{Listed, Trail};

/// Pages of one search that are opened before it is put in other words.
const OPENED_PER_SEARCH_MAX: usize = 3;
/// Searches for one step before it is given up.
const SEARCHES_PER_STEP_MAX: usize = 4;
/// How sure it is of what it read, of a hundred.
const READ_CONFIDENCE: u32 = 90;
/// How sure it is of a guess.
const GUESS_CONFIDENCE: u32 = 10;

/// The mock model.
pub struct TeacherModel {
    grammar: Grammar,
    questions: BTreeMap<String, Arc<Question>>,
    told: BTreeMap<DocId, Telling>,
}

impl TeacherModel {
    /// A model that knows how these questions are taken apart, which it finds again in a brief by their text, and which sentences
    /// of a page are to be quoted.
    pub fn new(grammar: Grammar, questions: &[Arc<Question>], told: BTreeMap<DocId, Telling>) -> Self {
        Self { grammar, questions: by_text(questions), told }
    }

    fn turn(&self, messages: &[Arc<Message>]) -> String {
        let Some(question) = self.questions.get(brief_of(messages)) else {
            return self.say("I know nothing of this.", finish("unknown", "not one of my questions", 0));
        };
        let trail = Trail::read(messages, question);
        let told_to_wrap_up = messages.last().is_some_and(|message| message.content.contains("this is your last turn"));
        let mut thought = if messages.len() <= 2 { plan(question) } else { learned(&trail, question, &self.told) };
        let mut then = |text: String| {
            if !thought.is_empty() {
                thought.push(' ');
            }
            thought.push_str(&text);
        };
        if trail.found.len() == question.decomposition.len() {
            then("Done.".to_owned());
            return self.say(&thought, trail_report(&trail, question, READ_CONFIDENCE));
        }
        let step = trail.found.len();
        let next = match told_to_wrap_up {
            true => None,
            false => next_page(&trail, question).or_else(|| next_search(&trail, question)),
        };
        match next {
            Some(call) => {
                then(format!("#{}?", step + 1));
                self.say(&thought, call)
            }
            None => {
                then(format!("#{} is not to be found.", step + 1));
                self.say(&thought, trail_report(&trail, question, GUESS_CONFIDENCE))
            }
        }
    }

    fn say(&self, thought: &str, call: Call) -> String {
        format!("<think>{thought}</think>\n\n{}", self.grammar.render(&[call]))
    }
}

impl Endpoint for TeacherModel {
    fn name(&self) -> &str {
        "mock: teacher"
    }

    fn generate(&self, request: GenerateRequest) -> BoxFuture<'_, Result<Completion, Failure>> {
        let text = self.turn(&request.messages);
        futures::future::ready(Ok(completed(&request, text))).boxed()
    }

    fn tally(&self) -> Tally {
        Tally::default()
    }
}

/// The steps of a question, in plain words, each with `#n` for what step n finds.
fn plan(question: &Question) -> String {
    let steps = question.decomposition.iter().enumerate();
    steps.map(|(at, step)| format!("{}. {}", at + 1, step.question)).collect::<Vec<_>>().join(" ")
}

/// What the last observation has brought: what was asked of which page, the sentences that say it or say it of something else, and
/// the answer.
fn learned(trail: &Trail, question: &Question, told: &BTreeMap<DocId, Telling>) -> String {
    let mut lines: Vec<String> = Vec::new();
    for (step, found) in trail.found.iter().enumerate().skip(trail.found_before) {
        let asked_of = asked_of(&asked(question, step), &found.title, told.get(&found.stated.docid));
        let said = said(&Reading::States(&found.stated), step, &question.decomposition[step].answer);
        lines.push(format!("{asked_of} {said}"));
    }
    if let (Some(page), true) = (&trail.opened_now, lines.is_empty()) {
        let step = trail.found.len();
        let docid = DocId::new(page.docid.as_str());
        let telling = told.get(&docid);
        let reading = question.decomposition.get(step).map_or(Reading::Nothing, |step| read(step, &docid, telling));
        let reading = match reading {
            Reading::Near(sentences) if sentences.iter().all(|sentence| trail.shows(sentence)) => {
                Reading::Near(sentences)
            }
            // It states the step in a part that is not shown.
            _ => Reading::Nothing,
        };
        lines.push(format!("{} {}", asked_of(&asked(question, step), &page.title, telling), said(&reading, step, "")));
    }
    lines.join(" ")
}

/// A page of the last search that was not opened yet: one whose title the step names, or else the first that is listed.
fn next_page(trail: &Trail, question: &Question) -> Option<Call> {
    let step = trail.found.len();
    if trail.searches_for_step == 0 || trail.opened_since_search >= OPENED_PER_SEARCH_MAX {
        return None;
    }
    let asked = asked(question, step);
    let named = |listed: &&&Listed| asked.contains(&listed.title);
    let unopened: Vec<&Listed> = trail.listed.iter().filter(|listed| !trail.is_opened(&listed.docid)).collect();
    let chosen = unopened.iter().find(named).or(unopened.first())?;
    Some(Call::new("open_page", [("docid", chosen.docid.as_str())]))
}

/// The next wording of the step that was not searched for yet.
fn next_search(trail: &Trail, question: &Question) -> Option<Call> {
    if trail.searches_for_step >= SEARCHES_PER_STEP_MAX {
        return None;
    }
    let wordings = wordings(question, trail.found.len());
    let query = wordings.iter().find(|wording| !trail.queries.contains(wording))?;
    Some(Call::new("search", [("query", query.as_str())]))
}

/// A step as a query: as it is asked, by the names in it alone, without its last condition, without what it asks for.
fn wordings(question: &Question, step: usize) -> Vec<String> {
    let asked = asked(question, step);
    let bare = asked.trim_end_matches('?');
    let names: Vec<&str> =
        bare.split_whitespace().skip(1).filter(|word| word.starts_with(char::is_uppercase)).collect();
    let mut wordings = vec![asked.clone()];
    if !names.is_empty() {
        wordings.push(names.join(" "));
    }
    wordings.extend(bare.rfind(" and ").map(|at| bare[..at].to_owned()));
    let words: Vec<&str> = bare.split_whitespace().collect();
    if words.len() > 4 {
        wordings.push(words[2..].join(" "));
    }
    wordings
}

/// The end of a trail: the last answer, and the pages that say each of them.
fn trail_report(trail: &Trail, question: &Question, confidence: u32) -> Call {
    let answer = |step: usize| question.decomposition[step].answer.as_str();
    let last = trail.found.len().checked_sub(1).map_or("unknown", answer);
    let steps: Vec<String> = trail
        .found
        .iter()
        .enumerate()
        .map(|(step, found)| format!("{} [{}]", answer(step), found.stated.docid))
        .collect();
    let explanation = if steps.is_empty() { "nothing was found".to_owned() } else { steps.join("; ") };
    finish(last, &explanation, confidence)
}

#[cfg(test)]
mod tests;
