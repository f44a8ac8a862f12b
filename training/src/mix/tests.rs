use super::*;
use crate::mask::Encoder;
use crate::mask::{EncoderSettings, MaskKind, TemplateChoice, TextDigests};
use crate::rows::{BadRows, RowSource, Sieve};
use legwork_model::House;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

fn counts(supervised: &[u64]) -> Vec<RowCount> {
    supervised.iter().map(|supervised| RowCount { supervised: *supervised, tokens: 10 * supervised }).collect()
}

fn of(plan: &Plan, part: Part) -> Vec<u32> {
    plan.order.iter().filter(|drawn| drawn.part == part).map(|drawn| drawn.row).collect()
}

#[test]
fn core_rows_come_so_many_times_and_gate_rows_until_the_tokens_balance() {
    let plan = plan(&counts(&[100, 50]), &counts(&[40, 30, 7]), 3, 42).unwrap();
    let times = |rows: Vec<u32>, row| rows.iter().filter(|own| **own == row).count();
    assert_eq!([0, 1].map(|row| times(of(&plan, Part::Core), row)), [3, 3]);
    // 450 = 5 passes of 77 and a part of the sixth: 65 are left, of which 40 + 7 or 30 + 7 are taken by the shuffle.
    assert_eq!(plan.target, 450);
    let gate = of(&plan, Part::Gate);
    assert_eq!(plan.passes, 6);
    assert!([0, 1, 2].iter().all(|row| times(gate.clone(), *row) >= 5), "{gate:?}");
    let drawn: u64 = gate.iter().map(|row| [40, 30, 7][*row as usize]).sum();
    assert_eq!(plan.gap, 450 - drawn);
    assert!(plan.gap < 30);
}

#[test]
fn a_gate_without_a_row_that_fits_is_gone_through_once() {
    let alone = plan(&counts(&[5]), &[], 2, 0).unwrap();
    assert_eq!((alone.order.len(), alone.gap, alone.passes), (2, 10, 0));
    let too_long = plan(&counts(&[5]), &counts(&[11, 12]), 2, 0).unwrap();
    assert_eq!((too_long.order.len(), too_long.gap, too_long.passes), (2, 10, 1));
}

#[test]
fn nothing_to_mix_is_an_error() {
    for (core, repeat) in [(vec![], 3), (vec![5], 0), (vec![0], 1)] {
        plan(&counts(&core), &[], repeat, 0).unwrap_err();
    }
    let endless = plan(&counts(&[u64::from(u32::MAX)]), &counts(&[1]), 1, 0).unwrap_err().to_string();
    assert!(endless.contains("expected rows that balance the core, got 1 rows"), "{endless}");
}

/// The card's mixture by its figures: 541 core rows of 2,435.5 tokens in the loss on average, three times, and 18,698 gate rows
/// of 93.8.
fn card() -> (Vec<RowCount>, Vec<RowCount>) {
    let core: Vec<u64> = (0..541).map(|row| if row % 2 == 0 { 2435 } else { 2436 }).collect();
    let gate: Vec<u64> = (0..18_698).map(|row| if row % 5 == 0 { 93 } else { 94 }).collect();
    (counts(&core), counts(&gate))
}

#[test]
fn the_cards_mixture_is_two_passes_and_a_part_and_core_makes_two_fifths_of_the_gradient() {
    let (core, gate) = card();
    let plan = plan(&core, &gate, 3, 42).unwrap();
    assert_eq!(plan.passes, 3);
    let (core_rows, gate_rows) = (of(&plan, Part::Core).len(), of(&plan, Part::Gate).len());
    assert_eq!(core_rows, 1623);
    assert!((42_120..42_160).contains(&gate_rows), "{gate_rows}");
    assert!(plan.gap < 93, "{}", plan.gap);
    let rows = plan.order.iter().map(|drawn| match drawn.part {
        Part::Core => ("core", core[drawn.row as usize].supervised),
        Part::Gate => ("gate", gate[drawn.row as usize].supervised),
    });
    let shares = gradient_shares(rows, 32);
    // One shuffle of 1,367 slots: about a percent of chance either way.
    assert!((shares["core"].by_token - 0.39).abs() < 0.02, "{shares:?}");
    assert!((shares["core"].slots_without - 0.298).abs() < 0.03, "{shares:?}");
    assert!((shares["core"].by_sample - 0.037).abs() < 0.001, "{shares:?}");
    assert!((shares["core"].by_token + shares["gate"].by_token - 1.0).abs() < 1e-9);
}

#[test]
fn over_many_shuffles_the_shares_are_those_of_the_hypergeometric_distribution() {
    // A slot draws 32 of 43,760 rows, 1,623 of them core. With k core rows of 2,435.5 tokens and 32 - k gate rows of 93.8 the
    // core's share of the slot's tokens is 2435.5 k / (2435.5 k + 93.8 (32 - k)); its mean over k is what the figure means.
    let (rows, core, batch) = (43_760_u64, 1623_u64, 32_u64);
    let mut chance = (0..batch).map(|at| (rows - core - at) as f64 / (rows - at) as f64).product::<f64>();
    let none = chance;
    let mut expected = 0.0;
    for k in 0..batch {
        let kf = k as f64;
        expected += chance * 2435.5 * kf / (2435.5 * kf + 93.8 * (batch as f64 - kf));
        let more = (core - k) as f64 * (batch - k) as f64;
        chance *= more / ((k + 1) as f64 * (rows - core + k + 1 - batch) as f64);
    }
    assert!((expected - 0.39).abs() < 0.005 && (none - 0.298).abs() < 0.0005, "{expected} {none}");
    let kinds: Vec<(&str, u64)> =
        (0..rows).map(|row| if row < core { ("core", 24_355) } else { ("gate", 938) }).collect();
    let seeds = 20;
    let shares = (0..seeds).map(|seed| {
        let order = crate::shuffle::shuffled(seed, kinds.len());
        gradient_shares(order.iter().map(|place| kinds[*place as usize]), 32)["core"]
    });
    let (mut by_token, mut without) = (0.0, 0.0);
    for share in shares {
        by_token += share.by_token / seeds as f64;
        without += share.slots_without / seeds as f64;
    }
    assert!((by_token - expected).abs() < 0.006, "{by_token} {expected}");
    assert!((without - none).abs() < 0.009, "{without} {none}");
}

#[test]
fn rows_behind_the_last_whole_slot_have_no_share() {
    let shares = gradient_shares([("a", 1), ("b", 3), ("a", 0), ("b", 1), ("c", 9)], 2);
    let half = GradientShare { by_token: 0.375, by_sample: 0.5, slots_without: 0.0 };
    assert_eq!(shares["a"], half);
    assert_eq!(shares["c"], GradientShare { slots_without: 1.0, ..GradientShare::default() });
    assert!(gradient_shares([], 0).is_empty());
}

proptest! {
    #[test]
    fn a_mixture_never_passes_its_target_and_no_skipped_row_would_have_fitted(
        core in proptest::collection::vec(1_u64..300, 1..6), gate in proptest::collection::vec(1_u64..80, 0..30),
        repeat in 1_u32..4, seed: u64
    ) {
        let plan = plan(&counts(&core), &counts(&gate), repeat, seed).unwrap();
        prop_assert_eq!(plan.target, core.iter().sum::<u64>() * u64::from(repeat));
        let drawn = of(&plan, Part::Gate);
        let total: u64 = drawn.iter().map(|row| gate[*row as usize]).sum();
        prop_assert_eq!(total + plan.gap, plan.target);
        let mut times = vec![0_u64; gate.len()];
        drawn.iter().for_each(|row| times[*row as usize] += 1);
        // Whole passes take every row; the last one what fits.
        for (row, times) in times.iter().enumerate() {
            prop_assert!(*times == plan.passes || *times + 1 == plan.passes, "row {}: {}", row, times);
            prop_assert!(*times == plan.passes || gate[row] > plan.gap, "row {} would have fitted", row);
        }
        for row in 0..core.len() as u32 {
            prop_assert_eq!(of(&plan, Part::Core).iter().filter(|own| **own == row).count(), repeat as usize);
        }
        prop_assert_eq!(&plan, &super::plan(&counts(&core), &counts(&gate), repeat, seed).unwrap());
    }
}

fn row(text: &str) -> String {
    let answer = "w ".repeat(text.len());
    format!(r#"{{"messages":[{{"role":"user","content":"{text}"}}, {{"role":"assistant","content":"{answer}"}}] }}"#)
}

struct Kitchen {
    folder: tempfile::TempDir,
    encoder: Encoder,
    digests: TextDigests,
}

impl Kitchen {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let model = folder.path().join("model");
        std::fs::create_dir(&model).unwrap();
        let tokenizer =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../model/goldens/embedder/tiny-qwen3/tokenizer.json");
        std::fs::copy(tokenizer, model.join("tokenizer.json")).unwrap();
        let template = TemplateChoice::House(House::KeepThink);
        let settings = EncoderSettings { template, kind: MaskKind::Qwen3, length_max: Some(500) };
        let (encoder, digests) = Encoder::open(&model, settings).unwrap();
        Self { folder, encoder, digests }
    }

    fn file(&self, name: &str, lines: &[String]) -> PathBuf {
        let path = self.folder.path().join(name);
        std::fs::write(&path, lines.iter().map(|line| format!("{line}\n")).collect::<String>()).unwrap();
        path
    }

    fn mix(&self, core: &Path, gate: &Path, out: &str, rule: BadRows) -> Result<MixManifest, TrainingError> {
        let (core, gate) = ([RowSource::all(core)], [RowSource::all(gate)]);
        let inputs = MixInputs { core: &core, gate: &gate, encoder: &self.encoder, digests: &self.digests };
        let recipe = Recipe { repeat: 2, seed: 42, batch: 4 };
        write(&inputs, &recipe, &mut Sieve::new(rule), &self.folder.path().join(out), &mut |_| {})
    }

    fn names(&self, out: &str) -> Vec<String> {
        let entries = std::fs::read_dir(self.folder.path().join(out)).unwrap();
        let mut names: Vec<String> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

#[test]
fn the_files_of_a_mixture_hold_the_rows_as_they_were_and_say_how_they_were_made() {
    let kitchen = Kitchen::new();
    let core_rows = [row("the first core row"), row("the second core row")];
    let gate_rows: Vec<String> = (0..9).map(|at| row(&format!("gate {at}"))).collect();
    let (core, gate) = (kitchen.file("core.jsonl", &core_rows), kitchen.file("gate.jsonl", &gate_rows));
    let manifest = kitchen.mix(&core, &gate, "out", BadRows::Refuse).unwrap();
    assert_eq!(kitchen.names("out"), [MANIFEST_FILE, ROWS_FILE]);
    let bytes = std::fs::read(kitchen.folder.path().join("out").join(ROWS_FILE)).unwrap();
    let text = String::from_utf8(bytes.clone()).unwrap();
    let mut times: BTreeMap<&str, u64> = BTreeMap::new();
    text.lines().for_each(|line| *times.entry(line).or_default() += 1);
    assert_eq!(core_rows.each_ref().map(|row| times[row.as_str()]), [2, 2]);
    let gate_lines: u64 = gate_rows.iter().filter_map(|row| times.get(row.as_str())).sum();
    assert_eq!(gate_lines, manifest.gate.rows);
    assert_eq!(manifest.output.rows, manifest.core.rows + manifest.gate.rows);
    assert_eq!((manifest.output.sha256, manifest.output.bytes), (crate::mask::sha256(&bytes), bytes.len() as u64));
    assert_eq!(manifest.core.inputs[0].sha256, crate::mask::sha256(&std::fs::read(&core).unwrap()));
    assert_eq!(manifest.core.supervised_tokens, manifest.target_tokens);
    assert_eq!(manifest.gate.supervised_tokens + manifest.gap_tokens, manifest.target_tokens);
    assert_eq!(manifest.slots * 4 + manifest.rows_beyond_slots, manifest.output.rows);
    let page = std::fs::read(kitchen.folder.path().join("out").join(MANIFEST_FILE)).unwrap();
    let read: MixManifest = serde_json::from_slice(&page).unwrap();
    assert_eq!((read.digests, read.passes, read.length_max), (kitchen.digests.clone(), manifest.passes, Some(500)));

    let again = kitchen.mix(&core, &gate, "again", BadRows::Refuse).unwrap();
    assert_eq!(again.output.sha256, read.output.sha256, "the same inputs and seed make the same bytes");
    let refused = kitchen.mix(&core, &gate, "out", BadRows::Refuse).unwrap_err().to_string();
    assert!(refused.contains("expected a folder without a mixture"), "{refused}");
}

#[test]
fn a_mixture_that_fails_leaves_nothing_and_one_that_skips_says_what() {
    let kitchen = Kitchen::new();
    let core = kitchen.file("core.jsonl", &[row("core one"), "{".to_owned(), row(&"long".repeat(99))]);
    let gate = kitchen.file("gate.jsonl", &[row("g")]);
    assert!(kitchen.mix(&core, &gate, "out", BadRows::Refuse).is_err());
    assert_eq!(kitchen.names("out"), Vec::<String>::new());
    let manifest = kitchen.mix(&core, &gate, "out", BadRows::Skip).unwrap();
    assert_eq!((manifest.bad.total(), manifest.bad.listed[1].line), (2, 3));
    assert_eq!((manifest.core.source_rows, manifest.core.rows), (1, 2));
    let ids = r#"{"prompt_ids":[1],"spans":[{"actor":"w","turn":0,"kind":"sampled","ids":[5],"masked":false,"why":"sampled"}]}"#;
    let ids = kitchen.file("ids.jsonl", &[ids.to_owned()]);
    let mixed = kitchen.mix(&ids, &gate, "mixed", BadRows::Skip).unwrap_err().to_string();
    assert!(
        mixed.contains("expected rows of ids as in the files before") && mixed.contains("gate.jsonl with rows of chat"),
        "{mixed}"
    );
    let empty = kitchen.file("empty.jsonl", &[]);
    assert!(kitchen.mix(&empty, &gate, "none", BadRows::Skip).unwrap_err().to_string().contains("got none in"));
}
