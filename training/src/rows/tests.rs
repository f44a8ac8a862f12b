use super::*;
use crate::mask::{MaskKind, RowLimits};
use legwork_model::{House, PromptTemplate, SpecialTokens, Tokenizer};
use proptest::prelude::*;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::Cursor;
use std::path::PathBuf;

const ROW: &str = r#"{"messages":[{"role":"user","content":"q"},{"role":"assistant","content":"a"}]}"#;
const IDS: &str =
    r#"{"prompt_ids":[1],"spans":[{"actor":"w","turn":0,"kind":"sampled","ids":[5],"masked":false,"why":"sampled"}]}"#;

fn golden(name: &str) -> RowSource {
    RowSource::all(PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("goldens/rows").join(name))
}

/// Every row's line with what is wrong with it, if anything is.
fn kinds(rows: Rows) -> Vec<(u64, Option<BadKind>)> {
    let told = rows.map(|row| match row {
        Ok(row) => (row.place.line, None),
        Err(RowError::Bad { kind, error }) => (error.place().unwrap().line, Some(kind)),
        Err(RowError::Fatal(error)) => panic!("{error}"),
    });
    told.collect()
}

fn of_lines(lines: &[&[u8]]) -> Rows {
    Rows::over("rows.jsonl", Cursor::new(lines.join(&b"\n"[..])))
}

#[test]
fn each_kind_of_bad_line_is_told_with_its_line_and_the_next_is_read() {
    let message = |fields: &str| format!(r#"{{"messages":[{{"role":"assistant","content":"a"}},{{{fields}}}]}}"#);
    let many = format!(r#"{{"messages":[{}]}}"#, vec![r#"{"role":"assistant"}"#; 4097].join(","));
    let cases: Vec<(Vec<u8>, BadKind)> = [
        ("{\"messages\": [}".to_owned(), BadKind::MalformedJson),
        ("no json".to_owned(), BadKind::MalformedJson),
        (message(r#""role":"user","content":"\ud83d""#), BadKind::LoneSurrogate),
        (r#"{"messages":[{"role":"assistant","content":"a"}],"reward":NaN}"#.to_owned(), BadKind::NotFinite),
        (message(r#""role":"narrator","content":"a""#), BadKind::UnknownRole),
        (message(r#""role":"assistant","content":"a","step_los_mask":0"#), BadKind::UnknownField),
        (message(r#""content":"a""#), BadKind::MissingField),
        (r#"{"message":[]}"#.to_owned(), BadKind::MissingField),
        (message(r#""role":"user","role":"user""#), BadKind::DuplicateField),
        (message(r#""role":"user","content":7"#), BadKind::WrongType),
        (r#"{"messages":"text"}"#.to_owned(), BadKind::WrongType),
        ("[1]".to_owned(), BadKind::WrongType),
        (r#"{"messages":[]}"#.to_owned(), BadKind::NoMessages),
        (many, BadKind::TooManyMessages),
        (message(r#""role":"user","step_loss_mask":1"#), BadKind::Mask),
        (message(r#""role":"assistant","step_loss_mask":2"#), BadKind::Mask),
        (message(r#""role":"user","reasoning_content":"r""#), BadKind::MisplacedField),
        (message(r#""role":"assistant","tool_calls":[{"type":"web","function":{"name":"f"}}]"#), BadKind::ToolCall),
        (r#"{"messages":[{"role":"user","content":"a"}]}"#.to_owned(), BadKind::NothingSupervised),
    ]
    .map(|(line, kind)| (line.into_bytes(), kind))
    .into_iter()
    .chain([(b"{\"a\":\"\xff\"}".to_vec(), BadKind::NotUtf8)])
    .collect();
    let mut lines: Vec<&[u8]> = vec![ROW.as_bytes()];
    let mut expected = vec![(1, None)];
    for (line, kind) in &cases {
        lines.extend([line.as_slice(), ROW.as_bytes()]);
        let next = expected.len() as u64 + 1;
        expected.extend([(next, Some(*kind)), (next + 1, None)]);
    }
    let last = expected.len() as u64;
    lines.extend([&b"  "[..], ROW.as_bytes(), br#"{"messages":[{"ro"#]);
    expected.extend([(last + 1, Some(BadKind::BlankLine)), (last + 2, None), (last + 3, Some(BadKind::TornLine))]);
    assert_eq!(kinds(of_lines(&lines)), expected);
}

#[test]
fn the_first_row_that_says_so_tells_chat_from_ids() {
    let all = |lines: &[&str]| {
        let lines: Vec<&[u8]> = lines.iter().map(|line| line.as_bytes()).collect();
        kinds(of_lines(&lines))
    };
    assert_eq!(all(&[IDS, IDS]), [(1, None), (2, None)]);
    assert_eq!(all(&["{", IDS, ROW]), [(1, Some(BadKind::MalformedJson)), (2, None), (3, Some(BadKind::UnknownField))]);
    assert_eq!(all(&[ROW, IDS]), [(1, None), (2, Some(BadKind::MissingField))]);
    let row = of_lines(&[IDS.as_bytes()]).next().unwrap().unwrap();
    assert!(matches!(row.row, AnyRow::Ids(_)) && row.text == IDS);
}

#[test]
fn a_slice_counts_rows_from_the_first_and_bad_ones_too() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rows.jsonl");
    std::fs::write(&path, format!("{ROW}\n{{\n\n{ROW}\n{ROW}\n[]\n{ROW}\n")).unwrap();
    let lines = |slice: &str| {
        let source: RowSource = format!("{}@{slice}", path.display()).parse().unwrap();
        kinds(Rows::open(&source).unwrap())
    };
    assert_eq!(lines("[0:1]"), [(1, None)]);
    assert_eq!(
        lines("[1:4]"),
        [(2, Some(BadKind::MalformedJson)), (3, Some(BadKind::BlankLine)), (4, None), (5, None)]
    );
    assert_eq!(lines("[3:]"), [(5, None), (6, Some(BadKind::WrongType)), (7, None)]);
    assert_eq!(lines("[9:]"), []);
    let table = |slice: &str| {
        let source: RowSource = format!("{}@{slice}", golden("structs.parquet")).parse().unwrap();
        kinds(Rows::open(&source).unwrap())
    };
    assert_eq!((table("[1:2]"), table("[2:9]")), (vec![(2, None)], vec![(3, None)]));
}

fn texts(name: &str) -> Vec<Value> {
    let rows = Rows::open(&golden(name)).unwrap();
    rows.map(|row| serde_json::from_str(&row.unwrap().text).unwrap()).collect()
}

#[test]
fn a_table_of_structures_and_one_of_texts_are_the_rows_that_were_written() {
    let call =
        json!([{"id": "c1", "type": "function", "function": {"name": "search", "arguments": "{\"query\": \"x\"}"}}]);
    let tool = |name: &str, parameter: &str| {
        let parameters = json!({"type": "object", "properties": {parameter: {"type": "string"}}});
        json!({"type": "function", "function": {"name": name, "parameters": parameters}})
    };
    let messages = json!([
        {"role": "system", "content": "s"}, {"role": "user", "content": "Who? é😀"},
        {"role": "assistant", "reasoning_content": "Hm.", "tool_calls": call},
        {"role": "tool", "content": "o", "tool_call_id": "c1"},
        {"role": "assistant", "content": "Ada.", "step_loss_mask": 1},
        {"role": "assistant", "content": "More.", "step_loss_mask": 0},
    ]);
    let short = |q: &str, a: &str| json!([{"role": "user", "content": q}, {"role": "assistant", "content": a}]);
    let structs = texts("structs.parquet");
    let metadata = json!({"source": "core", "question_hash": "ab", "reward": 0.1, "round": 0});
    let tools = json!([tool("search", "query"), tool("open_page", "docid")]);
    assert_eq!(structs[0], json!({"messages": messages, "tools": tools, "metadata": metadata, "uid": 7}));
    assert_eq!(structs[1], json!({"messages": short("q", "a"), "uid": 8}));
    assert_eq!(
        structs[2],
        json!({"messages": short("q2", "a2"), "tools": [], "metadata": {"source": "gate"}, "uid": 9})
    );
    let rows = |name: &str| -> Vec<ChatRow> {
        let rows = Rows::open(&golden(name)).unwrap().map(|row| match row.unwrap().row {
            AnyRow::Chat(row) => *row,
            AnyRow::Ids(_) | AnyRow::Text(_) => panic!("a chat row"),
        });
        rows.map(|row| ChatRow { other: serde_json::Map::new(), ..row }).collect()
    };
    assert_eq!(rows("structs.parquet"), rows("texts.parquet"));
    assert_eq!(rows("texts.parquet")[0].tools.len(), 2);
}

#[test]
fn a_table_of_ids_and_one_of_pandas_are_read() {
    let row = Rows::open(&golden("ids.parquet")).unwrap().next().unwrap().unwrap();
    let AnyRow::Ids(ids) = row.row else { panic!("a token row") };
    assert_eq!((ids.prompt_ids.as_slice(), ids.ids(), ids.supervised()), (&[1, 2, 3][..], 6, 2));
    assert_eq!(ids.spans[0].logprobs, [-0.1, -2.5]);
    let pandas = texts("pandas.parquet");
    assert_eq!(pandas[0]["messages"][1]["step_loss_mask"], json!(0));
    assert_eq!(pandas[0]["raw"], json!("bytes"));
    assert!(pandas[0]["when"].as_str().unwrap().starts_with("2026-09-15"), "{}", pandas[0]["when"]);
}

#[test]
fn a_bad_row_of_a_table_is_told_with_its_number_and_the_next_is_read() {
    let expected = [
        None,
        Some(BadKind::MalformedJson),
        Some(BadKind::MissingField),
        Some(BadKind::NoMessages),
        Some(BadKind::UnknownRole),
        Some(BadKind::UnknownField),
        Some(BadKind::NotFinite),
        Some(BadKind::LoneSurrogate),
        Some(BadKind::NothingSupervised),
        Some(BadKind::WrongType),
        Some(BadKind::NotFinite),
    ];
    let expected: Vec<_> = expected.into_iter().zip(1..).map(|(kind, row)| (row, kind)).collect();
    assert_eq!(kinds(Rows::open(&golden("bad.parquet")).unwrap()), expected);
}

fn refused(name: &str) -> String {
    Rows::open(&golden(name)).err().unwrap().to_string()
}

#[test]
fn a_table_without_rows_or_that_unfolds_without_end_is_refused_before_it_is_read() {
    assert!(refused("other.parquet").contains("got the columns sentence, label"), "{}", refused("other.parquet"));
    let nulls = refused("hostile_nulls.parquet");
    assert!(nulls.contains("more values than a file of its size can hold"), "{nulls}");
    let texts = refused("hostile_texts.parquet");
    assert!(texts.contains("1073741824 bytes of text in the column messages.list.element.content"), "{texts}");
    assert!(refused("absent.parquet").contains("cannot read"));
}

fn encoder(limits: RowLimits) -> Encoder {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../model/goldens/embedder/tiny-qwen3/tokenizer.json");
    let tokenizer = Tokenizer::open(&path).unwrap();
    let template = House::KeepThink.template().unwrap();
    let prompts = PromptTemplate::new(template, tokenizer, &SpecialTokens::default()).unwrap();
    Encoder::new(prompts, MaskKind::Qwen3, limits).unwrap()
}

#[test]
fn good_rows_become_samples_and_bad_ones_are_refused_or_listed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rows.jsonl");
    let long = ROW.replace("\"q\"", &format!("\"{}\"", "é".repeat(200)));
    std::fs::write(&path, format!("{ROW}\n{{\n{long}\n{ROW}\n")).unwrap();
    let source = RowSource::all(&path);
    let encoder = encoder(RowLimits { length_max: 100, vocabulary: usize::MAX });
    let mut sieve = Sieve::new(BadRows::Skip);
    let samples = samples(&source, &encoder, &mut sieve).unwrap();
    assert_eq!(samples.iter().map(|sample| sample.place.line).collect::<Vec<_>>(), [1, 4]);
    let report = sieve.report();
    assert_eq!(report.counts, BTreeMap::from([(BadKind::MalformedJson, 1), (BadKind::TooLong, 1)]));
    assert!(report.listed[1].reason.contains("rows.jsonl:3: messages[..=0] have"), "{}", report.listed[1].reason);
    let refused = super::samples(&source, &encoder, &mut Sieve::new(BadRows::Refuse)).unwrap_err().to_string();
    assert!(refused.contains("rows.jsonl:2: expected a chat row"), "{refused}");
    std::fs::write(&path, "{\n").unwrap();
    let none = super::samples(&source, &encoder, &mut Sieve::new(BadRows::Skip)).unwrap_err().to_string();
    assert!(none.contains("expected at least one row, got none in") && none.contains("1 bad rows skipped"), "{none}");
}

proptest! {
    #[test]
    fn no_lines_panic_and_every_row_is_good_or_bad(
        bytes: Vec<u8>, text in r#"(\{"messages":\[|\{"role":"(user|assistant)"\}|[{}\[\]",:\\\n]|prompt_ids|NaN|\\ud83d){0,30}"#
    ) {
        for bytes in [bytes, text.into_bytes()] {
            let lines = bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).count();
            prop_assert!(kinds(Rows::over("x", Cursor::new(bytes))).len() <= 2 * lines);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn a_damaged_table_is_an_error_or_other_rows_and_never_a_panic(
        name in proptest::sample::select(vec!["structs", "texts", "ids", "pandas", "hostile_nulls"]),
        at in any::<proptest::sample::Index>(), byte: u8, cut in any::<Option<proptest::sample::Index>>()
    ) {
        let mut bytes = std::fs::read(golden(&format!("{name}.parquet")).path()).unwrap();
        let at = at.index(bytes.len());
        bytes[at] = byte;
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.parquet");
        std::fs::write(&path, &bytes).unwrap();
        if let Ok(rows) = Rows::open(&RowSource::all(&path)) {
            prop_assert!(rows.count() <= 16 * bytes.len());
        }
    }
}

#[test]
fn a_corpus_is_a_file_of_texts() {
    let lines = "{\"docid\":\"a\",\"text\":\"one two\",\"title\":\"T\",\"url\":\"u\"}\n{\"text\":\" \"}\n{\"text\":\"x\",\"txt\":1}\n";
    let rows: Vec<_> = Rows::over("corpus", std::io::Cursor::new(lines)).collect();
    let AnyRow::Text(first) = &rows[0].as_ref().unwrap().row else { panic!("a text") };
    assert_eq!(first.learned(), "T\none two");
    let told: Vec<String> = rows[1..].iter().map(|row| format!("{:?}", row.as_ref().unwrap_err())).collect();
    assert!(told[0].contains("empty"), "{told:?}");
    assert!(told[1].contains("txt"), "{told:?}");
}
