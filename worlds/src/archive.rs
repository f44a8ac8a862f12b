//! The archive: a fictional encyclopedia with its questions, generated from one seed. Everything in it is invented,
//! so nothing can be known beforehand, and every question is proven to have exactly one answer in it.
//!
//! Train and test share no question, no answer, no path of answers and no fact: a fact that a test question
//! rests on serves no training question. Articles are shared, as in any fixed corpus.

mod cast;
mod day;
mod draw;
pub mod facts;
mod fillers;
mod lexicon;
mod names;
mod phrasing;
mod prose;
mod quiz;
mod riddles;
mod wording;

pub use day::Day;
pub use prose::Statement;

use crate::error::WorldError;
use crate::telling::{Telling, Told};
use crate::world::{Canary, World, WorldDocument};
use facts::{EntityId, FactBase, FactId, Query, Value};
use legwork_protocol::id::{DocId, QuestionId};
use legwork_protocol::question::{Question, Step};
use std::collections::BTreeMap;

/// The seed of the archive that the embedded profile uses.
pub const DEFAULT_SEED: u64 = 2026;

/// The generated world with the facts and proofs behind it.
#[derive(Clone, Debug)]
pub struct Archive {
    /// What everybody else sees of it.
    pub world: World,
    facts: FactBase,
    articles: prose::Articles,
    seed: u64,
    docids: Vec<DocId>,
    proofs: BTreeMap<QuestionId, (Query, Vec<Value>)>,
}

/// Generates the archive of a seed. Fails only when the seed gives too few provable questions.
pub fn generate(seed: u64) -> Result<Archive, WorldError> {
    let facts = cast::people(seed);
    let articles = prose::write(&facts, seed);
    let docids = docids(&facts, seed);
    let found = riddles::find(&facts, &articles, &docids, seed)?;
    let mut proofs = BTreeMap::new();
    let mut split = |riddles: Vec<riddles::Riddle>| -> Vec<Question> {
        let keep = |riddle: riddles::Riddle| {
            proofs.insert(riddle.question.id.clone(), (riddle.query, riddle.path));
            riddle.question
        };
        riddles.into_iter().map(keep).collect()
    };
    let (train, test) = (split(found.train), split(found.test));
    let mut documents: Vec<WorldDocument> = facts
        .entities()
        .zip(&docids)
        .zip(&articles.texts)
        .map(|(((_, entity), docid), text)| WorldDocument {
            docid: docid.clone(),
            title: entity.title.clone(),
            url: format!("https://archive.example/{}", entity.title.replace(' ', "_")),
            text: text.clone(),
        })
        .collect();
    documents.sort_by(|one, other| one.docid.cmp(&other.docid));
    let canary = Some(canary(seed));
    let told = told(&facts, &articles, &docids);
    let world = World { name: "archive".to_owned(), documents, train, test, canary, told };
    Ok(Archive { world, facts, articles, seed, docids, proofs })
}

/// The known solution of a question, step by step: each step is a query of its own once `#n` is replaced by the
/// answer of step n.
pub fn oracle(question: &Question) -> &[Step] {
    &question.decomposition
}

impl Archive {
    /// Every entity and fact.
    pub fn facts(&self) -> &FactBase {
        &self.facts
    }

    /// The logical form of a question and what each step finds.
    pub fn proof(&self, question: &QuestionId) -> Option<(&Query, &[Value])> {
        self.proofs.get(question).map(|(query, path)| (query, path.as_slice()))
    }

    /// The articles that state a fact.
    pub fn statements(&self, fact: FactId) -> &[Statement] {
        self.articles.statements.get(&fact).map_or(&[], Vec::as_slice)
    }

    /// The document on an entity.
    pub fn docid(&self, entity: EntityId) -> Option<&DocId> {
        self.docids.get(entity.0 as usize)
    }
}

/// What each article tells of its own subject, and what sort of thing that is.
fn told(facts: &FactBase, articles: &prose::Articles, docids: &[DocId]) -> BTreeMap<DocId, Telling> {
    let of = |id: EntityId| docids[id.0 as usize].clone();
    let sort = |id| prose::sort_of(facts, id).to_owned();
    let empty = facts.entities().map(|(id, _)| (of(id), Telling { sort: sort(id), told: Vec::new() }));
    let mut telling: BTreeMap<DocId, Telling> = empty.collect();
    for (fact, statements) in &articles.statements {
        let fact = facts.fact(*fact);
        let by_subject = |statement: &&Statement| statement.article == fact.subject && !statement.by_alias;
        for statement in statements.iter().filter(by_subject) {
            if let Some(telling) = telling.get_mut(&of(statement.article))
                && fact.relation != facts::Relation::KindOf
            {
                telling.told.push(Told { topic: riddles::topic(fact.relation), sentence: statement.sentence.clone() });
            }
        }
    }
    telling
}

/// Ids in a drawn order, so that neighbours are unrelated and an id tells nothing.
fn docids(facts: &FactBase, seed: u64) -> Vec<DocId> {
    let mut numbers: Vec<usize> = (1..=facts.entities().count()).collect();
    draw::Draw::stream(seed, "docids").shuffle(&mut numbers);
    numbers.into_iter().map(|number| DocId::new(format!("a{number:05}"))).collect()
}

fn canary(seed: u64) -> Canary {
    let digest = blake3::derive_key("legwork archive canary 1", &seed.to_le_bytes());
    let hex: String = digest[..16].iter().map(|byte| format!("{byte:02x}")).collect();
    Canary::new(format!("legwork:archive:{hex}"))
}

#[cfg(test)]
mod tests;
