//! The wordings of the relations whose subject is a person.

use super::Phrasing;
use crate::archive::facts::Relation;

pub(super) fn phrasing(relation: Relation) -> &'static Phrasing {
    use Relation::*;
    match relation {
        BornOn => &BORN_ON,
        DiedInYear => &DIED_IN_YEAR,
        Death => &DEATH,
        BornIn => &BORN_IN,
        DiedIn => &DIED_IN,
        TaughtBy => &TAUGHT_BY,
        MarriedTo => &MARRIED_TO,
        ChildOf => &CHILD_OF,
        RivalOf => &RIVAL_OF,
        StudiedAt => &STUDIED_AT,
        BuriedAt => &BURIED_AT,
        Won => &WON,
        _ => &TOOK_PART_IN,
    }
}

const BORN_ON: Phrasing = Phrasing {
    in_subject: &[
        "{S} was born on {n}.",
        "The parish register gives {n} as the day of {p} birth.",
        "{P} life began on {n}.",
        "{S} came into the world on {n}, if the family papers can be trusted.",
    ],
    in_object: &[],
    of_subject: &["was born {x}", "came into the world {x}"],
    of_object: &[],
};

const DIED_IN_YEAR: Phrasing = Phrasing {
    in_subject: &[
        "{S} died in {n}.",
        "{P} death came in {n}.",
        "{S} did not live beyond {n}, the year of {p} death.",
        "The last notice of {p} life is the entry of {p} death in {n}.",
    ],
    in_object: &[],
    of_subject: &["died {x}"],
    of_object: &[],
};

const DEATH: Phrasing = Phrasing {
    in_subject: &[
        "{S} {n}.",
        "In the end {s} {n}.",
        "All witnesses agree that {s} {n}.",
        "It was said for generations afterwards how {s} {n}.",
    ],
    in_object: &[],
    of_subject: &["{x}"],
    of_object: &[],
};

const BORN_IN: Phrasing = Phrasing {
    in_subject: &[
        "{P} birthplace was {n}.",
        "{S} was born in {n}.",
        "{S} first saw daylight in {n}, where {p} family had lived for some time.",
        "{P} cradle stood in {n}.",
    ],
    in_object: &[
        "Among those born in {s} was {n}.",
        "{S} was the birthplace of {n}.",
        "{N} was born here.",
        "A plaque on a narrow house recalls that {n} was born in it.",
    ],
    of_subject: &["was born in {x}", "had {x} as a birthplace"],
    of_object: &["was the birthplace of {x}", "saw the birth of {x}"],
};

const DIED_IN: Phrasing = Phrasing {
    in_subject: &[
        "{S} died in {n}.",
        "{P} last years were spent in {n}, where {s} died.",
        "Death overtook {o} in {n}.",
        "{S} had moved to {n} long before dying there.",
    ],
    in_object: &[
        "{N} died in {s}.",
        "It was here that {n} died.",
        "The house in which {n} died is still shown to visitors.",
    ],
    of_subject: &["died in {x}", "spent the last hours of life in {x}"],
    of_object: &["was the place where {x} died", "saw the death of {x}"],
};

const TAUGHT_BY: Phrasing = Phrasing {
    in_subject: &[
        "{P} teacher was {n}.",
        "{S} was taught by {n}.",
        "{S} learned the trade as a pupil of {n}.",
        "As a young pupil {s} came under the instruction of {n}.",
    ],
    in_object: &[
        "{S} taught {n}.",
        "{N} was a pupil in {p} workshop.",
        "Among {p} pupils was {n}.",
        "{S} also gave lessons to {n}, a pupil who later spoke of them warmly.",
    ],
    of_subject: &["was taught by {x}", "was a pupil of {x}"],
    of_object: &["taught {x}", "was the teacher of {x}"],
};

const MARRIED_TO: Phrasing = Phrasing {
    in_subject: &[
        "{S} married {n}.",
        "{S} was married to {n}.",
        "{P} marriage to {n} was by all reports a calm one.",
        "{S} and {n} were married after a long engagement.",
    ],
    in_object: &[],
    of_subject: &["was married to {x}", "was the spouse of {x}"],
    of_object: &["was married to {x}", "was the spouse of {x}"],
};

const CHILD_OF: Phrasing = Phrasing {
    in_subject: &[
        "{S} was a child of {n}.",
        "{P} upbringing was in the hands of a parent, {n}.",
        "{S} grew up in the household of {n}, who was {p} parent.",
    ],
    in_object: &[
        "{S} was the parent of {n}.",
        "One of {p} children was {n}.",
        "{N}, {p} child, inherited a share of the estate.",
    ],
    of_subject: &["was a child of {x}", "had as a parent {x}"],
    of_object: &["was a parent of {x}", "had as a child {x}"],
};

const RIVAL_OF: Phrasing = Phrasing {
    in_subject: &[
        "{P} lifelong rival was {n}.",
        "{S} quarrelled in public with {n}, a rival to the last.",
        "The rivalry with {n} filled many pages of {p} letters.",
    ],
    in_object: &[],
    of_subject: &["was a rival of {x}", "quarrelled in public with {x}"],
    of_object: &["was a rival of {x}", "quarrelled in public with {x}"],
};

const STUDIED_AT: Phrasing = Phrasing {
    in_subject: &[
        "{S} studied at {n}.",
        "{P} years of study were spent at {n}.",
        "{S} was a student at {n} for four winters.",
        "{S} entered {n} to study and left it with debts.",
    ],
    in_object: &["{N} studied here.", "The rolls of students include {n}.", "One of those who studied at {s} was {n}."],
    of_subject: &["studied at {x}", "was a student at {x}"],
    of_object: &["had {x} among its students", "was where {x} studied", "was the place of study of {x}"],
};

const BURIED_AT: Phrasing = Phrasing {
    in_subject: &[
        "{S} is buried at {n}.",
        "{P} grave is at {n}.",
        "{S} was laid to rest at {n}, in a grave without a date.",
    ],
    in_object: &["{N} is buried here.", "The grave of {n} lies within {p} walls.", "{S} holds the grave of {n}."],
    of_subject: &["is buried at {x}", "has a grave at {x}"],
    of_object: &["holds the grave of {x}", "is the burial place of {x}"],
};

const WON: Phrasing = Phrasing {
    in_subject: &[
        "In {y} {s} won {n}.",
        "{S} won {n} in {y}.",
        "{S} received {n} in {y}, to general surprise.",
        "The jury of {y} gave {o} {n}.",
    ],
    in_object: &[
        "The winner in {y} was {n}.",
        "In {y} it was won by {n}.",
        "{N} won it in {y}.",
        "For {y} the list of winners has {n}.",
    ],
    of_subject: &["won {x}", "was a winner of {x}"],
    of_object: &["was won by {x}", "was given to {x}"],
};

const TOOK_PART_IN: Phrasing = Phrasing {
    in_subject: &[
        "{S} took part in {n}.",
        "{S} was present at {n} and took part in it to the end.",
        "{P} name stands among those who took part in {n}.",
    ],
    in_object: &[
        "{N} took part in it.",
        "Among those who took part was {n}.",
        "The roll of those who took part names {n}.",
    ],
    of_subject: &["took part in {x}", "was among those present at {x}"],
    of_object: &["had {x} among those who took part", "was attended by {x}", "counted among those who took part {x}"],
};
