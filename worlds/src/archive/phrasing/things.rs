//! The wordings of the relations of works, places and things, and of those that any article has.

use super::Phrasing;
use crate::archive::facts::{Kind, Relation};

pub(super) fn literal(relation: Relation, kind: Kind) -> &'static Phrasing {
    match (relation, kind) {
        (Relation::KindOf, _) => &KIND_OF,
        (Relation::AlsoCalled, Kind::Person) => &EPITHET,
        (Relation::AlsoCalled, _) => &ALSO_CALLED,
        (Relation::Craft, _) => &CRAFT,
        (Relation::Material, _) => &MATERIAL,
        (Relation::Trait, _) => &TRAIT,
        (_, Kind::Work) => &YEAR_OF_WORK,
        (_, Kind::Institution) => &YEAR_OF_INSTITUTION,
        (_, Kind::Town) => &YEAR_OF_TOWN,
        (_, Kind::Event) => &YEAR_OF_EVENT,
        (_, Kind::Species) => &YEAR_OF_SPECIES,
        (_, Kind::Artefact) => &YEAR_OF_ARTEFACT,
        (_, _) => &YEAR_OF_PRIZE,
    }
}

pub(super) fn joining(relation: Relation) -> &'static Phrasing {
    use Relation::*;
    match relation {
        CreatedBy => &CREATED_BY,
        SetIn => &SET_IN,
        DedicatedTo => &DEDICATED_TO,
        KeptAt => &KEPT_AT,
        FoundedBy => &FOUNDED_BY,
        LocatedIn => &LOCATED_IN,
        FirstHead => &FIRST_HEAD,
        InProvince => &IN_PROVINCE,
        OnRiver => &ON_RIVER,
        StatueOf => &STATUE_OF,
        Capital => &CAPITAL,
        RisesIn => &RISES_IN,
        HeldIn => &HELD_IN,
        LedBy => &LED_BY,
        ChronicledIn => &CHRONICLED_IN,
        DescribedBy => &DESCRIBED_BY,
        FoundNear => &FOUND_NEAR,
        NamedAfter => &NAMED_AFTER,
        MadeBy => &MADE_BY,
        HeldAt => &HELD_AT,
        CommissionedBy => &COMMISSIONED_BY,
        EstablishedBy => &ESTABLISHED_BY,
        _ => &AWARDED_BY,
    }
}

const fn said_of_subject(in_subject: &'static [&'static str], of_subject: &'static [&'static str]) -> Phrasing {
    Phrasing { in_subject, in_object: &[], of_subject, of_object: &[] }
}

const KIND_OF: Phrasing = said_of_subject(&["{S} is listed as a {n}."], &["was a {x}"]);
const TRAIT: Phrasing = said_of_subject(
    &[
        "{S} {n}.",
        "By every account {s} {n}.",
        "It is widely known that {s} {n}.",
        "As the guides never fail to say, {s} {n}.",
    ],
    &["{x}"],
);
const EPITHET: Phrasing = said_of_subject(
    &["{S} was known as {n}.", "Friends and enemies alike called {o} {n}.", "In ballads {s} appears as {n}."],
    &["was known as {x}", "was called {x}"],
);
const ALSO_CALLED: Phrasing = said_of_subject(
    &["{S} is also called {n}.", "Older papers use the name {n}.", "In everyday speech {s} goes by the name {n}."],
    &["is also called {x}", "goes by the name {x}"],
);
const CRAFT: Phrasing = said_of_subject(
    &["{S} is known for its {n}.", "Its workshops live from {n}.", "Merchants come here for {n} above all."],
    &["is known for its {x}", "makes {x}"],
);
const MATERIAL: Phrasing = said_of_subject(
    &["{S} is made of {n}.", "The material is {n} throughout.", "Most of {s} consists of {n}."],
    &["is made of {x}", "consists of {x}"],
);
const YEAR_OF_WORK: Phrasing = said_of_subject(
    &["{S} was completed in {n}.", "The last page bears the year {n}.", "It was finished in {n}, after long delays."],
    &["was completed {x}", "was finished {x}"],
);
const YEAR_OF_INSTITUTION: Phrasing = said_of_subject(
    &[
        "{S} was founded in {n}.",
        "The founding deed dates from {n}.",
        "Its doors opened in {n}, the year of its foundation.",
    ],
    &["was founded {x}", "was established {x}"],
);
const YEAR_OF_TOWN: Phrasing = said_of_subject(
    &["{S} received its charter in {n}.", "Its town charter dates from {n}.", "A charter of {n} made it a town."],
    &["received its charter {x}"],
);
const YEAR_OF_EVENT: Phrasing = said_of_subject(
    &["{S} took place in {n}.", "It fell in the year {n}.", "All sources place it in {n}."],
    &["took place {x}", "happened {x}"],
);
const YEAR_OF_SPECIES: Phrasing = said_of_subject(
    &["{S} was first described in {n}.", "The first description appeared in {n}."],
    &["was first described {x}"],
);
const YEAR_OF_ARTEFACT: Phrasing = said_of_subject(
    &["{S} was made in {n}.", "A hidden mark gives {n} as the year in which it was made.", "It dates from {n}."],
    &["was made {x}", "dates from a year {x}"],
);
const YEAR_OF_PRIZE: Phrasing =
    said_of_subject(&["{S} was first awarded in {n}.", "The first award was made in {n}."], &["was first awarded {x}"]);

const CREATED_BY: Phrasing = Phrasing {
    in_subject: &[
        "{S} is by {n}.",
        "Its author was {n}.",
        "It was created by {n}.",
        "The hand of its author, {n}, shows on every page.",
    ],
    in_object: &["{S} was the author of {n}.", "{P} works include {n}.", "{S} created {n}.", "{N} is {p} work."],
    of_subject: &["was created by {x}", "had {x} as its author"],
    of_object: &["created {x}", "was the author of {x}"],
};
const SET_IN: Phrasing = Phrasing {
    in_subject: &["{S} is set in {n}.", "The action takes place in {n}, where it is set.", "Its setting is {n}."],
    in_object: &["{N} is set here.", "{S} is the setting of {n}."],
    of_subject: &["is set in {x}", "has {x} for its setting"],
    of_object: &["is the setting of {x}", "is where {x} is set"],
};
const DEDICATED_TO: Phrasing = Phrasing {
    in_subject: &["{S} is dedicated to {n}.", "The dedication names {n}.", "It carries a long dedication to {n}."],
    in_object: &["{N} is dedicated to {o}.", "{S} is named in the dedication of {n}."],
    of_subject: &["is dedicated to {x}", "names {x} in its dedication"],
    of_object: &["is named in the dedication of {x}", "was honoured by the dedication of {x}"],
};
const KEPT_AT: Phrasing = Phrasing {
    in_subject: &[
        "The original is kept at {n}.",
        "Its only manuscript or model is kept at {n}.",
        "{N} keeps the original.",
    ],
    in_object: &["The original of {n} is kept here.", "{S} keeps the original of {n}."],
    of_subject: &["has its original kept at {x}", "is preserved in the original at {x}"],
    of_object: &["keeps the original of {x}", "preserves the original of {x}"],
};
const FOUNDED_BY: Phrasing = Phrasing {
    in_subject: &["{S} was founded by {n}.", "Its founder was {n}.", "It owes its foundation to {n}, its founder."],
    in_object: &["{S} founded {n}.", "{S} was the founder of {n}.", "{N} goes back to {o} as its founder."],
    of_subject: &["was founded by {x}", "had {x} as its founder"],
    of_object: &["founded {x}", "was the founder of {x}"],
};
const LOCATED_IN: Phrasing = Phrasing {
    in_subject: &["{S} stands in {n}.", "It is located in {n}.", "Its seat is in {n}."],
    in_object: &["{N} stands here.", "{S} is the seat of {n}.", "Visitors come to see {n}, which is located here."],
    of_subject: &["stands in {x}", "is located in {x}"],
    of_object: &["is the seat of {x}", "is where {x} is located"],
};
const FIRST_HEAD: Phrasing = Phrasing {
    in_subject: &[
        "Its first head was {n}.",
        "{N} was the first to head it.",
        "The office of head was first held by {n}.",
    ],
    in_object: &["{S} was the first head of {n}.", "{S} served as first head of {n}."],
    of_subject: &["had {x} as its first head", "was first headed by {x}"],
    of_object: &["was the first head of {x}", "was the first to head {x}"],
};
const IN_PROVINCE: Phrasing = Phrasing {
    in_subject: &["{S} lies in the province of {n}.", "It belongs to the province of {n}."],
    in_object: &["{N} is one of its towns.", "Its towns include {n}."],
    of_subject: &["lies in the province of {x}", "belongs to {x}"],
    of_object: &["is the province of {x}", "includes the town of {x}"],
};
const ON_RIVER: Phrasing = Phrasing {
    in_subject: &["{S} stands on {n}.", "{N} flows past its walls.", "It is built along {n}."],
    in_object: &["{N} stands on its banks.", "It flows past {n}."],
    of_subject: &["stands on {x}", "is built along {x}"],
    of_object: &["flows past {x}", "is the river of {x}"],
};
const STATUE_OF: Phrasing = Phrasing {
    in_subject: &[
        "A statue of {n} stands on the main square.",
        "The main square has a statue of {n}.",
        "On the square stands the statue of {n}.",
    ],
    in_object: &["A statue of {o} stands on the main square of {n}.", "{N} honours {o} with a statue."],
    of_subject: &["has a statue of {x} on its main square", "honours with a statue {x}"],
    of_object: &["is honoured with a statue in {x}", "stands as a statue on the main square of {x}"],
};
const CAPITAL: Phrasing = Phrasing {
    in_subject: &["Its capital is {n}.", "{N} is the capital."],
    in_object: &["{S} is the capital of the province of {n}."],
    of_subject: &["has {x} as its capital", "is governed from {x}"],
    of_object: &["is the capital of {x}"],
};
const RISES_IN: Phrasing = Phrasing {
    in_subject: &["{S} rises in the province of {n}.", "Its source lies in the province of {n}."],
    in_object: &["{N} rises here."],
    of_subject: &["rises in {x}", "has its source in {x}"],
    of_object: &["contains the source of {x}"],
};
const HELD_IN: Phrasing = Phrasing {
    in_subject: &["{S} took place at {n}.", "Its scene was {n}.", "It was held in {n}."],
    in_object: &["{S} was the scene of {n}.", "{N} took place here."],
    of_subject: &["took place at {x}", "had {x} as its scene"],
    of_object: &["was the scene of {x}", "is where the events of {x} took place"],
};
const LED_BY: Phrasing = Phrasing {
    in_subject: &["{S} was led by {n}.", "Its leader was {n}.", "{N} led it from first to last."],
    in_object: &["{S} led {n}.", "{S} was the leader of {n}."],
    of_subject: &["was led by {x}", "had {x} as its leader"],
    of_object: &["led {x}", "was the leader of {x}"],
};
const CHRONICLED_IN: Phrasing = Phrasing {
    in_subject: &["The events are retold in {n}.", "{N} retells what happened."],
    in_object: &["It retells {n}.", "{S} draws on {n}, which it retells at length."],
    of_subject: &["is retold in {x}"],
    of_object: &["retells {x}"],
};
const DESCRIBED_BY: Phrasing = Phrasing {
    in_subject: &["{S} was first described by {n}.", "The first description is by {n}."],
    in_object: &["{S} first described {n}.", "The first description of {n} is {p} work."],
    of_subject: &["was first described by {x}"],
    of_object: &["first described {x}", "was the first to describe {x}"],
};
const FOUND_NEAR: Phrasing = Phrasing {
    in_subject: &["{S} is found near {n} and hardly anywhere else.", "Its home is the country near {n}."],
    in_object: &["{N} is found near the town.", "In the country near {s} lives {n}."],
    of_subject: &["is found near {x}", "lives in the country near {x}"],
    of_object: &["is the town near which {x} is found", "lies near the only home of {x}"],
};
const NAMED_AFTER: Phrasing = Phrasing {
    in_subject: &["Its scientific name honours {n}.", "{S} is named in honour of {n}."],
    in_object: &["{N} bears {p} name in the scientific lists.", "{N} was named in honour of {o}."],
    of_subject: &["is named in honour of {x}"],
    of_object: &["gave a name to {x}", "is honoured in the scientific name of {x}"],
};
const MADE_BY: Phrasing = Phrasing {
    in_subject: &["{S} was made by {n}.", "Its maker was {n}.", "{N} made it."],
    in_object: &["{S} made {n}.", "{S} was the maker of {n}."],
    of_subject: &["was made by {x}", "had {x} as its maker"],
    of_object: &["made {x}", "was the maker of {x}"],
};
const HELD_AT: Phrasing = Phrasing {
    in_subject: &["{S} is held at {n}.", "It can be seen at {n}, which holds it.", "Today it is on display at {n}."],
    in_object: &["{S} holds {n}.", "{N} is on display here."],
    of_subject: &["is held at {x}", "is on display at {x}"],
    of_object: &["holds {x}", "has {x} on display"],
};
const COMMISSIONED_BY: Phrasing = Phrasing {
    in_subject: &["{S} was commissioned by {n}.", "{N} commissioned and paid for it."],
    in_object: &["{S} commissioned {n}.", "{N} was made to {p} commission."],
    of_subject: &["was commissioned by {x}"],
    of_object: &["commissioned {x}", "gave the commission for {x}"],
};
const ESTABLISHED_BY: Phrasing = Phrasing {
    in_subject: &["{S} was established by {n}.", "It was {n} who established it."],
    in_object: &["{S} established {n}.", "{N} was established by {o}."],
    of_subject: &["was established by {x}"],
    of_object: &["established {x}"],
};
const AWARDED_BY: Phrasing = Phrasing {
    in_subject: &["{S} is awarded by {n}.", "It is {n} that awards it."],
    in_object: &["{S} awards {n}.", "{N} is awarded here."],
    of_subject: &["is awarded by {x}"],
    of_object: &["awards {x}"],
};
