//! Finds the questions: walks the fact base, keeps a walk only when the base proves that each step has exactly
//! one answer, and keeps training and test apart. It does not write articles and does not grade.
//!
//! Easy: two steps from a named start. Medium: three steps, the start described by constraints. Hard: veiled words,
//! and four steps from a described start, or two described starts that meet, or a start for which at least
//! three constraints must be intersected.

mod describe;
mod single;

use super::draw::Draw;
use super::facts::{Condition, EntityId, Fact, FactBase, FactId, Kind, Query, Relation, Role, Sought, Term, Value};
use super::prose::{Articles, Statement};
use super::wording::Wording;
use crate::error::WorldError;
use describe::Constraints;
use legwork_protocol::id::{DocId, QuestionId};
use legwork_protocol::question::{Question, Stated, Step};
pub(super) use single::singles;
use std::collections::{BTreeMap, BTreeSet};

/// The tiers in their order.
pub(super) const TIERS: [&str; 3] = ["easy", "medium", "hard"];
/// Test questions of each tier.
const TEST_PER_TIER: [usize; 3] = [50, 50, 50];
/// Training questions of each tier.
const TRAIN_PER_TIER: [usize; 3] = [230, 225, 225];
/// Walks tried for one question before the world is given up as too poor.
const WALKS_PER_QUESTION_MAX: usize = 4_000;
/// Training questions that may share one answer, so that no answer is worth guessing.
const TRAIN_ANSWER_REPEATS_MAX: usize = 3;

/// An easy question rests on so many documents at least.
const EVIDENCE_EASY_MIN: usize = 2;
/// A medium or hard question rests on so many documents at least.
const EVIDENCE_MIN: usize = 3;

/// A question with its proof.
pub(super) struct Riddle {
    pub(super) question: Question,
    pub(super) query: Query,
    pub(super) path: Vec<Value>,
}

/// The questions of both splits.
pub(super) struct Riddles {
    pub(super) train: Vec<Riddle>,
    pub(super) test: Vec<Riddle>,
}

/// Finds the questions of the base. Fails when the base is too poor for the wanted numbers.
pub(super) fn find(base: &FactBase, articles: &Articles, docids: &[DocId], seed: u64) -> Result<Riddles, WorldError> {
    let mut inbound: BTreeMap<EntityId, Vec<FactId>> = BTreeMap::new();
    for (id, fact) in base.facts() {
        if let Some(object) = fact.object.entity() {
            inbound.entry(object).or_default().push(id);
        }
    }
    let starts: Vec<EntityId> = base
        .entities()
        .filter(|(_, entity)| !entity.namesake && !matches!(entity.kind, Kind::Province | Kind::River))
        .map(|(id, _)| id)
        .collect();
    let draw = Draw::stream(seed, "riddles");
    let mut seeker = Seeker { base, articles, docids, inbound, starts, draw, kept: Kept::default() };
    let test = seeker.split("test", TEST_PER_TIER)?;
    let train = seeker.split("train", TRAIN_PER_TIER)?;
    Ok(Riddles { train, test })
}

/// What the questions kept so far use up.
#[derive(Default)]
struct Kept {
    test_facts: BTreeSet<FactKey>,
    test_answers: BTreeSet<Value>,
    train_answers: BTreeMap<Value, usize>,
    last_facts: BTreeSet<FactKey>,
    paths: BTreeSet<Vec<Value>>,
    texts: BTreeSet<String>,
}

/// A fact, the same for both directions of a symmetric one.
type FactKey = (Relation, Value, Value);

fn key(fact: &Fact) -> FactKey {
    let subject = Value::Entity(fact.subject);
    let object = fact.object.clone();
    if fact.relation.is_symmetric() && object < subject {
        (fact.relation, object, subject)
    } else {
        (fact.relation, subject, object)
    }
}

struct Seeker<'a> {
    base: &'a FactBase,
    articles: &'a Articles,
    docids: &'a [DocId],
    inbound: BTreeMap<EntityId, Vec<FactId>>,
    starts: Vec<EntityId>,
    draw: Draw,
    kept: Kept,
}

impl Seeker<'_> {
    fn split(&mut self, split: &'static str, per_tier: [usize; 3]) -> Result<Vec<Riddle>, WorldError> {
        let mut riddles = Vec::new();
        for (tier, wanted) in TIERS.into_iter().zip(per_tier) {
            for found in 0..wanted {
                let id = QuestionId::new(format!("{split}-{tier}-{:03}", found + 1));
                let riddle = (0..WALKS_PER_QUESTION_MAX).find_map(|_| self.riddle(split, tier, &id));
                riddles.push(riddle.ok_or(WorldError::WorldTooPoor { split, tier, wanted, found })?);
            }
        }
        Ok(riddles)
    }

    fn riddle(&mut self, split: &str, tier: &str, id: &QuestionId) -> Option<Riddle> {
        let query = match tier {
            "easy" => self.named_chain(),
            "medium" => self.described_chain(Constraints::Few, false, 2),
            _ => match self.draw.below(10) {
                0..4 => self.described_chain(Constraints::Few, true, 3),
                4..7 => self.junction(),
                _ => self.described_chain(Constraints::ThreeNeeded, true, 2),
            },
        }?;
        let path = self.base.proven(&query)?;
        let witnesses = self.witnesses(&query, &path)?;
        if !self.is_apart(split, &path, &witnesses) {
            return None;
        }
        let question = self.question(tier, id, &query, &path, &witnesses)?;
        if self.kept.texts.contains(&question.text) {
            return None;
        }
        self.keep(split, &question, &path, &witnesses);
        Some(Riddle { question, query, path })
    }

    /// Two steps from a named start.
    fn named_chain(&mut self) -> Option<Query> {
        let start = *self.draw.pick(&self.starts);
        let mut walk = Walk::default();
        self.advance(&mut walk, Term::Is(Value::Entity(start)), start, false)?;
        walk.seen.push(start);
        self.go_on(&mut walk, true)?;
        Some(walk.into_query())
    }

    /// A described start and so many steps from it.
    fn described_chain(&mut self, constraints: Constraints, veiled: bool, steps: usize) -> Option<Query> {
        let start = *self.draw.pick(&self.starts);
        let mut walk = Walk::default();
        walk.push(self.described(start, constraints, veiled)?, Value::Entity(start));
        for step in 0..steps {
            self.go_on(&mut walk, step + 1 == steps)?;
        }
        Some(walk.into_query())
    }

    /// Two described starts, the one thing joined to both, and one step from it.
    fn junction(&mut self) -> Option<Query> {
        let middle = *self.draw.pick(&self.starts);
        let links = self.links(middle);
        if links.len() < 2 {
            return None;
        }
        let (one, two) = (self.draw.pick(&links).clone(), self.draw.pick(&links).clone());
        if one.to == two.to || one.relation == two.relation {
            return None;
        }
        let mut walk = Walk::default();
        for link in [&one, &two] {
            if self.base.entity(link.to).namesake || self.base.entity(link.to).kind == Kind::Province {
                return None;
            }
            walk.push(self.described(link.to, Constraints::Few, true)?, Value::Entity(link.to));
        }
        // Seen from the middle, the links lead outwards; the step looks back along them.
        let back = |link: &Link, step| Condition {
            relation: link.relation,
            role: if link.role == Role::Subject { Role::Object } else { Role::Subject },
            given: Term::Step(step),
        };
        let kind = Some(self.base.entity(middle).kind);
        let conditions = vec![back(&one, 0), back(&two, 1)];
        let each: Vec<Sought> = conditions.iter().map(|c| Sought { kind, conditions: vec![c.clone()] }).collect();
        if each.iter().all(|sought| self.base.answers(sought, &walk.path).len() == 1) {
            return None;
        }
        walk.push(Sought { kind, conditions }, Value::Entity(middle));
        self.go_on(&mut walk, true)?;
        Some(walk.into_query())
    }

    fn go_on(&mut self, walk: &mut Walk, last: bool) -> Option<()> {
        let from = walk.path.last()?.entity()?;
        let given = Term::Step(walk.path.len() - 1);
        self.advance(walk, given, from, last)
    }

    /// Adds a step from `from`, if a drawn one has exactly one answer.
    fn advance(&mut self, walk: &mut Walk, given: Term, from: EntityId, last: bool) -> Option<()> {
        if last && self.draw.chance(16) {
            return self.advance_to_value(walk, given, from);
        }
        let links = self.links(from);
        if links.is_empty() {
            return None;
        }
        let link = self.draw.pick(&links).clone();
        let target = self.base.entity(link.to);
        let dull = last && target.kind == Kind::Province;
        if target.namesake || dull || walk.seen.contains(&link.to) || walk.path.contains(&Value::Entity(link.to)) {
            return None;
        }
        let condition = Condition { relation: link.relation, role: link.role, given };
        let mut sought = Sought { kind: Some(target.kind), conditions: vec![condition] };
        let alone = self.base.answers(&sought, &walk.path).len() == 1;
        let named_sort = target.kind != Kind::Province && target.kind != Kind::River;
        if named_sort && (!alone || (target.kind != Kind::Person && self.draw.chance(50))) {
            let sort = self.base.object(link.to, Relation::KindOf)?.clone();
            sought.conditions.push(Condition {
                relation: Relation::KindOf,
                role: Role::Subject,
                given: Term::Is(sort),
            });
        }
        if self.base.answers(&sought, &walk.path).len() != 1 {
            return None;
        }
        walk.push(sought, Value::Entity(link.to));
        Some(())
    }

    fn advance_to_value(&mut self, walk: &mut Walk, given: Term, from: EntityId) -> Option<()> {
        let dated = [Relation::Year, Relation::BornOn, Relation::DiedInYear];
        let facts = self.base.about(from).iter().map(|id| self.base.fact(*id));
        let values: Vec<Fact> = facts.filter(|fact| dated.contains(&fact.relation)).cloned().collect();
        if values.is_empty() {
            return None;
        }
        let fact = self.draw.pick(&values).clone();
        let condition = Condition { relation: fact.relation, role: Role::Object, given };
        walk.push(Sought { kind: None, conditions: vec![condition] }, fact.object);
        Some(())
    }

    /// The ways from an entity to others. The role is the one that the other plays.
    fn links(&self, from: EntityId) -> Vec<Link> {
        let mut links = Vec::new();
        for id in self.base.about(from) {
            let fact = self.base.fact(*id);
            if let Some(to) = fact.object.entity() {
                links.push(Link { relation: fact.relation, role: Role::Object, to });
            }
        }
        for id in self.inbound.get(&from).map_or(&[][..], Vec::as_slice) {
            let fact = self.base.fact(*id);
            if !fact.relation.is_symmetric() {
                links.push(Link { relation: fact.relation, role: Role::Subject, to: fact.subject });
            }
        }
        links
    }

    /// For each step the fact behind each condition.
    fn witnesses(&self, query: &Query, path: &[Value]) -> Option<Vec<Vec<FactId>>> {
        let steps = query.steps.iter().zip(path).enumerate();
        let of_step = |(at, (step, found)): (usize, (&Sought, &Value))| {
            step.conditions.iter().map(|condition| self.base.witness(condition, found, &path[..at])).collect()
        };
        steps.map(of_step).collect()
    }

    /// Whether a walk keeps clear of what the other questions use.
    fn is_apart(&self, split: &str, path: &[Value], witnesses: &[Vec<FactId>]) -> bool {
        let Some(answer) = path.last() else { return false };
        if self.kept.paths.contains(path) {
            return false;
        }
        let last = witnesses.last().and_then(|facts| facts.first()).map(|id| key(self.base.fact(*id)));
        if split == "test" {
            return !self.kept.test_answers.contains(answer)
                && last.is_some_and(|k| !self.kept.last_facts.contains(&k));
        }
        let repeats = self.kept.train_answers.get(answer).copied().unwrap_or(0);
        let mut keys = witnesses.iter().flatten().map(|id| key(self.base.fact(*id)));
        repeats < TRAIN_ANSWER_REPEATS_MAX
            && !self.kept.test_answers.contains(answer)
            && !keys.any(|key| self.kept.test_facts.contains(&key))
    }

    fn keep(&mut self, split: &str, question: &Question, path: &[Value], witnesses: &[Vec<FactId>]) {
        let keys: Vec<FactKey> = witnesses.iter().flatten().map(|id| key(self.base.fact(*id))).collect();
        if let Some(answer) = path.last().cloned() {
            if split == "test" {
                self.kept.test_answers.insert(answer);
                self.kept.test_facts.extend(keys);
            } else {
                *self.kept.train_answers.entry(answer).or_default() += 1;
            }
        }
        let last = witnesses.last().and_then(|facts| facts.first()).map(|id| key(self.base.fact(*id)));
        self.kept.last_facts.extend(last);
        self.kept.paths.insert(path.to_vec());
        self.kept.texts.insert(question.text.clone());
    }

    fn question(
        &mut self,
        tier: &str,
        id: &QuestionId,
        query: &Query,
        path: &[Value],
        witnesses: &[Vec<FactId>],
    ) -> Option<Question> {
        let wording = Wording::new(self.base, path, tier == "hard");
        let is_junction = query.steps.len() == 4 && !query.steps[1].conditions.iter().any(follows);
        let text =
            if is_junction { wording.junction(query, &mut self.draw)? } else { wording.chain(query, &mut self.draw) };
        let mut evidence: Vec<DocId> = Vec::new();
        let mut decomposition = Vec::new();
        let mut gold = Vec::new();
        for (at, (facts, found)) in witnesses.iter().zip(path).enumerate() {
            let chosen: Vec<&Statement> = facts.iter().map(|fact| self.stated(*fact)).collect::<Option<_>>()?;
            for statement in &chosen {
                push_new(&mut evidence, self.docid(statement.article));
            }
            let first = chosen.first()?;
            decomposition.push(Step {
                question: wording.step(query, at),
                answer: self.shown(found, first),
                gold: Some(self.docid(first.article)),
                stated: self.tellers(facts, first.article),
                topics: topics(&query.steps[at]),
            });
            if at + 1 == path.len() {
                push_new(&mut gold, self.docid(first.article));
                let all = self.articles.statements.get(facts.first()?)?;
                all.iter().filter(|s| !s.by_alias).for_each(|s| push_new(&mut gold, self.docid(s.article)));
            }
        }
        gold.iter().for_each(|docid| push_new(&mut evidence, docid.clone()));
        let wanted = if tier == "easy" { EVIDENCE_EASY_MIN } else { EVIDENCE_MIN };
        if evidence.len() < wanted {
            return None;
        }
        let answers = self.answers(path.last()?);
        Some(Question { id: id.clone(), text, answers, tier: tier.to_owned(), gold, evidence, decomposition })
    }

    /// The first article that states the fact and names both sides.
    fn stated(&self, fact: FactId) -> Option<&Statement> {
        self.articles.statements.get(&fact)?.iter().find(|statement| !statement.by_alias)
    }

    /// The articles that state all of a step's facts by themselves, so that who reads only one of them knows; if there is none, the
    /// one that the step names.
    fn tellers(&self, facts: &[FactId], named: EntityId) -> Vec<Stated> {
        let tells = |fact: &FactId, article: EntityId| {
            let all = self.articles.statements.get(fact).map_or(&[][..], Vec::as_slice);
            all.iter().find(|statement| statement.article == article && !statement.by_alias)
        };
        let is_sort = |fact: &&FactId| self.base.fact(**fact).relation == Relation::KindOf;
        let on = |article: EntityId| -> Vec<String> {
            let mut sentences: Vec<String> = Vec::new();
            for statement in facts.iter().filter(|fact| !is_sort(fact)).filter_map(|fact| tells(fact, article)) {
                if !sentences.contains(&statement.sentence) {
                    sentences.push(statement.sentence.clone());
                }
            }
            sentences
        };
        // What sort of thing somebody is stands in the article on it, and in others where the sentence says the word.
        let tells_all = |article: EntityId| {
            facts.iter().all(|fact| match self.base.fact(*fact) {
                Fact { relation: Relation::KindOf, object: Value::Word(sort), .. } => {
                    tells(fact, article).is_some() || on(article).iter().any(|sentence| sentence.contains(sort.plain))
                }
                _ => tells(fact, article).is_some(),
            })
        };
        let stating_first = facts.first().and_then(|fact| self.articles.statements.get(fact));
        let mut articles: Vec<EntityId> =
            stating_first.into_iter().flatten().map(|statement| statement.article).filter(|a| tells_all(*a)).collect();
        if articles.is_empty() {
            articles.push(named);
        }
        articles.into_iter().map(|a| Stated { docid: self.docid(a), sentences: on(a) }).collect()
    }

    fn docid(&self, article: EntityId) -> DocId {
        self.docids[article.0 as usize].clone()
    }

    /// What a step finds, as the article that states it writes it.
    fn shown(&self, found: &Value, statement: &Statement) -> String {
        match found {
            Value::Entity(id) => self.base.entity(*id).name.clone(),
            _ => statement.surface.clone(),
        }
    }

    /// The answer and its aliases.
    fn answers(&self, answer: &Value) -> Vec<String> {
        match answer {
            Value::Entity(id) => {
                let also = self.base.object(*id, Relation::AlsoCalled);
                let alias =
                    also.and_then(|value| if let Value::Name(name) = value { Some(name.to_string()) } else { None });
                std::iter::once(self.base.entity(*id).name.clone()).chain(alias).collect()
            }
            Value::Day(day) => day.forms(),
            Value::Year(year) => vec![year.to_string()],
            Value::Word(word) => vec![word.plain.to_owned()],
            Value::Name(name) => vec![name.to_string()],
        }
    }
}

/// What an article on the thing sought tells of it. Only of a fact's subject does its article tell one thing of the kind.
fn topics(sought: &Sought) -> Vec<String> {
    let told = sought.conditions.iter().filter(|condition| condition.relation != Relation::KindOf);
    told.filter(|condition| condition.role == Role::Subject).map(|condition| topic(condition.relation)).collect()
}

/// What a fact tells of its subject.
pub(super) fn topic(relation: Relation) -> String {
    format!("{relation:?}")
}

fn follows(condition: &Condition) -> bool {
    matches!(condition.given, Term::Step(_))
}

fn push_new(docids: &mut Vec<DocId>, docid: DocId) {
    if !docids.contains(&docid) {
        docids.push(docid);
    }
}

#[derive(Clone)]
struct Link {
    relation: Relation,
    role: Role,
    to: EntityId,
}

#[derive(Default)]
struct Walk {
    steps: Vec<Sought>,
    path: Vec<Value>,
    /// Entities that are no step's answer and to which the walk must not return.
    seen: Vec<EntityId>,
}

impl Walk {
    fn push(&mut self, sought: Sought, found: Value) {
        self.steps.push(sought);
        self.path.push(found);
    }

    fn into_query(self) -> Query {
        Query { steps: self.steps }
    }
}
