//! Opening a model: which tokenizer, which template, which tokens end an answer, on which device. It refuses to know how an
//! engine is made.

use super::device::Device;
use legwork_engine::{EngineError, EngineLimits};
use legwork_model::{
    BpeParts, GenerationDefaults, House, ModelError, ModelFiles, PreTokenizer, PromptTemplate, SpecialTokens, Template,
    Templates, Tokenizer, TokenizerSource,
};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// Rows of a step where none are given: on the processor few, so that those that generate wait little for a prompt of another.
const PROCESSOR_STEP_ROWS: usize = 512;
/// On a card, whose products are whole only with many.
const CARD_STEP_ROWS: usize = 2_048;
/// A step of more milliseconds than this is taken for one that hangs: on a card, whose driver gives up waiting later, and on
/// the processor, where hundreds of rows of a large model take minutes.
const CARD_STEP_MAX_MS: u64 = 30_000;
const PROCESSOR_STEP_MAX_MS: u64 = 600_000;

/// How a model is opened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LocalSettings {
    /// Where it computes: `cpu`, `cuda`, `cuda:1`, `cuda:0,1` or `cuda:all`, with a replica on each card, or `cuda:0+1`, cut over
    /// both.
    pub device: Device,
    /// Tokens of a sequence at most; the model's own context if that is less.
    pub context: usize,
    /// Mebibytes of the key-value cache of each replica. Else 2,048 on the processor, and on a card what is free beside
    /// weights, buffers and a reserve.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_mib: Option<usize>,
    /// Requests that run at once.
    pub running_max: usize,
    /// Requests that wait at most; beyond them the door says busy.
    pub waiting_max: usize,
    /// Rows of one step at most. Else 512 on the processor and 2,048 on a card.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step_rows: Option<usize>,
    /// Whether pages are shared by prefix and kept.
    pub prefix_cache: bool,
    /// Mebibytes of host memory for paused conversations.
    pub host_mib: usize,
    /// The chat template.
    pub template: TemplateChoice,
    /// The folder that keeps kernels once they are compiled for a card.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kernels: Option<PathBuf>,
    /// Whether the model computes in a process of its own, which may end without harm to this one; by default on cards only,
    /// since a card that failed is lost to the process that used it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub apart: Option<bool>,
    /// The program that is started for it; without one the model stays in this process.
    #[serde(skip)]
    pub program: Option<PathBuf>,
}

impl LocalSettings {
    /// Rows of one step at most.
    pub fn step_rows(&self) -> usize {
        self.step_rows.unwrap_or(if self.device.is_cards() { CARD_STEP_ROWS } else { PROCESSOR_STEP_ROWS })
    }

    /// Whether the model is to have a process of its own.
    pub fn is_apart(&self) -> bool {
        self.apart.unwrap_or(self.device.is_cards())
    }

    /// Milliseconds after which a step is taken for one that hangs.
    pub(super) fn step_max_ms(&self) -> u64 {
        if self.device.is_cards() { CARD_STEP_MAX_MS } else { PROCESSOR_STEP_MAX_MS }
    }
}

impl Default for LocalSettings {
    fn default() -> Self {
        Self {
            device: Device::Processor,
            context: 40_960,
            cache_mib: None,
            running_max: 64,
            waiting_max: 1_024,
            step_rows: None,
            prefix_cache: true,
            host_mib: 0,
            template: TemplateChoice::Own,
            kernels: None,
            apart: None,
            program: None,
        }
    }
}

/// A chat template.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TemplateChoice {
    /// The model's own.
    #[default]
    Own,
    /// Legwork's `qwen3`: as published.
    Qwen3,
    /// Legwork's `qwen3_fixed`: think blocks after the last query, always.
    Qwen3Fixed,
    /// Legwork's `keep_think`: think blocks everywhere.
    KeepThink,
}

/// Why a model cannot be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LocalError {
    /// Its files.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// Its engine.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// A tokenizer that is not there, or of a kind that is not read.
    #[error("{model} has {what}; expected a tokenizer.json beside the weights, or byte-level BPE in the GGUF file")]
    Tokenizer {
        /// The model.
        model: String,
        /// What it has.
        what: String,
    },
    /// A cache that does not hold one page.
    #[error("a key-value cache of {cache_mib} MiB holds no page of {page_bytes} bytes; give it more")]
    Cache {
        /// As configured.
        cache_mib: usize,
        /// Bytes of a page over all layers.
        page_bytes: usize,
    },
    /// A card on which the model does not fit beside what is there already.
    #[error(
        "the card has {} MiB free: weights take {} MiB, buffers {} MiB, {} MiB stay free, and a cache of {} MiB does not fit into \
         the {} MiB that are left; give less cache_mib or step_rows, a smaller model, or a card that nobody else uses",
        free >> 20, weights >> 20, buffers >> 20, reserve >> 20, cache >> 20, left >> 20
    )]
    CardMemory {
        /// Bytes that are free before anything is loaded.
        free: u64,
        /// Bytes of the weights.
        weights: u64,
        /// Bytes of a step's buffers.
        buffers: u64,
        /// Bytes that are left free for what grows.
        reserve: u64,
        /// Bytes of the cache: as configured, or of one page.
        cache: u64,
        /// Bytes that are left for it.
        left: u64,
    },
    /// Cards, and a program that knows none.
    #[error(
        "device is {device}, and this program was built without cards; build it with `cargo build --release --features cuda`, \
         which needs no CUDA, or use device cpu"
    )]
    BuiltWithoutCards {
        /// As configured.
        device: Device,
    },
    /// A card that is not there.
    #[error(
        "device is {device}, and there are {cards} cards of NVIDIA here; name others, install NVIDIA's driver, or use cpu"
    )]
    NoSuchCard {
        /// As configured.
        device: Device,
        /// How many there are.
        cards: usize,
    },
    /// A word that cuts a model, where flags of their own do.
    #[error(
        "device is {device}, which cuts a model over cards; training cuts by --tp: name the cards with commas, a rank on each"
    )]
    CutElsewhere {
        /// As configured.
        device: Device,
    },
    /// The engine's thread.
    #[error("the engine's thread did not start: {0}")]
    Thread(String),
}

/// All but the engine.
pub(super) struct Opened {
    pub(super) tokenizer: Tokenizer,
    pub(super) prompts: Option<PromptTemplate>,
    pub(super) defaults: GenerationDefaults,
    pub(super) stop_ids: Vec<u32>,
    pub(super) digest: String,
    pub(super) name: String,
}

pub(super) fn open(path: &Path, settings: &LocalSettings) -> Result<Opened, LocalError> {
    let files = ModelFiles::open(path)?;
    files.decoder()?;
    let name = name_of(path);
    let (tokenizer, mut special) = tokenizer(&files, &name)?;
    special.eos.extend(files.generation.eos.iter().filter(|id| !special.eos.contains(id)).copied().collect::<Vec<_>>());
    let template = match settings.template {
        TemplateChoice::Own => match &files.chat_template {
            Some(own) => Templates::of_source(&name, &own.source)?.choose(false).cloned(),
            None => None,
        },
        TemplateChoice::Qwen3 => Some(House::Qwen3.template()?),
        TemplateChoice::Qwen3Fixed => Some(House::Qwen3Fixed.template()?),
        TemplateChoice::KeepThink => Some(House::KeepThink.template()?),
    };
    let bind = |template: Template| PromptTemplate::new(template, tokenizer.clone(), &special);
    let prompts = template.map(bind).transpose()?;
    let digest = files.digest(&mut |_, _| {})?.blake3;
    let (defaults, stop_ids) = (files.generation.clone(), special.eos);
    Ok(Opened { tokenizer, prompts, defaults, stop_ids, digest, name })
}

/// The name of a model's folder or file.
pub(super) fn name_of(path: &Path) -> String {
    path.file_name().map_or_else(|| path.display().to_string(), |name| name.to_string_lossy().into_owned())
}

/// A digest over a model's files, in hex.
pub(super) fn digest_of(path: &Path) -> Result<String, LocalError> {
    Ok(ModelFiles::open(path)?.digest(&mut |_, _| {})?.blake3)
}

fn tokenizer(files: &ModelFiles, name: &str) -> Result<(Tokenizer, SpecialTokens), LocalError> {
    let wrong = |what: String| LocalError::Tokenizer { model: name.to_owned(), what };
    match &files.tokenizer {
        TokenizerSource::Json(path) => {
            let tokenizer = Tokenizer::open(path)?;
            let special = SpecialTokens::of_folder(path.parent().unwrap_or(Path::new(".")), &tokenizer)?;
            Ok((tokenizer, special))
        }
        TokenizerSource::Gguf(parts) if parts.model == "gpt2" => {
            let tokenizer = Tokenizer::from_bpe_parts(
                name,
                BpeParts {
                    tokens: parts.tokens.clone(),
                    merges: parts.merges.clone(),
                    kinds: parts.kinds.iter().map(|kind| i32::try_from(*kind).unwrap_or(1)).collect(),
                    pre: PreTokenizer::of_gguf(parts.pre.as_deref().unwrap_or("gpt-2"))?,
                },
            )?;
            let special = SpecialTokens {
                bos: parts.bos,
                eos: parts.eos.iter().chain(&parts.eot).copied().collect(),
                pad: parts.padding,
                unk: parts.unknown,
                add_bos: parts.add_bos.unwrap_or(false),
            };
            Ok((tokenizer, special))
        }
        TokenizerSource::Gguf(parts) => Err(wrong(format!("a GGUF tokenizer of the kind `{}`", parts.model))),
        TokenizerSource::Absent => Err(wrong("no tokenizer".to_owned())),
    }
}

pub(super) fn engine_limits(settings: &LocalSettings) -> EngineLimits {
    EngineLimits {
        running_max: settings.running_max,
        waiting_max: settings.waiting_max,
        step_rows: settings.step_rows(),
        prefix_cache: settings.prefix_cache,
        host_bytes_max: settings.host_mib << 20,
        ..EngineLimits::default()
    }
}
