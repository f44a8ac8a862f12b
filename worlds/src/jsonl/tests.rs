use super::*;
use proptest::prelude::*;
use serde_json::Value;

fn read(bytes: &[u8]) -> Result<Vec<(usize, Value)>, WorldError> {
    let mut records = Vec::new();
    Source::bytes("set.jsonl", bytes).records("a record", |place, value| {
        records.push((place.line, value));
        Ok(())
    })?;
    Ok(records)
}

fn message(bytes: &[u8]) -> String {
    read(bytes).unwrap_err().to_string()
}

#[test]
fn byte_order_marks_crlf_a_missing_last_line_end_and_blank_lines_at_the_end_are_accepted() {
    for bytes in [
        &b"\xEF\xBB\xBF{\"a\":1}\r\n\xEF\xBB\xBF{\"a\":2}\r\n"[..],
        b"{\"a\":1}\n{\"a\":2}",
        b"{\"a\":1}\n{\"a\":2}\n\n \n",
    ] {
        let lines: Vec<usize> = read(bytes).unwrap().into_iter().map(|(line, _)| line).collect();
        assert_eq!(lines, [1, 2]);
    }
}

#[test]
fn a_torn_last_line_is_told_from_a_malformed_one() {
    let torn = message(b"{\"a\":1}\n{\"a\":\"hal");
    assert!(torn.starts_with("set.jsonl:2: the last line is torn"), "{torn}");
    let malformed = message(b"{\"a\":\"hal\n{\"a\":1}\n");
    assert!(malformed.starts_with("set.jsonl:1: expected a record") && malformed.contains("column"), "{malformed}");
}

#[test]
fn a_blank_line_between_records_is_refused() {
    assert!(message(b"{}\n\n{}\n").starts_with("set.jsonl:2: expected a record, got a blank line"));
}

#[test]
fn bytes_that_are_not_utf8_are_named() {
    assert!(
        message(b"{}\n{\"a\":\"\xFF\"}\n").starts_with("set.jsonl:2: expected UTF-8, got another encoding at byte 6")
    );
}

#[test]
fn half_a_surrogate_pair_is_named_and_a_whole_pair_is_text() {
    let half = message(br#"{"a":"\ud83d"}"#);
    assert!(half.starts_with("set.jsonl:1: expected text, got half of a surrogate pair (\\ud83d)"), "{half}");
    assert!(message(br#"{"a":"\ude00 x"}"#).contains("\\ude00"));
    assert_eq!(read(br#"{"a":"\ud83d\ude00"}"#).unwrap()[0].1["a"], "\u{1F600}");
    assert_eq!(lone_surrogate(r"\\ud83d"), None);
}

#[test]
fn an_id_that_is_a_number_is_told_to_be_quoted() {
    for (number, shown) in [("1", "1"), ("-4", "-4"), ("1.5", "1.5")] {
        let error = serde_json::from_str::<IdText>(number).unwrap_err().to_string();
        assert!(error.contains(&format!("the id {shown} is a number; quote it")), "{error}");
    }
    assert_eq!(serde_json::from_str::<IdText>("\" 01\"").unwrap(), IdText(" 01".to_owned()));
    assert!(serde_json::from_str::<IdText>("null").unwrap_err().to_string().contains("expected an id as text"));
}

#[test]
fn ids_that_look_alike_differ_and_equal_ones_are_refused() {
    let mut seen = Seen::default();
    let place = |line| Place { file: "set.jsonl".to_owned(), line };
    for (line, id) in ["1", "01", " 1"].into_iter().enumerate() {
        seen.insert("question", id, &place(line + 1)).unwrap();
    }
    let error = seen.insert("question", "01", &place(9)).unwrap_err().to_string();
    assert!(error.starts_with("set.jsonl:9: the question id \"01\" stands already at set.jsonl:2"), "{error}");
}

proptest! {
    #[test]
    fn reading_never_panics_on_any_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = read(&bytes);
    }

    #[test]
    fn every_record_is_read_or_an_error_names_a_line(texts in proptest::collection::vec(".*", 0..6), cut in 0usize..400) {
        let mut bytes: Vec<u8> = Vec::new();
        for text in &texts {
            bytes.extend(serde_json::to_vec(&serde_json::json!({ "a": text })).unwrap());
            bytes.push(b'\n');
        }
        prop_assert_eq!(read(&bytes).unwrap().len(), texts.len());
        bytes.truncate(cut);
        let whole = bytes.iter().filter(|byte| **byte == b'\n').count();
        match read(&bytes) {
            Ok(records) => prop_assert!(records.len() == whole || records.len() == whole + 1),
            Err(error) => prop_assert!(error.to_string().starts_with(&format!("set.jsonl:{}: ", whole + 1)), "{}", error),
        }
    }
}
