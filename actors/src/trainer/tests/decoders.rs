//! The trainer over real ranks: a tiny decoder cut in two, killed at random steps, comes to the weights of the undisturbed run.

use super::super::*;
use super::{curve, drawn};
use legwork_training::Place;
use legwork_training::batch::pack;
use legwork_training::checkpoint;
use legwork_training::network::{NetworkSettings, step_flops};
use legwork_training::pack::Normalisation;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use tokio::sync::mpsc;

const BATCH: usize = 2;
const SLOTS: u64 = 6;
const RESTARTS: RestartLimit = RestartLimit { restarts_max: 8, window_ms: 600_000 };

fn model() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../model/goldens/embedder/tiny-qwen3")
}

fn places(grid: [usize; 2]) -> RankPlaces {
    RankPlaces::new(&crate::local::Device::Processor, grid, None).unwrap()
}

fn sample(row: usize) -> Sample {
    let length = 5 + row % 4;
    let ids: Vec<u32> = (0..length).map(|at| ((row * 31 + at * 17) % 300) as u32).collect();
    let place = Place { file: "rows".to_owned(), line: row as u64 + 1 };
    Sample { supervised: (0..length).map(|at| at > 1).collect(), ids, place, source: String::new() }
}

fn args(place: &Path, grid: [usize; 2], over: Reply<CourseEnd>) -> (TrainerArgs, mpsc::Receiver<Record>) {
    let files = legwork_model::ModelFiles::open(&model()).unwrap();
    let config = files.decoder().unwrap().clone();
    let json = serde_json::from_slice(&std::fs::read(model().join("config.json")).unwrap()).unwrap();
    let folder =
        TrainingFolder::create(&place.join("run"), &TrainingManifest::new("run".to_owned(), 1, "0".to_owned()))
            .unwrap();
    let shelf = Checkpoints {
        root: place.join("checkpoints"),
        model: json,
        ranks: grid[0],
        batch: BATCH as u64,
        keep_last: 2,
        run: serde_json::Map::new(),
    };
    // One record at a time, so that a kill comes while there is something left to kill.
    let (records, shown) = mpsc::channel(1);
    let held_out = pack(&[sample(90), sample(91)], 16, 8, Normalisation::Token);
    let args = TrainerArgs {
        feed: Feed::List {
            samples: Arc::new((0..SLOTS as usize * BATCH).map(sample).collect()),
            order: Arc::new(|slot| vec![slot as usize * BATCH + 1, slot as usize * BATCH]),
            slots: SLOTS,
        },
        batch: BATCH as u64,
        packing: Packing {
            tokens_max: 16,
            multiple: 8,
            normalisation: Normalisation::Sample,
            flops: Some(Arc::new(move |lengths, rows| step_flops(&config, lengths, rows))),
        },
        held_out: Arc::new(held_out),
        update: UpdateSettings::default(),
        rate: Arc::new(|_| 1e-2),
        save_every: 2,
        evaluate_every: 0,
        restarts: RESTARTS,
        make: decoder_group(
            &model(),
            places(grid),
            NetworkSettings { rows_max: 24, keep_attention: true, keep_products: false, softmax_over_padding: false },
        ),
        folder,
        shelf: Box::new(shelf),
        saved: Progress::default(),
        show: Show::new(Some(records), None),
        peak_flops: None,
        clock: Clock::from_epoch_ms(1),
        over,
    };
    (args, shown)
}

/// Runs to the end; before the record of each of these steps is looked at, a rank is told to die.
async fn run(place: &Path, grid: [usize; 2], kills: &BTreeMap<u64, usize>) -> CourseEnd {
    let (over, waits) = crate::address::reply();
    let (args, mut shown) = args(place, grid, over);
    let trainer = start(args).await.unwrap();
    trainer.cast(TrainerMsg::Begin).unwrap();
    let mut kills = kills.clone();
    while let Some(record) = shown.recv().await {
        if let Record::Step(step) = &record
            && let Some(rank) = kills.remove(&step.step)
        {
            trainer.cast(TrainerMsg::KillRank(rank)).unwrap();
        }
    }
    waits.await.unwrap()
}

/// The digests of the last checkpoint's files.
fn files(place: &Path) -> BTreeMap<String, String> {
    let last = checkpoint::latest(&place.join("checkpoints")).unwrap().checkpoint.unwrap();
    assert_eq!(last.state().step, SLOTS);
    last.state().files.iter().map(|(name, digest)| (name.clone(), digest.blake3.clone())).collect()
}

/// Ranks are killed at random steps, in some runs.
async fn killed_runs_are_the_undisturbed(grid: [usize; 2], seeds: u64) {
    let whole = CourseEnd::Complete(Progress { slots: SLOTS, updates: SLOTS });
    let undisturbed = tempfile::tempdir().unwrap();
    assert_eq!(run(undisturbed.path(), grid, &BTreeMap::new()).await, whole);
    let records = read_records(&undisturbed.path().join("run")).unwrap().records;
    let held_out = |record: &Record| if let Record::Evaluation { loss, .. } = record { *loss } else { None };
    let held_out: Vec<f64> = records.iter().filter_map(held_out).collect();
    assert_eq!(held_out.len(), 2, "at the beginning and at the end");
    for seed in 0..seeds {
        let mut draw = drawn(seed);
        let kills: BTreeMap<u64, usize> =
            (0..2).map(|_| (1 + draw(SLOTS - 2), draw((grid[0] * grid[1]) as u64) as usize)).collect();
        let killed = tempfile::tempdir().unwrap();
        assert_eq!(run(killed.path(), grid, &kills).await, whole, "{kills:?}");
        let again = read_records(&killed.path().join("run")).unwrap().records;
        assert!(again.iter().any(|record| matches!(record, Record::Recovered { .. })), "{kills:?}");
        assert_eq!(curve(&again), curve(&records), "{kills:?}");
        assert_eq!(files(killed.path()), files(undisturbed.path()), "{kills:?}");
    }
}

#[tokio::test]
async fn a_decoder_whose_ranks_are_killed_comes_to_the_same_weights_bit_for_bit() {
    killed_runs_are_the_undisturbed([2, 1], 4).await;
}

#[tokio::test]
async fn replicas_that_are_killed_come_to_the_same_weights_bit_for_bit() {
    killed_runs_are_the_undisturbed([1, 2], 3).await;
    killed_runs_are_the_undisturbed([2, 2], 2).await;
}
