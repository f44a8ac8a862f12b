//! Words a query: the question as it is asked, and each step as a query that can be searched for by itself. It
//! decides wordings only; whether the query has one answer is proven elsewhere.

use super::draw::Draw;
use super::facts::{Condition, FactBase, Kind, Query, Relation, Role, Sought, Term, Value};
use super::lexicon;
use super::names::capitalised;
use super::phrasing::{phrasing, value_question};
use super::prose::{mention, with_article};

/// Words steps and questions of one base.
pub(super) struct Wording<'a> {
    base: &'a FactBase,
    /// What each step of the query finds.
    path: &'a [Value],
    veiled: bool,
}

impl<'a> Wording<'a> {
    /// The wording of a query that finds `path`; a veiled one avoids the words of the articles.
    pub(super) fn new(base: &'a FactBase, path: &'a [Value], veiled: bool) -> Self {
        Wording { base, path, veiled }
    }

    /// The step as a question of its own, in plain words, with `#n` for what step n finds.
    pub(super) fn step(&self, query: &Query, at: usize) -> String {
        let plain = Wording { veiled: false, ..*self };
        plain.asks(&query.steps[at], &mut |step| format!("#{}", step + 1), &mut |variants| variants[0])
    }

    /// A question whose first step is named or described and whose steps each follow from the one before.
    pub(super) fn chain(&self, query: &Query, draw: &mut Draw) -> String {
        let last = query.steps.len() - 1;
        let first = &query.steps[0];
        let named = first.conditions.iter().any(|c| matches!(c.given, Term::Is(Value::Entity(_))));
        let frame = if named { 0 } else { draw.below(3) };
        let head = self.head(first);
        let start = match frame {
            0 => self.noun_phrase(first, &mut |_| String::new(), draw),
            1 => format!("this {head}"),
            _ => format!("a certain {head}"),
        };
        let mut inner = start;
        for step in &query.steps[1..last] {
            let within = inner;
            inner = self.noun_phrase(step, &mut |_| within.clone(), draw);
        }
        let ask = self.asks(&query.steps[last], &mut |_| inner.clone(), &mut |variants| *draw.pick::<&str>(variants));
        match frame {
            0 => ask,
            1 => {
                let described =
                    self.predicates(first, &mut |_| String::new(), &mut |variants| *draw.pick::<&str>(variants));
                format!("{} {described}. {ask}", capitalised(&with_article(&head)))
            }
            _ => {
                let described =
                    self.predicates(first, &mut |_| String::new(), &mut |variants| *draw.pick::<&str>(variants));
                format!("{ask} The {head} in question {described}.")
            }
        }
    }

    /// A question with two described starts, one thing that belongs to both, and what is asked of it.
    pub(super) fn junction(&self, query: &Query, draw: &mut Draw) -> Option<String> {
        let [one, two, both, asked] = query.steps.as_slice() else { return None };
        let heads = [self.head(one), self.head(two), self.head(both)];
        if heads[0] == heads[1] {
            return None;
        }
        let mut pick = |variants: &'static [&'static str]| *draw.pick::<&str>(variants);
        let mut nothing = |_: usize| String::new();
        let first = self.predicates(one, &mut nothing, &mut pick);
        let second = self.predicates(two, &mut nothing, &mut pick);
        let joined = self.predicates(both, &mut |step| format!("that {}", heads[step]), &mut pick);
        let third = format!("this last-named {}", lexicon::noun(both.kind?));
        let ask = self.asks(asked, &mut |_| third.clone(), &mut pick);
        Some(format!(
            "{} {first}. {} {second}. {} {joined}. {ask}",
            capitalised(&with_article(&heads[0])),
            capitalised(&with_article(&heads[1])),
            capitalised(&with_article(&heads[2])),
        ))
    }

    /// `Which town was the birthplace of …?`
    fn asks(&self, sought: &Sought, given: &mut Given<'_>, pick: &mut Pick<'_>) -> String {
        if sought.kind.is_none() {
            return self.asks_for_value(sought, given, pick);
        }
        let head = self.head(sought);
        let predicates = self.predicates(sought, given, pick);
        if head == lexicon::noun(Kind::Person) {
            format!("Who {predicates}?")
        } else {
            format!("Which {head} {predicates}?")
        }
    }

    fn asks_for_value(&self, sought: &Sought, given: &mut Given<'_>, pick: &mut Pick<'_>) -> String {
        let condition = &sought.conditions[0];
        let subject = self.given(condition, given);
        let kind = match &condition.given {
            Term::Step(step) => self.path.get(*step).and_then(Value::entity).map(|id| self.base.entity(id).kind),
            Term::Is(value) => value.entity().map(|id| self.base.entity(id).kind),
            Term::Years(..) => None,
        };
        let templates = value_question(condition.relation, kind.unwrap_or(Kind::Person));
        fill(templates.unwrap_or(&["What is known of {x}?"]), &subject, pick)
    }

    /// `the observatory that was founded by …`
    fn noun_phrase(&self, sought: &Sought, given: &mut Given<'_>, draw: &mut Draw) -> String {
        let pronoun = if sought.kind == Some(Kind::Person) { "who" } else { "that" };
        let predicates = self.predicates(sought, given, &mut |variants| *draw.pick::<&str>(variants));
        format!("the {} {pronoun} {predicates}", self.head(sought))
    }

    /// The noun for what is sought: its sort where a condition gives it, else the noun of its kind.
    fn head(&self, sought: &Sought) -> String {
        let sort = sought.conditions.iter().find_map(|condition| match (&condition.relation, &condition.given) {
            (Relation::KindOf, Term::Is(Value::Word(word))) => Some(if self.veiled { word.veiled } else { word.plain }),
            _ => None,
        });
        sort.or(sought.kind.map(lexicon::noun)).unwrap_or("thing").to_owned()
    }

    /// What is said of the thing sought, but for its sort, joined to one phrase.
    fn predicates(&self, sought: &Sought, given: &mut Given<'_>, pick: &mut Pick<'_>) -> String {
        let told = sought.conditions.iter().filter(|condition| condition.relation != Relation::KindOf);
        let phrases: Vec<String> = told.map(|condition| self.predicate(sought, condition, given, pick)).collect();
        match phrases.as_slice() {
            [] => "is meant".to_owned(),
            [only] => only.clone(),
            [before @ .., last] => format!("{} and {last}", before.join(", ")),
        }
    }

    fn predicate(&self, sought: &Sought, condition: &Condition, given: &mut Given<'_>, pick: &mut Pick<'_>) -> String {
        let subject_kind = match condition.role {
            Role::Subject => sought.kind,
            Role::Object => self.given_kind(condition),
        };
        let words = phrasing(condition.relation, subject_kind.unwrap_or(Kind::Person));
        let variants = if condition.role == Role::Subject { words.of_subject } else { words.of_object };
        fill(variants, &self.given(condition, given), pick)
    }

    fn given_kind(&self, condition: &Condition) -> Option<Kind> {
        let value = match &condition.given {
            Term::Is(value) => Some(value),
            Term::Step(step) => self.path.get(*step),
            Term::Years(..) => None,
        };
        value.and_then(Value::entity).map(|id| self.base.entity(id).kind)
    }

    fn given(&self, condition: &Condition, given: &mut Given<'_>) -> String {
        match &condition.given {
            Term::Step(step) => given(*step),
            Term::Years(first, last) if first == last => format!("in {first}"),
            // `The 1400s` would be a century, not a decade.
            Term::Years(first, last) if last - first == 9 && first % 10 == 0 && first % 100 != 0 => {
                format!("in the {first}s")
            }
            Term::Years(first, last) => format!("between {first} and {last}"),
            Term::Is(Value::Entity(id)) => mention(self.base.entity(*id)),
            Term::Is(Value::Word(word)) => (if self.veiled { word.veiled } else { word.plain }).to_owned(),
            Term::Is(Value::Name(name)) => name.to_string(),
            Term::Is(Value::Year(year)) => format!("in {year}"),
            Term::Is(Value::Day(day)) => day.form(0),
        }
    }
}

/// Fills one of the variants. What is itself a clause goes to the end, where no verb is left waiting for it.
fn fill(variants: &'static [&'static str], given: &str, pick: &mut Pick<'_>) -> String {
    let mut chosen = pick(variants);
    let is_clause = [" who ", " that "].iter().any(|pronoun| given.contains(pronoun));
    let ends = |template: &&str| template.trim_end_matches('?').ends_with("{x}");
    if is_clause && !ends(&chosen) {
        chosen = variants.iter().copied().find(ends).unwrap_or(chosen);
    }
    chosen.replace("{x}", given)
}

/// Writes what an earlier step found.
type Given<'a> = dyn FnMut(usize) -> String + 'a;
/// Chooses a wording.
type Pick<'a> = dyn FnMut(&'static [&'static str]) -> &'static str + 'a;
