//! A tokenizer from a `tokenizer.json`, as Hugging Face writes it, or from the parts that a GGUF file carries. Text is
//! text here: a control token that stands in it as text is encoded as text, unless the text is called rendered.
//! It refuses to know what a conversation is.

mod bpe;
pub(crate) mod pieces;
mod stream;
mod train;

pub use bpe::{BpeParts, PreTokenizer};
pub use pieces::Piece;
pub use stream::StreamDecoder;
pub use train::{
    ADDED as TRAINED_ADDED, TRAINED_VOCABULARY_MAX, TRAINING_TEXT_BYTES_MAX, TrainedTokenizer, train_tokenizer,
};

use crate::error::ModelError;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use tokenizers::{PostProcessor, TruncationDirection};

/// The largest tokenizer file, in bytes.
const FILE_MAX_BYTES: u64 = 256 * 1024 * 1024;

/// A tokenizer. A clone shares everything.
#[derive(Clone, Debug)]
pub struct Tokenizer {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    name: String,
    inner: tokenizers::Tokenizer,
    /// Every added token, the longest first.
    added: Vec<AddedToken>,
    matching: Matching,
    /// The same with control tokens recognised, for the rare kinds that need it.
    parsing: OnceLock<tokenizers::Tokenizer>,
}

/// How control tokens are found, and whether the text between them can be encoded piece by piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Matching {
    /// By their letters; what a piece becomes does not depend on where it stands.
    Anywhere,
    /// By their letters; the first piece of a text gets a blank before it, and no other does.
    InPlace,
    /// In the normalised text, where letters may differ.
    Normalised,
}

/// A token that was added beside the vocabulary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddedToken {
    /// Its id.
    pub id: u32,
    /// Its text.
    pub content: String,
    /// A control token, which text never becomes; otherwise a marker such as `<think>`, which stands for itself.
    pub special: bool,
    /// It takes the blanks before it.
    pub lstrip: bool,
    /// It takes the blanks behind it.
    pub rstrip: bool,
    /// It is one only between characters that are of no word.
    pub single_word: bool,
}

impl Tokenizer {
    /// Reads a `tokenizer.json`.
    ///
    /// # Errors
    /// A file that cannot be read, is too large, or is no tokenizer.
    pub fn open(path: &Path) -> Result<Self, ModelError> {
        let wrong = |detail: String| ModelError::Tokenizer { path: path.to_path_buf(), detail };
        let bytes = std::fs::metadata(path).map_err(|error| wrong(error.to_string()))?.len();
        if bytes > FILE_MAX_BYTES {
            return Err(wrong(format!("expected at most {FILE_MAX_BYTES} bytes, got {bytes}")));
        }
        let bytes = std::fs::read(path).map_err(|error| wrong(error.to_string()))?;
        Self::from_bytes(&path.display().to_string(), &bytes)
    }

    /// Reads the text of a `tokenizer.json`; errors and [`Tokenizer::name`] say where it came from.
    ///
    /// # Errors
    /// As [`Tokenizer::open`].
    pub fn from_bytes(name: &str, json: &[u8]) -> Result<Self, ModelError> {
        let wrong = |detail: String| ModelError::Tokenizer { path: PathBuf::from(name), detail };
        if json.len() as u64 > FILE_MAX_BYTES {
            return Err(wrong(format!("expected at most {FILE_MAX_BYTES} bytes, got {}", json.len())));
        }
        let inner = guarded(|| tokenizers::Tokenizer::from_bytes(json)).map_err(wrong)?;
        Ok(Self::of(name.to_owned(), inner))
    }

    /// Builds a byte-level tokenizer of a vocabulary with merges, as a GGUF file carries it.
    ///
    /// # Errors
    /// Parts that contradict one another, with the entry.
    pub fn from_bpe_parts(name: &str, parts: BpeParts) -> Result<Self, ModelError> {
        let wrong = |detail: String| ModelError::Vocabulary { name: name.to_owned(), detail };
        let inner = guarded(|| Ok(bpe::build(parts))).map_err(wrong)?.map_err(wrong)?;
        Ok(Self::of(name.to_owned(), inner))
    }

    fn of(name: String, mut inner: tokenizers::Tokenizer) -> Self {
        // Special tokens that stand in a text are text; a template adds the real ones by id.
        inner.set_encode_special_tokens(true);
        // Some files cut and pad every text as the training did; here whoever asks says how long a text may be.
        inner.with_padding(None).with_truncation(None).expect("none is no length that could be wrong");
        let tokens = inner.get_added_tokens_decoder().into_iter().filter(|(_, token)| !token.content.is_empty());
        let mut added: Vec<AddedToken> = tokens
            .map(|(id, token)| AddedToken {
                id,
                content: token.content,
                special: token.special,
                lstrip: token.lstrip,
                rstrip: token.rstrip,
                single_word: token.single_word,
            })
            .collect();
        let matching = matching(&inner);
        added.sort_by(|a, b| b.content.len().cmp(&a.content.len()).then(a.id.cmp(&b.id)));
        Self { shared: Arc::new(Shared { name, inner, added, matching, parsing: OnceLock::new() }) }
    }

    /// The file that it was read from.
    pub fn name(&self) -> &str {
        &self.shared.name
    }

    /// The ids of a text, without any marker around it.
    ///
    /// # Errors
    /// If the tokenizer refuses the text.
    pub fn encode(&self, text: &str) -> Result<Vec<u32>, ModelError> {
        encode_with(&self.shared.inner, text)
    }

    /// The ids of a text that a template rendered: control tokens that stand in it become their ids, and no marker is put
    /// around it. This is what transformers does with a rendered conversation; whoever renders foreign text uses
    /// [`crate::PromptTemplate`], which keeps the template's control tokens apart from those that a message spells out.
    ///
    /// # Errors
    /// If the tokenizer refuses the text.
    pub fn encode_rendered(&self, text: &str) -> Result<Vec<u32>, ModelError> {
        match self.shared.matching {
            Matching::Anywhere => self.encode_pieces(&pieces::split(text, &self.shared.added)),
            Matching::InPlace | Matching::Normalised => encode_with(self.parsing(), text),
        }
    }

    /// The ids of a text with the markers around it that the file asks for, such as `[CLS]` and `[SEP]`: at most `tokens_max`
    /// in all, of which the text loses those at its end; and how many were lost. Control tokens that stand in the text
    /// become their ids, as sentence-transformers has it: a vector obeys nobody.
    ///
    /// # Errors
    /// If the tokenizer refuses the text.
    pub fn encode_marked(&self, text: &str, tokens_max: usize) -> Result<(Vec<u32>, usize), ModelError> {
        let parsing = self.parsing();
        let encoded = guarded(|| {
            let mut encoding = parsing.encode_fast(text, false)?;
            let whole = encoding.len();
            encoding.truncate(tokens_max.saturating_sub(self.markers()), 0, TruncationDirection::Right);
            let lost = whole - encoding.len();
            Ok((parsing.post_process(encoding, None, true)?.get_ids().to_vec(), lost))
        });
        encoded.map_err(|detail| ModelError::Encode { bytes: text.len(), detail })
    }

    /// How many markers [`Tokenizer::encode_marked`] puts around a text.
    pub fn markers(&self) -> usize {
        self.shared.inner.get_post_processor().map_or(0, |post| post.added_tokens(false))
    }

    /// The ids of pieces, of which only the control pieces become control tokens.
    ///
    /// # Errors
    /// If the tokenizer refuses a text.
    pub fn encode_pieces(&self, pieces: &[Piece<'_>]) -> Result<Vec<u32>, ModelError> {
        let added = &self.shared.added;
        if pieces.len() > 1 && self.shared.matching == Matching::InPlace {
            // Where a text spells a control token, being text weighs more than the blank before it.
            let spells = |text: &str| added.iter().any(|added| added.special && text.contains(&added.content));
            let controls = pieces.iter().filter(|piece| piece.text().is_none()).count();
            if !pieces.iter().filter_map(Piece::text).any(spells) {
                let ids = encode_with(self.parsing(), &pieces::joined(pieces, added))?;
                let control = |id: &&u32| added.iter().any(|added| added.special && added.id == **id);
                if ids.iter().filter(control).count() == controls {
                    return Ok(ids);
                }
            }
        }
        let mut ids = Vec::new();
        for piece in pieces::trimmed(pieces, added) {
            match piece {
                Piece::Control(id) => ids.push(id),
                Piece::Text(text) => ids.extend(self.encode(text)?),
            }
        }
        Ok(ids)
    }

    /// The same tokenizer with control tokens recognised in text.
    fn parsing(&self) -> &tokenizers::Tokenizer {
        self.shared.parsing.get_or_init(|| {
            let mut parsing = self.shared.inner.clone();
            parsing.set_encode_special_tokens(false);
            parsing
        })
    }

    /// The text of ids. Control tokens are left out if `skip_control`; ids that no token has are left out always.
    ///
    /// # Errors
    /// If the tokenizer refuses the ids.
    pub fn decode(&self, ids: &[u32], skip_control: bool) -> Result<String, ModelError> {
        guarded(|| self.shared.inner.decode(ids, skip_control))
            .map_err(|detail| ModelError::Decode { count: ids.len(), detail })
    }

    /// Decodes ids as they come: the pieces together are what [`Tokenizer::decode`] gives for all of them.
    pub fn stream(&self, skip_control: bool) -> StreamDecoder {
        StreamDecoder::new(self.clone(), skip_control)
    }

    /// Tokens of a text. A text that the tokenizer refuses counts a token a byte: never too few.
    pub fn count(&self, text: &str) -> u64 {
        self.encode(text).map_or(text.len() as u64, |ids| ids.len() as u64)
    }

    /// The id of a token, if the vocabulary has it.
    pub fn id_of(&self, token: &str) -> Option<u32> {
        self.shared.inner.token_to_id(token)
    }

    /// The token of an id as the vocabulary writes it, if there is one.
    pub fn token_of(&self, id: u32) -> Option<String> {
        self.shared.inner.id_to_token(id)
    }

    /// How many tokens there are, added ones included. Ids may have gaps, so one may be greater.
    pub fn vocabulary(&self) -> usize {
        self.shared.inner.get_vocab_size(true)
    }

    /// Every token that was added beside the vocabulary: control tokens and markers such as `<think>`.
    pub fn added_tokens(&self) -> Vec<String> {
        self.shared.added.iter().map(|token| token.content.clone()).collect()
    }

    /// The same with what is known of each, the longest first.
    pub fn added(&self) -> &[AddedToken] {
        &self.shared.added
    }

    fn inner(&self) -> &tokenizers::Tokenizer {
        &self.shared.inner
    }
}

fn matching(inner: &tokenizers::Tokenizer) -> Matching {
    use tokenizers::PreTokenizerWrapper as Pre;
    use tokenizers::pre_tokenizers::metaspace::PrependScheme;
    let mut added = inner.get_added_tokens_decoder().into_values();
    if inner.get_normalizer().is_some() && added.any(|token| token.special && token.normalized) {
        return Matching::Normalised;
    }
    let first = |pre: &Pre| matches!(pre, Pre::Metaspace(meta) if meta.get_prepend_scheme() == PrependScheme::First);
    let in_place = match inner.get_pre_tokenizer() {
        Some(Pre::Sequence(sequence)) => sequence.as_ref().iter().any(first),
        Some(one) => first(one),
        None => false,
    };
    if in_place { Matching::InPlace } else { Matching::Anywhere }
}

fn encode_with(inner: &tokenizers::Tokenizer, text: &str) -> Result<Vec<u32>, ModelError> {
    let encoded = guarded(|| inner.encode_fast(text, false));
    let encoded = encoded.map_err(|detail| ModelError::Encode { bytes: text.len(), detail })?;
    Ok(encoded.get_ids().to_vec())
}

/// The library has assertions that damaged files trip, some when they are read and some when they are used. A damaged file
/// is the file's fault and not the program's, so such a panic ends here as an error.
fn guarded<T>(use_it: impl FnOnce() -> tokenizers::Result<T>) -> Result<T, String> {
    match catch_unwind(AssertUnwindSafe(use_it)) {
        Ok(done) => done.map_err(|error| error.to_string()),
        Err(_) => Err("the tokenizer library gave up on the file; fetch it anew".to_owned()),
    }
}

#[cfg(test)]
mod tests;
