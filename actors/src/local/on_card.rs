//! Models in this process on real cards, where there are any: what they say beside what the processor says, that replicas share
//! their sessions, and that what an engine held is free again. They refuse to know how fast that is, and let no card fail:
//! after that the driver serves its process no more.

use super::device::{Place, Site};
use super::loading::cards;
use super::maker::Maker;
use super::*;
use legwork_engine::Reason;
use legwork_kernels::Cuda;
use legwork_model::Forward;
use std::path::PathBuf;
use std::sync::OnceLock;

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../model/goldens/embedder/tiny-qwen3")
}

/// The folder that keeps kernels while these tests run.
fn kernels() -> Option<PathBuf> {
    static FOLDER: OnceLock<tempfile::TempDir> = OnceLock::new();
    Some(FOLDER.get_or_init(|| tempfile::tempdir().unwrap()).path().to_path_buf())
}

/// Whether there are so many cards; says so where there are not.
fn are_there(count: usize) -> bool {
    let there = cards().is_some_and(|cards| cards >= count);
    if !there {
        eprintln!("skipped: {count} cards of NVIDIA are not here");
    }
    there
}

fn speaker(device: &str) -> Arc<LocalModel> {
    let settings = LocalSettings {
        device: device.parse().unwrap(),
        cache_mib: Some(64),
        template: TemplateChoice::Qwen3,
        kernels: kernels(),
        ..LocalSettings::default()
    };
    LocalModel::open(&golden(), settings, Clock::system()).unwrap()
}

/// Greedy answers to conversations of their own, all at once.
async fn greedy(model: &LocalModel, conversations: u32) -> Vec<Vec<u32>> {
    let begin = |name: u32| {
        let prompt = (0..100).map(|at| (name * 31 + at * 7) % 300).collect();
        let sampling = Sampling { max_new: 24, temperature: 0.0, ..Sampling::default() };
        model.begin(prompt, sampling, Some(SessionId(u128::from(name))), None).unwrap()
    };
    let answers: Vec<Answering> = (0..conversations).map(begin).collect();
    let mut all = Vec::new();
    for mut answering in answers {
        let mut ids = Vec::new();
        while let Some(heard) = answering.next().await {
            match heard {
                Heard::Tokens { tokens, .. } => ids.extend(tokens.iter().map(|drawn| drawn.id)),
                Heard::Done { reason, .. } => assert_eq!(reason, Reason::Length),
                Heard::Refused(refusal) => panic!("refused: {refusal}"),
            }
        }
        all.push(ids);
    }
    all
}

#[tokio::test]
async fn a_card_says_what_the_processor_says_but_for_ties() {
    if !are_there(1) {
        return;
    }
    let (card, processor) = (speaker("cuda"), speaker("cpu"));
    let (told, truth) = (greedy(&card, 24).await, greedy(&processor, 24).await);
    let same = told.iter().zip(&truth).map(|(told, truth)| told.iter().zip(truth).take_while(|(a, b)| a == b).count());
    let same: Vec<usize> = same.collect();
    eprintln!("tokens of 24 that are the processor's: {same:?}");
    // A model of random weights has ties that bf16 turns over; most answers begin alike all the same.
    assert!(same.iter().filter(|count| **count >= 4).count() >= 16, "{same:?}");
    assert_eq!(greedy(&card, 24).await, told, "the same on pages that are there already");
    let gauges = card.gauges();
    assert!(gauges.prefix_hit_tokens >= 24 * 64 && gauges.failed_steps == 0, "{gauges:?}");
    assert_eq!(card.health(), Ok(()));
}

#[tokio::test]
async fn replicas_on_all_cards_share_the_sessions() {
    if !are_there(2) {
        return;
    }
    let model = speaker("cuda:all");
    let told = greedy(&model, 24).await;
    assert_eq!(greedy(&model, 24).await, told);
    let each = model.replicas();
    eprintln!("{:?}", each.iter().map(|one| (&one.device, one.gauges.finished)).collect::<Vec<_>>());
    assert!(each.iter().all(|one| one.gauges.finished >= 2 && one.trouble.is_none()), "{each:?}");
    assert!(each.iter().all(|one| one.gauges.prefix_hit_tokens > 0), "a second turn finds its pages: {each:?}");
}

#[tokio::test]
async fn a_model_cut_over_two_cards_says_what_one_says_but_for_ties() {
    if !are_there(2) {
        return;
    }
    let (cut, whole) = (speaker("cuda:0+1"), speaker("cuda"));
    let (told, truth) = (greedy(&cut, 24).await, greedy(&whole, 24).await);
    let same: Vec<usize> = told
        .iter()
        .zip(&truth)
        .map(|(told, truth)| told.iter().zip(truth).take_while(|(a, b)| a == b).count())
        .collect();
    eprintln!("tokens of 24 that are those of one card: {same:?}");
    assert!(same.iter().filter(|count| **count >= 4).count() >= 16, "{same:?}");
    assert_eq!(greedy(&cut, 24).await, told, "the same on pages that are there already");
    assert_eq!((cut.health(), cut.gauges().failed_steps), (Ok(()), 0));
}

#[test]
fn what_an_engine_held_on_a_card_is_free_again_when_it_is_dropped() {
    if !are_there(1) {
        return;
    }
    let tokenizer = Tokenizer::open(&golden().join("tokenizer.json")).unwrap();
    let settings = LocalSettings { device: "cuda".parse().unwrap(), kernels: kernels(), ..LocalSettings::default() };
    let maker = Maker { path: golden(), settings, tokenizer, site: Site(vec![Place::Card(0)]) };
    let card = Cuda::open(0, kernels()).unwrap();
    let free_mib = || card.driver().memory().unwrap().0 >> 20;
    let before = free_mib();
    for _ in 0..3 {
        let engine = maker.make().unwrap();
        let (held, pages) = (before - free_mib(), engine.model().limits().pages);
        drop(engine);
        let after = free_mib();
        eprintln!("{before} MiB free, {held} MiB held for {pages} pages, {after} MiB free again");
        assert!(held >= 1_024 && after + 256 >= before, "{before} {held} {after}");
    }
}
