//! `legwork init`: a new small model to train, with a tokenizer of its own, learnt from rows or a corpus.

use super::{Ended, VerbError, output};
use clap::{Args, ValueEnum};
use legwork_model::{TrainedTokenizer, train_tokenizer};
use legwork_retrieval::Corpus;
use legwork_training::export::NumberKind;
use legwork_training::init::{Initial, chat_texts, holds_chat_rows};
use std::path::{Path, PathBuf};

/// Makes a new model.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  legwork init --out models/tiny --texts rows.jsonl
  legwork init --out models/small --texts corpus.jsonl --vocabulary 2048 --hidden 128 --layers 4 --heads 4 --kv-heads 2 \
--ffn 384 --context 8192 --seed 1

The texts are chat rows, of which all that a prompt will hold is taken, or a corpus as `legwork index` reads it. The same
texts, sizes and seed give the same model.")]
pub struct InitArgs {
    /// The folder to make.
    #[arg(long)]
    out: PathBuf,
    /// What the tokenizer is learnt from: chat rows (JSONL with `messages`), or a corpus.
    #[arg(long, value_name = "FILE")]
    texts: PathBuf,
    /// Tokens of the vocabulary, control tokens counted in.
    #[arg(long, default_value_t = 512)]
    vocabulary: usize,
    /// Width of the residual stream.
    #[arg(long, default_value_t = Initial::tiny().hidden)]
    hidden: usize,
    /// Layers.
    #[arg(long, default_value_t = Initial::tiny().layers)]
    layers: usize,
    /// Heads of queries.
    #[arg(long, default_value_t = Initial::tiny().heads)]
    heads: usize,
    /// Heads of keys and values.
    #[arg(long, default_value_t = Initial::tiny().kv_heads)]
    kv_heads: usize,
    /// Numbers of a head; hidden over heads if absent.
    #[arg(long)]
    head_dim: Option<usize>,
    /// Width inside the feed-forward part.
    #[arg(long, default_value_t = Initial::tiny().ffn)]
    ffn: usize,
    /// Tokens of a sequence at most.
    #[arg(long, default_value_t = Initial::tiny().context)]
    context: usize,
    /// What the weights are drawn from.
    #[arg(long, default_value_t = Initial::tiny().seed)]
    seed: u64,
    /// A head of its own, in place of the embedding.
    #[arg(long, conflicts_with = "tied")]
    untied: bool,
    /// The embedding as the head; this is so unless --untied is given.
    #[arg(long)]
    tied: bool,
    /// The kind of number of the weights.
    #[arg(long, value_enum, default_value_t = Kind::F32)]
    dtype: Kind,
    /// As JSON.
    #[arg(long)]
    json: bool,
}

/// A kind of number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Kind {
    /// bfloat16.
    Bf16,
    /// float16.
    F16,
    /// float32.
    F32,
}

impl From<Kind> for NumberKind {
    fn from(kind: Kind) -> Self {
        match kind {
            Kind::Bf16 => Self::Bf16,
            Kind::F16 => Self::F16,
            Kind::F32 => Self::F32,
        }
    }
}

pub(super) fn run(args: &InitArgs) -> Result<Ended, VerbError> {
    let initial = Initial {
        hidden: args.hidden,
        layers: args.layers,
        heads: args.heads,
        kv_heads: args.kv_heads,
        head_dim: args.head_dim,
        ffn: args.ffn,
        context: args.context,
        tied: !args.untied,
        seed: args.seed,
        kind: args.dtype.into(),
    };
    let tokenizer = tokenizer(&args.texts, args.vocabulary, args.context)?;
    let made = initial.write(&tokenizer, &args.out)?;
    if args.json {
        output::print_json(&serde_json::json!({
            "folder": made.folder, "weights": made.weights, "bytes": made.bytes, "vocabulary": args.vocabulary,
            "texts": tokenizer.texts, "text_bytes": tokenizer.text_bytes, "seed": args.seed,
        }));
        return Ok(Ended::Done);
    }
    output::print(&format!(
        "{}: {} weights of {}, {} tokens learnt from {} texts of {} bytes, seed {}",
        made.folder.display(),
        made.weights,
        initial.kind.name(),
        args.vocabulary,
        tokenizer.texts,
        tokenizer.text_bytes,
        args.seed
    ));
    Ok(Ended::Done)
}

fn tokenizer(path: &Path, vocabulary: usize, context: usize) -> Result<TrainedTokenizer, VerbError> {
    if holds_chat_rows(path)? {
        let texts = chat_texts(path)?.map(|text| text.map_err(Failed::from));
        return train_tokenizer(texts, vocabulary, context).map_err(|failed| failed.0);
    }
    let documents = Corpus::open(path)?.documents()?;
    let texts = documents.map(|document| {
        let document = document.map_err(Failed::from)?;
        let title = document.title.map(|title| format!("{title}\n")).unwrap_or_default();
        Ok::<_, Failed>(format!("{title}{}", document.text))
    });
    train_tokenizer(texts, vocabulary, context).map_err(|failed| failed.0)
}

/// Whatever went wrong while texts were read.
struct Failed(VerbError);

impl<E: std::error::Error + Send + Sync + 'static> From<E> for Failed {
    fn from(error: E) -> Self {
        Self(error.into())
    }
}
