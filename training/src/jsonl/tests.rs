use super::*;
use crate::trajectory::{ChatMessage, ChatRow};
use legwork_protocol::message::Role;
use proptest::prelude::*;
use std::io::Cursor;

fn read(text: impl AsRef<[u8]>) -> Result<Vec<ChatRow>, TrajectoryError> {
    JsonlReader::over("rows.jsonl", Cursor::new(text.as_ref().to_vec())).collect()
}

fn refusal(text: impl AsRef<[u8]>) -> String {
    read(text).unwrap_err().to_string()
}

const ROW: &str = r#"{"messages":[{"role":"user","content":"q"},{"role":"assistant","content":"a"}]}"#;

#[test]
fn marks_and_line_ends_of_other_systems_are_read() {
    let text = format!("\u{feff}{ROW}\r\n\u{feff}{ROW}\n\n");
    assert_eq!(read(text).unwrap().len(), 2);
    assert_eq!(read("").unwrap().len(), 0);
    assert_eq!(read(ROW).unwrap().len(), 1, "the last line need not end in a line feed");
}

#[test]
fn every_torn_end_is_named_with_its_line() {
    let text = format!("{ROW}\n{ROW}");
    for end in ROW.len() + 2..text.len() {
        let refused = refusal(&text[..end]);
        assert!(refused.starts_with("rows.jsonl:2: the last line is torn"), "{end}: {refused}");
    }
}

#[test]
fn what_json_does_not_have_is_named_with_its_line() {
    for (line, said) in [
        (r#"{"messages":[],"metadata":{"reward":NaN}}"#, "`NaN` is not a number of json"),
        (r#"{"messages":[],"metadata":{"why":"NaN","reward":-Infinity}}"#, "`-Infinity` is not a number of json"),
        (r#"{"messages":[{"role":"user","content":"\ud83d"}]}"#, r"`\ud83d` is half of a surrogate pair"),
        (r#"{"messages":[{"role":"user","content":"\\\ude00 "}]}"#, r"`\ude00` is half of a surrogate pair"),
        ("[1]", "expected a chat row"),
        (r#"{"messages":[]} {}"#, "trailing characters"),
    ] {
        let refused = refusal(format!("{ROW}\n{line}\n"));
        assert!(refused.starts_with("rows.jsonl:2: ") && refused.contains(said), "{refused}");
    }
    assert_eq!(
        refusal([b"{\"a\":\"", &[0xff][..]].concat()),
        "rows.jsonl:1: expected UTF-8, got another encoding at byte 6 of the line; convert the file to UTF-8"
    );
    assert!(refusal(format!("{ROW}\n\n{ROW}\n")).starts_with("rows.jsonl:2: expected a row, got a blank line"));
}

#[test]
fn whole_pairs_are_characters() {
    let line = r#"{"messages":[{"role":"assistant","content":"\ud83d\ude00"}]}"#;
    assert_eq!(read(line).unwrap()[0].messages[0].content, "😀");
}

#[test]
fn after_an_error_a_reader_ends() {
    let mut reader = JsonlReader::<ChatRow>::over("x", Cursor::new(format!("{{\n{ROW}\n")));
    assert!(reader.next().unwrap().is_err());
    assert!(reader.next().is_none());
}

#[test]
fn a_file_appears_when_it_is_whole_and_not_before() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rows.jsonl");
    let row: ChatRow = serde_json::from_str(ROW).unwrap();
    let mut dropped = JsonlWriter::create(&path).unwrap();
    dropped.write(&row).unwrap();
    drop(dropped);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);

    let mut writer = JsonlWriter::create(&path).unwrap();
    writer.write(&row).unwrap();
    let nothing = ChatRow { messages: vec![ChatMessage::new(Role::User, "q")], ..ChatRow::default() };
    let refused = writer.write(&nothing).unwrap_err().to_string();
    assert!(refused.ends_with("rows.jsonl:2: messages hold no assistant message in the loss: remove the row, nothing can be learned from it"), "{refused}");
    writer.write(&row).unwrap();
    let written = writer.finish().unwrap();
    assert_eq!((written.rows, written.bytes), (2, std::fs::metadata(&path).unwrap().len()));
    let rows: Vec<_> = JsonlReader::<ChatRow>::open(&path).unwrap().map(Result::unwrap).collect();
    assert_eq!(rows, [row.clone(), row]);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
}

proptest! {
    #[test]
    fn no_bytes_panic(bytes: Vec<u8>, text in r#"([{}\[\]",:\\]|NaN|-?Infinity|\\ud83d|messages|role|user| ){0,40}"#) {
        let _ = read(bytes);
        let _ = read(text);
    }

    #[test]
    fn what_was_written_is_read_back(texts in proptest::collection::vec(any::<String>(), 1..5)) {
        let messages = texts.iter().map(|text| ChatMessage::new(Role::Assistant, text)).collect();
        let row = ChatRow { messages, ..ChatRow::default() };
        let line = serde_json::to_string(&row).unwrap();
        prop_assert_eq!(read(line).unwrap(), [row]);
    }
}
