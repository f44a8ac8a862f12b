//! Pages of a parquet file, looked at before the library decodes them: it takes room for as many values as a page claims, and
//! ends the process where there is none. It refuses to know what the values mean.
//!
//! Two rooms read parquet and do not know each other; `worlds` includes this file as it is.

use ::parquet::basic::Encoding;
use ::parquet::bloom_filter::Sbbf;
use ::parquet::column::page::{Page, PageMetadata, PageReader};
use ::parquet::errors::{ParquetError, Result};
use ::parquet::file::metadata::{ParquetMetaData, RowGroupMetaData};
use ::parquet::file::reader::{FileReader, RowGroupReader};
use ::parquet::record::reader::RowIter;
use ::parquet::schema::types::Type;

/// Values of one page at most; writers put some thousands into one, while nulls take no room, so that a few bytes can claim
/// four billion.
const PAGE_VALUES_MAX: u32 = 1 << 24;

/// A file whose pages are looked at.
pub(crate) struct CheckedFile<F>(pub(crate) F);

struct CheckedGroup<'a>(Box<dyn RowGroupReader + 'a>);

struct CheckedPages(Box<dyn PageReader>);

impl<F: FileReader> FileReader for CheckedFile<F> {
    fn metadata(&self) -> &ParquetMetaData {
        self.0.metadata()
    }

    fn num_row_groups(&self) -> usize {
        self.0.num_row_groups()
    }

    fn get_row_group(&self, i: usize) -> Result<Box<dyn RowGroupReader + '_>> {
        Ok(Box::new(CheckedGroup(self.0.get_row_group(i)?)))
    }

    fn get_row_iter(&self, projection: Option<Type>) -> Result<RowIter<'_>> {
        RowIter::from_file(projection, self)
    }
}

impl RowGroupReader for CheckedGroup<'_> {
    fn metadata(&self) -> &RowGroupMetaData {
        self.0.metadata()
    }

    fn num_columns(&self) -> usize {
        self.0.num_columns()
    }

    fn get_column_page_reader(&self, i: usize) -> Result<Box<dyn PageReader>> {
        Ok(Box::new(CheckedPages(self.0.get_column_page_reader(i)?)))
    }

    fn get_column_bloom_filter(&self, i: usize) -> Option<&Sbbf> {
        self.0.get_column_bloom_filter(i)
    }

    fn get_row_iter(&self, projection: Option<Type>) -> Result<RowIter<'_>> {
        RowIter::from_row_group(projection, self)
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
