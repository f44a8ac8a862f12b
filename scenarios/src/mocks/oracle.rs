//! A worker's model that knows how each question is solved and still has to find it: it searches for every step of
//! the known solution, opens the document that holds it if the retriever shows it, and slips now and then by a
//! seeded rule. Its scores say something of grammar, budgets and retrieval, and nothing of any language model.

use super::keyed::{asked, brief_of, by_text, completed, finish, query_of};
use futures::FutureExt;
use futures::future::BoxFuture;
use legwork_endpoints::{Endpoint, Tally};
use legwork_protocol::call::{Call, Grammar};
use legwork_protocol::failure::Failure;
use legwork_protocol::generation::{Completion, GenerateRequest};
use legwork_protocol::message::{Message, Role};
use legwork_protocol::question::{Question, Step};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// How often the mock does the right thing, each between 0 and 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Skill {
    /// Opens the right one of the documents shown.
    pub notices: f64,
    /// Reads the step's answer off the opened document.
    pub reads: f64,
    /// Writes a call that can be read.
    pub well_formed: f64,
    /// Searches for one step before it gives up.
    pub searches_per_step: u32,
}

impl Skill {
    /// A worker before training.
    pub const NOVICE: Skill = Skill { notices: 0.72, reads: 0.88, well_formed: 0.9, searches_per_step: 2 };
    /// A worker after training.
    pub const TRAINED: Skill = Skill { notices: 0.9, reads: 0.96, well_formed: 0.985, searches_per_step: 4 };
    /// A worker that never slips.
    pub const PERFECT: Skill = Skill { notices: 1.0, reads: 1.0, well_formed: 1.0, searches_per_step: 5 };
}

/// The mock model.
pub struct OracleModel {
    name: String,
    grammar: Grammar,
    skill: Skill,
    latency: Duration,
    questions: BTreeMap<String, Arc<Question>>,
}

impl OracleModel {
    /// A model that knows these questions, found again in a brief by their text.
    pub fn new(name: &str, grammar: Grammar, skill: Skill, latency: Duration, questions: &[Arc<Question>]) -> Self {
        Self { name: format!("mock: {name}"), grammar, skill, latency, questions: by_text(questions) }
    }

    fn question(&self, brief: &str) -> Option<&Arc<Question>> {
        self.questions.get(brief).or_else(|| self.questions.values().find(|question| brief.contains(&question.text)))
    }

    fn turn(&self, messages: &[Arc<Message>], seed: u64) -> String {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let told_to_wrap_up = messages.last().is_some_and(|message| message.content.contains("this is your last turn"));
        let Some(question) = self.question(brief_of(messages)) else {
            return self.say("I know nothing of this.", finish("unknown", "not one of my questions", 0));
        };
        let progress = Progress::read(messages, question);
        if rng.random::<f64>() >= self.skill.well_formed && !told_to_wrap_up {
            return "<think>Let me see.</think>\n<function=search>\n<parameter=query>cut off in the mid".to_owned();
        }
        let step = progress.next_step(question);
        match step {
            None => {
                let last = question.decomposition.last();
                let answer = match last {
                    Some(step) if rng.random::<f64>() < self.skill.reads => step.answer.clone(),
                    _ => progress.last_answer(question),
                };
                let sources = progress.opened.join(", ");
                self.say("The trail ends here.", finish(&answer, &format!("read in [{sources}]"), 90))
            }
            Some(_) if told_to_wrap_up => self.say(
                "No budget left.",
                finish(&progress.last_answer(question), "a guess; the trail was not followed to its end", 10),
            ),
            Some((place, step)) => self.pursue(&progress, question, place, step, &mut rng),
        }
    }

    fn pursue(
        &self,
        progress: &Progress,
        question: &Question,
        place: usize,
        step: &Step,
        rng: &mut ChaCha8Rng,
    ) -> String {
        let gold = step.gold.as_ref().map(|docid| docid.as_str()).unwrap_or_default();
        let thought = format!("Step {} of {}.", place + 1, question.decomposition.len());
        if progress.listed_last.iter().any(|docid| docid == gold) {
            if rng.random::<f64>() < self.skill.notices {
                return self.say(&thought, Call::new("open_page", [("docid", gold)]));
            }
            let others: Vec<&String> = progress.listed_last.iter().filter(|docid| *docid != gold).collect();
            if !others.is_empty() {
                let other = others[rng.random_range(0..others.len())];
                return self.say(&thought, Call::new("open_page", [("docid", other.as_str())]));
            }
        }
        let query = asked(question, place);
        let tried =
            progress.queries.iter().filter(|asked| asked.starts_with(&query) || query.starts_with(*asked)).count();
        if tried >= self.skill.searches_per_step as usize {
            let guess = progress.last_answer(question);
            return self.say(&thought, finish(&guess, "the next step could not be found", 20));
        }
        // The same words again would find the same: each further try drops the first words of the query.
        let words: Vec<&str> = query.split_whitespace().collect();
        let query = words[(tried * 3).min(words.len().saturating_sub(3))..].join(" ");
        self.say(&thought, Call::new("search", [("query", query.as_str())]))
    }

    fn say(&self, thought: &str, call: Call) -> String {
        format!("<think>{thought}</think>\n\n{}", self.grammar.render(&[call]))
    }
}

impl Endpoint for OracleModel {
    fn name(&self) -> &str {
        &self.name
    }

    fn generate(&self, request: GenerateRequest) -> BoxFuture<'_, Result<Completion, Failure>> {
        async move {
            if !self.latency.is_zero() {
                tokio::time::sleep(self.latency).await;
            }
            let text = self.turn(&request.messages, request.sampling.seed.unwrap_or_default());
            let served_ms = u64::try_from(self.latency.as_millis()).unwrap_or(u64::MAX);
            Ok(Completion { served_ms, ..completed(&request, text) })
        }
        .boxed()
    }

    fn tally(&self) -> Tally {
        Tally::default()
    }
}

/// What the conversation shows of the way so far.
#[derive(Debug, Default)]
struct Progress {
    queries: Vec<String>,
    opened: Vec<String>,
    listed_last: Vec<String>,
}

impl Progress {
    fn read(messages: &[Arc<Message>], _question: &Question) -> Self {
        let mut progress = Progress::default();
        for message in messages.iter().skip(2) {
            if message.role == Role::Assistant {
                progress.queries.extend(query_of(&message.content));
                continue;
            }
            let docids: Vec<String> = message
                .content
                .lines()
                .filter_map(|line| line.strip_prefix("docid: "))
                .map(|id| id.trim().to_owned())
                .collect();
            if message.content.contains("[Opened Page Content]") {
                progress.opened.extend(docids);
            } else if !docids.is_empty() {
                progress.listed_last = docids;
            }
        }
        progress
    }

    /// The first step whose document has not been opened.
    fn next_step<'a>(&self, question: &'a Question) -> Option<(usize, &'a Step)> {
        let opened =
            |step: &Step| step.gold.as_ref().is_none_or(|docid| self.opened.iter().any(|id| id == docid.as_str()));
        question.decomposition.iter().enumerate().find(|(_, step)| !opened(step))
    }

    /// The answer of the last step that is known: a plausible wrong answer to the question.
    fn last_answer(&self, question: &Question) -> String {
        let known = self.next_step(question).map_or(question.decomposition.len().saturating_sub(1), |(place, _)| place);
        let last = known.checked_sub(1).and_then(|place| question.decomposition.get(place));
        last.map(|step| step.answer.clone()).unwrap_or_else(|| "unknown".to_owned())
    }
}
