use super::*;
use ::parquet::data_type::{ByteArray, ByteArrayType, Int64Type};
use ::parquet::file::writer::SerializedFileWriter;
use ::parquet::schema::parser::parse_message_type;
use proptest::prelude::*;
use std::sync::Arc;

/// Reads `bytes` as a corpus: the documents, or the text of the error.
fn read(format: Format, bytes: &[u8]) -> Result<Vec<Document>, String> {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), bytes).unwrap();
    Corpus::with_format(file.path(), format).documents().and_then(Iterator::collect).map_err(|e| e.to_string())
}

fn doc(docid: &str, text: &str) -> Document {
    Document { docid: docid.into(), text: text.into(), ..Document::default() }
}

/// Asserts that a JSONL corpus is refused and that the message has each part.
fn refused(bytes: &[u8], parts: &[&str]) {
    let error = read(Format::Jsonl, bytes).expect_err("a refusal");
    for part in parts {
        assert!(error.contains(part), "{part:?} is missing in: {error}");
    }
}

#[test]
fn documents_come_in_file_order_and_ids_are_opaque() {
    let text = "\u{feff}{\"docid\":\"12\",\"text\":\"a\",\"author\":7}\r\n{\"docid\":\"012\",\"text\":\"\",\"title\":\"T\",\"url\":null}\r\n{\"docid\":\" 12\",\"text\":\"b\"}\n\n";
    let got = read(Format::Jsonl, text.as_bytes()).unwrap();
    let second = Document { title: Some("T".into()), ..doc("012", "") };
    assert_eq!(got, [doc("12", "a"), second, doc(" 12", "b")]);
}

#[test]
fn a_numeric_docid_is_refused_with_the_cure() {
    refused(b"{\"docid\":\"a\",\"text\":\"\"}\n{\"docid\":12,\"text\":\"\"}", &["line 2", "write \"12\" in quotes"]);
    refused(b"{\"docid\":1.5,\"text\":\"\"}", &["line 1", "in quotes"]);
}

#[test]
fn malformed_lines_are_refused_by_number() {
    refused(b"{\"docid\":\"a\",\"text\":\"x\"}\n{\"docid\":\"b\",", &["line 2", "ends too early"]);
    refused(b"[\"a\", \"x\"]", &["line 1", "one JSON object a line"]);
    refused(b"{\"docid\":\"a\"}", &["line 1", "missing field `text`"]);
    refused(b"{\"docid\":\"a\",\"text\":null}", &["line 1"]);
    refused(b"{\"docid\":\"a\",\"text\":\"x\",\"text\":\"y\"}", &["line 1", "duplicate field"]);
    refused(b"{\"docid\":\"a\",\"text\":\"x\"}\n\n{\"docid\":\"b\",\"text\":\"x\"}", &["line 2", "blank line"]);
    refused(b"{\"docid\":\"\",\"text\":\"x\"}", &["expected a docid"]);
    refused(b"{\"docid\":\"a\\nb\",\"text\":\"x\"}", &["control characters"]);
}

#[test]
fn half_a_surrogate_pair_and_nul_are_refused() {
    refused(br#"{"docid":"a","text":"\ud83d"}"#, &["line 1", "half a surrogate pair"]);
    refused(br#"{"docid":"a","text":"\ud83d \ude00"}"#, &["line 1", "half a surrogate pair"]);
    refused(br#"{"docid":"a","text":"x\u0000y"}"#, &["line 1", "NUL"]);
    refused(b"{\"docid\":\"a\",\"text\":\"x\0y\"}", &["line 1", "control character"]);
}

#[test]
fn a_second_use_of_an_id_names_both_places() {
    refused(b"{\"docid\":\"a\",\"text\":\"x\"}\n{\"docid\":\"a\",\"text\":\"y\"}", &["line 2", "before, at 1"]);
}

#[test]
fn an_empty_corpus_is_refused() {
    refused(b"", &["empty corpus"]);
    refused(b"\n\n", &["empty corpus"]);
}

#[test]
fn the_stream_ends_after_an_error() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "x\n{\"docid\":\"a\",\"text\":\"\"}").unwrap();
    let mut documents = Corpus::with_format(file.path(), Format::Jsonl).documents().unwrap();
    assert!(documents.next().unwrap().is_err());
    assert!(documents.next().is_none());
}

#[test]
fn trec_text_is_read_with_sections_free_text_and_headlines() {
    let text = "<DOC>\n<DOCNO> FT-1 </DOCNO>\n<HEADLINE>\nTwo\nlines\n</HEADLINE>\n<TEXT>\nfirst <b>bold</b>\n</TEXT>\n<text>second</text>\n</DOC>\n\n<doc>\r\n<docno>2</docno><url>http://x</url>\r\nfree text &amp; more\r\n</doc>\n<DOC>\n<DOCNO>3</DOCNO>\n<TEXT></TEXT>\n</DOC>";
    let got = read(Format::Trec, text.as_bytes()).unwrap();
    let first = Document { title: Some("Two\nlines".into()), ..doc("FT-1", "first <b>bold</b>\nsecond") };
    let second = Document { url: Some("http://x".into()), ..doc("2", "free text &amp; more") };
    assert_eq!(got, [first, second, doc("3", "")]);
}

#[test]
fn trec_faults_are_named_by_line() {
    let error = |text: &str| read(Format::Trec, text.as_bytes()).unwrap_err();
    assert!(error("<DOC>\n<DOCNO>1</DOCNO>\ntext").contains("line 1: expected </DOC>, got the end"));
    assert!(error("hello").contains("line 1: expected <DOC>"));
    assert!(error("<DOC>\n<TEXT>x</TEXT>\n</DOC>").contains("line 1: expected <DOCNO>"));
    assert!(error("<DOC>\n<DOCNO>1</DOCNO>\n</DOC>").contains("line 1: expected text"));
    assert!(error("<DOC>\n<DOCNO>1</DOCNO>\n<DOC>\n").contains("line 3: expected </DOC>"));
    assert!(error("<DOC>\n<DOCNO>1</DOCNO>\n<TEXT>x\n</DOC>").contains("line 4: expected </text>"));
    assert!(error("<DOC>\n<DOCNO>1</DOCNO><DOCNO>2</DOCNO>\n").contains("line 2: expected one <docno>"));
}

#[test]
fn a_line_of_many_angle_brackets_costs_no_more_than_its_length() {
    // With the square of it, this test would not end.
    let line = "<".repeat(200_000);
    let text = format!("<DOC>\n<DOCNO>1</DOCNO>\n{line}\n<HEADLINE>T</HEADLINE>\n</DOC>\n");
    let got = read(Format::Trec, text.as_bytes()).unwrap();
    assert_eq!((got[0].text.len(), got[0].title.as_deref()), (line.len(), Some("T")));
}

/// A parquet file of `docid` and `text` under the given schema.
fn parquet_file(schema: &str, ids: &[&str], texts: &[Option<&str>]) -> Vec<u8> {
    let schema = Arc::new(parse_message_type(schema).unwrap());
    let mut bytes = Vec::new();
    let mut writer = SerializedFileWriter::new(&mut bytes, schema, Default::default()).unwrap();
    let mut group = writer.next_row_group().unwrap();
    let ids: Vec<_> = ids.iter().map(|&id| ByteArray::from(id)).collect();
    let levels: Vec<_> = texts.iter().map(|t| i16::from(t.is_some())).collect();
    let texts: Vec<_> = texts.iter().flatten().map(|&t| ByteArray::from(t)).collect();
    let mut column = group.next_column().unwrap().unwrap();
    column.typed::<ByteArrayType>().write_batch(&ids, None, None).unwrap();
    column.close().unwrap();
    let mut column = group.next_column().unwrap().unwrap();
    column.typed::<ByteArrayType>().write_batch(&texts, Some(&levels), None).unwrap();
    column.close().unwrap();
    group.close().unwrap();
    writer.close().unwrap();
    bytes
}

const STRINGS: &str = "message m { required binary docid (utf8); optional binary text (utf8); }";

#[test]
fn parquet_strings_are_read_and_nulls_refused_by_row() {
    let bytes = parquet_file(STRINGS, &["7", "07"], &[Some("one"), Some("")]);
    assert_eq!(read(Format::Parquet, &bytes).unwrap(), [doc("7", "one"), doc("07", "")]);
    let bytes = parquet_file(STRINGS, &["7", "8"], &[Some("one"), None]);
    assert!(
        read(Format::Parquet, &bytes).unwrap_err().contains("row 1: expected a string in column \"text\", got null")
    );
    let bytes = parquet_file(STRINGS, &["7", "7"], &[Some("one"), Some("two")]);
    assert!(read(Format::Parquet, &bytes).unwrap_err().contains("row 1: docid \"7\" was used before, at 0"));
}

#[test]
fn parquet_columns_of_other_names_or_types_are_refused() {
    let bytes = parquet_file("message m { required binary id (utf8); optional binary text (utf8); }", &["7"], &[None]);
    assert!(
        read(Format::Parquet, &bytes)
            .unwrap_err()
            .contains("expected a column \"docid\", got the columns [\"id\", \"text\"]")
    );
    let schema = Arc::new(parse_message_type("message m { required int64 docid; required int64 text; }").unwrap());
    let mut bytes = Vec::new();
    let mut writer = SerializedFileWriter::new(&mut bytes, schema, Default::default()).unwrap();
    let mut group = writer.next_row_group().unwrap();
    while let Some(mut column) = group.next_column().unwrap() {
        column.typed::<Int64Type>().write_batch(&[12], None, None).unwrap();
        column.close().unwrap();
    }
    group.close().unwrap();
    writer.close().unwrap();
    assert!(read(Format::Parquet, &bytes).unwrap_err().contains("cast the column to strings"));
}

#[test]
fn formats_are_told_by_the_ending() {
    assert_eq!(Corpus::open(Path::new("a.JSONL")).unwrap().format, Format::Jsonl);
    assert_eq!(Corpus::open(Path::new("a.parquet")).unwrap().format, Format::Parquet);
    assert!(Corpus::open(Path::new("a.csv")).unwrap_err().to_string().contains("state its format"));
}

proptest! {
    #[test]
    fn any_document_survives_json_lines(fields in proptest::collection::vec(("[^\\x00-\\x1f\\x7f-\\x9f]{1,8}", "[^\\x00]{0,40}"), 1..8)) {
        let mut documents: Vec<Document> = fields.iter().map(|(id, text)| doc(id, text)).collect();
        documents.dedup_by(|a, b| a.docid == b.docid);
        let mut ids = std::collections::HashSet::new();
        documents.retain(|d| ids.insert(d.docid.clone()));
        let lines: Vec<String> = documents.iter()
            .map(|d| serde_json::json!({"docid": d.docid, "text": d.text}).to_string()).collect();
        prop_assert_eq!(read(Format::Jsonl, lines.join("\r\n").as_bytes()).unwrap(), documents);
    }

    #[test]
    fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        for format in [Format::Jsonl, Format::Trec] {
            let _ = read(format, &bytes);
        }
    }

    #[test]
    fn damaged_parquet_never_panics(at in 0_usize..300, value in any::<u8>(), keep in 0_usize..400) {
        let mut bytes = parquet_file(STRINGS, &["7", "8"], &[Some("one"), Some("two")]);
        let at = at % bytes.len();
        bytes[at] = value;
        bytes.truncate(keep.max(1));
        let _ = read(Format::Parquet, &bytes);
    }
}
