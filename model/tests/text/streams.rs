//! Text of ids as they come, over every kind of decoder: all pieces together are what decoding at once gives, and nothing
//! that was given is taken back, however characters are cut and whatever bytes are no characters at all.

use legwork_model::{BpeParts, PreTokenizer, StreamDecoder, Tokenizer};
use proptest::prelude::*;
use std::sync::LazyLock;

/// GPT-2's letters of the bytes, in the order of the bytes.
fn letters() -> Vec<String> {
    let printable = |byte: u8| matches!(byte, 0x21..=0x7E | 0xA1..=0xAC | 0xAE..=0xFF);
    let mut others = '\u{100}'..;
    (0..=u8::MAX)
        .map(|byte| if printable(byte) { char::from(byte) } else { others.next().unwrap() }.to_string())
        .collect()
}

/// All bytes, two merges that cut a character in the middle, ChatML's markers and a marker that is no control token.
pub(crate) fn bytes() -> Tokenizer {
    static BYTES: LazyLock<Tokenizer> = LazyLock::new(|| {
        let letters = letters();
        let (a, b, c) = (&letters[0xF0], &letters[0x9F], &letters[0x98]);
        let mut tokens = letters.clone();
        tokens.extend([format!("{a}{b}"), format!("{a}{b}{c}")]);
        let merges = vec![format!("{a} {b}"), format!("{a}{b} {c}")];
        let mut kinds = vec![1; tokens.len()];
        for (token, kind) in [("<|im_start|>", 3), ("<|im_end|>", 3), ("<|pad|>", 3), ("<think>", 4), ("</think>", 4)] {
            tokens.push(token.to_owned());
            kinds.push(kind);
        }
        Tokenizer::from_bpe_parts("bytes", BpeParts { tokens, merges, kinds, pre: PreTokenizer::Gpt2 }).unwrap()
    });
    BYTES.clone()
}

/// A tokenizer of a few words with this decoder.
fn of_words(decoder: &str) -> Tokenizer {
    let words = [
        "▁", "▁a", "a", "##a", "a▁b", " ", "  ", "é", "字", "don", "'", "t", ".", ",", "do", "n't", "x</w>", "</w>",
        "", "<pad>", "<0xF0>", "<0x9F>", "<0x98>", "<0x80>", "<0x41>", "<0xFF>", "<0xC3>", "<0xA9>", "<0xZZ>",
        "<0x+1>", "[CLS]", "ab",
    ];
    let vocabulary: serde_json::Map<String, serde_json::Value> =
        words.iter().zip(0..).map(|(word, id)| ((*word).to_owned(), id.into())).collect();
    let added = r#"[{"id":30,"content":"[CLS]","single_word":false,"lstrip":false,"rstrip":false,"normalized":false,"special":true}]"#;
    let json = format!(
        r#"{{"version":"1.0","truncation":null,"padding":null,"added_tokens":{added},"normalizer":null,"pre_tokenizer":null,
        "post_processor":null,"decoder":{decoder},"model":{{"type":"WordLevel","vocab":{},"unk_token":"a"}}}}"#,
        serde_json::Value::Object(vocabulary)
    );
    Tokenizer::from_bytes(decoder, json.as_bytes()).unwrap()
}

fn streamed(mut stream: StreamDecoder, ids: &[u32]) -> (Vec<String>, String) {
    let mut pieces: Vec<String> = ids.iter().map(|id| stream.push(*id).unwrap()).collect();
    pieces.push(stream.finish());
    let whole = pieces.concat();
    (pieces, whole)
}

const REPLACE: &str = r#"{"type":"Replace","pattern":{"String":"▁"},"content":" "}"#;
const BYTE_FALLBACK: &str = r#"{"type":"ByteFallback"}"#;
const FUSE: &str = r#"{"type":"Fuse"}"#;

/// Each decoder that real models have, and what cannot be followed.
fn decoders() -> Vec<String> {
    let sequence = |parts: &[&str]| format!(r#"{{"type":"Sequence","decoders":[{}]}}"#, parts.join(","));
    let strip =
        |start: usize, stop: usize| format!(r#"{{"type":"Strip","content":" ","start":{start},"stop":{stop}}}"#);
    let metaspace =
        |scheme: &str| format!(r#"{{"type":"Metaspace","replacement":"▁","prepend_scheme":"{scheme}","split":true}}"#);
    vec![
        "null".to_owned(),
        r###"{"type":"WordPiece","prefix":"##","cleanup":true}"###.to_owned(),
        r###"{"type":"WordPiece","prefix":"##","cleanup":false}"###.to_owned(),
        r#"{"type":"BPEDecoder","suffix":"</w>"}"#.to_owned(),
        r#"{"type":"ByteLevel","add_prefix_space":true,"trim_offsets":true,"use_regex":true}"#.to_owned(),
        r#"{"type":"CTC","pad_token":"<pad>","word_delimiter_token":"▁","cleanup":true}"#.to_owned(),
        BYTE_FALLBACK.to_owned(),
        FUSE.to_owned(),
        REPLACE.to_owned(),
        metaspace("first"),
        metaspace("never"),
        sequence(&[REPLACE, BYTE_FALLBACK, FUSE, &strip(1, 0)]),
        sequence(&[REPLACE, BYTE_FALLBACK, FUSE, &strip(3, 0)]),
        sequence(&[REPLACE, BYTE_FALLBACK, FUSE]),
        sequence(&[REPLACE, BYTE_FALLBACK]),
        sequence(&[BYTE_FALLBACK, &metaspace("always"), FUSE]),
        sequence(&[FUSE, REPLACE]),
        sequence(&[]),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn byte_level_pieces_are_the_whole_and_come_as_soon_as_they_are_certain(
        ids in prop::collection::vec(prop_oneof![0u32..270, 0xE0u32..0xF5, 0x80u32..0xC0], 0..60),
        skip in any::<bool>(),
    ) {
        let tokenizer = bytes();
        let (pieces, whole) = streamed(tokenizer.stream(skip), &ids);
        prop_assert_eq!(&whole, &tokenizer.decode(&ids, skip).unwrap());
        // What is held back is at most an unfinished character, which decoding shows as one or more U+FFFD.
        let mut given = String::new();
        for (index, piece) in pieces[..ids.len()].iter().enumerate() {
            given.push_str(piece);
            let so_far = tokenizer.decode(&ids[..=index], skip).unwrap();
            prop_assert!(whole.starts_with(&given));
            let held = so_far.strip_prefix(given.as_str()).expect("nothing is given that decoding would not give");
            prop_assert!(held.chars().count() <= 3 && held.chars().all(|one| one == '\u{FFFD}'), "{held:?} is held back");
        }
    }

    #[test]
    fn real_text_survives_any_cut(text in "\\PC{0,20}|(👩‍👩‍👧‍👦|🏳️‍🌈|é|字|\u{301}|\u{200d}){0,12}") {
        let tokenizer = bytes();
        let ids = tokenizer.encode(&text).unwrap();
        let (pieces, whole) = streamed(tokenizer.stream(false), &ids);
        prop_assert_eq!(&whole, &text);
        let lost = |text: &str| text.contains('\u{FFFD}');
        prop_assert!(lost(&text) || !pieces.iter().any(|piece| lost(piece)));
    }

    #[test]
    fn every_decoders_pieces_are_the_whole(ids in prop::collection::vec(0u32..34, 1..24), skip in any::<bool>()) {
        for tokenizer in TOKENIZERS.iter() {
            let Ok(expected) = tokenizer.decode(&ids, skip) else { continue };
            let (_, whole) = streamed(tokenizer.stream(skip), &ids);
            prop_assert_eq!(whole, expected, "{} over {:?}", tokenizer.name(), ids);
        }
    }
}

static TOKENIZERS: LazyLock<Vec<Tokenizer>> = LazyLock::new(|| decoders().iter().map(|one| of_words(one)).collect());

#[test]
fn a_character_comes_whole_with_its_last_byte() {
    let tokenizer = bytes();
    let mut stream = tokenizer.stream(true);
    let mut push = |id: u32| stream.push(id).unwrap();
    // 😀 is F0 9F 98 80, of which the first three are one token here.
    assert_eq!([push(257), push(0x80), push(0xF0), push(u32::from(b'a'))], ["", "😀", "", "\u{FFFD}a"]);
    assert_eq!([push(258), push(u32::MAX), push(0xC3)], ["", "", ""]);
    assert_eq!(stream.finish(), "\u{FFFD}");
}

#[test]
fn a_stream_moves_into_another_thread() {
    fn moves<T: Send + 'static>(_: &T) {}
    let stream = bytes().stream(true);
    moves(&stream);
    assert_eq!(std::thread::spawn(move || stream.finish()).join().unwrap(), "");
}

#[test]
fn words_come_at_once_and_byte_tokens_when_their_run_ends() {
    let words = of_words(&decoders()[1]);
    assert_eq!(streamed(words.stream(true), &[2, 3, 30, 9]).0, ["a", "a", "", " don", ""]);
    let runs = of_words(&decoders()[11]);
    let ids = [1, 20, 21, 22, 23, 2, 20, 24];
    assert_eq!(streamed(runs.stream(true), &ids).0, ["a", "", "", "", "", "😀a", "", "", "\u{FFFD}\u{FFFD}"]);
}
