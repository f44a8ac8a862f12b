//! The model opened, and what it answers when it is alone: a fresh engine, one request at a time, nothing shared. An answer
//! under load is held against that, token by token and in the logarithms of their probabilities.

use crate::Local;
use crate::texts::Texts;
use crate::traffic;
use legwork_engine::{
    Decode, Drawn, Engine, EngineLimits, LOGPROBS_MAX, Output, Reason, Request, RequestId, Sampling, Speech,
};
use legwork_kernels::Cpu;
use legwork_model::{
    BpeParts, Decoder, DecoderSettings, Forward, ModelFiles, PreTokenizer, StreamDecoder, Tokenizer, TokenizerSource,
};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Pages of the cache: a tenth of what 64 of the largest would fill.
pub(crate) const PAGES: usize = 40;
/// Rows of a step.
pub(crate) const STEP_ROWS: usize = 128;
/// Tokens of a sequence.
const CONTEXT: usize = 512;
/// Kernels of few and of many rows add in different orders, which was seen to move logits by 3e-5. A token may be another than alone only if it was, alone, among
/// this many best and at most so much less probable than the best, as a difference of natural logarithms: so of logits.
const RIVALS: u8 = LOGPROBS_MAX;
pub(crate) const GAP_MAX: f32 = 2e-3;
/// How far the logarithm of an equal token's probability may be from that alone.
pub(crate) const SHIFT_MAX: f32 = 1e-3;

/// A model's files and its tokenizer.
pub(crate) struct Opened {
    path: PathBuf,
    pub(crate) tokenizer: Tokenizer,
    pub(crate) stop_ids: Vec<u32>,
}

/// A prompt, how it was drawn from, and the answer.
#[derive(Clone)]
pub(crate) struct Answered {
    pub(crate) prompt: Vec<u32>,
    pub(crate) sampling: Sampling,
    pub(crate) tokens: Vec<Drawn>,
    pub(crate) reason: Reason,
}

/// An answer beside that given alone.
pub(crate) struct Compared {
    /// Tokens that are equal, from the first.
    pub(crate) equal: usize,
    /// How much less probable the first other token was alone than the best; infinite beyond the best few.
    pub(crate) gap: Option<f32>,
    /// The greatest distance of the logarithms of equal tokens' probabilities.
    pub(crate) shift: f32,
}

impl Opened {
    pub(crate) fn at(path: &Path) -> Self {
        let files = ModelFiles::open(path).unwrap();
        let mut stop_ids = files.generation.eos.clone();
        let tokenizer = match &files.tokenizer {
            TokenizerSource::Json(path) => Tokenizer::open(path).unwrap(),
            TokenizerSource::Gguf(parts) => {
                stop_ids.extend(parts.eos.iter().chain(&parts.eot));
                let parts = BpeParts {
                    tokens: parts.tokens.clone(),
                    merges: parts.merges.clone(),
                    kinds: parts.kinds.iter().map(|kind| *kind as i32).collect(),
                    pre: PreTokenizer::of_gguf(parts.pre.as_deref().unwrap_or("gpt-2")).unwrap(),
                };
                Tokenizer::from_bpe_parts("soak", parts).unwrap()
            }
            TokenizerSource::Absent => panic!("{} has no tokenizer; name a model that has one", path.display()),
        };
        stop_ids.sort_unstable();
        stop_ids.dedup();
        Self { path: path.to_path_buf(), tokenizer, stop_ids }
    }

    /// A fresh engine with its own copy of the model.
    pub(crate) fn engine(&self, limits: EngineLimits) -> Local {
        let mut files = ModelFiles::open(&self.path).unwrap();
        let config = files.decoder().unwrap().clone();
        let settings = DecoderSettings { pages: PAGES, rows_max: STEP_ROWS, context_max: CONTEXT };
        let model = Decoder::load(Cpu::new(), &config, &mut files.weights, settings).unwrap();
        Engine::new(model, Some(Arc::new(Spoken(self.tokenizer.clone()))), limits).unwrap()
    }

    /// An engine that shares nothing, for one request at a time.
    pub(crate) fn lonely(&self) -> Local {
        let (running_max, step_rows) = (1, STEP_ROWS);
        self.engine(EngineLimits { running_max, step_rows, prefix_cache: false, ..EngineLimits::default() })
    }
}

/// The answers to the reference prompts.
pub(crate) fn references(opened: &Opened, texts: &Texts) -> Vec<Answered> {
    let mut engine = opened.lonely();
    let asked = traffic::references(texts, &opened.stop_ids);
    asked.into_iter().map(|(prompt, sampling)| ask(&mut engine, prompt, sampling)).collect()
}

/// Asks an engine that has nothing else to do.
pub(crate) fn ask<M: Forward>(engine: &mut Engine<M>, prompt: Vec<u32>, sampling: Sampling) -> Answered {
    let sampling = Sampling { logprobs: Some(RIVALS), ..sampling };
    let (id, deadline_ms, session) = (RequestId(1), None, None);
    let request = Request { id, prompt: prompt.clone(), sampling: sampling.clone(), deadline_ms, session };
    engine.submit(request, 0).unwrap();
    let (mut out, mut drawn) = (Vec::new(), Vec::new());
    loop {
        engine.step(0, &mut out);
        for output in out.drain(..) {
            match output {
                Output::Tokens { tokens, .. } => drawn.extend(tokens),
                Output::Done { reason, .. } => return Answered { prompt, sampling, tokens: drawn, reason },
            }
        }
    }
}

/// Holds an answer, whole or cut short, against that given alone.
pub(crate) fn compare(alone: &Answered, got: &[Drawn]) -> Compared {
    let mut compared = Compared { equal: 0, gap: None, shift: 0.0 };
    for (expected, came) in alone.tokens.iter().zip(got) {
        if expected.id != came.id {
            let rival = expected.top.iter().find(|(id, _)| *id == came.id);
            compared.gap = Some(rival.map_or(f32::INFINITY, |(_, logprob)| expected.top[0].1 - logprob));
            return compared;
        }
        compared.equal += 1;
        let far = expected.logprob.zip(came.logprob).map_or(f32::INFINITY, |(one, other)| (one - other).abs());
        compared.shift = compared.shift.max(far);
    }
    compared
}

/// The tokenizer as the engine hears it: control tokens are no text.
struct Spoken(Tokenizer);

struct Hearing(Option<StreamDecoder>);

impl Speech for Spoken {
    fn decoder(&self) -> Box<dyn Decode> {
        Box::new(Hearing(Some(self.0.stream(true))))
    }
}

impl Decode for Hearing {
    fn push(&mut self, id: u32) -> String {
        self.0.as_mut().and_then(|decoder| decoder.push(id).ok()).unwrap_or_default()
    }

    fn finish(&mut self) -> String {
        self.0.take().map(StreamDecoder::finish).unwrap_or_default()
    }
}
