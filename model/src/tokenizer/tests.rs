use super::*;
use proptest::prelude::*;

/// A file of a tokenizer of letters, with this normaliser and pre-tokenizer, and control tokens of every kind.
fn file(normalizer: &str, pre: &str, normalized: bool) -> Tokenizer {
    let token = |id: u32, content: &str, flags: [bool; 5]| {
        let [single_word, lstrip, rstrip, normalized, special] = flags;
        format!(
            r#"{{"id":{id},"content":"{content}","single_word":{single_word},"lstrip":{lstrip},"rstrip":{rstrip},
            "normalized":{normalized},"special":{special}}}"#
        )
    };
    let added = [
        token(15, "<s>", [false, false, false, false, true]),
        token(16, "<l>", [false, true, false, false, true]),
        token(17, "<r>", [false, false, true, false, true]),
        token(18, "<b>", [false, true, true, normalized, true]),
        token(19, "ab", [true, false, false, false, true]),
        token(20, "<t>", [false, false, false, false, false]),
        token(21, "<s><s>", [false, false, false, false, true]),
        token(22, "<N>", [false, false, false, normalized, true]),
    ];
    let letters = ["▁", "a", "b", "c", "n", "<", ">", "s", "l", "r", "t", " ", "é", "_", "N"];
    let vocabulary: serde_json::Map<String, serde_json::Value> =
        letters.iter().zip(0..).map(|(letter, id)| ((*letter).to_owned(), id.into())).collect();
    let json = format!(
        r#"{{"version":"1.0","truncation":null,"padding":null,"added_tokens":[{}],"normalizer":{normalizer},"pre_tokenizer":{pre},
        "post_processor":null,"decoder":null,"model":{{"type":"BPE","dropout":null,"unk_token":null,"continuing_subword_prefix":null,
        "end_of_word_suffix":null,"fuse_unk":false,"byte_fallback":false,"vocab":{},"merges":[]}}}}"#,
        added.join(","),
        serde_json::Value::Object(vocabulary)
    );
    Tokenizer::from_bytes("made up", json.as_bytes()).unwrap()
}

fn kinds() -> Vec<Tokenizer> {
    let metaspace =
        |scheme: &str| format!(r#"{{"type":"Metaspace","replacement":"▁","prepend_scheme":"{scheme}","split":true}}"#);
    let lowercase = r#"{"type":"Lowercase"}"#;
    vec![
        file("null", "null", false),
        file("null", &metaspace("first"), false),
        file("null", &metaspace("always"), false),
        file(lowercase, "null", false),
        file(lowercase, &metaspace("first"), true),
        file(r#"{"type":"Prepend","prepend":"▁"}"#, "null", false),
        file("null", r#"{"type":"Whitespace"}"#, true),
    ]
}

const PARTS: &[&str] =
    &["<s>", "<l>", "<r>", "<b>", "ab", "<t>", "<N>", "<n>", " ", "  ", "\n", "a", "b", "é", "_", "<", ">", "s"];

fn text() -> impl Strategy<Value = String> {
    prop::collection::vec(prop::sample::select(PARTS), 0..10).prop_map(|parts| parts.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    /// The library's own way of finding control tokens, which is what transformers runs, is the golden.
    #[test]
    fn rendered_text_is_encoded_as_the_library_encodes_it(text in text()) {
        for tokenizer in kinds() {
            let mut library = tokenizer.shared.inner.clone();
            library.set_encode_special_tokens(false);
            let expected = library.encode_fast(text.as_str(), false).unwrap().get_ids().to_vec();
            prop_assert_eq!(tokenizer.encode_rendered(&text).unwrap(), expected, "{:?}", tokenizer.shared.matching);
        }
    }

    #[test]
    fn text_pieces_never_become_control_tokens(texts in prop::collection::vec(text(), 1..4)) {
        for tokenizer in kinds() {
            let control: Vec<u32> = tokenizer.added().iter().filter(|token| token.special).map(|token| token.id).collect();
            let pieces: Vec<Piece<'_>> = texts.iter().flat_map(|text| [Piece::Text(text), Piece::Control(15)]).collect();
            let ids = tokenizer.encode_pieces(&pieces).unwrap();
            let controls: Vec<u32> = ids.into_iter().filter(|id| control.contains(id)).collect();
            prop_assert_eq!(controls, vec![15; texts.len()], "{:?}", tokenizer.shared.matching);
        }
    }
}

#[test]
fn a_file_that_makes_the_library_panic_is_refused_by_name() {
    let path = std::env::temp_dir().join(format!("legwork-tokenizer-{}.json", std::process::id()));
    let text = r#"{"version":"1.0","truncation":null,"padding":null,"added_tokens":[],"normalizer":null,"pre_tokenizer":null,
        "post_processor":null,"decoder":{"type":"Sequence" "decoders":[]},"model":{"type":"BPE","vocab":{},"merges":[]}}"#;
    std::fs::write(&path, text).unwrap();
    let error = Tokenizer::open(&path).unwrap_err().to_string();
    std::fs::remove_file(&path).unwrap();
    assert!(error.contains("legwork-tokenizer-") && error.contains("gave up on the file"), "{error}");
}
