//! The words of the archive, by what they are said of. A word never stands in two tables of the same kind of
//! entity, and no two words of a table share a wording, so that a veiled question still has one answer.

pub(super) mod people;
pub(super) mod things;

use super::facts::{Kind, Word};

/// The sorts that an entity of a kind can be of.
pub(super) fn sorts(kind: Kind) -> &'static [Word] {
    match kind {
        Kind::Person => people::OCCUPATIONS,
        Kind::Town => things::TOWN_KINDS,
        Kind::Province => PROVINCE_KINDS,
        Kind::River => things::RIVER_KINDS,
        Kind::Work => things::WORK_KINDS,
        Kind::Institution => things::INSTITUTION_KINDS,
        Kind::Event => things::EVENT_KINDS,
        Kind::Species => things::SPECIES_KINDS,
        Kind::Artefact => things::ARTEFACT_KINDS,
        Kind::Prize => things::PRIZE_KINDS,
    }
}

/// The traits that an entity of a kind can have.
pub(super) fn traits(kind: Kind) -> &'static [Word] {
    match kind {
        Kind::Person => people::HABITS,
        Kind::Town => things::TOWN_TRAITS,
        Kind::Province => things::PROVINCE_TRAITS,
        Kind::River => things::RIVER_TRAITS,
        Kind::Work => things::WORK_TRAITS,
        Kind::Institution => things::INSTITUTION_TRAITS,
        Kind::Event => things::EVENT_TRAITS,
        Kind::Species => things::SPECIES_TRAITS,
        Kind::Artefact => things::ARTEFACT_TRAITS,
        Kind::Prize => things::PRIZE_TRAITS,
    }
}

/// The noun for any entity of a kind, plain and veiled alike.
pub(super) fn noun(kind: Kind) -> &'static str {
    match kind {
        Kind::Person => "person",
        Kind::Town => "town",
        Kind::Province => "province",
        Kind::River => "river",
        Kind::Work => "work",
        Kind::Institution => "institution",
        Kind::Event => "event",
        Kind::Species => "species",
        Kind::Artefact => "artefact",
        Kind::Prize => "prize",
    }
}

const PROVINCE_KINDS: &[Word] = &[Word { plain: "province", veiled: "region" }];

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn no_two_words_of_a_table_share_a_wording() {
        use Kind::*;
        let kinds = [Person, Town, Province, River, Work, Institution, Event, Species, Artefact, Prize];
        let tables = kinds.iter().flat_map(|kind| [sorts(*kind), traits(*kind)]);
        for table in tables.chain([people::DEATHS, things::CRAFTS, things::MATERIALS]) {
            let plain: BTreeSet<_> = table.iter().map(|word| word.plain).collect();
            let veiled: BTreeSet<_> = table.iter().map(|word| word.veiled).collect();
            assert_eq!((plain.len(), veiled.len()), (table.len(), table.len()), "{table:?}");
        }
    }
}
