//! How each relation is put into English: sentences for the articles of either side, and verb phrases for
//! questions. It knows wordings only; who is joined to whom is the fact base's business.
//!
//! Sentences use `{S}`/`{s}` for the article's own subject, `{P}`/`{p}` for its possessive, `{n}` for the other side
//! and `{y}` for a year; verb phrases use `{x}` for the side that is given.

mod people;
mod things;

use super::facts::{Kind, Relation};

/// The wordings of one relation.
pub(super) struct Phrasing {
    /// Sentences for the article of the fact's subject.
    pub(super) in_subject: &'static [&'static str],
    /// Sentences for the article of the fact's object; empty when it has none.
    pub(super) in_object: &'static [&'static str],
    /// What is said of the subject when the object is given.
    pub(super) of_subject: &'static [&'static str],
    /// What is said of the object when the subject is given; empty where that is not asked.
    pub(super) of_object: &'static [&'static str],
}

/// The wordings of `relation` for subjects of `kind`.
pub(super) fn phrasing(relation: Relation, kind: Kind) -> &'static Phrasing {
    use Relation::*;
    match relation {
        KindOf | Trait | AlsoCalled | Year | Craft | Material => things::literal(relation, kind),
        BornOn | DiedInYear | Death | BornIn | DiedIn | TaughtBy | MarriedTo | ChildOf | RivalOf | StudiedAt
        | BuriedAt | Won | TookPartIn => people::phrasing(relation),
        _ => things::joining(relation),
    }
}

/// How a step asks for a year or a day of `{x}`; `None` for relations whose objects are not asked for so.
pub(super) fn value_question(relation: Relation, kind: Kind) -> Option<&'static [&'static str]> {
    Some(match (relation, kind) {
        (Relation::BornOn, _) => &["On what date was {x} born?", "What is the birth date of {x}?"],
        (Relation::DiedInYear, _) => &["In which year did {x} die?", "What was the year of death of {x}?"],
        (Relation::Year, Kind::Work) => &["In which year was {x} completed?", "What is the year of completion of {x}?"],
        (Relation::Year, Kind::Institution) => &["In which year was {x} founded?", "What is the founding year of {x}?"],
        (Relation::Year, Kind::Town) => {
            &["In which year did {x} receive its charter?", "What is the charter year of {x}?"]
        }
        (Relation::Year, Kind::Event) => &["In which year did {x} take place?", "What is the year of {x}?"],
        (Relation::Year, Kind::Species) => {
            &["In which year was {x} first described?", "What is the year of the first description of {x}?"]
        }
        (Relation::Year, Kind::Artefact) => &["In which year was {x} made?", "What is the year of origin of {x}?"],
        (Relation::Year, Kind::Prize) => {
            &["In which year was {x} first awarded?", "What is the year of the first award of {x}?"]
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_wording_has_a_variant_that_can_end_in_a_clause() {
        use Relation::*;
        let joining = [
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
            CreatedBy,
            SetIn,
            DedicatedTo,
            KeptAt,
            FoundedBy,
            LocatedIn,
            FirstHead,
            InProvince,
            OnRiver,
            StatueOf,
            Capital,
            RisesIn,
            HeldIn,
            LedBy,
            ChronicledIn,
            DescribedBy,
            FoundNear,
            NamedAfter,
            MadeBy,
            HeldAt,
            CommissionedBy,
            EstablishedBy,
            AwardedBy,
        ];
        for relation in joining {
            let words = phrasing(relation, Kind::Person);
            for variants in [words.of_subject, words.of_object] {
                assert!(variants.iter().any(|variant| variant.ends_with("{x}")), "{relation:?}: {variants:?}");
            }
            assert!(relation.joins_entities() && !words.in_subject.is_empty());
        }
    }
}
