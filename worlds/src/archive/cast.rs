//! Peoples the archive: every entity and every fact, drawn so that lives, teachers and foundations fit in time.
//! It knows nothing of texts or questions.

mod things;

use super::day::Day;
use super::draw::Draw;
use super::facts::{Entity, EntityId, FactBase, Kind, Relation, Value, Word};
use super::lexicon;
use super::names::{Namer, TONGUES, capitalised};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

const PROVINCES: usize = 16;
const RIVERS: usize = 60;
const TOWNS: usize = 210;
const PERSONS: usize = 892;
const INSTITUTIONS: usize = 150;
const WORKS: usize = 400;
const EVENTS: usize = 120;
const SPECIES: usize = 64;
const ARTEFACTS: usize = 64;
const PRIZES: usize = 24;

/// Persons who bear exactly the name of another: each of so many pairs.
const NAMESAKE_PAIRS: usize = 20;
/// Draws of a person's name before a namesake is accepted after all.
const NAME_TRIES_MAX: usize = 100;

/// The first and the last year in which a person can be born.
const BIRTHS: (i32, i32) = (1400, 1840);

/// The fact base of `seed`.
pub(super) fn people(seed: u64) -> FactBase {
    let mut cast = Cast {
        base: FactBase::default(),
        namer: Namer::new(seed),
        draw: Draw::stream(seed, "cast"),
        epithets: BTreeSet::new(),
        persons: Vec::new(),
        towns: Vec::new(),
        institutions: Vec::new(),
        prizes: Vec::new(),
        events: Vec::new(),
        works: Vec::new(),
        tongues: BTreeMap::new(),
    };
    cast.places();
    cast.persons();
    cast.institutions();
    cast.works();
    cast.events();
    cast.species_and_artefacts();
    cast.prizes();
    cast.kinships();
    cast.careers();
    cast.honours();
    cast.base
}

#[derive(Clone, Copy)]
struct Person {
    id: EntityId,
    born: i32,
    died: i32,
    namesake: bool,
}

/// A thing that exists from a year on.
#[derive(Clone, Copy)]
struct Dated {
    id: EntityId,
    year: i32,
}

struct Cast {
    base: FactBase,
    namer: Namer,
    draw: Draw,
    epithets: BTreeSet<String>,
    persons: Vec<Person>,
    towns: Vec<EntityId>,
    institutions: Vec<Dated>,
    prizes: Vec<Dated>,
    events: Vec<Dated>,
    works: Vec<Dated>,
    tongues: BTreeMap<EntityId, usize>,
}

impl Cast {
    fn add(&mut self, kind: Kind, name: String, sort: Option<Word>) -> EntityId {
        let entity = Entity { kind, title: name.clone(), name, feminine: false, namesake: false };
        let id = self.base.add_entity(entity);
        let sort = sort.unwrap_or_else(|| *self.draw.pick(lexicon::sorts(kind)));
        let quality = *self.draw.pick(lexicon::traits(kind));
        self.say(id, Relation::KindOf, Value::Word(sort));
        self.say(id, Relation::Trait, Value::Word(quality));
        id
    }

    fn say(&mut self, subject: EntityId, relation: Relation, object: Value) {
        self.base.add(subject, relation, object, None);
    }

    fn join(&mut self, subject: EntityId, relation: Relation, object: EntityId) {
        self.say(subject, relation, Value::Entity(object));
        if relation.is_symmetric() {
            self.say(object, relation, Value::Entity(subject));
        }
    }

    fn say_year(&mut self, subject: EntityId, year: i32) {
        self.say(subject, Relation::Year, Value::Year(year));
    }

    /// Gives another name in so many of a hundred cases.
    fn also_called(&mut self, id: EntityId, percent: usize, make: fn(&mut Draw) -> String) {
        if !self.draw.chance(percent) {
            return;
        }
        let name = make(&mut self.draw);
        if self.epithets.insert(name.clone()) {
            self.say(id, Relation::AlsoCalled, Value::Name(Arc::from(name)));
        }
    }

    fn places(&mut self) {
        let mut provinces = Vec::new();
        for at in 0..PROVINCES {
            let tongue = at % TONGUES;
            let name = self.namer.place(tongue);
            let id = self.add(Kind::Province, name, None);
            self.tongues.insert(id, tongue);
            provinces.push(id);
        }
        let mut rivers = Vec::new();
        for _ in 0..RIVERS {
            let source = *self.draw.pick(&provinces);
            let name = format!("River {}", self.namer.word(self.tongues[&source]));
            let id = self.add(Kind::River, name, None);
            self.join(id, Relation::RisesIn, source);
            rivers.push(id);
        }
        for at in 0..TOWNS {
            // The first towns are the capitals.
            let province = if at < PROVINCES { provinces[at] } else { *self.draw.pick(&provinces) };
            let tongue = self.tongues[&province];
            let name = self.namer.place(tongue);
            let id = self.add(Kind::Town, name, None);
            self.tongues.insert(id, tongue);
            self.join(id, Relation::InProvince, province);
            if at < PROVINCES {
                self.join(province, Relation::Capital, id);
            }
            if self.draw.chance(70) {
                let river = *self.draw.pick(&rivers);
                self.join(id, Relation::OnRiver, river);
            }
            let charter = self.draw.between(1000, 1390);
            self.say_year(id, charter);
            let craft = *self.draw.pick(lexicon::things::CRAFTS);
            self.say(id, Relation::Craft, Value::Word(craft));
            if self.draw.chance(25) {
                let old = self.namer.place(tongue);
                self.say(id, Relation::AlsoCalled, Value::Name(Arc::from(old)));
            }
            self.towns.push(id);
        }
    }

    fn persons(&mut self) {
        let mut births: Vec<i32> = (0..PERSONS).map(|_| self.draw.between(BIRTHS.0, BIRTHS.1)).collect();
        births.sort_unstable();
        let mut names: BTreeMap<String, EntityId> = BTreeMap::new();
        let mut twins = 0;
        for (at, born) in births.into_iter().enumerate() {
            let town = *self.draw.pick_skewed(&self.towns);
            let feminine = self.draw.chance(50);
            let wants_namesake =
                twins < NAMESAKE_PAIRS && at % (PERSONS / NAMESAKE_PAIRS) == PERSONS / NAMESAKE_PAIRS - 1;
            let name = self.person_name(town, feminine, wants_namesake, &names);
            let id = self.add(Kind::Person, name.clone(), None);
            self.base.entity_mut(id).feminine = feminine;
            if let Some(first) = names.get(&name).copied() {
                twins += 1;
                self.mark_namesakes(first, id);
            } else {
                names.insert(name, id);
            }
            let died = born + self.draw.between(30, 86);
            self.life(id, born, died, town);
            self.persons.push(Person { id, born, died, namesake: false });
        }
        for person in &mut self.persons {
            person.namesake = self.base.entity(person.id).namesake;
        }
    }

    fn person_name(
        &mut self,
        town: EntityId,
        feminine: bool,
        twin: bool,
        names: &BTreeMap<String, EntityId>,
    ) -> String {
        if twin {
            let of_gender = |id: &EntityId| {
                let entity = self.base.entity(*id);
                entity.feminine == feminine && !entity.namesake
            };
            let others: Vec<&String> = names.iter().filter(|(_, id)| of_gender(id)).map(|(name, _)| name).collect();
            if !others.is_empty() {
                return (*self.draw.pick(&others)).clone();
            }
        }
        let tongue = self.tongues[&town];
        let mut full = String::new();
        for _ in 0..NAME_TRIES_MAX {
            let (given, family) = self.namer.person(tongue, feminine);
            full = format!("{given} {family}");
            if !names.contains_key(&full) {
                break;
            }
        }
        full
    }

    fn mark_namesakes(&mut self, first: EntityId, second: EntityId) {
        for (id, suffix) in [(first, "the elder"), (second, "the younger")] {
            let sort = match self.base.object(id, Relation::KindOf) {
                Some(Value::Word(word)) => word.plain,
                _ => "person",
            };
            let entity = self.base.entity_mut(id);
            entity.namesake = true;
            entity.title = format!("{} ({sort}, {suffix})", entity.name);
        }
    }

    fn life(&mut self, id: EntityId, born: i32, died: i32, town: EntityId) {
        let day = Day { year: born, month: self.draw.between(1, 12) as u8, day: self.draw.between(1, 28) as u8 };
        self.say(id, Relation::BornOn, Value::Day(day));
        self.say(id, Relation::DiedInYear, Value::Year(died));
        self.join(id, Relation::BornIn, town);
        if self.draw.chance(70) {
            let last = *self.draw.pick_skewed(&self.towns);
            self.join(id, Relation::DiedIn, last);
        }
        if self.draw.chance(60) {
            let death = *self.draw.pick(lexicon::people::DEATHS);
            self.say(id, Relation::Death, Value::Word(death));
        }
        self.also_called(id, 28, |draw| format!("the {} {}", draw.pick(EPITHET_FIRST), draw.pick(EPITHET_SECOND)));
    }

    /// A person who can be named without ambiguity and of whom `fits` holds, if a drawn stretch of the list has one.
    fn someone(&mut self, fits: impl Fn(&Person) -> bool) -> Option<Person> {
        let fitting: Vec<Person> = self.persons.iter().filter(|p| !p.namesake && fits(p)).copied().collect();
        if fitting.is_empty() { None } else { Some(*self.draw.pick(&fitting)) }
    }

    fn kinships(&mut self) {
        let mut married = BTreeSet::new();
        let mut rivals = BTreeSet::new();
        for at in 0..self.persons.len() {
            let one = self.persons[at];
            if one.namesake {
                continue;
            }
            if self.draw.chance(50) {
                let old_enough = |p: &Person| (15..=45).contains(&(one.born - p.born)) && p.died >= one.born + 14;
                if let Some(teacher) = self.someone(old_enough) {
                    self.join(one.id, Relation::TaughtBy, teacher.id);
                }
            }
            if self.draw.chance(25) {
                let of_age = |p: &Person| (19..=44).contains(&(one.born - p.born)) && p.died >= one.born;
                if let Some(parent) = self.someone(of_age) {
                    self.join(one.id, Relation::ChildOf, parent.id);
                }
            }
            let near = |p: &Person, taken: &BTreeSet<EntityId>| {
                p.id != one.id && (one.born - p.born).abs() <= 12 && !taken.contains(&p.id)
            };
            if self.draw.chance(22)
                && !married.contains(&one.id)
                && let Some(spouse) = self.someone(|p| near(p, &married))
            {
                self.join(one.id, Relation::MarriedTo, spouse.id);
                married.extend([one.id, spouse.id]);
            }
            if self.draw.chance(12)
                && !rivals.contains(&one.id)
                && let Some(rival) = self.someone(|p| near(p, &rivals))
            {
                self.join(one.id, Relation::RivalOf, rival.id);
                rivals.extend([one.id, rival.id]);
            }
        }
    }

    fn careers(&mut self) {
        for at in 0..self.persons.len() {
            let one = self.persons[at];
            let open = |year: i32| move |i: &&Dated| i.year <= year;
            if self.draw.chance(65) {
                let schools: Vec<Dated> = self.institutions.iter().filter(open(one.born + 24)).copied().collect();
                if !schools.is_empty() {
                    let school = self.draw.pick_skewed(&schools).id;
                    self.join(one.id, Relation::StudiedAt, school);
                }
            }
            if self.draw.chance(20) {
                let graves: Vec<Dated> = self.institutions.iter().filter(open(one.died)).copied().collect();
                if !graves.is_empty() {
                    let grave = self.draw.pick(&graves).id;
                    self.join(one.id, Relation::BuriedAt, grave);
                }
            }
            if self.draw.chance(40) {
                let span = one.born + 15..=one.died;
                let events: Vec<Dated> = self.events.iter().filter(|e| span.contains(&e.year)).copied().collect();
                if !events.is_empty() {
                    let event = self.draw.pick(&events).id;
                    self.join(one.id, Relation::TookPartIn, event);
                }
            }
        }
    }

    fn honours(&mut self) {
        let mut given = BTreeSet::new();
        for at in 0..self.persons.len() {
            let one = self.persons[at];
            if one.namesake || !self.draw.chance(24) {
                continue;
            }
            let open: Vec<Dated> = self.prizes.iter().filter(|p| p.year < one.died - 2).copied().collect();
            if open.is_empty() {
                continue;
            }
            let prize = *self.draw.pick(&open);
            let year = self.draw.between(prize.year.max(one.born + 20), one.died);
            if year >= prize.year && year <= one.died && given.insert((prize.id, year)) {
                self.base.add(one.id, Relation::Won, Value::Entity(prize.id), Some(year));
            }
        }
    }

    fn tongue(&mut self) -> usize {
        self.draw.below(TONGUES)
    }

    /// An invented word of some tongue.
    fn word(&mut self) -> String {
        let tongue = self.tongue();
        self.namer.word(tongue)
    }

    fn sort(&mut self, kind: Kind) -> Word {
        *self.draw.pick(lexicon::sorts(kind))
    }
}

/// `observatory` as it stands in a name: `Observatory`.
fn titled(word: Word) -> String {
    word.plain.split(' ').map(capitalised).collect::<Vec<_>>().join(" ")
}

const EPITHET_FIRST: &[&str] = &[
    "Amber", "Glass", "Quiet", "Iron", "Barefoot", "Seventh", "Crooked", "Lesser", "Hollow", "Winter", "Copper",
    "Salt", "Paper", "Morning", "Velvet", "Ashen", "Tallow", "Northern", "Unbroken", "Second", "Laughing", "Marble",
    "Hasty", "Scarlet",
];

const EPITHET_SECOND: &[&str] = &[
    "Fox", "Lantern", "Needle", "Heron", "Anchor", "Candle", "Magpie", "Thistle", "Compass", "Otter", "Sparrow", "Key",
    "Ladder", "Wheel", "Comet", "Beggar", "Prince", "Pilgrim", "Spindle", "Raven", "Mill", "Harp", "Saint", "Witness",
    "Oak", "Torch",
];
