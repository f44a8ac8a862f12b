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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::archive::{DEFAULT_SEED, generate};

    #[test]
    fn what_a_quiz_quotes_stands_in_its_page_and_all_three_readings_occur() {
        let archive = generate(DEFAULT_SEED).unwrap();
        let quizzes = archive.quizzes();
        assert_eq!(quizzes.len(), archive.world.documents.len());
        let (mut stated, mut near, mut nothing) = (0, 0, 0);
        for (quiz, document) in quizzes.iter().zip(&archive.world.documents) {
            let questions = quiz.split_once(&document.text).unwrap().1;
            for line in questions.lines().filter(|line| !line.trim().is_empty()) {
                let quoted = line.split('"').nth(1);
                let all_there = |quoted: &str| {
                    let mut rest = quoted;
                    // Sentences that are quoted together stand apart in the page.
                    while !rest.is_empty() {
                        let end = (1..=rest.len())
                            .rev()
                            .find(|end| rest.is_char_boundary(*end) && document.text.contains(&rest[..*end]));
                        let Some(end) = end else { return false };
                        rest = rest[end..].trim_start();
                    }
                    true
                };
                assert!(quoted.is_none_or(all_there), "{line} in {}", document.docid);
                match (line.ends_with(" No."), line.ends_with(": nothing.")) {
                    (true, _) => near += 1,
                    (_, true) => nothing += 1,
                    _ if line.contains(&format!("[{}].", document.docid)) => stated += 1,
                    _ => panic!("{line} is no reading of {}", document.docid),
                }
            }
        }
        assert!(stated > 8_000 && near > 8_000 && nothing > 3_000, "{stated} {near} {nothing}");
    }

    #[test]
    fn what_a_step_names_as_stating_it_has_the_answer_and_the_sentences() {
        let archive = generate(DEFAULT_SEED).unwrap();
        let texts: BTreeMap<&DocId, &str> =
            archive.world.documents.iter().map(|document| (&document.docid, document.text.as_str())).collect();
        for question in archive.world.questions() {
            for step in &question.decomposition {
                assert!(!step.stated.is_empty(), "{step:?}");
                for stated in &step.stated {
                    let text = texts[&stated.docid];
                    assert!(stated.sentences.iter().all(|sentence| text.contains(sentence.as_str())), "{step:?}");
                }
            }
        }
    }
}
