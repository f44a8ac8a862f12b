//! Writes the articles: which side of a fact tells it, in which words, between which fillers. It reports for
//! each fact the articles that state it and how, so that no question rests on an unstated fact.

use super::draw::Draw;
use super::facts::{Entity, EntityId, Fact, FactBase, FactId, Kind, Relation, Value};
use super::names::capitalised;
use super::phrasing::phrasing;
use super::{fillers, lexicon};
use std::collections::BTreeMap;

/// A fact as one article tells it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statement {
    /// The article, by its entity.
    pub article: EntityId,
    /// How the other side is written there: its name, an alias, a date's form or the plain word.
    pub surface: String,
    /// Whether the other side is written by an alias, so that the article alone does not name it.
    pub by_alias: bool,
    /// The sentence, as it stands in the article.
    pub sentence: String,
}

/// The articles, one an entity and in their order, and where each fact is stated.
#[derive(Clone, Debug, Default)]
pub(super) struct Articles {
    /// The text of each entity's article.
    pub(super) texts: Vec<String>,
    /// For each fact the articles that state it. No fact is without one.
    pub(super) statements: BTreeMap<FactId, Vec<Statement>>,
}

/// An article tells so many facts of which its entity is the object. Its own facts come on top.
const INBOUND_PERSON_MAX: usize = 6;
/// The same for articles on anything else.
const INBOUND_THING_MAX: usize = 9;
/// Fillers are added until an article has a drawn number of words between these.
const WORDS_WANTED: (i32, i32) = (140, 215);
/// Of a hundred facts that both sides tell, so many are told under an alias on the object's side.
const BY_ALIAS_PERCENT: usize = 35;

/// Which side tells a fact.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Told {
    SubjectOnly,
    ObjectOnly,
    Both,
}

/// Writes every article of the base.
pub(super) fn write(base: &FactBase, seed: u64) -> Articles {
    let mut draw = Draw::stream(seed, "prose");
    let told = placements(base, &mut draw);
    let mut tellings: BTreeMap<EntityId, Vec<(FactId, bool)>> = BTreeMap::new();
    for (id, fact) in base.facts() {
        if told[&id] != Told::ObjectOnly {
            tellings.entry(fact.subject).or_default().push((id, true));
        }
        if let (Some(object), true) = (fact.object.entity(), told[&id] != Told::SubjectOnly) {
            tellings.entry(object).or_default().push((id, false));
        }
    }
    let mut articles = Articles::default();
    for (id, _) in base.entities() {
        let mut article = Article::open(base, id, &mut draw, &mut articles.statements);
        article.tell(tellings.get(&id).map_or(&[], Vec::as_slice), &told);
        let text = article.close();
        articles.texts.push(text);
    }
    articles
}

fn placements(base: &FactBase, draw: &mut Draw) -> BTreeMap<FactId, Told> {
    let mut inbound: BTreeMap<EntityId, usize> = BTreeMap::new();
    let mut told = BTreeMap::new();
    for (id, fact) in base.facts() {
        let choice = match draw.below(20) {
            0..9 => Told::SubjectOnly,
            9..14 => Told::ObjectOnly,
            _ => Told::Both,
        };
        let choice = match fact.object.entity() {
            Some(object) if has_object_side(base, fact) => {
                let count = inbound.entry(object).or_default();
                let person = base.entity(object).kind == Kind::Person;
                let room = *count < if person { INBOUND_PERSON_MAX } else { INBOUND_THING_MAX };
                *count += usize::from(room && choice != Told::SubjectOnly);
                if room { choice } else { Told::SubjectOnly }
            }
            _ => Told::SubjectOnly,
        };
        told.insert(id, choice);
    }
    told
}

fn has_object_side(base: &FactBase, fact: &Fact) -> bool {
    !phrasing(fact.relation, base.entity(fact.subject).kind).in_object.is_empty()
}

/// How the article of another entity writes a name.
pub(super) fn mention(entity: &Entity) -> String {
    match entity.kind {
        Kind::River | Kind::Event | Kind::Species | Kind::Artefact | Kind::Prize => format!("the {}", entity.name),
        _ => entity.name.clone(),
    }
}

/// `a` or `an` before the word.
pub(super) fn with_article(word: &str) -> String {
    if starts_with_vowel(word) { format!("an {word}") } else { format!("a {word}") }
}

fn starts_with_vowel(word: &str) -> bool {
    word.starts_with(['a', 'e', 'i', 'o', 'u', 'A', 'E', 'I', 'O', 'U'])
}

struct Article<'a> {
    base: &'a FactBase,
    id: EntityId,
    draw: &'a mut Draw,
    statements: &'a mut BTreeMap<FactId, Vec<Statement>>,
    opening: String,
    sentences: Vec<String>,
}

impl<'a> Article<'a> {
    fn open(
        base: &'a FactBase,
        id: EntityId,
        draw: &'a mut Draw,
        statements: &'a mut BTreeMap<FactId, Vec<Statement>>,
    ) -> Self {
        let entity = base.entity(id);
        let templates = match entity.kind {
            Kind::Person => fillers::OPENINGS_PAST,
            Kind::Event => fillers::OPENINGS_EVENT,
            Kind::Town | Kind::Province | Kind::Work | Kind::Institution => fillers::OPENINGS_NAMED,
            _ => fillers::OPENINGS_THING,
        };
        let sort = sort_of(base, id);
        let opening = draw.pick(templates).replace("{N}", &entity.name).replace("{k}", &with_article(sort));
        Article { base, id, draw, statements, opening, sentences: Vec::new() }
    }

    fn tell(&mut self, tellings: &[(FactId, bool)], told: &BTreeMap<FactId, Told>) {
        for (fact_id, as_subject) in tellings {
            let fact = self.base.fact(*fact_id);
            let (sentence, surface, by_alias) = if fact.relation == Relation::KindOf {
                (self.opening.clone(), sort_of(self.base, self.id).to_owned(), false)
            } else {
                let may_alias = told[fact_id] == Told::Both && !as_subject;
                let told = self.sentence(fact, *as_subject, may_alias);
                self.sentences.push(told.0.clone());
                told
            };
            let statement = Statement { article: self.id, surface, by_alias, sentence };
            self.statements.entry(*fact_id).or_default().push(statement);
        }
    }

    fn sentence(&mut self, fact: &Fact, as_subject: bool, may_alias: bool) -> (String, String, bool) {
        let words = phrasing(fact.relation, self.base.entity(fact.subject).kind);
        let template = *self.draw.pick(if as_subject { words.in_subject } else { words.in_object });
        let other = if as_subject { fact.object.clone() } else { Value::Entity(fact.subject) };
        let (shown, surface, by_alias) = self.other_side(&other, may_alias);
        let year = fact.when.map(|year| year.to_string()).unwrap_or_default();
        let text = template.replace("{N}", &capitalised(&shown)).replace("{n}", &shown).replace("{y}", &year);
        (self.refer(&text), surface, by_alias)
    }

    /// The other side as the sentence shows it, the part of it that names it, and whether that is an alias.
    fn other_side(&mut self, other: &Value, may_alias: bool) -> (String, String, bool) {
        match other {
            Value::Entity(id) => {
                let entity = self.base.entity(*id);
                if let (true, Some(Value::Name(alias))) = (may_alias, self.base.object(*id, Relation::AlsoCalled))
                    && self.draw.chance(BY_ALIAS_PERCENT)
                {
                    return (alias.to_string(), alias.to_string(), true);
                }
                let mut shown = mention(entity);
                if entity.kind == Kind::Person && (entity.namesake || self.draw.chance(25)) {
                    shown = format!("the {} {shown}", sort_of(self.base, *id));
                }
                (shown, entity.name.clone(), false)
            }
            Value::Word(word) => (word.plain.to_owned(), word.plain.to_owned(), false),
            Value::Name(name) => (name.to_string(), name.to_string(), false),
            Value::Year(year) => (year.to_string(), year.to_string(), false),
            Value::Day(day) => {
                let form = day.form(self.draw.below(super::day::Day::FORMS));
                (form.clone(), form, false)
            }
        }
    }

    /// Fills the slots that refer to the article's own subject.
    fn refer(&mut self, template: &str) -> String {
        let entity = self.base.entity(self.id);
        let (pronoun, possessive, objective) = match (entity.kind, entity.feminine) {
            (Kind::Person, true) => ("she", "her", "her"),
            (Kind::Person, false) => ("he", "his", "him"),
            _ => ("it", "its", "it"),
        };
        let subject = match self.draw.below(10) {
            0..5 => pronoun.to_owned(),
            5..8 if entity.kind == Kind::Person => entity.name.rsplit(' ').next().unwrap_or(&entity.name).to_owned(),
            5..8 => format!("the {}", lexicon::noun(entity.kind)),
            _ => format!("the {}", sort_of(self.base, self.id)),
        };
        let text = template
            .replace("{S}", &capitalised(&subject))
            .replace("{s}", &subject)
            .replace("{P}", &capitalised(possessive))
            .replace("{p}", possessive)
            .replace("{o}", objective);
        articles_agreeing(&text)
    }

    fn filler(&mut self, templates: &'static [&'static str], at: usize) -> String {
        let first = *self.draw.pick(fillers::ADJECTIVES);
        let second = *self.draw.pick(fillers::ADJECTIVES);
        let text = templates[at % templates.len()].replace("{a}", first).replace("{b}", second);
        self.refer(&text)
    }

    /// A sentence on somebody whose name invites confusion, for persons with a common family name.
    fn confusion(&mut self) -> Option<String> {
        let entity = self.base.entity(self.id);
        let family = entity.name.rsplit(' ').next()?;
        if entity.kind != Kind::Person || !(entity.namesake || self.draw.chance(30)) {
            return None;
        }
        let ending = format!(" {family}");
        let relatives = self.base.entities().filter(|(id, other)| {
            let same = if entity.namesake { other.name == entity.name } else { other.name.ends_with(&ending) };
            *id != self.id && other.kind == Kind::Person && same && (entity.namesake || !other.namesake)
        });
        let relatives: Vec<(EntityId, &Entity)> = relatives.collect();
        if relatives.is_empty() {
            return None;
        }
        let (id, other) = *self.draw.pick(&relatives);
        let sort = with_article(sort_of(self.base, id));
        Some(format!("{} is not to be confused with {}, {sort}.", entity.name, other.name))
    }

    fn close(mut self) -> String {
        let wanted = self.draw.between(WORDS_WANTED.0, WORDS_WANTED.1) as usize;
        let templates = match self.base.entity(self.id).kind {
            Kind::Person => fillers::OF_PERSONS,
            Kind::Town | Kind::Province | Kind::River => fillers::OF_PLACES,
            _ => fillers::OF_THINGS,
        };
        let mut order: Vec<usize> = (0..templates.len()).collect();
        self.draw.shuffle(&mut order);
        self.draw.shuffle(&mut self.sentences);
        let mut words: usize = self.opening.split_whitespace().count();
        words += self.sentences.iter().map(|sentence| sentence.split_whitespace().count()).sum::<usize>();
        for at in order {
            if words >= wanted {
                break;
            }
            let filler = self.filler(templates, at);
            words += filler.split_whitespace().count();
            let place = self.draw.below(self.sentences.len() + 1);
            self.sentences.insert(place, filler);
        }
        let confusion = self.confusion();
        self.sentences.extend(confusion);
        let mut text = self.opening;
        let mut in_paragraph = 1;
        for sentence in &self.sentences {
            let breaks = in_paragraph >= 4 && self.draw.chance(50);
            text.push_str(if breaks { "\n\n" } else { " " });
            in_paragraph = if breaks { 1 } else { in_paragraph + 1 };
            text.push_str(sentence);
        }
        text
    }
}

/// The plain word for what the entity is.
pub(super) fn sort_of(base: &FactBase, id: EntityId) -> &'static str {
    match base.object(id, Relation::KindOf) {
        Some(Value::Word(word)) => word.plain,
        _ => lexicon::noun(base.entity(id).kind),
    }
}

/// Puts `an` where `a` stands before a vowel.
fn articles_agreeing(text: &str) -> String {
    let words: Vec<&str> = text.split(' ').collect();
    let mut out = String::with_capacity(text.len() + 4);
    for (at, word) in words.iter().enumerate() {
        if at > 0 {
            out.push(' ');
        }
        out.push_str(word);
        let next_is_vowel = words.get(at + 1).is_some_and(|next| starts_with_vowel(next));
        if next_is_vowel && (*word == "a" || *word == "A") {
            out.push('n');
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_article_agrees_with_the_next_word() {
        assert_eq!(
            articles_agreeing("A uneven and a dry road, a obscure one"),
            "An uneven and a dry road, an obscure one"
        );
        assert_eq!(with_article("opera"), "an opera");
        assert_eq!(with_article("mural"), "a mural");
    }
}
