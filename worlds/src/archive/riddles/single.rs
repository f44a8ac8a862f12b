//! Single steps: a question for every fact that finds one thing, from either side, and descriptions of what has articles. They are
//! material to learn reading from, and no question of either split.
//! It refuses to join steps.

use super::describe::Constraints;
use super::{Seeker, topics};
use crate::archive::draw::Draw;
use crate::archive::facts::{Condition, EntityId, FactBase, FactId, Kind, Query, Relation, Role, Sought, Term, Value};
use crate::archive::prose::Articles;
use crate::archive::wording::Wording;
use legwork_protocol::id::DocId;
use legwork_protocol::question::Step;
use std::collections::BTreeMap;

/// Every single step of the base.
pub(in crate::archive) fn singles(base: &FactBase, articles: &Articles, docids: &[DocId], seed: u64) -> Vec<Step> {
    let draw = Draw::stream(seed, "singles");
    let mut seeker = Seeker {
        base,
        articles,
        docids,
        inbound: BTreeMap::new(),
        starts: Vec::new(),
        draw,
        kept: super::Kept::default(),
    };
    let mut steps = Vec::new();
    for (id, fact) in base.facts() {
        for role in [Role::Subject, Role::Object] {
            let given = if role == Role::Subject { fact.object.clone() } else { Value::Entity(fact.subject) };
            steps.extend(seeker.single(id, role, Condition { relation: fact.relation, role, given: Term::Is(given) }));
        }
    }
    for (id, entity) in base.entities() {
        for veiled in [false, true] {
            if !entity.namesake
                && let Some(sought) = seeker.described(id, Constraints::Few, veiled)
            {
                steps.extend(seeker.step_of(sought));
            }
        }
    }
    steps
}

impl Seeker<'_> {
    /// What stands in `role` of the fact, as a step, if one thing does and is asked for.
    fn single(&mut self, fact: FactId, role: Role, condition: Condition) -> Option<Step> {
        let found = self.base.fact(fact);
        let value = if role == Role::Subject { Value::Entity(found.subject) } else { found.object.clone() };
        let given = if role == Role::Subject { found.object.entity() } else { Some(found.subject) };
        let dated = matches!(found.relation, Relation::Year | Relation::BornOn | Relation::DiedInYear);
        // A word, a name or a year is given in descriptions only, and of values only dates are asked for.
        let is_asked = match value.entity() {
            Some(_) => given.is_some(),
            None => dated,
        };
        let is_namesake = |id: Option<EntityId>| id.is_some_and(|id| self.base.entity(id).namesake);
        if !is_asked || is_namesake(value.entity()) || is_namesake(given) {
            return None;
        }
        let kind = value.entity().map(|id| self.base.entity(id).kind);
        let mut sought = Sought { kind, conditions: vec![condition] };
        let alone = self.base.answers(&sought, &[]).len() == 1;
        let has_sort = kind.is_some_and(|kind| kind != Kind::Province && kind != Kind::River);
        if let (true, Some(id)) = (has_sort && (!alone || self.draw.chance(50)), value.entity()) {
            let sort = self.base.object(id, Relation::KindOf)?.clone();
            sought.conditions.push(Condition {
                relation: Relation::KindOf,
                role: Role::Subject,
                given: Term::Is(sort),
            });
        }
        self.step_of(sought)
    }

    fn step_of(&mut self, sought: Sought) -> Option<Step> {
        let query = Query { steps: vec![sought] };
        let path = self.base.proven(&query)?;
        let witnesses = self.witnesses(&query, &path)?;
        let facts = witnesses.first()?;
        let first = self.stated(*facts.first()?)?;
        Some(Step {
            question: Wording::new(self.base, &path, false).step(&query, 0),
            answer: self.shown(path.first()?, first),
            gold: Some(self.docid(first.article)),
            stated: self.tellers(facts, first.article),
            topics: topics(&query.steps[0]),
        })
    }
}
