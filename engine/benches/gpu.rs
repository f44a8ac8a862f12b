//! The engine on a card, in figures and in parity: decode, prefill and the workload of episodes beside the ceilings of the
//! same run; a model's divergence from f32 beside that of transformers (rung 4 of the parity ladder); layouts, batches and
//! recordings that must agree (rung 5). `gpu MODEL [--only PARTS] …`; what there is is told by `gpu --help`.
//!
//! MODEL is a folder of `benches/peers/make_qwen3_4b.py`. It ends with a code that is not zero when a check fails.

#![allow(clippy::print_stdout, reason = "a bench prints its table")]
#![allow(clippy::unwrap_used, reason = "a bench ends where its machine does")]

#[path = "gpu/arguments.rs"]
mod arguments;
#[path = "gpu/decode.rs"]
mod decode;
#[path = "gpu/dice.rs"]
mod dice;
#[path = "gpu/episodes.rs"]
mod episodes;
#[path = "gpu/goldens.rs"]
mod goldens;
#[path = "gpu/layouts.rs"]
mod layouts;
#[path = "gpu/parity.rs"]
mod parity;
#[path = "gpu/prefill.rs"]
mod prefill;
#[path = "gpu/recorded.rs"]
mod recorded;
#[path = "gpu/table.rs"]
mod table;
#[path = "gpu/watched.rs"]
mod watched;
#[path = "gpu/work.rs"]
mod work;

use arguments::{Arguments, Part};
use legwork_kernels::cuda::{Cuda, Nvidia};
use legwork_kernels::{Cpu, Ops, PAGE_TOKENS};
use legwork_model::{Decoder, DecoderSettings, Forward, ModelFiles};
use std::cell::RefCell;
use std::process::ExitCode;
use std::rc::Rc;
use std::time::Instant;
use table::Table;
use work::{Ceilings, Costs};

/// Part of the free memory that the cache takes once weights and buffers are there, the rest being for what grows.
const CACHE_PART: f64 = 0.96;
/// Bytes that stay free besides: sums of attention, recordings, the libraries' own.
const RESERVE_BYTES: f64 = 3e9;
/// Pages of the cache on the processor, which only shows that the program works.
const PAGES_CPU: usize = 600;

/// What is measured, and how the model is reached beside its steps.
pub(crate) struct Bench<B: Ops> {
    pub(crate) model: Rc<RefCell<Decoder<B>>>,
    pub(crate) costs: Costs,
    pub(crate) ceilings: Ceilings,
    pub(crate) given: Arguments,
    /// Turns the recording of steps on and off.
    pub(crate) record: fn(&B, bool),
    /// Steps played back so far.
    pub(crate) played: fn(&B) -> u64,
}

fn main() -> ExitCode {
    let given = match Arguments::of(std::env::args().skip(1).filter(|argument| argument != "--bench")) {
        Ok(given) => given,
        Err(told) => {
            println!("{told}");
            return ExitCode::from(2);
        }
    };
    let Some(model) = given.model.clone() else {
        println!("skipped: name a folder made by benches/peers/make_qwen3_4b.py\n{}", arguments::HELP);
        return ExitCode::SUCCESS;
    };
    let files = ModelFiles::open(&model).unwrap();
    let costs = Costs::of(files.decoder().unwrap());
    if given.cpu {
        // No figure of it means anything.
        let ceilings = Ceilings { bytes_s: 1e10, flops_s: 1e11 };
        return run(Cpu::new(), files, costs, ceilings, PAGES_CPU, given, |_, _| (), |_| 0);
    }
    if Nvidia::count() <= given.card {
        println!("skipped: there is no card here");
        return ExitCode::SUCCESS;
    }
    let (card, ceilings) = opened(&given);
    let (free, all) = card.driver().memory().unwrap();
    println!("{:.1} of {:.1} GB free", free as f64 / 1e9, all as f64 / 1e9);
    let taken = costs.weight_bytes() + costs.buffer_bytes(given.rows_max) + RESERVE_BYTES;
    let pages = ((free as f64 * CACHE_PART - taken) / (costs.token_bytes() * PAGE_TOKENS as f64)).max(1.0) as usize;
    let played = |card: &Cuda| card.recordings().played;
    let code =
        run(card, files, costs, ceilings, given.pages.unwrap_or(pages), given.clone(), Cuda::set_recording, played);
    // A card that became slower meanwhile would make every part of a ceiling a lie.
    opened(&given);
    code
}

/// A card, and what it can do at most, which is printed.
fn opened(given: &Arguments) -> (Cuda, Ceilings) {
    let card = Cuda::open(given.card, given.kernels.clone()).unwrap();
    let measured = card.driver().ceilings().unwrap();
    let ceilings = Ceilings { bytes_s: measured.copy_bytes_s, flops_s: measured.product_flops_s };
    println!(
        "{}: copy {:.2} TB/s (read and written), product {:.0} TFLOP/s",
        card.driver().arch().name(),
        ceilings.bytes_s / 1e12,
        ceilings.flops_s / 1e12
    );
    (card, ceilings)
}

#[allow(clippy::too_many_arguments, reason = "called twice, above")]
fn run<B: Ops + 'static>(
    ops: B,
    mut files: ModelFiles,
    costs: Costs,
    ceilings: Ceilings,
    pages: usize,
    given: Arguments,
    record: fn(&B, bool),
    played: fn(&B) -> u64,
) -> ExitCode {
    let began = Instant::now();
    let config = files.decoder().unwrap().clone();
    let settings = DecoderSettings { pages, rows_max: given.rows_max, context_max: usize::MAX };
    let model = Decoder::load(ops, &config, &mut files.weights, settings).unwrap();
    println!(
        "{}: {:.2} GB of weights in bf16, {pages} pages of {PAGE_TOKENS} tokens ({:.1} GB), loaded in {:.1} s",
        files.path.display(),
        costs.weight_bytes() / 1e9,
        pages as f64 * PAGE_TOKENS as f64 * costs.token_bytes() / 1e9,
        began.elapsed().as_secs_f64()
    );
    let folder = files.path.clone();
    drop(files);
    let bench = Bench { model: Rc::new(RefCell::new(model)), costs, ceilings, given, record, played };
    let mut table = Table::default();
    let mut broken = 0;
    let parts = bench.given.parts.clone();
    for part in parts {
        let began = Instant::now();
        println!("\n## {}\n", part.name());
        match part {
            Part::Parity => broken += parity::run(&bench, &folder),
            Part::Layouts => broken += layouts::run(&bench, &folder),
            Part::Recorded => broken += recorded::run(&bench),
            Part::Decode => decode::run(&bench, &mut table),
            Part::Prefill => prefill::run(&bench, &mut table),
            Part::Episodes => broken += episodes::run(&bench, &mut table),
        }
        println!("\n({} took {:.1} s)", part.name(), began.elapsed().as_secs_f64());
    }
    table.print_verdicts();
    println!("{}", if broken == 0 { "all checks held".to_owned() } else { format!("{broken} checks broken") });
    if broken == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

impl<B: Ops> Bench<B> {
    /// Pages of the cache.
    pub(crate) fn pages(&self) -> usize {
        self.model.borrow().limits().pages
    }

    /// Ids of the vocabulary.
    pub(crate) fn vocabulary(&self) -> usize {
        self.model.borrow().limits().vocabulary
    }

    /// Turns the recording of steps on or off.
    pub(crate) fn set_recording(&self, is_on: bool) {
        (self.record)(self.model.borrow().ops(), is_on);
    }

    /// Steps played back so far.
    pub(crate) fn played(&self) -> u64 {
        (self.played)(self.model.borrow().ops())
    }
}
