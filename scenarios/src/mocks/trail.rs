//! A worker's model that has the answer key of a real corpus and still goes the way that a worker could go: it looks for each
//! document that a question needs by what the question and the opened pages say, opens it where the library shows it, and answers
//! once it has read them all. It makes rows to train on; of a document that is not found it says so, and such an episode is no row.

use super::keyed::{asked, brief_of, by_text, completed, finish, query_of};
use futures::FutureExt;
use futures::future::BoxFuture;
use legwork_endpoints::{Endpoint, Tally};
use legwork_protocol::call::{Call, Grammar};
use legwork_protocol::failure::Failure;
use legwork_protocol::generation::{Completion, GenerateRequest};
use legwork_protocol::id::DocId;
use legwork_protocol::message::{Message, Role};
use legwork_protocol::question::{Question, Step};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What it answers where the trail is lost.
const UNKNOWN: &str = "unknown";

/// The mock model.
pub struct TrailModel {
    grammar: Grammar,
    questions: BTreeMap<String, Arc<Question>>,
    titles: BTreeMap<DocId, String>,
}

impl TrailModel {
    /// A model with these questions' key, found again in a brief by their text, and the titles of their documents.
    pub fn new(
        grammar: Grammar,
        questions: &[Arc<Question>],
        titles: impl IntoIterator<Item = (DocId, String)>,
    ) -> Self {
        Self { grammar, questions: by_text(questions), titles: titles.into_iter().collect() }
    }

    fn turn(&self, messages: &[Arc<Message>]) -> String {
        let Some(question) = self.questions.get(brief_of(messages)) else {
            return self.say("This is not one of my questions.", finish(UNKNOWN, "not one of my questions", 0));
        };
        let legs = self.legs(question);
        let seen = Seen::read(messages);
        let read = |leg: &&Leg<'_>| seen.has_opened(leg.gold);
        let known: Vec<String> = legs.iter().filter(read).filter_map(|leg| fact(question, leg)).collect();
        let known = known.join(" ");
        let Some(leg) = self.next_leg(&legs, question, &seen) else {
            let sources: Vec<String> = seen.opened.iter().map(|docid| format!("[{docid}]")).collect();
            let answer = question.answers.first().map_or(UNKNOWN, String::as_str);
            let thought = format!("{known} The answer is {answer}.");
            return self.say(thought.trim(), finish(answer, &format!("read in {}", sources.join(" ")), 90));
        };
        if seen.listed_last.iter().any(|docid| docid == leg.gold.as_str()) {
            let title = self.title(leg.gold);
            return self.say(&format!("{title} may say it."), Call::new("open_page", [("docid", leg.gold.as_str())]));
        }
        let untried = self.queries(leg, question, &seen).into_iter().find(|query| !seen.queries.contains(query));
        match untried {
            Some(query) => {
                self.say(format!("{known} Next: {query}.").trim(), Call::new("search", [("query", query.as_str())]))
            }
            None => self.say("It cannot be found.", finish(UNKNOWN, "a document that is needed was not found", 0)),
        }
    }

    /// The documents needed, in order: those of the steps, then those that no step names.
    fn legs<'q>(&self, question: &'q Question) -> Vec<Leg<'q>> {
        let mut legs: Vec<Leg<'q>> = Vec::new();
        let steps = question.decomposition.iter().enumerate();
        let of_steps =
            steps.filter_map(|(place, step)| Some(Leg { gold: step.gold.as_ref()?, step: Some((place, step)) }));
        let of_documents = question.evidence.iter().chain(&question.gold).map(|gold| Leg { gold, step: None });
        for leg in of_steps.chain(of_documents) {
            if !legs.iter().any(|known| known.gold == leg.gold) {
                legs.push(leg);
            }
        }
        legs
    }

    /// Steps in their order; of documents without a step, first one whose title has been read somewhere.
    fn next_leg<'l, 'q>(&self, legs: &'l [Leg<'q>], question: &Question, seen: &Seen) -> Option<&'l Leg<'q>> {
        let mut left = legs.iter().filter(|leg| !seen.has_opened(leg.gold));
        let first = left.next()?;
        if first.step.is_some() {
            return Some(first);
        }
        let is_named = |leg: &&Leg<'_>| self.named(leg.gold, question, seen).is_some();
        Some(legs.iter().filter(|leg| !seen.has_opened(leg.gold)).find(is_named).unwrap_or(first))
    }

    /// What may be asked for a document, best first. A title only where the question or an opened page names it: an oracle that
    /// knew more than a worker can would teach guessing.
    fn queries(&self, leg: &Leg<'_>, question: &Question, seen: &Seen) -> Vec<String> {
        let step = leg.step.map(|(place, _)| words_of(question, place));
        let title = self.named(leg.gold, question, seen);
        step.into_iter().chain(title).chain([question.text.clone()]).collect()
    }

    /// The title, without what stands in brackets behind it, if it has been read.
    fn named(&self, docid: &DocId, question: &Question, seen: &Seen) -> Option<String> {
        let title = bare(self.titles.get(docid)?);
        let lower = title.to_lowercase();
        let is_read =
            !lower.is_empty() && (question.text.to_lowercase().contains(&lower) || seen.pages.contains(&lower));
        is_read.then_some(title.to_owned())
    }

    fn title<'a>(&'a self, docid: &'a DocId) -> &'a str {
        self.titles.get(docid).map(String::as_str).filter(|title| !title.is_empty()).unwrap_or(docid.as_str())
    }

    fn say(&self, thought: &str, call: Call) -> String {
        format!("<think>{thought}</think>\n\n{}", self.grammar.render(&[call]))
    }
}

/// A document that is needed, and the step that needs it.
struct Leg<'q> {
    gold: &'q DocId,
    step: Option<(usize, &'q Step)>,
}

/// What the conversation shows.
#[derive(Debug, Default)]
struct Seen {
    queries: Vec<String>,
    opened: Vec<String>,
    listed_last: Vec<String>,
    /// All opened pages, in lower case.
    pages: String,
}

impl Seen {
    fn read(messages: &[Arc<Message>]) -> Self {
        let mut seen = Seen::default();
        for message in messages.iter().skip(2) {
            if message.role == Role::Assistant {
                seen.queries.extend(query_of(&message.content));
                continue;
            }
            let docids = message.content.lines().filter_map(|line| line.strip_prefix("docid: "));
            let docids: Vec<String> = docids.map(|docid| docid.trim().to_owned()).collect();
            if message.content.contains("[Opened Page Content]") {
                seen.opened.extend(docids);
                seen.pages.push_str(&message.content.to_lowercase());
            } else if !docids.is_empty() {
                seen.listed_last = docids;
            }
        }
        seen
    }

    fn has_opened(&self, docid: &DocId) -> bool {
        self.opened.iter().any(|opened| opened == docid.as_str())
    }
}

impl Endpoint for TrailModel {
    fn name(&self) -> &str {
        "mock: trail"
    }

    fn generate(&self, request: GenerateRequest) -> BoxFuture<'_, Result<Completion, Failure>> {
        let text = self.turn(&request.messages);
        futures::future::ready(Ok(completed(&request, text))).boxed()
    }

    fn tally(&self) -> Tally {
        Tally::default()
    }
}

/// A step's question as words to look for, without the `>>` that some sets write between a thing and what is asked of it.
fn words_of(question: &Question, step: usize) -> String {
    asked(question, step).replace(">>", " ").split_whitespace().collect::<Vec<_>>().join(" ")
}

/// What the page of a step has told.
fn fact(question: &Question, leg: &Leg<'_>) -> Option<String> {
    let (place, step) = leg.step?;
    Some(format!("{}: {}.", words_of(question, place).trim_end_matches(['?', ' ']), step.answer))
}

/// `Conus` of `Conus (gastropod)`.
fn bare(title: &str) -> &str {
    title.split(" (").next().unwrap_or(title).trim()
}

#[cfg(test)]
mod tests {
    use super::*;
    use legwork_protocol::id::QuestionId;

    fn step(question: &str, answer: &str, gold: &str) -> Step {
        Step {
            question: question.to_owned(),
            answer: answer.to_owned(),
            gold: Some(DocId::from(gold)),
            stated: Vec::new(),
            topics: Vec::new(),
        }
    }

    fn question(decomposition: Vec<Step>) -> Question {
        Question {
            id: QuestionId::from("q"),
            text: "Who is married to the performer of Green?".to_owned(),
            answers: vec!["Miquette Giraudy".to_owned()],
            tier: "easy".to_owned(),
            gold: Vec::new(),
            evidence: vec![DocId::from("w1"), DocId::from("w2")],
            decomposition,
        }
    }

    fn model(question: Question) -> TrailModel {
        let titles =
            [("w1", "Green (album)"), ("w2", "Steve Hillage")].map(|(id, title)| (DocId::from(id), title.to_owned()));
        TrailModel::new(Grammar::Strict, &[Arc::new(question)], titles)
    }

    /// The calls' arguments that the model makes over what it is shown, until it has seen all.
    fn walk(model: &TrailModel, observations: &[&str]) -> Vec<String> {
        let message = |role, text: &str| Arc::new(Message::new(role, text));
        let mut messages = vec![
            message(Role::System, "orders"),
            message(Role::User, "Brief:\nWho is married to the performer of Green?"),
        ];
        let mut said = Vec::new();
        for observation in observations.iter().map(Some).chain([None]) {
            let text = model.turn(&messages);
            let reading = Grammar::Strict.read(&text, &[]);
            let first = ["query", "docid", "answer"].into_iter().find_map(|name| reading.calls[0].argument(name));
            said.push(first.unwrap_or_default().to_owned());
            if let Some(observation) = observation {
                messages.push(message(Role::Assistant, &text));
                messages.push(message(Role::User, observation));
            }
        }
        said
    }

    const FIRST: &str =
        "[Search Results for \"x\"]\n\n--- #1: w1---\ndocid: w1\ntitle: Green (album)\ncontent: an album\n";
    const PAGE: &str = "[Opened Page Content]\ndocid: w1\ncontent: Green is an album by Steve Hillage.\n";
    const SECOND: &str =
        "[Search Results for \"y\"]\n\n--- #1: w2---\ndocid: w2\ntitle: Steve Hillage\ncontent: a musician\n";
    const LAST: &str = "[Opened Page Content]\ndocid: w2\ncontent: He is married to Miquette Giraudy.\n";

    #[test]
    fn steps_are_followed_with_the_answers_of_earlier_ones() {
        let steps =
            vec![step("Green >> performer", "Steve Hillage", "w1"), step("#1 >> spouse", "Miquette Giraudy", "w2")];
        let said = walk(&model(question(steps)), &[FIRST, PAGE, SECOND, LAST]);
        assert_eq!(said, ["Green performer", "w1", "Steve Hillage spouse", "w2", "Miquette Giraudy"]);
    }

    #[test]
    fn without_steps_titles_are_asked_for_once_they_have_been_read() {
        let said = walk(&model(question(Vec::new())), &[FIRST, PAGE, SECOND, LAST]);
        assert_eq!(said, ["Green", "w1", "Steve Hillage", "w2", "Miquette Giraudy"]);
    }

    #[test]
    fn a_title_that_nobody_could_know_is_not_asked_for_and_a_lost_trail_is_said() {
        let nothing = "[Search Results for \"x\"]\nNothing was found.\n";
        let no_names = "[Opened Page Content]\ndocid: w1\ncontent: An album.\n";
        let text = "Who is married to the performer of Green?";
        let said = walk(&model(question(Vec::new())), &[FIRST, no_names, nothing]);
        assert_eq!(said, ["Green", "w1", text, UNKNOWN]);
    }

    #[test]
    fn a_step_that_is_not_found_is_asked_for_in_other_words() {
        let nothing = "[Search Results for \"x\"]\nNothing was found.\n";
        let steps = vec![step("Green >> performer", "Steve Hillage", "w1")];
        let said = walk(&model(question(steps)), &[nothing, nothing, FIRST]);
        assert_eq!(said, ["Green performer", "Green", "Who is married to the performer of Green?", "w1"]);
    }
}
