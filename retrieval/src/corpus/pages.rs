//! Pages of a parquet file, their headers and the footer, looked at before the library decodes them: it takes room for as many
//! values as a page claims, and ends the process where there is none; and it counts as far as a list in a header claims to
//! go. It refuses to know what the values mean.
//!
//! Two rooms read parquet and do not know each other; `worlds` includes this file as it is.

#[path = "pages/thrift.rs"]
mod thrift;

use ::parquet::basic::Encoding;
use ::parquet::bloom_filter::Sbbf;
use ::parquet::column::page::{Page, PageMetadata, PageReader};
use ::parquet::errors::{ParquetError, Result};
use ::parquet::file::FOOTER_SIZE;
use ::parquet::file::metadata::{FooterTail, ParquetMetaData, ParquetMetaDataReader, RowGroupMetaData};
use ::parquet::file::reader::{ChunkReader, FileReader, Length, RowGroupReader, SerializedPageReader};
use ::parquet::record::reader::RowIter;
use ::parquet::schema::types::Type;
use bytes::Bytes;
use std::io::{Cursor, Error, Read};
use std::sync::Arc;

/// Values of one page at most; writers put some thousands into one, while nulls take no room, so that a few bytes can claim
/// four billion.
const PAGE_VALUES_MAX: u32 = 1 << 24;
/// Bytes of a page's header at most, statistics of long texts included.
const PAGE_HEADER_BYTES_MAX: usize = 16 << 20;

/// A file whose footer, page headers and pages are looked at.
pub(crate) struct CheckedFile<R> {
    source: Arc<CheckedSource<R>>,
    metadata: ParquetMetaData,
}

struct CheckedGroup<'a, R> {
    source: Arc<CheckedSource<R>>,
    metadata: &'a RowGroupMetaData,
}

struct CheckedPages(Box<dyn PageReader>);

/// Where the library reads page headers from: each of its readers gives one whole header, walked over before.
struct CheckedSource<R>(R);

enum HeaderReader<R> {
    /// The library asks for a reader also where it has the header already; then nothing is read from it.
    Unread(R),
    Read(Cursor<Vec<u8>>),
}

/// Keeps what is read.
struct Kept<R> {
    input: R,
    bytes: Vec<u8>,
}

impl<R: ChunkReader> CheckedFile<R> {
    /// Reads the footer, after a walk over it.
    pub(crate) fn open(source: R) -> Result<Self> {
        let cut = || ParquetError::General("the file is shorter than its footer says".to_owned());
        let footer_end = source.len().checked_sub(FOOTER_SIZE as u64).ok_or_else(cut)?;
        let tail = FooterTail::try_from(source.get_bytes(footer_end, FOOTER_SIZE)?.as_ref())?;
        if tail.is_encrypted_footer() {
            return Err(ParquetError::General("the footer is encrypted: write the file without encryption".to_owned()));
        }
        let start = footer_end.checked_sub(tail.metadata_length() as u64).ok_or_else(cut)?;
        let footer = source.get_bytes(start, tail.metadata_length())?;
        thrift::walk_footer(&footer)?;
        let metadata = ParquetMetaDataReader::decode_metadata(&footer)?;
        Ok(Self { source: Arc::new(CheckedSource(source)), metadata })
    }
}

impl<R: ChunkReader + 'static> FileReader for CheckedFile<R> {
    fn metadata(&self) -> &ParquetMetaData {
        &self.metadata
    }

    fn num_row_groups(&self) -> usize {
        self.metadata.num_row_groups()
    }

    fn get_row_group(&self, i: usize) -> Result<Box<dyn RowGroupReader + '_>> {
        Ok(Box::new(CheckedGroup { source: Arc::clone(&self.source), metadata: self.metadata.row_group(i) }))
    }

    fn get_row_iter(&self, projection: Option<Type>) -> Result<RowIter<'_>> {
        RowIter::from_file(projection, self)
    }
}

impl<R: ChunkReader + 'static> RowGroupReader for CheckedGroup<'_, R> {
    fn metadata(&self) -> &RowGroupMetaData {
        self.metadata
    }

    fn num_columns(&self) -> usize {
        self.metadata.num_columns()
    }

    fn get_column_page_reader(&self, i: usize) -> Result<Box<dyn PageReader>> {
        let rows = usize::try_from(self.metadata.num_rows())?;
        let pages = SerializedPageReader::new(Arc::clone(&self.source), self.metadata.column(i), rows, None)?;
        Ok(Box::new(CheckedPages(Box::new(pages))))
    }

    /// None: nothing is looked up by a value.
    fn get_column_bloom_filter(&self, _: usize) -> Option<&Sbbf> {
        None
    }

    fn get_row_iter(&self, projection: Option<Type>) -> Result<RowIter<'_>> {
        RowIter::from_row_group(projection, self)
    }
}

impl<R: ChunkReader> Length for CheckedSource<R> {
    fn len(&self) -> u64 {
        self.0.len()
    }
}

impl<R: ChunkReader> ChunkReader for CheckedSource<R> {
    type T = HeaderReader<R::T>;

    fn get_read(&self, start: u64) -> Result<Self::T> {
        Ok(HeaderReader::Unread(self.0.get_read(start)?))
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes> {
        self.0.get_bytes(start, length)
    }
}

impl<R: Read> Read for HeaderReader<R> {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        if let Self::Unread(input) = self {
            let mut kept = Kept { input, bytes: Vec::new() };
            thrift::walk_page_header(&mut kept, PAGE_HEADER_BYTES_MAX).map_err(Error::other)?;
            *self = Self::Read(Cursor::new(kept.bytes));
        }
        match self {
            Self::Read(header) => header.read(into),
            Self::Unread(_) => Ok(0),
        }
    }
}

impl<R: Read> Read for Kept<R> {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        let read = self.input.read(into)?;
        self.bytes.extend_from_slice(&into[..read]);
        Ok(read)
    }
}

impl Iterator for CheckedPages {
    type Item = Result<Page>;

    fn next(&mut self) -> Option<Self::Item> {
        self.get_next_page().transpose()
    }
}

impl PageReader for CheckedPages {
    fn get_next_page(&mut self) -> Result<Option<Page>> {
        self.0.get_next_page()?.map(checked).transpose()
    }

    fn peek_next_page(&mut self) -> Result<Option<PageMetadata>> {
        self.0.peek_next_page()
    }

    fn skip_next_page(&mut self) -> Result<()> {
        self.0.skip_next_page()
    }

    fn at_record_boundary(&mut self) -> Result<bool> {
        self.0.at_record_boundary()
    }
}

/// Refuses a page by which the library would take room that the page's own bytes do not justify.
fn checked(page: Page) -> Result<Page> {
    match &page {
        // The values of a dictionary are written out one after the other, each of at least a byte.
        Page::DictionaryPage { buf, num_values, .. } if *num_values as usize > buf.len() => {
            Err(ParquetError::General(format!("a dictionary of {} bytes claims {num_values} values", buf.len())))
        }
        // Further headers inside the page say how many values it has.
        Page::DataPage { encoding, .. } | Page::DataPageV2 { encoding, .. }
            if matches!(encoding, Encoding::DELTA_BYTE_ARRAY | Encoding::DELTA_LENGTH_BYTE_ARRAY) =>
        {
            let what = "the encoding {} is not read here: write the file with plain or dictionary encoding";
            Err(ParquetError::General(what.replace("{}", &encoding.to_string())))
        }
        Page::DataPage { num_values, .. } | Page::DataPageV2 { num_values, .. } if *num_values > PAGE_VALUES_MAX => {
            let what = format!("a page claims {num_values} values, of which at most {PAGE_VALUES_MAX} are read");
            Err(ParquetError::General(what))
        }
        _ => Ok(page),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ::parquet::column::writer::ColumnWriter;
    use ::parquet::file::metadata::{KeyValue, SortingColumn};
    use ::parquet::file::properties::{EnabledStatistics, WriterProperties};
    use ::parquet::file::reader::SerializedFileReader;
    use ::parquet::file::writer::SerializedFileWriter;
    use ::parquet::schema::parser::parse_message_type;

    /// Columns of every type that a footer can name, as the library writes them, with all that it writes about them.
    fn table() -> Vec<u8> {
        let schema = "message m { required int32 day (date); optional int32 small (integer(8, true)); required int32 at
            (time(millis, true)); required int64 when (timestamp(nanos, false)); optional int32 price (decimal(9, 2));
            required group tags (list) { repeated group list { optional int32 element; } } }";
        let sorted = SortingColumn { column_idx: 0, descending: false, nulls_first: true };
        let properties = WriterProperties::builder()
            .set_statistics_enabled(EnabledStatistics::Page)
            .set_write_page_header_statistics(true)
            .set_bloom_filter_enabled(true)
            .set_key_value_metadata(Some(vec![KeyValue::new("note".to_owned(), "x".repeat(300))]))
            .set_sorting_columns(Some(vec![sorted]))
            .build();
        let schema = Arc::new(parse_message_type(schema).unwrap());
        let mut writer = SerializedFileWriter::new(Vec::new(), schema, Arc::new(properties)).unwrap();
        for _ in 0..20 {
            let mut group = writer.next_row_group().unwrap();
            while let Some(mut column) = group.next_column().unwrap() {
                match column.untyped() {
                    ColumnWriter::Int32ColumnWriter(ints) => {
                        let whole = ints.get_descriptor().max_def_level();
                        ints.write_batch(&[7], Some(&[whole]), Some(&[0])).unwrap()
                    }
                    ColumnWriter::Int64ColumnWriter(longs) => longs.write_batch(&[7], None, None).unwrap(),
                    _ => unreachable!("the table has whole numbers only"),
                };
                column.close().unwrap();
            }
            group.close().unwrap();
        }
        writer.into_inner().unwrap()
    }

    fn rows(bytes: Vec<u8>) -> Result<Vec<String>> {
        let file = CheckedFile::open(Bytes::from(bytes))?;
        let rows = file.get_row_iter(None)?;
        rows.map(|row| row.map(|row| row.to_string())).collect()
    }

    #[test]
    fn what_the_library_writes_is_read_as_it_reads_it() {
        let plain = SerializedFileReader::new(Bytes::from(table())).unwrap();
        let truth: Vec<String> = plain.get_row_iter(None).unwrap().map(|row| row.unwrap().to_string()).collect();
        assert_eq!(truth.len(), 20);
        assert_eq!(rows(table()).unwrap(), truth);
    }

    #[test]
    fn a_footer_or_a_page_header_with_an_endless_list_is_refused() {
        let table = table();
        // A list of two billion booleans as field 14 of the footer, in place of its end.
        let end = table.len() - FOOTER_SIZE;
        let list = [0x09, 28, 0xf1, 0xff, 0xff, 0xff, 0xff, 7, 0];
        let length = u32::from_le_bytes(table[end..end + 4].try_into().unwrap()) + list.len() as u32 - 1;
        let footer = [&table[..end - 1], &list, &length.to_le_bytes(), b"PAR1"].concat();
        let refused = rows(footer).unwrap_err().to_string();
        assert!(refused.contains("a list of booleans"), "{refused}");
        // The header of the first page begins behind the magic bytes.
        let mut page = table;
        page[4..10].copy_from_slice(&[0x99, 0xf1, 0xff, 0xff, 0xff, 0x7f]);
        let refused = rows(page).unwrap_err().to_string();
        assert!(refused.contains("a header of the file"), "{refused}");
    }

    #[test]
    fn a_file_without_a_whole_footer_is_refused() {
        for bytes in [&b"PAR1"[..], b"PAR1\xff\x00\x00\x00PAR1", b"PAR1\x00\x00\x00\x00PARE"] {
            assert!(rows(bytes.to_vec()).is_err(), "{bytes:?}");
        }
    }

    #[test]
    fn a_dictionary_that_claims_more_values_than_it_has_bytes_is_refused() {
        let dictionary = |num_values| Page::DictionaryPage {
            buf: vec![1, 2, 3].into(),
            num_values,
            encoding: Encoding::PLAIN,
            is_sorted: false,
        };
        assert!(checked(dictionary(3)).is_ok());
        let refused = checked(dictionary(u32::MAX)).err().unwrap().to_string();
        assert!(refused.contains("of 3 bytes claims 4294967295 values"), "{refused}");
    }

    #[test]
    fn pages_with_counts_of_their_own_or_too_many_values_are_refused() {
        let page = |encoding, num_values| Page::DataPage {
            buf: vec![1, 2, 3].into(),
            num_values,
            encoding,
            def_level_encoding: Encoding::RLE,
            rep_level_encoding: Encoding::RLE,
            statistics: None,
        };
        assert!(checked(page(Encoding::PLAIN, 1)).is_ok());
        let refused = checked(page(Encoding::DELTA_BYTE_ARRAY, 1)).err().unwrap().to_string();
        assert!(refused.contains("DELTA_BYTE_ARRAY") && refused.contains("plain or dictionary"), "{refused}");
        let refused = checked(page(Encoding::PLAIN, u32::MAX)).err().unwrap().to_string();
        assert!(refused.contains("claims 4294967295 values"), "{refused}");
    }
}
