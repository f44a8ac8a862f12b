//! Opening a model: which tokenizer, which template, which tokens end an answer, how large a cache.

use legwork_engine::{EngineError, EngineLimits};
use legwork_kernels::PAGE_TOKENS;
use legwork_model::{
    BpeParts, DecoderConfig, GenerationDefaults, House, ModelError, ModelFiles, PreTokenizer, PromptTemplate,
    SpecialTokens, Template, Templates, Tokenizer, TokenizerSource,
};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// How a model is opened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LocalSettings {
    /// Tokens of a sequence at most; the model's own context if that is less.
    pub context: usize,
    /// Mebibytes of the key-value cache.
    pub cache_mib: usize,
    /// Requests that run at once.
    pub running_max: usize,
    /// Requests that wait at most; beyond them the door says busy.
    pub waiting_max: usize,
    /// Rows of one step at most.
    pub step_rows: usize,
    /// Whether pages are shared by prefix and kept.
    pub prefix_cache: bool,
    /// Mebibytes of host memory for paused conversations.
    pub host_mib: usize,
    /// The chat template.
    pub template: TemplateChoice,
}

impl Default for LocalSettings {
    fn default() -> Self {
        Self {
            context: 40_960,
            cache_mib: 2_048,
            running_max: 64,
            waiting_max: 1_024,
            step_rows: 512,
            prefix_cache: true,
            host_mib: 0,
            template: TemplateChoice::Own,
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

/// Pages that the settings leave for the cache.
pub(super) fn pages(config: &DecoderConfig, settings: &LocalSettings) -> Result<usize, LocalError> {
    let page_bytes = 2 * config.layers * config.kv_width() * PAGE_TOKENS * size_of::<f32>();
    let pages = (settings.cache_mib << 20) / page_bytes.max(1);
    match pages {
        0 => Err(LocalError::Cache { cache_mib: settings.cache_mib, page_bytes }),
        pages => Ok(pages.min(u32::MAX as usize)),
    }
}

pub(super) fn engine_limits(settings: &LocalSettings) -> EngineLimits {
    EngineLimits {
        running_max: settings.running_max,
        waiting_max: settings.waiting_max,
        step_rows: settings.step_rows,
        prefix_cache: settings.prefix_cache,
        host_bytes_max: settings.host_mib << 20,
        ..EngineLimits::default()
    }
}
