//! `legwork train-embedder`: a small decoder becomes an embedder by pairs of a question and the document that answers it, taken
//! from the files that `legwork world` writes. It trains on the processor.

use super::init::Kind;
use super::{Ended, VerbError, output};
use clap::Args;
use legwork_model::Tokenizer;
use legwork_training::embedder::{LearningEmbedder, Pair, batches, rows_max};
use legwork_training::rank::Update;
use legwork_training::schedule::Schedule;
use legwork_worlds::plain;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Steps between two lines of what it learns.
const TOLD_EVERY: usize = 20;
/// Pairs of a batch at most.
const BATCH_MAX: u32 = 4096;

/// Trains an embedder.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  legwork world --out worlds/7 --split lookups --set world.seed=7
  legwork init --out models/small --texts worlds/7/corpus.jsonl --hidden 128 --layers 2 --heads 2 --kv-heads 2 --ffn 384
  legwork train-embedder --pairs worlds/7 --model models/small --out models/embedder
  legwork embed indexes/mine --model models/embedder

Each --pairs is a folder with corpus.jsonl and questions.jsonl; each gold document of a question makes a pair. The other
documents of a batch are what a query is to be kept apart from (InfoNCE).")]
pub struct TrainEmbedderArgs {
    /// Folders of pairs.
    #[arg(long, required = true, num_args = 1.., value_name = "FOLDER")]
    pairs: Vec<PathBuf>,
    /// A folder of pairs to look at before and after, from which nothing is learned.
    #[arg(long, value_name = "FOLDER")]
    eval: Option<PathBuf>,
    /// The decoder to begin from.
    #[arg(long, value_name = "FOLDER")]
    model: PathBuf,
    /// The folder to make.
    #[arg(long)]
    out: PathBuf,
    /// Pairs of a step.
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(2..=i64::from(BATCH_MAX)))]
    batch: u32,
    /// Passes over the pairs.
    #[arg(long, default_value_t = 1)]
    epochs: u32,
    /// Steps at most, whatever the passes; 0 for all of them.
    #[arg(long, default_value_t = 0)]
    steps_max: usize,
    /// The largest learning rate.
    #[arg(long, default_value_t = 2e-3)]
    lr: f64,
    /// What cosines are divided by.
    #[arg(long, default_value_t = 0.05)]
    temperature: f64,
    /// Tokens that are read of a text.
    #[arg(long, default_value_t = 320, value_parser = clap::value_parser!(u32).range(2..=8192))]
    tokens_max: u32,
    /// Where the order of pairs comes from.
    #[arg(long, default_value_t = 42)]
    seed: u64,
    /// The kind of number that the embedder is written in.
    #[arg(long, value_enum, default_value_t = Kind::F16)]
    dtype: Kind,
    /// Nothing but the result.
    #[arg(long)]
    quiet: bool,
}

pub(super) fn run(args: &TrainEmbedderArgs) -> Result<Ended, VerbError> {
    let tokens_max = args.tokens_max as usize;
    let tokenizer = Tokenizer::open(&args.model.join("tokenizer.json"))?;
    let mut pairs = Vec::new();
    for (collection, folder) in args.pairs.iter().enumerate() {
        read(folder, collection, &tokenizer, tokens_max, &mut pairs)?;
    }
    let mut held = Vec::new();
    if let Some(folder) = &args.eval {
        read(folder, 0, &tokenizer, tokens_max, &mut held)?;
    }
    let batch = args.batch as usize;
    let mut plan: Vec<Vec<usize>> =
        (0..args.epochs).flat_map(|epoch| batches(&pairs, batch, args.seed + u64::from(epoch))).collect();
    plan.truncate(if args.steps_max == 0 { usize::MAX } else { args.steps_max });
    if plan.is_empty() {
        return Err(format!(
            "{} pairs make no batch of {batch} with different documents; give more pairs, or a smaller --batch",
            pairs.len()
        )
        .into());
    }
    let schedule =
        Schedule { max_rate: args.lr, min_rate: args.lr / 20.0, warmup_share: 0.05, total_samples: plan.len() as u64 };
    schedule.check()?;
    let rows = rows_max(&pairs, batch).max(rows_max(&held, batch));
    let mut embedder = LearningEmbedder::on_processor(&args.model, rows, args.temperature)?;
    let looks = batches(&held, batch, args.seed);
    let before = embedder.look_over(&held, &looks)?;
    for (step, places) in plan.iter().enumerate() {
        let chosen: Vec<&Pair> = places.iter().map(|place| &pairs[*place]).collect();
        // The first update's rate would be 0.
        let rate = schedule.rate(step as u64 + 1);
        let update = Update { step: step as u64 + 1, rate, clip: 1.0, beta1: 0.9, beta2: 0.98, eps: 1e-8, decay: 0.01 };
        let learned = embedder.step(&chosen, &update)?;
        if !args.quiet && (step % TOLD_EVERY == 0 || step + 1 == plan.len()) {
            output::note(&format!(
                "step {} of {}: loss {:.4}, own document first {:.1} %, gradient {:.3}",
                step + 1,
                plan.len(),
                learned.loss,
                learned.first * 100.0,
                learned.grad_norm
            ));
        }
    }
    let after = embedder.look_over(&held, &looks)?;
    let made = embedder.write(&args.model, &args.out, args.dtype.into(), tokens_max)?;
    output::print(&format!(
        "{}: {} pairs, {} steps of {batch}, {} bytes of weights",
        made.folder.display(),
        pairs.len(),
        plan.len(),
        made.bytes
    ));
    if let (Some(before), Some(after)) = (before, after) {
        output::print(&format!(
            "held out: loss {:.4} before and {:.4} after, own document first among {batch} {:.1} % and {:.1} %",
            before.loss,
            after.loss,
            before.first * 100.0,
            after.first * 100.0
        ));
    }
    Ok(Ended::Done)
}

/// The pairs of a folder.
fn read(
    folder: &Path,
    collection: usize,
    tokenizer: &Tokenizer,
    tokens_max: usize,
    pairs: &mut Vec<Pair>,
) -> Result<(), VerbError> {
    let encode = |text: &str| tokenizer.encode_marked(text, tokens_max).map(|(ids, _)| ids);
    let mut documents: BTreeMap<String, Vec<u32>> = BTreeMap::new();
    for document in plain::read_corpus(&folder.join("corpus.jsonl"))? {
        // As `legwork embed` gives a document to an embedder.
        let title = if document.title.is_empty() { String::new() } else { format!("{}\n", document.title) };
        documents.insert(document.docid.to_string(), encode(&format!("{title}{}", document.text))?);
    }
    for question in plain::read_questions(&folder.join("questions.jsonl"))? {
        let query = encode(&question.text)?;
        for docid in &question.gold {
            let Some(document) = documents.get(docid.as_str()) else {
                return Err(format!("{}: question {} names the document {docid}, which corpus.jsonl lacks; write both anew with `legwork world`", folder.display(), question.id).into());
            };
            let (document, docid) = (document.clone(), docid.to_string());
            pairs.push(Pair { query: query.clone(), document, docid, collection });
        }
    }
    Ok(())
}
