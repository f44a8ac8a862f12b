//! The readers over real data. It lies outside the workspace, at `$LEGWORK_SHARED` or beside the workspace; where it
//! is absent the tests say so and pass.

#![allow(clippy::print_stdout, reason = "a skipped test says why")]

use legwork_worlds::multihop::{self, Files};
use legwork_worlds::{Missing, contamination};
use std::collections::BTreeMap;
use std::path::PathBuf;

fn multihop_folder() -> Option<PathBuf> {
    let shared = std::env::var_os("LEGWORK_SHARED").map(PathBuf::from);
    let shared = shared.unwrap_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../shared"));
    let folder = shared.join("data/multihop");
    if folder.is_dir() {
        return Some(folder);
    }
    println!("skipped: {} is absent; set LEGWORK_SHARED to the folder that holds data/multihop", folder.display());
    None
}

#[test]
fn the_multihop_world_has_the_counts_of_its_readme_and_all_its_gold() {
    let Some(folder) = multihop_folder() else { return };
    let (world, lacking) = multihop::read(&Files::of_folder(&folder, true), Missing::Refuse).unwrap();
    assert!(lacking.is_empty());
    assert_eq!(world.documents.len(), 16_160 + 3_226);
    assert_eq!((world.train.len(), world.test.len()), (2_319, 150));
    assert_eq!(world.test_tiers(), BTreeMap::from([("easy", 50), ("hard", 50), ("medium", 50)]));
    assert_eq!(world.train.iter().filter(|question| !question.decomposition.is_empty()).count(), 1_019);
    assert_eq!(world.test.iter().filter(|question| !question.decomposition.is_empty()).count(), 135);
    assert!(world.questions().all(|question| !question.gold.is_empty()));
    assert_eq!(contamination::overlaps(&world.train, &world.test), []);
}

#[test]
fn the_smaller_multihop_corpus_holds_all_gold_by_itself() {
    let Some(folder) = multihop_folder() else { return };
    let files = Files { train: None, ..Files::of_folder(&folder, false) };
    let (world, _) = multihop::read(&files, Missing::Refuse).unwrap();
    assert_eq!((world.documents.len(), world.train.len()), (16_160, 0));
}

#[test]
fn a_corpus_without_its_gold_is_refused_or_listed() {
    let Some(folder) = multihop_folder() else { return };
    let files = Files { corpus: vec![folder.join("corpus_extra.jsonl")], train: None, test: folder.join("test.jsonl") };
    let error = multihop::read(&files, Missing::Refuse).unwrap_err().to_string();
    assert!(error.contains("needed documents are not in the corpus") && error.contains("allow missing"), "{error}");
    let (world, lacking) = multihop::read(&files, Missing::List).unwrap();
    assert!(lacking.len() >= world.test.len());
}
