//! The fact base of the archive and the search that proves a question to have exactly one answer. It knows
//! entities, relations and conditions; it does not know how any of them is worded.

use super::day::Day;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What sort of thing an entity is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs)]
pub enum Kind {
    Person,
    Town,
    Province,
    River,
    Work,
    Institution,
    Event,
    Species,
    Artefact,
    Prize,
}

/// How a fact joins its subject to its object. Read `subject relation object`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs)]
pub enum Relation {
    // Of any entity, to words, names, years or days.
    KindOf,
    Trait,
    AlsoCalled,
    Year,
    // Of persons.
    BornOn,
    DiedInYear,
    Death,
    BornIn,
    DiedIn,
    TaughtBy,
    MarriedTo,
    ChildOf,
    RivalOf,
    StudiedAt,
    BuriedAt,
    Won,
    TookPartIn,
    // Of works.
    CreatedBy,
    SetIn,
    DedicatedTo,
    KeptAt,
    // Of institutions.
    FoundedBy,
    LocatedIn,
    FirstHead,
    // Of towns, provinces and rivers.
    Craft,
    InProvince,
    OnRiver,
    StatueOf,
    Capital,
    RisesIn,
    // Of events.
    HeldIn,
    LedBy,
    ChronicledIn,
    // Of species.
    DescribedBy,
    FoundNear,
    NamedAfter,
    // Of artefacts.
    Material,
    MadeBy,
    HeldAt,
    CommissionedBy,
    // Of prizes.
    EstablishedBy,
    AwardedBy,
}

impl Relation {
    /// Whether `a relation b` is the same as `b relation a`; both are in the base.
    pub fn is_symmetric(self) -> bool {
        matches!(self, Relation::MarriedTo | Relation::RivalOf)
    }

    /// Whether the object is an entity.
    pub fn joins_entities(self) -> bool {
        use Relation::*;
        !matches!(self, KindOf | Trait | AlsoCalled | Year | BornOn | DiedInYear | Death | Craft | Material)
    }
}

/// An entity, by its place in the base.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EntityId(pub u32);

/// A thing with an article of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entity {
    /// Its sort.
    pub kind: Kind,
    /// Its full name. Only namesakes share one.
    pub name: String,
    /// The title of its article: the name, with a qualifier for namesakes.
    pub title: String,
    /// Whether its article says `she`.
    pub feminine: bool,
    /// Whether another entity has exactly this name. Such an entity is a distractor: no step leads to it.
    pub namesake: bool,
}

/// A word of the lexicon in two wordings: `plain` stands in articles, `veiled` in hard questions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Word {
    /// As articles put it.
    pub plain: &'static str,
    /// The same in other words.
    pub veiled: &'static str,
}

/// What a fact says of its subject, or what a step finds.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Value {
    /// Another entity.
    Entity(EntityId),
    /// A word of the lexicon.
    Word(Word),
    /// A name, such as an epithet.
    Name(Arc<str>),
    /// A year.
    Year(i32),
    /// A day.
    Day(Day),
}

impl Value {
    /// The entity, where the value is one.
    pub fn entity(&self) -> Option<EntityId> {
        if let Value::Entity(id) = self { Some(*id) } else { None }
    }

    /// The year of a year or a day.
    pub fn year(&self) -> Option<i32> {
        match self {
            Value::Year(year) => Some(*year),
            Value::Day(day) => Some(day.year),
            _ => None,
        }
    }
}

/// A fact, by its place in the base.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FactId(pub u32);

/// One fact.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Fact {
    /// Whom or what it is about.
    pub subject: EntityId,
    /// How.
    pub relation: Relation,
    /// The other side.
    pub object: Value,
    /// The year in which it came about, where the article gives one. Conditions do not look at it.
    pub when: Option<i32>,
}

/// Which side of a fact the thing sought is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs)]
pub enum Role {
    Subject,
    Object,
}

/// The side of a fact that a condition gives.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Term {
    /// This value.
    Is(Value),
    /// A year, or a day in a year, from the first to the last, both included.
    Years(i32, i32),
    /// What the step of this number, from 0, found.
    Step(usize),
}

/// One condition on the thing sought: it stands in `role` of a fact of `relation` whose other side is `given`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Condition {
    /// How the two are joined.
    pub relation: Relation,
    /// Which side is sought.
    pub role: Role,
    /// The other side.
    pub given: Term,
}

/// What one step seeks.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Sought {
    /// The sort of entity; `None` for a year or a day.
    pub kind: Option<Kind>,
    /// All of these hold of it. Never empty.
    pub conditions: Vec<Condition>,
}

/// A question in logical form: the last step finds the answer.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Query {
    /// The steps, each of which may refer to earlier ones.
    pub steps: Vec<Sought>,
}

/// Every entity and every fact, with indexes.
#[derive(Clone, Debug, Default)]
pub struct FactBase {
    entities: Vec<Entity>,
    facts: Vec<Fact>,
    by_subject: BTreeMap<EntityId, Vec<FactId>>,
    by_object: BTreeMap<(Relation, Value), Vec<FactId>>,
    by_relation: BTreeMap<Relation, Vec<FactId>>,
}

impl FactBase {
    /// Adds an entity.
    pub(super) fn add_entity(&mut self, entity: Entity) -> EntityId {
        self.entities.push(entity);
        EntityId(self.entities.len() as u32 - 1)
    }

    pub(super) fn entity_mut(&mut self, id: EntityId) -> &mut Entity {
        &mut self.entities[id.0 as usize]
    }

    /// Adds a fact.
    pub(super) fn add(&mut self, subject: EntityId, relation: Relation, object: Value, when: Option<i32>) -> FactId {
        let id = FactId(self.facts.len() as u32);
        self.by_subject.entry(subject).or_default().push(id);
        self.by_object.entry((relation, object.clone())).or_default().push(id);
        self.by_relation.entry(relation).or_default().push(id);
        self.facts.push(Fact { subject, relation, object, when });
        id
    }

    /// Every entity, in order of their ids.
    pub fn entities(&self) -> impl Iterator<Item = (EntityId, &Entity)> {
        self.entities.iter().enumerate().map(|(at, entity)| (EntityId(at as u32), entity))
    }

    /// Every fact, in order of their ids.
    pub fn facts(&self) -> impl Iterator<Item = (FactId, &Fact)> {
        self.facts.iter().enumerate().map(|(at, fact)| (FactId(at as u32), fact))
    }

    /// The entity of this id.
    ///
    /// # Panics
    /// When the id comes from another base.
    pub fn entity(&self, id: EntityId) -> &Entity {
        &self.entities[id.0 as usize]
    }

    /// The fact of this id.
    ///
    /// # Panics
    /// When the id comes from another base.
    pub fn fact(&self, id: FactId) -> &Fact {
        &self.facts[id.0 as usize]
    }

    /// The facts about an entity.
    pub fn about(&self, subject: EntityId) -> &[FactId] {
        self.by_subject.get(&subject).map_or(&[], Vec::as_slice)
    }

    /// The facts of `relation` that say `object`.
    pub fn saying(&self, relation: Relation, object: &Value) -> &[FactId] {
        self.by_object.get(&(relation, object.clone())).map_or(&[], Vec::as_slice)
    }

    /// The first object of `relation` for the subject.
    pub fn object(&self, subject: EntityId, relation: Relation) -> Option<&Value> {
        self.about(subject)
            .iter()
            .map(|id| self.fact(*id))
            .find(|fact| fact.relation == relation)
            .map(|fact| &fact.object)
    }

    /// The fact that makes `condition` hold of `found`, given what earlier steps found.
    pub fn witness(&self, condition: &Condition, found: &Value, earlier: &[Value]) -> Option<FactId> {
        self.matching(condition, earlier).into_iter().find(|(_, value)| value == found).map(|(id, _)| id)
    }

    /// Everything that satisfies one step, given what earlier steps found.
    pub fn answers(&self, sought: &Sought, earlier: &[Value]) -> BTreeSet<Value> {
        let mut found: Option<BTreeSet<Value>> = None;
        for condition in &sought.conditions {
            let satisfying: BTreeSet<Value> =
                self.matching(condition, earlier).into_iter().map(|(_, value)| value).collect();
            found = Some(match found {
                None => satisfying,
                Some(before) => before.intersection(&satisfying).cloned().collect(),
            });
        }
        let mut found = found.unwrap_or_default();
        found.retain(|value| value.entity().map(|id| self.entity(id).kind) == sought.kind);
        found
    }

    /// What each step finds, if the whole base holds exactly one thing for each step, and so exactly one answer.
    pub fn proven(&self, query: &Query) -> Option<Vec<Value>> {
        let mut path = Vec::new();
        for step in &query.steps {
            let mut found = self.answers(step, &path).into_iter();
            path.push(found.next()?);
            if found.next().is_some() {
                return None;
            }
        }
        Some(path)
    }

    /// Every fact that satisfies a condition, with what it finds. Whoever led an event took part in it, too.
    fn matching(&self, condition: &Condition, earlier: &[Value]) -> Vec<(FactId, Value)> {
        let found = |id: FactId, role| (id, side(self.fact(id), role));
        let given = match &condition.given {
            Term::Years(first, last) => {
                let all = self.by_relation.get(&condition.relation).map_or(&[][..], Vec::as_slice).iter().copied();
                let inside = |id: &FactId| self.fact(*id).object.year().is_some_and(|y| (*first..=*last).contains(&y));
                return all.filter(inside).map(|id| found(id, condition.role)).collect();
            }
            Term::Is(value) => value,
            Term::Step(step) => match earlier.get(*step) {
                Some(value) => value,
                None => return Vec::new(),
            },
        };
        let mut matching = self.on_side(condition.relation, condition.role, given);
        if condition.relation == Relation::TookPartIn {
            let other = if condition.role == Role::Subject { Role::Object } else { Role::Subject };
            matching.extend(self.on_side(Relation::LedBy, other, given));
        }
        matching
    }

    /// The facts of `relation` with `given` on the side that is not sought, and what stands on the sought side.
    fn on_side(&self, relation: Relation, sought: Role, given: &Value) -> Vec<(FactId, Value)> {
        let with_value = |id: &FactId| (*id, side(self.fact(*id), sought));
        match (sought, given.entity()) {
            (Role::Subject, _) => self.saying(relation, given).iter().map(with_value).collect(),
            (Role::Object, Some(subject)) => {
                self.about(subject).iter().filter(|id| self.fact(**id).relation == relation).map(with_value).collect()
            }
            (Role::Object, None) => Vec::new(),
        }
    }
}

fn side(fact: &Fact, role: Role) -> Value {
    match role {
        Role::Subject => Value::Entity(fact.subject),
        Role::Object => fact.object.clone(),
    }
}
