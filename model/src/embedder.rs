//! Texts to vectors as sentence-transformers makes them: prompt, markers, cut, encoder or decoder, pooling, length 1. All that
//! is read from the model's folder. A text's vector does not depend on the texts beside it, but for rounding.
//!
//! It refuses to know what vectors are compared with.

mod body;
mod describe;
mod plan;

use crate::config::{Pooling, SentenceConfig};
use crate::error::ModelError;
use crate::folder::{ModelFiles, ModelShape, TokenizerSource};
use crate::tokenizer::Tokenizer;
use crate::weights::Finite;
use body::Body;
use legwork_kernels::Cpu;
use std::ops::Range;
use std::path::Path;

/// Tokens of a text at most unless it is said otherwise, whatever a model could take: a decoder's cache grows with it.
const TOKENS_MAX: usize = 8192;
/// Tokens of a step unless it is said otherwise: many enough to share the weights, few enough for the processor's caches.
const BATCH_TOKENS: usize = 1024;
/// What a vector's length is divided by at least, as torch has it.
const LENGTH_MIN: f64 = 1e-12;

/// What a text is, where a model has a prompt for each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum EmbedKind {
    /// Something that is searched for: the prompt called `query`.
    Query,
    /// Something that is found: the prompt called `document`.
    Document,
    /// Neither: the model's default prompt, which few have.
    #[default]
    Plain,
    /// A text that has its prompt already, or shall have none.
    Bare,
}

/// How much an embedder takes at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EmbedSettings {
    /// Tokens of a text at most, markers and prompt counted in; less where the model says so.
    pub tokens_max: usize,
    /// Tokens of one step at most, over all of its texts.
    pub batch_tokens: usize,
}

impl Default for EmbedSettings {
    fn default() -> Self {
        Self { tokens_max: TOKENS_MAX, batch_tokens: BATCH_TOKENS }
    }
}

/// Vectors of texts, in their order, and what they cost.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Embedded {
    /// One vector a text, each number finite.
    pub vectors: Vec<Vec<f32>>,
    /// Tokens of each text that were computed, markers and prompt counted in.
    pub tokens: Vec<usize>,
    /// Tokens at the end of each text that were cut off.
    pub lost: Vec<usize>,
}

/// An embedder on the processor.
pub struct SentenceEmbedder {
    tokenizer: Tokenizer,
    body: Body,
    sentence: SentenceConfig,
    tokens_max: usize,
}

impl SentenceEmbedder {
    /// Opens a model's folder.
    ///
    /// # Errors
    /// As [`ModelFiles::open`]; a model that does not embed, or whose tokenizer is missing.
    pub fn open(path: &Path, settings: EmbedSettings) -> Result<Self, ModelError> {
        Self::of_files(ModelFiles::open(path)?, Cpu::new(), settings)
    }

    /// Takes files that were opened already. A BERT-like encoder without `modules.json` is pooled by its mean, as
    /// sentence-transformers does; a decoder without it is no embedder.
    ///
    /// # Errors
    /// As [`SentenceEmbedder::open`].
    pub fn of_files(mut files: ModelFiles, cpu: Cpu, settings: EmbedSettings) -> Result<Self, ModelError> {
        let wrong = |detail: &str| Err(ModelError::File { path: files.path.clone(), detail: detail.to_owned() });
        let sentence = match (&files.sentence, &files.shape) {
            (Some(sentence), _) => sentence.clone(),
            (None, ModelShape::Encoder(_)) => describe::mean(),
            (None, ModelShape::Decoder(_)) => {
                return wrong(
                    "expected an embedder, got a decoder without modules.json; give the folder of an embedder",
                );
            }
        };
        let TokenizerSource::Json(tokenizer) = &files.tokenizer else {
            return wrong("expected a tokenizer.json beside the weights, got none; save it with the model's tokenizer");
        };
        let tokenizer = Tokenizer::open(tokenizer)?;
        describe::check_case(&files.path, &tokenizer)?;
        let tokens_max = describe::tokens_max(&files, &sentence)?.min(settings.tokens_max);
        if tokens_max <= tokenizer.markers() {
            let (markers, least) = (tokenizer.markers(), tokenizer.markers() + 1);
            return wrong(&format!(
                "expected texts of at least {least} tokens, of which {markers} are markers, got {tokens_max}; allow more tokens"
            ));
        }
        files.weights.check_finite(Finite::Small)?;
        let body = Body::load(cpu, &mut files, tokens_max, settings.batch_tokens)?;
        Ok(Self { tokenizer, body, sentence, tokens_max })
    }

    /// Numbers of a vector.
    pub fn dimension(&self) -> usize {
        self.body.width()
    }

    /// Tokens of a text at most, markers and prompt counted in.
    pub fn tokens_max(&self) -> usize {
        self.tokens_max
    }

    /// How its vectors are made.
    pub fn sentence(&self) -> &SentenceConfig {
        &self.sentence
    }

    /// What is put before a text. A kind that the model has no prompt for has none; it does not fall back to the default.
    pub fn prompt(&self, kind: EmbedKind) -> &str {
        let name = match kind {
            EmbedKind::Query => Some("query"),
            EmbedKind::Document => Some("document"),
            EmbedKind::Plain => self.sentence.default_prompt.as_deref(),
            EmbedKind::Bare => None,
        };
        name.and_then(|name| self.sentence.prompts.get(name)).map_or("", String::as_str)
    }

    /// Tokens that a text costs, once it is cut.
    ///
    /// # Errors
    /// If the tokenizer refuses the text.
    pub fn count(&self, text: &str, kind: EmbedKind) -> Result<usize, ModelError> {
        Ok(self.encode(text, self.prompt(kind))?.0.len())
    }

    /// One vector a text, in the texts' order.
    ///
    /// # Errors
    /// If the tokenizer refuses a text, or a vector comes out with what is no number; all or nothing.
    pub fn embed(&mut self, texts: &[&str], kind: EmbedKind) -> Result<Vec<Vec<f32>>, ModelError> {
        Ok(self.embed_counted(texts, kind)?.vectors)
    }

    /// As [`SentenceEmbedder::embed`], with the tokens of each text. A text without any token, which only a tokenizer without
    /// markers makes, has the vector of zeros.
    ///
    /// # Errors
    /// As [`SentenceEmbedder::embed`].
    pub fn embed_counted(&mut self, texts: &[&str], kind: EmbedKind) -> Result<Embedded, ModelError> {
        let prompt = self.prompt(kind);
        let skipped = self.rows_skipped(prompt)?;
        let (mut ids, mut out) = (Vec::with_capacity(texts.len()), Embedded::default());
        for text in texts {
            let (of_text, lost) = self.encode(text, prompt)?;
            out.tokens.push(of_text.len());
            out.lost.push(lost);
            ids.push(of_text);
        }
        let pooling = self.sentence.pooling;
        let wanted = |tokens: usize| rows_wanted(pooling, tokens, skipped);
        let ids: Vec<&[u32]> = ids.iter().map(Vec::as_slice).collect();
        for batch in plan::batches(&out.tokens, self.body.budget()) {
            out.vectors.extend(self.body.means(&ids[batch], &wanted)?);
        }
        for (text, vector) in out.vectors.iter_mut().enumerate() {
            finish(text, vector, self.sentence.normalise)?;
        }
        Ok(out)
    }

    fn encode(&self, text: &str, prompt: &str) -> Result<(Vec<u32>, usize), ModelError> {
        match prompt {
            "" => self.tokenizer.encode_marked(text, self.tokens_max),
            _ => self.tokenizer.encode_marked(&[prompt, text].concat(), self.tokens_max),
        }
    }

    /// Rows at the start of a text that its vector is not made of: those of a prompt which is not pooled, by the count of
    /// sentence-transformers, which is the lone prompt's with its first marker and without its last.
    fn rows_skipped(&self, prompt: &str) -> Result<usize, ModelError> {
        if self.sentence.include_prompt || prompt.is_empty() {
            return Ok(0);
        }
        let (ids, _) = self.tokenizer.encode_marked(prompt, self.tokens_max)?;
        let control = |id: &u32| self.tokenizer.added().iter().any(|added| added.special && added.id == *id);
        Ok(ids.len() - usize::from(ids.last().is_some_and(control)))
    }
}

/// The rows of a text whose mean is its vector. Where a prompt that is not pooled fills the whole text, the vector is zeros or,
/// pooled by the first row, that row nonetheless, as in sentence-transformers.
fn rows_wanted(pooling: Pooling, tokens: usize, skipped: usize) -> Range<usize> {
    match pooling {
        Pooling::Mean => skipped.min(tokens)..tokens,
        Pooling::Cls if skipped < tokens => skipped..skipped + 1,
        Pooling::Cls => 0..tokens.min(1),
        Pooling::LastToken if skipped < tokens => tokens - 1..tokens,
        Pooling::LastToken => 0..0,
    }
}

/// Gives a vector the length 1 where that is wanted, and looks whether it is one.
fn finish(text: usize, vector: &mut [f32], normalise: bool) -> Result<(), ModelError> {
    if let Some((at, value)) = vector.iter().enumerate().find(|(_, value)| !value.is_finite()) {
        return Err(ModelError::Vector { text, got: value.to_string(), at });
    }
    if normalise {
        let squares: f64 = vector.iter().map(|value| f64::from(*value).powi(2)).sum();
        let length = squares.sqrt().max(LENGTH_MIN);
        vector.iter_mut().for_each(|value| *value = (f64::from(*value) / length) as f32);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_a_prompt_are_left_out_as_sentence_transformers_leaves_them_out() {
        use Pooling::{Cls, LastToken, Mean};
        let of = |pooling, skipped| [0, 1, 3].map(|tokens| rows_wanted(pooling, tokens, skipped));
        assert_eq!(of(Mean, 0), [0..0, 0..1, 0..3]);
        assert_eq!(of(Mean, 2), [0..0, 1..1, 2..3]);
        assert_eq!(of(Cls, 0), [0..0, 0..1, 0..1]);
        assert_eq!(of(Cls, 2), [0..0, 0..1, 2..3]);
        assert_eq!(of(LastToken, 0), [0..0, 0..1, 2..3]);
        assert_eq!(of(LastToken, 3), [0..0, 0..0, 0..0]);
    }

    #[test]
    fn a_vector_gets_the_length_one_and_zeros_stay() {
        // So large that squares overflow.
        let (mut vector, mut zeros) = ([3.0, -4.0].map(|value: f32| value * 2.0_f32.powi(100)), [0.0, 0.0]);
        finish(0, &mut vector, true).unwrap();
        finish(0, &mut zeros, true).unwrap();
        assert_eq!((vector, zeros), ([0.6, -0.8], [0.0, 0.0]));
        let error = finish(7, &mut [0.0, f32::NAN], false).unwrap_err().to_string();
        assert!(error.contains("text 7, got NaN at value 1"), "{error}");
    }
}
