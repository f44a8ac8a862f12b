//! A decoder cut over ranks beside the whole one: the same logits but for the order of sums, pages that go through the host, and
//! what becomes of the others when one fails.
#![allow(clippy::unwrap_used, reason = "a test; clippy knows tests only by their attribute")]

use legwork_kernels::cpu::panel::Level;
use legwork_kernels::{Batch, Cpu, DrawRules, Group, HostBytes, OpsError, PAGE_TOKENS};
use legwork_model::{
    Decoder, DecoderSettings, Forward, MakeRank, ModelError, ModelFiles, ModelLimits, Next, Ranks, Share,
};
use std::path::{Path, PathBuf};

const SETTINGS: DecoderSettings = DecoderSettings { pages: 6, rows_max: 128, context_max: usize::MAX };
/// Logits of around 30, summed in another order.
const TOLERANCE: f32 = 1e-4;

fn folder(family: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("goldens/decoder/tiny-{family}"))
}

fn load(folder: &Path, ops: Cpu, share: Share) -> Result<Decoder<Cpu>, ModelError> {
    let mut files = ModelFiles::open(folder)?;
    let config = files.decoder()?.clone();
    Decoder::load_share(ops, &config, &mut files.weights, SETTINGS, share)
}

fn two_ranks(folder: &Path) -> Ranks {
    let makers = Group::of(2).into_iter().enumerate().map(|(rank, member)| {
        let folder = folder.to_path_buf();
        let make: MakeRank = Box::new(move || {
            let ops = Cpu::at(Level::detect()).with_member(member);
            Ok(Box::new(load(&folder, ops, Share { rank, ranks: 2 })?))
        });
        make
    });
    Ranks::start(makers.collect()).unwrap()
}

fn step(tokens: std::ops::Range<u32>, past: usize, pages: &[u32]) -> Batch {
    let mut batch = Batch::default();
    batch.push(&tokens.collect::<Vec<_>>(), past, pages, true);
    batch
}

#[test]
fn two_ranks_are_one_model() {
    for family in ["qwen3", "qwen2", "llama"] {
        let mut whole = load(&folder(family), Cpu::new(), Share::default()).unwrap();
        let mut ranks = two_ranks(&folder(family));
        assert_eq!(ranks.limits(), whole.limits());
        let (mut expected, mut got) = (Vec::new(), Vec::new());
        for batch in [step(3..3 + 70, 0, &[2, 0]), step(9..10, 70, &[2, 0])] {
            whole.forward(&batch, &mut expected).unwrap();
            ranks.forward(&batch, &mut got).unwrap();
            let off = expected.iter().zip(&got).map(|(one, two)| (one - two).abs()).fold(0.0, f32::max);
            assert!(expected.len() == got.len() && off < TOLERANCE, "{family}: {off}");
        }
        let (mut next, mut logits) = (Vec::new(), Vec::new());
        let batch = step(5..6, 71, &[2, 0]);
        ranks.forward_and_draw(&batch, &[Some(DrawRules::default())], &mut next, &mut logits).unwrap();
        whole.forward(&batch, &mut expected).unwrap();
        assert_eq!((next, logits.len()), (vec![Next::Logits(0)], expected.len()));
    }
}

#[test]
fn pages_of_ranks_go_through_the_host_and_come_back_elsewhere() {
    let mut ranks = two_ranks(&folder("qwen3"));
    let (mut before, mut after) = (Vec::new(), Vec::new());
    ranks.forward(&step(1..1 + PAGE_TOKENS as u32 + 3, 0, &[4, 1]), &mut before).unwrap();
    let saved = ranks.save_pages(&[4, 1]).unwrap();
    ranks.forward(&step(7..8, PAGE_TOKENS + 3, &[4, 1]), &mut before).unwrap();
    ranks.load_pages(&[0, 5], &saved).unwrap();
    assert_eq!(ranks.save_pages(&[0, 5]).unwrap(), saved);
    ranks.forward(&step(7..8, PAGE_TOKENS + 3, &[0, 5]), &mut after).unwrap();
    assert_eq!(before, after);
    assert!(ranks.load_pages(&[0], &saved[1..]).is_err());
}

/// A rank that computes nothing, and fails when it is asked.
struct Failing(ModelLimits);

impl Forward for Failing {
    fn limits(&self) -> ModelLimits {
        self.0
    }

    fn forward(&mut self, _: &Batch, _: &mut Vec<f32>) -> Result<(), ModelError> {
        Err(OpsError::Device("out of order".to_owned()).into())
    }

    fn save_pages(&mut self, _: &[u32]) -> Result<HostBytes, ModelError> {
        Ok(HostBytes::default())
    }

    fn load_pages(&mut self, _: &[u32], _: &[u8]) -> Result<(), ModelError> {
        Ok(())
    }
}

#[test]
fn a_rank_that_failed_ends_all_steps_and_a_rank_that_cannot_be_made_is_named() {
    let limits = ModelLimits { vocabulary: 8, context: 64, pages: 1, rows_max: 4 };
    let failing = move || -> MakeRank { Box::new(move || Ok(Box::new(Failing(limits)))) };
    let mut ranks = Ranks::start(vec![failing(), failing()]).unwrap();
    let mut logits = Vec::new();
    let error = ranks.forward(&step(1..2, 0, &[0]), &mut logits).unwrap_err();
    assert!(error.is_of_device() && error.to_string().contains("out of order"), "{error}");
    assert!(ranks.save_pages(&[0]).unwrap_err().to_string().contains("a rank has failed"));

    let wrong: MakeRank =
        Box::new(|| load(&folder("qwen3"), Cpu::new(), Share { rank: 0, ranks: 7 }).map(|d| Box::new(d) as _));
    let error = Ranks::start(vec![failing(), wrong]).err().unwrap().to_string();
    assert!(error.contains("rank 0 of 7"), "{error}");
    assert!(Ranks::start(Vec::new()).is_err());
}
