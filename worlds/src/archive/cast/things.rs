//! The works, institutions, events and other things of the archive, each made by somebody who was alive then.

use super::titled;
use super::{
    ARTEFACTS, Cast, Dated, EPITHET_FIRST, EPITHET_SECOND, EVENTS, INSTITUTIONS, PRIZES, Person, SPECIES, WORKS,
};
use crate::archive::draw::Draw;
use crate::archive::facts::{Kind, Relation, Value, Word};
use crate::archive::lexicon;

/// A maker is at least so old, where there is no other reason to be older.
const MAKER_AGE_MIN: i32 = 22;

impl Cast {
    pub(super) fn institutions(&mut self) {
        for _ in 0..INSTITUTIONS {
            let sort = self.sort(Kind::Institution);
            let word = self.word();
            let name = match self.draw.below(3) {
                0 => format!("{} of {word}", titled(sort)),
                1 => format!("Old {} of {word}", titled(sort)),
                _ => format!("{word} {}", titled(sort)),
            };
            let id = self.add(Kind::Institution, name, Some(sort));
            let Some((founder, year)) = self.maker() else { continue };
            self.join(id, Relation::FoundedBy, founder.id);
            self.say_year(id, year);
            let town = *self.draw.pick(&self.towns);
            self.join(id, Relation::LocatedIn, town);
            if self.draw.chance(60) {
                let alive = |p: &Person| p.id != founder.id && p.born + 25 <= year && year <= p.died;
                if let Some(head) = self.someone(alive) {
                    self.join(id, Relation::FirstHead, head.id);
                }
            }
            self.also_called(id, 30, |draw| format!("the {} House", draw.pick(HOUSES)));
            self.institutions.push(Dated { id, year });
        }
    }

    pub(super) fn works(&mut self) {
        for _ in 0..WORKS {
            let sort = self.sort(Kind::Work);
            let word = self.word();
            let name = work_title(&mut self.draw, &word);
            let id = self.add(Kind::Work, name, Some(sort));
            let Some((author, year)) = self.maker() else { continue };
            self.join(id, Relation::CreatedBy, author.id);
            self.say_year(id, year);
            if self.draw.chance(60) {
                let town = *self.draw.pick(&self.towns);
                self.join(id, Relation::SetIn, town);
            }
            if self.draw.chance(50) {
                let known = |p: &Person| p.id != author.id && p.born + 10 <= year && year <= p.died + 20;
                if let Some(patron) = self.someone(known) {
                    self.join(id, Relation::DedicatedTo, patron.id);
                }
            }
            if self.draw.chance(50) {
                let keeper = self.draw.pick(&self.institutions).id;
                self.join(id, Relation::KeptAt, keeper);
            }
            self.also_called(id, 25, |draw| {
                format!("the Book of the {} {}", draw.pick(EPITHET_FIRST), draw.pick(EPITHET_SECOND))
            });
            self.works.push(Dated { id, year });
        }
    }

    pub(super) fn events(&mut self) {
        let mut retold = std::collections::BTreeSet::new();
        for _ in 0..EVENTS {
            let sort = self.sort(Kind::Event);
            let name = format!("{} of {}", titled(sort), self.word());
            let id = self.add(Kind::Event, name, Some(sort));
            let Some((leader, year)) = self.maker() else { continue };
            self.join(id, Relation::LedBy, leader.id);
            self.say_year(id, year);
            let town = *self.draw.pick(&self.towns);
            self.join(id, Relation::HeldIn, town);
            if self.draw.chance(50) {
                let later = |w: &&Dated| w.year >= year && !retold.contains(&w.id);
                let works: Vec<Dated> = self.works.iter().filter(later).copied().collect();
                if !works.is_empty() {
                    let work = self.draw.pick(&works).id;
                    retold.insert(work);
                    self.join(id, Relation::ChronicledIn, work);
                }
            }
            self.events.push(Dated { id, year });
        }
    }

    pub(super) fn species_and_artefacts(&mut self) {
        for _ in 0..SPECIES {
            let sort = self.sort(Kind::Species);
            let name = format!(
                "{} {} {}",
                self.draw.pick(&["Lesser", "Greater", "Spotted", "Pale"]),
                self.word(),
                titled(sort)
            );
            let id = self.add(Kind::Species, name, Some(sort));
            let Some((describer, year)) = self.maker() else { continue };
            self.join(id, Relation::DescribedBy, describer.id);
            self.say_year(id, year);
            let town = *self.draw.pick(&self.towns);
            self.join(id, Relation::FoundNear, town);
            if self.draw.chance(60) {
                let known = |p: &Person| p.id != describer.id && p.born + 20 <= year;
                if let Some(honoured) = self.someone(known) {
                    self.join(id, Relation::NamedAfter, honoured.id);
                }
            }
        }
        for _ in 0..ARTEFACTS {
            let sort = self.sort(Kind::Artefact);
            let name = format!("{} {}", self.word(), titled(sort));
            let id = self.add(Kind::Artefact, name, Some(sort));
            let Some((maker, year)) = self.maker() else { continue };
            self.join(id, Relation::MadeBy, maker.id);
            self.say_year(id, year);
            let holder = self.draw.pick(&self.institutions).id;
            self.join(id, Relation::HeldAt, holder);
            let material: Word = *self.draw.pick(lexicon::things::MATERIALS);
            self.say(id, Relation::Material, Value::Word(material));
            if self.draw.chance(55) {
                let alive = |p: &Person| p.id != maker.id && p.born + 20 <= year && year <= p.died;
                if let Some(patron) = self.someone(alive) {
                    self.join(id, Relation::CommissionedBy, patron.id);
                }
            }
        }
    }

    pub(super) fn prizes(&mut self) {
        for _ in 0..PRIZES {
            let sort = self.sort(Kind::Prize);
            let name = format!("{} {}", self.word(), titled(sort));
            let id = self.add(Kind::Prize, name, Some(sort));
            let Some((giver, year)) = self.maker() else { continue };
            self.join(id, Relation::EstablishedBy, giver.id);
            self.say_year(id, year);
            let older: Vec<Dated> = self.institutions.iter().filter(|i| i.year <= year).copied().collect();
            if !older.is_empty() {
                let house = self.draw.pick(&older).id;
                self.join(id, Relation::AwardedBy, house);
            }
            self.prizes.push(Dated { id, year });
        }
    }

    /// Somebody and a year of the person's working life.
    fn maker(&mut self) -> Option<(Person, i32)> {
        let maker = self.someone(|_| true)?;
        Some((maker, self.draw.between(maker.born + MAKER_AGE_MIN, maker.died)))
    }
}

fn work_title(draw: &mut Draw, word: &str) -> String {
    let first = draw.pick(EPITHET_FIRST);
    let second = draw.pick(EPITHET_SECOND);
    match draw.below(5) {
        0 => format!("The {second} of {word}"),
        1 => format!("{word} and the {second}"),
        2 => format!("The {first} {second} of {word}"),
        3 => format!("Letters from {word}"),
        _ => format!("{word}'s {second}"),
    }
}

const HOUSES: &[&str] = &[
    "Lantern",
    "Chalk",
    "Snow",
    "Twelve-Door",
    "Herring",
    "Rope",
    "Lead",
    "Thorn",
    "Ferry",
    "Crow",
    "Blue",
    "Gallows",
    "Barley",
    "Owl",
    "Upper",
    "Lower",
    "Sunken",
    "Wax",
    "Slate",
    "Drum",
    "Hazel",
    "Marsh",
    "Bishop's",
    "Orphan",
    "Tin",
    "Silent",
    "Cellar",
    "Vine",
    "Plum",
    "Bone",
    "Ink",
    "Goat",
    "Stair",
    "Mirror",
    "Turnip",
    "Fiddle",
    "Horn",
    "Dove",
    "Cinder",
    "Anvil",
];
