use super::*;
use parquet::data_type::{ByteArray, ByteArrayType, Int64Type};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use proptest::prelude::*;

const SCHEMA: &str = "message table { required binary data_source (UTF8); required group extra_info { \
    optional binary query (UTF8); optional binary answer (UTF8); required binary instance_id (UTF8); } }";

/// A table of rows (data_source, query, answer, instance_id).
fn table_of(rows: &[(&str, Option<&str>, Option<&str>, &str)]) -> Vec<u8> {
    let schema = Arc::new(parse_message_type(SCHEMA).unwrap());
    let mut writer = SerializedFileWriter::new(Vec::new(), schema, Arc::new(WriterProperties::default())).unwrap();
    let mut group = writer.next_row_group().unwrap();
    let columns: [Vec<Option<&str>>; 4] = [
        rows.iter().map(|row| Some(row.0)).collect(),
        rows.iter().map(|row| row.1).collect(),
        rows.iter().map(|row| row.2).collect(),
        rows.iter().map(|row| Some(row.3)).collect(),
    ];
    for (at, column) in columns.iter().enumerate() {
        let values: Vec<ByteArray> = column.iter().flatten().map(|text| ByteArray::from(*text)).collect();
        let levels: Vec<i16> = column.iter().map(|cell| i16::from(cell.is_some())).collect();
        let optional = at == 1 || at == 2;
        let mut column = group.next_column().unwrap().unwrap();
        column.typed::<ByteArrayType>().write_batch(&values, optional.then_some(&levels[..]), None).unwrap();
        column.close().unwrap();
    }
    group.close().unwrap();
    writer.into_inner().unwrap()
}

fn message(rows: &[(&str, Option<&str>, Option<&str>, &str)]) -> String {
    parse("set.parquet", table_of(rows)).unwrap_err().to_string()
}

const GOOD: (&str, Option<&str>, Option<&str>, &str) = ("bc_test_meduim", Some("Which?"), Some("this"), "01");

#[test]
fn a_row_gives_a_question_and_the_misspelt_tier_is_understood() {
    let read = parse("set.parquet", table_of(&[GOOD, ("bc_test_hard", Some("Where?"), Some("here"), "1")])).unwrap();
    assert_eq!(read.questions[0].tier, "medium");
    assert_eq!(read.questions[0].answers, ["this"]);
    assert_eq!((read.questions[1].id.as_str(), read.questions[1].tier.as_str()), ("1", "hard"));
    assert!(read.disagreeing.is_empty());
}

#[test]
fn a_table_made_by_pyarrow_reads_and_a_second_answer_is_reported() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/foldagent.parquet");
    let read = read(&path).unwrap();
    let tiers: Vec<&str> = read.questions.iter().map(|question| question.tier.as_str()).collect();
    assert_eq!(tiers, ["easy", "medium", "hard", "bc_train"]);
    assert_eq!(read.questions[3].id.as_str(), "03");
    assert_eq!(read.questions[3].text, "Which town does question 3 mean?");
    let [only] = read.disagreeing.as_slice() else { panic!("{:?}", read.disagreeing) };
    assert_eq!((only.answer.as_str(), only.ground_truth.as_str()), ("answer 2", "another answer"));
    assert_eq!(read.questions[2].answers, ["answer 2"]);
}

#[test]
fn bad_rows_are_named_with_their_row() {
    assert!(message(&[GOOD, GOOD]).contains("set.parquet:2: the question id \"01\" stands already at set.parquet:1"));
    let absent = message(&[(GOOD.0, None, GOOD.2, GOOD.3)]);
    assert!(absent.contains("set.parquet:1: expected text in column `extra_info.query`, got nothing"), "{absent}");
    assert!(message(&[(GOOD.0, GOOD.1, Some(" "), GOOD.3)]).contains("question \"01\" has no answer"));
    assert!(message(&[]).contains("expected rows, got none"));
}

#[test]
fn another_table_and_another_file_are_told_apart() {
    let schema = Arc::new(parse_message_type("message table { required int64 number; }").unwrap());
    let mut writer = SerializedFileWriter::new(Vec::new(), schema, Arc::new(WriterProperties::default())).unwrap();
    let mut group = writer.next_row_group().unwrap();
    let mut column = group.next_column().unwrap().unwrap();
    column.typed::<Int64Type>().write_batch(&[1, 2], None, None).unwrap();
    column.close().unwrap();
    group.close().unwrap();
    let other = parse("set.parquet", writer.into_inner().unwrap()).unwrap_err().to_string();
    assert!(
        other.contains("set.parquet: expected a parquet table with `data_source`")
            && other.contains("the columns number"),
        "{other}"
    );
    let text = parse("set.parquet", b"{\"id\": \"1\"}\n".to_vec()).unwrap_err().to_string();
    assert!(text.contains("expected a parquet table") && text.contains("fetch the file again"), "{text}");
}

#[test]
fn a_page_that_trips_the_library_is_an_error() {
    // Found by the property below: one bit of a page header names an encoding whose dictionary is not there.
    let mut bytes = table_of(&[GOOD, ("bc_test_easy", Some("Where is it?"), Some("here"), "2")]);
    let length = bytes.len();
    bytes[882 % length] ^= 128;
    let error = parse("set.parquet", bytes).unwrap_err().to_string();
    assert!(error.contains("pages that contradict their own headers"), "{error}");
}

proptest! {
    #[test]
    fn a_damaged_table_is_an_error_or_a_table_and_never_a_panic(at in 0usize..2000, byte in any::<u8>(), cut in 0usize..4000) {
        let mut bytes = table_of(&[GOOD, ("bc_test_easy", Some("Where is it?"), Some("here"), "2")]);
        let length = bytes.len();
        bytes[at % length] ^= byte;
        bytes.truncate(cut.max(1));
        let _ = parse("set.parquet", bytes);
    }
}
