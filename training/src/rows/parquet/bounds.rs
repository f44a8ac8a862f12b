//! How much a table may unfold to, found out before any row of it is made: nulls and repeated texts take next to no room in a
//! file, so that a few bytes can claim a row of billions. Each column is walked over once, a row at a time.
//! It refuses to know what the columns mean.

use ::parquet::column::page::{Page, PageMetadata, PageReader};
use ::parquet::column::reader::{ColumnReader, get_column_reader};
use ::parquet::data_type::{ByteArray, FixedLenByteArray};
use ::parquet::errors::{ParquetError, Result};
use ::parquet::file::metadata::ParquetMetaData;
use ::parquet::file::reader::FileReader;
use ::parquet::schema::types::ColumnDescriptor;

/// Bytes of a table's file at most.
pub const FILE_BYTES_MAX: u64 = 64 << 30;
/// Values of one row in one column at most: a row has [`crate::trajectory::MESSAGES_MAX`] messages, with a few calls each.
pub const VALUES_PER_ROW_MAX: usize = 1 << 16;
/// Numbers of one row in one column of a token row at most.
pub const IDS_PER_ROW_MAX: usize = crate::trajectory::IDS_MAX;
/// Bytes of text of one row in one column at most.
const TEXT_PER_ROW_MAX_BYTES: usize = crate::jsonl::LINE_BYTES_MAX as usize;
/// Values, and rows, that a file of any size may have in a column of a row group.
const VALUES_FREE: u64 = 1 << 16;
/// Values beyond those for each byte of the file. Real columns have less than one.
const VALUES_PER_BYTE: u64 = 8;
/// Columns at most; each is walked over, and each row has a cell for it.
const COLUMNS_MAX: usize = 1024;

/// Looks at everything in the table.
pub(super) fn check(table: &dyn FileReader, file_bytes: u64) -> Result<()> {
    if file_bytes > FILE_BYTES_MAX {
        return refuse(format!("a file of {file_bytes} bytes, of which at most {FILE_BYTES_MAX} are read: split it"));
    }
    let values_max = VALUES_FREE + VALUES_PER_BYTE * file_bytes;
    claims(table.metadata(), file_bytes, values_max)?;
    for group in 0..table.num_row_groups() {
        let group = table.get_row_group(group)?;
        for column in 0..group.num_columns() {
            let description = group.metadata().column(column).column_descr_ptr();
            if description.max_rep_level() == 0 {
                continue;
            }
            let pages = CountedPages { inner: group.get_column_page_reader(column)?, left: values_max };
            let per_row_max = per_row_max(&description);
            walk(get_column_reader(description.clone(), Box::new(pages)), &description, per_row_max)?;
        }
    }
    Ok(())
}

/// Compares what the footer claims with the file.
fn claims(metadata: &ParquetMetaData, file_bytes: u64, rows_max: u64) -> Result<()> {
    let columns = metadata.file_metadata().schema_descr().num_columns();
    if columns > COLUMNS_MAX {
        return refuse(format!("{columns} columns, of which at most {COLUMNS_MAX} are read: leave some out"));
    }
    let fits = |rows: i64| u64::try_from(rows).is_ok_and(|rows| rows <= rows_max);
    let mut rows: i64 = 0;
    for group in metadata.row_groups() {
        rows = rows.saturating_add(group.num_rows());
        if !fits(group.num_rows()) || !fits(rows) {
            return refuse(format!("a footer that claims {rows} rows in a file of {file_bytes} bytes"));
        }
        for chunk in group.columns() {
            // The library asserts some of these; a damaged file must not get so far.
            let start = chunk.dictionary_page_offset().unwrap_or_else(|| chunk.data_page_offset());
            let end = start.checked_add(chunk.compressed_size());
            let within = end.and_then(|end| u64::try_from(end).ok()).is_some_and(|end| end <= file_bytes);
            if start < 0 || chunk.data_page_offset() < 0 || chunk.compressed_size() < 0 || !within {
                let (bytes, name) = (chunk.compressed_size(), chunk.column_path().string());
                return refuse(format!(
                    "{bytes} bytes at {start} for the column {}, which the file does not have",
                    name.escape_debug()
                ));
            }
        }
    }
    Ok(())
}

/// Values of a row in a column at most, by what the column holds.
fn per_row_max(description: &ColumnDescriptor) -> usize {
    let path = description.path().parts();
    let of_ids = match path.first().map(String::as_str) {
        Some("prompt_ids") => true,
        Some("spans") => path.iter().any(|part| part == "ids" || part == "logprobs"),
        _ => false,
    };
    if of_ids { IDS_PER_ROW_MAX } else { VALUES_PER_ROW_MAX }
}

/// Reads a column row by row and looks how much each row holds.
fn walk(column: ColumnReader, description: &ColumnDescriptor, per_row_max: usize) -> Result<()> {
    /// Reads all rows of a typed reader; `bytes` says how much text a value holds.
    macro_rules! rows {
        ($reader:expr, $bytes:expr) => {{
            let mut reader = $reader;
            let (mut definitions, mut repetitions, mut values) = (Vec::new(), Vec::new(), Vec::new());
            loop {
                let (records, _, levels) =
                    reader.read_records(1, Some(&mut definitions), Some(&mut repetitions), &mut values)?;
                if records == 0 && levels == 0 {
                    return Ok(());
                }
                row(description, levels, per_row_max, values.iter().map($bytes).fold(0, usize::saturating_add))?;
                definitions.clear();
                repetitions.clear();
                values.clear();
            }
        }};
    }
    match column {
        ColumnReader::BoolColumnReader(reader) => rows!(reader, |_: &bool| 0),
        ColumnReader::Int32ColumnReader(reader) => rows!(reader, |_: &i32| 0),
        ColumnReader::Int64ColumnReader(reader) => rows!(reader, |_: &i64| 0),
        ColumnReader::Int96ColumnReader(reader) => rows!(reader, |_| 0),
        ColumnReader::FloatColumnReader(reader) => rows!(reader, |_: &f32| 0),
        ColumnReader::DoubleColumnReader(reader) => rows!(reader, |_: &f64| 0),
        ColumnReader::ByteArrayColumnReader(reader) => rows!(reader, |text: &ByteArray| text.len()),
        ColumnReader::FixedLenByteArrayColumnReader(reader) => rows!(reader, |text: &FixedLenByteArray| text.len()),
    }
}

/// Looks at one row of a column.
fn row(description: &ColumnDescriptor, values: usize, values_max: usize, bytes: usize) -> Result<()> {
    let name = || description.path().string().escape_debug().to_string();
    if values > values_max {
        return refuse(format!("a row with {values} values in the column {}, more than {values_max}", name()));
    }
    if bytes > TEXT_PER_ROW_MAX_BYTES {
        return refuse(format!(
            "a row with {bytes} bytes of text in the column {}, more than {TEXT_PER_ROW_MAX_BYTES}",
            name()
        ));
    }
    Ok(())
}

fn refuse<T>(what: String) -> Result<T> {
    Err(ParquetError::General(what))
}

/// Pages of a column, of which no more values are taken than a file of this size may have.
struct CountedPages {
    inner: Box<dyn PageReader>,
    left: u64,
}

impl Iterator for CountedPages {
    type Item = Result<Page>;

    fn next(&mut self) -> Option<Self::Item> {
        self.get_next_page().transpose()
    }
}

impl PageReader for CountedPages {
    fn get_next_page(&mut self) -> Result<Option<Page>> {
        let Some(page) = self.inner.get_next_page()? else { return Ok(None) };
        match self.left.checked_sub(u64::from(page.num_values())) {
            Some(left) => self.left = left,
            None => return refuse("a column that claims more values than a file of its size can hold".to_owned()),
        }
        Ok(Some(page))
    }

    fn peek_next_page(&mut self) -> Result<Option<PageMetadata>> {
        self.inner.peek_next_page()
    }

    fn skip_next_page(&mut self) -> Result<()> {
        self.inner.skip_next_page()
    }

    fn at_record_boundary(&mut self) -> Result<bool> {
        self.inner.at_record_boundary()
    }
}
