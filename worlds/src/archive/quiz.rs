//! Articles with questions behind them, to learn reading from: what an article states, what it tells of something else, and what
//! it does not tell, each with the sentence that says so.
//! It refuses to ask what a question of the world asks in its own words.

use super::Archive;
use super::draw::Draw;
use super::facts::Kind;
use crate::telling::{asked_of, read, said};
use crate::world::WorldDocument;
use legwork_protocol::id::DocId;
use legwork_protocol::question::Step;
use std::collections::BTreeMap;

/// Questions of an article that it answers, at most.
const STATED_MAX: usize = 5;
/// Questions of which it tells the same of something else: who reads takes what he finds for what he sought.
const NEAR: usize = 4;
/// Questions that are answered elsewhere, of the same kind of thing.
const OF_OTHERS: usize = 3;

/// What can be asked, by who answers it.
struct Asked<'a> {
    by_teller: BTreeMap<&'a DocId, Vec<&'a Step>>,
    by_kind: BTreeMap<Kind, Vec<&'a Step>>,
    /// By what an article on the thing sought tells.
    by_topics: BTreeMap<(Kind, &'a [String]), Vec<&'a Step>>,
}

impl Archive {
    /// Every article as an opened page, with questions and what is read in it: in the documents' order, the same for the same seed.
    pub fn quizzes(&self) -> Vec<String> {
        let singles = super::riddles::singles(&self.facts, &self.articles, &self.docids, self.seed);
        let kinds: BTreeMap<&DocId, Kind> =
            self.docids.iter().zip(self.facts.entities()).map(|(docid, (_, entity))| (docid, entity.kind)).collect();
        let mut asked = Asked { by_teller: BTreeMap::new(), by_kind: BTreeMap::new(), by_topics: BTreeMap::new() };
        for step in &singles {
            for stated in &step.stated {
                let kind = kinds[&stated.docid];
                asked.by_teller.entry(&stated.docid).or_default().push(step);
                asked.by_kind.entry(kind).or_default().push(step);
                if !step.topics.is_empty() {
                    asked.by_topics.entry((kind, &step.topics)).or_default().push(step);
                }
            }
        }
        let mut draw = Draw::stream(self.seed, "quizzes");
        self.world
            .documents
            .iter()
            .map(|document| self.quiz(document, kinds[&document.docid], &asked, &mut draw))
            .collect()
    }

    fn quiz(&self, document: &WorldDocument, kind: Kind, asked: &Asked<'_>, draw: &mut Draw) -> String {
        let telling = self.world.told.get(&document.docid);
        let tells =
            |topic: &String| telling.is_some_and(|telling| telling.told.iter().any(|told| told.topic == *topic));
        let near: Vec<&[&Step]> = asked
            .by_topics
            .iter()
            .filter(|((of, topics), _)| *of == kind && topics.iter().all(tells))
            .map(|(_, steps)| steps.as_slice())
            .collect();
        let mut chosen = asked.by_teller.get(&document.docid).cloned().unwrap_or_default();
        draw.shuffle(&mut chosen);
        chosen.truncate(STATED_MAX);
        if !near.is_empty() {
            for _ in 0..NEAR {
                let steps = *draw.pick::<&[&Step]>(&near);
                chosen.push(*draw.pick::<&Step>(steps));
            }
        }
        if let Some(others) = asked.by_kind.get(&kind) {
            chosen.extend((0..OF_OTHERS).map(|_| *draw.pick(others)));
        }
        draw.shuffle(&mut chosen);
        let mut text = format!(
            "[Opened Page Content]\ndocid: {}\ntitle: {}\nurl: {}\ncontent: {}\n",
            document.docid, document.title, document.url, document.text
        );
        for step in chosen {
            let reading = read(step, &document.docid, telling);
            let number = draw.below(4);
            text.push_str(&format!(
                "\n{} {}",
                asked_of(&step.question, &document.title, telling),
                said(&reading, number, &step.answer)
            ));
        }
        text
    }
}
