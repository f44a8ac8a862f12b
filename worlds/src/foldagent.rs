//! Reads FoldAgent's parquet tables of questions: `data_source` names the tier and `extra_info` holds question and
//! answer. Other columns (`ability`, `prompt`, …) are left where they are. Row by row, without arrow.

use crate::error::{Place, WorldError};
use crate::jsonl::Seen;
use crate::pages::CheckedFile;
use crate::plain::{not_empty, take_question};
use legwork_protocol::id::QuestionId;
use legwork_protocol::question::Question;
use parquet::file::metadata::ParquetMetaData;
use parquet::file::reader::{ChunkReader, FileReader};
use parquet::record::{Field, Row};
use parquet::schema::types::Type;
use std::fs::File;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;

/// A file may be so long; the published ones have a few megabytes.
pub const FILE_BYTES_MAX: u64 = 1 << 30;
/// A table may claim so many rows; the published ones have hundreds.
pub const ROWS_MAX: i64 = 1_000_000;
/// The pages of a column chunk may unpack to so much.
pub const CHUNK_BYTES_MAX: i64 = 1 << 30;

const COLUMNS: &str = "`data_source` and `extra_info` {`query`, `answer`, `instance_id`}";

/// What the published tables call the tiers, the misspelt one included.
const TIERS: [(&str, &str); 4] =
    [("bc_test_easy", "easy"), ("bc_test_meduim", "medium"), ("bc_test_medium", "medium"), ("bc_test_hard", "hard")];

/// A table as read.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FoldAgent {
    /// The questions in row order. The tier is easy, medium or hard, or the `data_source` itself for other sources.
    pub questions: Vec<Question>,
    /// Rows whose `reward_model.ground_truth` is not the answer of `extra_info`; the latter is kept.
    pub disagreeing: Vec<Disagreement>,
}

/// A row that gives two answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Disagreement {
    /// The question.
    pub question: QuestionId,
    /// `extra_info.answer`.
    pub answer: String,
    /// `reward_model.ground_truth`.
    pub ground_truth: String,
}

/// Reads a table of at most [`FILE_BYTES_MAX`].
pub fn read(path: &Path) -> Result<FoldAgent, WorldError> {
    let unreadable = |source| WorldError::Unreadable { file: path.to_owned(), source };
    let file = File::open(path).map_err(unreadable)?;
    let name = path.display().to_string();
    if file.metadata().map_err(unreadable)?.len() > FILE_BYTES_MAX {
        return Err(WorldError::TooLarge { file: name, what: "the table".to_owned(), max_bytes: FILE_BYTES_MAX });
    }
    table(&name, file)
}

/// Reads a table from bytes; `name` stands for the file in errors.
pub fn parse(name: &str, bytes: Vec<u8>) -> Result<FoldAgent, WorldError> {
    table(name, bytes::Bytes::from(bytes))
}

/// The library has assertions that some damaged pages trip. A damaged file is the file's fault and not the program's,
/// so such a panic ends here as an error; the state that it left behind is dropped with the reader.
fn table<R: ChunkReader + 'static>(name: &str, source: R) -> Result<FoldAgent, WorldError> {
    catch_unwind(AssertUnwindSafe(|| rows(name, source))).unwrap_or_else(|_| {
        let got = "pages that contradict their own headers".to_owned();
        Err(WorldError::BadTable { file: name.to_owned(), expected: COLUMNS, got })
    })
}

fn rows<R: ChunkReader + 'static>(name: &str, source: R) -> Result<FoldAgent, WorldError> {
    let bad = |got: String| WorldError::BadTable { file: name.to_owned(), expected: COLUMNS, got };
    let reader = CheckedFile::open(source).map_err(|error| bad(error.to_string()))?;
    check_claims(reader.metadata()).map_err(bad)?;
    let projection = projection(reader.metadata()).map_err(bad)?;
    let rows = reader.get_row_iter(Some(projection)).map_err(|error| bad(error.to_string()))?;
    let mut seen = Seen::default();
    let mut found = FoldAgent::default();
    for (at, row) in rows.enumerate() {
        let place = Place { file: name.to_owned(), line: at + 1 };
        let row = row.map_err(|error| bad(format!("row {}: {error}", at + 1)))?;
        let (question, ground_truth) = question(&place, row)?;
        let (id, answer) = (question.id.clone(), question.answers[0].clone());
        take_question(&mut found.questions, &mut seen, &place, question)?;
        if let Some(ground_truth) = ground_truth.filter(|truth| *truth != answer) {
            found.disagreeing.push(Disagreement { question: id, answer, ground_truth });
        }
    }
    found.questions = not_empty(found.questions, name, "rows")?;
    Ok(found)
}

/// Refuses a table whose header claims more than it may hold, before anything is allocated for it.
fn check_claims(metadata: &ParquetMetaData) -> Result<(), String> {
    let rows = metadata.file_metadata().num_rows();
    if !(0..=ROWS_MAX).contains(&rows) {
        return Err(format!("a header that claims {rows} rows, of which at most {ROWS_MAX} are read"));
    }
    for chunk in metadata.row_groups().iter().flat_map(|group| group.columns()) {
        let size = chunk.uncompressed_size();
        if !(0..=CHUNK_BYTES_MAX).contains(&size) {
            return Err(format!(
                "a column chunk that claims {size} bytes, of which at most {CHUNK_BYTES_MAX} are read"
            ));
        }
        // The library asserts these; a damaged file must not get so far.
        let start = chunk.dictionary_page_offset().unwrap_or_else(|| chunk.data_page_offset());
        if start < 0 || chunk.data_page_offset() < 0 || chunk.compressed_size() < 0 {
            return Err(format!("a column chunk of {} bytes at {start}", chunk.compressed_size()));
        }
    }
    Ok(())
}

/// The schema with the columns that are read.
fn projection(metadata: &ParquetMetaData) -> Result<Type, String> {
    let schema = metadata.file_metadata().schema();
    let wanted = ["data_source", "extra_info", "reward_model"];
    let fields: Vec<Arc<Type>> =
        schema.get_fields().iter().filter(|field| wanted.contains(&field.name())).cloned().collect();
    for needed in &wanted[..2] {
        if !fields.iter().any(|field| field.name() == *needed) {
            let names: Vec<&str> = schema.get_fields().iter().map(|field| field.name()).collect();
            return Err(format!("the columns {}", names.join(", ")));
        }
    }
    Type::group_type_builder(schema.name()).with_fields(fields).build().map_err(|error| error.to_string())
}

/// The question of a row, and its second answer if it has one.
fn question(place: &Place, row: Row) -> Result<(Question, Option<String>), WorldError> {
    let mut source = Field::Null;
    let mut info = Vec::new();
    let mut reward = Vec::new();
    for (name, field) in row.into_columns() {
        match (name.as_str(), field) {
            ("data_source", field) => source = field,
            ("extra_info", Field::Group(group)) => info = group.into_columns(),
            ("reward_model", Field::Group(group)) => reward = group.into_columns(),
            _ => {}
        }
    }
    let source = text(place, "data_source", &source)?;
    let tier = TIERS.iter().find(|(name, _)| *name == source).map_or(source, |(_, tier)| (*tier).to_owned());
    let cell = |name: &str| info.iter().find(|(known, _)| known == name).map_or(&Field::Null, |(_, field)| field);
    let answers = answers(place, cell("answer"))?;
    let truth = reward.iter().find(|(name, _)| name == "ground_truth").map(|(_, field)| field);
    let truth = truth.and_then(|field| if let Field::Str(text) = field { Some(text.clone()) } else { None });
    let question = Question {
        id: QuestionId::from(id(place, cell("instance_id"))?),
        text: text(place, "extra_info.query", cell("query"))?,
        answers,
        tier,
        gold: Vec::new(),
        evidence: Vec::new(),
        decomposition: Vec::new(),
    };
    Ok((question, truth))
}

fn text(place: &Place, column: &'static str, field: &Field) -> Result<String, WorldError> {
    match field {
        Field::Str(text) => Ok(text.clone()),
        other => Err(bad_cell(place, column, "text", other)),
    }
}

/// An id is text, or a whole number where the whole column is of whole numbers: there 1 and 01 cannot differ.
fn id(place: &Place, field: &Field) -> Result<String, WorldError> {
    match field {
        Field::Str(text) => Ok(text.clone()),
        Field::Int(number) => Ok(number.to_string()),
        Field::Long(number) => Ok(number.to_string()),
        Field::UInt(number) => Ok(number.to_string()),
        Field::ULong(number) => Ok(number.to_string()),
        other => Err(bad_cell(place, "extra_info.instance_id", "text or a whole number", other)),
    }
}

/// One answer, or a list of the answer and its aliases.
fn answers(place: &Place, field: &Field) -> Result<Vec<String>, WorldError> {
    const COLUMN: &str = "extra_info.answer";
    match field {
        Field::ListInternal(list) if !list.elements().is_empty() => {
            list.elements().iter().map(|element| text(place, COLUMN, element)).collect()
        }
        other => Ok(vec![text(place, COLUMN, other)?]),
    }
}

fn bad_cell(place: &Place, column: &'static str, expected: &'static str, got: &Field) -> WorldError {
    let got = match got {
        Field::Null => "nothing".to_owned(),
        Field::Group(_) => "a group".to_owned(),
        Field::ListInternal(_) => "a list".to_owned(),
        Field::Bytes(_) => "bytes that are not marked as text".to_owned(),
        other => format!("{other}"),
    };
    WorldError::BadCell { place: place.clone(), column, expected, got }
}

#[cfg(test)]
mod tests;
