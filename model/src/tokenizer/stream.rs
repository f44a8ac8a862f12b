//! Text of ids as they come. What [`StreamDecoder::push`] gave is never taken back and never ends within a character, and
//! all pieces together are exactly what [`Tokenizer::decode`] gives for all ids. It refuses to know when to stop.

use super::{Tokenizer, guarded};
use crate::error::ModelError;
use std::collections::HashMap;
use std::sync::LazyLock;
use tokenizers::{Decoder, DecoderWrapper};

/// Decodes ids as they come.
///
/// How much is held back depends on the tokenizer's decoder. Byte-level ones (Qwen, GPT-2, Llama 3, SmolLM2) hold the
/// at most three bytes of an unfinished character. Ones with byte tokens (`<0xF0>`, as sentencepiece makes) hold a run of
/// such tokens, since one bad byte spoils its whole run. Ones that spell words (WordPiece, Metaspace, none at all) hold
/// nothing; those that mark a word's end hold one token. Any other decoder gives all its text at the end, for nothing
/// less is certain. A token costs the same however many came before.
#[derive(Debug)]
pub struct StreamDecoder {
    tokenizer: Tokenizer,
    skip_control: bool,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    /// Bytes of an unfinished character.
    Bytes(Vec<u8>),
    /// Each token is decoded by itself, knowing whether it is the first; if `ends` the last one differs, so it is held.
    Words { begun: bool, ends: bool, held: Option<String> },
    /// Byte tokens held until their run ends, and how many blanks the text may still lose at its beginning.
    Runs { run: Vec<u8>, strip: Option<(char, usize)> },
    /// Nothing is certain before the end.
    Whole(Vec<u32>),
}

impl StreamDecoder {
    pub(super) fn new(tokenizer: Tokenizer, skip_control: bool) -> Self {
        let kind = kind(tokenizer.inner().get_decoder());
        Self { tokenizer, skip_control, kind }
    }

    /// Takes an id and gives the text that became certain by it, often none.
    ///
    /// # Errors
    /// If the tokenizer's file has a decoder that gives up on the token.
    pub fn push(&mut self, id: u32) -> Result<String, ModelError> {
        if let Kind::Whole(ids) = &mut self.kind {
            ids.push(id);
            return Ok(String::new());
        }
        let Some(token) = self.tokenizer.token_of(id) else { return Ok(String::new()) };
        if self.skip_control && self.tokenizer.inner().get_added_vocabulary().is_special_token(&token) {
            return Ok(String::new());
        }
        let decoder = self.tokenizer.inner().get_decoder();
        let text = match &mut self.kind {
            Kind::Bytes(held) => {
                held.extend(bytes_of(&token));
                Ok(take_whole_characters(held))
            }
            Kind::Words { begun, ends: false, .. } => word(decoder, token, std::mem::replace(begun, true), false),
            Kind::Words { begun, ends: true, held } => match held.replace(token) {
                Some(before) => word(decoder, before, std::mem::replace(begun, true), false),
                None => Ok(String::new()),
            },
            Kind::Runs { run, strip } => unit(decoder, token).map(|token| match byte_of(&token) {
                Some(byte) => {
                    run.push(byte);
                    String::new()
                }
                None => stripped(end_run(run) + &token, strip),
            }),
            Kind::Whole(_) => unreachable!("handled above"),
        };
        text.map_err(|detail| ModelError::Decode { count: 1, detail })
    }

    /// The text that was held back: an unfinished character becomes U+FFFD, as in [`Tokenizer::decode`]. A decoder that
    /// gives up on ids as a whole leaves the tokens as the vocabulary writes them.
    pub fn finish(mut self) -> String {
        let decoder = self.tokenizer.inner().get_decoder();
        match &mut self.kind {
            Kind::Bytes(held) => String::from_utf8_lossy(held).into_owned(),
            Kind::Words { begun, held, .. } => {
                held.take().map(|token| word(decoder, token.clone(), *begun, true).unwrap_or(token)).unwrap_or_default()
            }
            Kind::Runs { run, strip } => stripped(end_run(run), strip),
            Kind::Whole(ids) => self.tokenizer.decode(ids, self.skip_control).unwrap_or_else(|_| {
                ids.iter().filter_map(|id| self.tokenizer.token_of(*id)).collect::<Vec<_>>().join("")
            }),
        }
    }
}

/// How a decoder can be followed.
fn kind(decoder: Option<&DecoderWrapper>) -> Kind {
    match decoder {
        Some(DecoderWrapper::ByteLevel(_)) => Kind::Bytes(Vec::new()),
        None | Some(DecoderWrapper::WordPiece(_) | DecoderWrapper::Metaspace(_)) => {
            Kind::Words { begun: false, ends: false, held: None }
        }
        Some(DecoderWrapper::BPE(_)) => Kind::Words { begun: false, ends: true, held: None },
        Some(DecoderWrapper::ByteFallback(_)) => Kind::Runs { run: Vec::new(), strip: None },
        Some(DecoderWrapper::Sequence(sequence)) => in_sequence(sequence.get_decoders()),
        Some(_) => Kind::Whole(Vec::new()),
    }
}

/// Replacements, then byte tokens, then one string, then blanks off its beginning: what sentencepiece becomes.
fn in_sequence(decoders: &[DecoderWrapper]) -> Kind {
    let whole = Kind::Whole(Vec::new());
    let mut rest = decoders.iter().skip_while(|decoder| matches!(decoder, DecoderWrapper::Replace(_)));
    let strip = match (rest.next(), rest.next(), rest.next(), rest.next()) {
        (Some(DecoderWrapper::ByteFallback(_)), None | Some(DecoderWrapper::Fuse(_)), None, None) => None,
        (
            Some(DecoderWrapper::ByteFallback(_)),
            Some(DecoderWrapper::Fuse(_)),
            Some(DecoderWrapper::Strip(strip)),
            None,
        ) if strip.stop == 0 => Some((strip.content, strip.start)),
        (Some(DecoderWrapper::ByteLevel(_)), None, None, None) if decoders.len() == 1 => {
            return Kind::Bytes(Vec::new());
        }
        _ => return whole,
    };
    Kind::Runs { run: Vec::new(), strip }
}

/// One token through a decoder that looks at each alone but for whether it is the first or the last.
fn word(decoder: Option<&DecoderWrapper>, token: String, begun: bool, last: bool) -> Result<String, String> {
    let Some(decoder) = decoder else { return Ok(if begun { format!(" {token}") } else { token }) };
    let at = usize::from(begun);
    let mut tokens = vec![token];
    if begun {
        tokens.insert(0, "x".to_owned());
    }
    if !last {
        tokens.push("x".to_owned());
    }
    guarded(|| decoder.decode_chain(tokens))
        .map(|mut texts| if at < texts.len() { texts.swap_remove(at) } else { String::new() })
}

/// A token after the replacements that stand before the byte tokens.
fn unit(decoder: Option<&DecoderWrapper>, token: String) -> Result<String, String> {
    let Some(DecoderWrapper::Sequence(sequence)) = decoder else { return Ok(token) };
    let replacements = sequence.get_decoders().iter().take_while(|one| matches!(one, DecoderWrapper::Replace(_)));
    guarded(|| {
        replacements
            .into_iter()
            .try_fold(token, |token, replace| Ok(replace.decode_chain(vec![token])?.pop().unwrap_or_default()))
    })
}

/// The byte that a byte token stands for.
fn byte_of(token: &str) -> Option<u8> {
    let digits = token.strip_prefix("<0x")?.strip_suffix('>').filter(|digits| digits.len() == 2)?;
    u8::from_str_radix(digits, 16).ok()
}

/// The text of a run of byte tokens: if it is not whole UTF-8, each of its bytes is lost.
fn end_run(run: &mut Vec<u8>) -> String {
    let count = run.len();
    String::from_utf8(std::mem::take(run)).unwrap_or_else(|_| "\u{FFFD}".repeat(count))
}

/// The text without what the whole loses at its beginning.
fn stripped(text: String, strip: &mut Option<(char, usize)>) -> String {
    let Some((content, left)) = strip else { return text };
    let mut rest = text.as_str();
    while *left > 0 && !rest.is_empty() {
        match rest.strip_prefix(*content) {
            Some(shorter) => (rest, *left) = (shorter, *left - 1),
            None => *left = 0,
        }
    }
    rest.to_owned()
}

/// Takes everything up to an unfinished character; what can be no character becomes U+FFFD.
fn take_whole_characters(held: &mut Vec<u8>) -> String {
    let mut text = String::new();
    let mut rest = held.as_slice();
    loop {
        match std::str::from_utf8(rest) {
            Ok(valid) => {
                text.push_str(valid);
                rest = &[];
                break;
            }
            Err(error) => {
                let (valid, wrong) = rest.split_at(error.valid_up_to());
                text.push_str(&String::from_utf8_lossy(valid));
                rest = wrong;
                let Some(length) = error.error_len() else { break };
                text.push('\u{FFFD}');
                rest = &rest[length..];
            }
        }
    }
    *held = rest.to_vec();
    text
}

/// The bytes of a byte-level token; one with a character outside the alphabet is its own text, as added tokens are.
fn bytes_of(token: &str) -> Vec<u8> {
    token.chars().map(|one| BYTES.get(&one).copied()).collect::<Option<_>>().unwrap_or_else(|| token.into())
}

/// GPT-2's alphabet: printable bytes stand for themselves, the others are counted up from U+0100.
static BYTES: LazyLock<HashMap<char, u8>> = LazyLock::new(|| {
    let printable = |byte: &u8| matches!(byte, 0x21..=0x7E | 0xA1..=0xAC | 0xAE..=0xFF);
    let others = (0..=u8::MAX).filter(|byte| !printable(byte)).zip('\u{100}'..);
    let themselves = (0..=u8::MAX).filter(printable).map(|byte| (char::from(byte), byte));
    themselves.chain(others.map(|(byte, one)| (one, byte))).collect()
});
