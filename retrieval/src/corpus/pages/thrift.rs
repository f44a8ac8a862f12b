//! A walk over the header of a page and over the footer of a parquet file, both written in Thrift's compact protocol, before
//! the library reads them: it goes the library's way and refuses what a few bytes would make endless there.
//!
//! It refuses to know what the fields mean; what is cut off or of another type than the format says is refused too.

use ::parquet::errors::{ParquetError, Result};
use Kind::{Binary, Bool, Byte, Double, List, Struct, Whole};
use std::io::{ErrorKind, Read};

/// Fields that are not known may nest so deep, as in the library.
const DEPTH_MAX: usize = 64;
/// Bytes of a number at most: 64 bits, seven a byte.
const NUMBER_BYTES_MAX: u32 = 10;
/// Bytes passed over at a time.
const STEP_BYTES: usize = 256;

/// What the library reads at a field that it knows. It does not compare that with the type that the file gives, so that a
/// walk by the file's types alone would soon stand elsewhere than the library.
#[derive(Clone, Copy)]
enum Kind {
    Bool,
    Byte,
    Whole,
    Double,
    Binary,
    List(&'static Kind),
    Struct(&'static [(i16, Kind)]),
}

// The structures of the format that the library reads, by the numbers of their fields. A number that is not here is passed
// over there too. A union is a structure of one field.

const NOTHING: Kind = Struct(&[]);
const DATA_PAGE: Kind = Struct(&[(1, Whole), (2, Whole), (3, Whole), (4, Whole)]);
const DICTIONARY_PAGE: Kind = Struct(&[(1, Whole), (2, Whole), (3, Bool)]);
const DATA_PAGE_V2: Kind = Struct(&[(1, Whole), (2, Whole), (3, Whole), (4, Whole), (5, Whole), (6, Whole), (7, Bool)]);
const PAGE_HEADER: &[(i16, Kind)] = &[
    (1, Whole),
    (2, Whole),
    (3, Whole),
    (4, Whole),
    (5, DATA_PAGE),
    (6, NOTHING),
    (7, DICTIONARY_PAGE),
    (8, DATA_PAGE_V2),
];

const DECIMAL: Kind = Struct(&[(1, Whole), (2, Whole)]);
const TIME_UNIT: Kind = Struct(&[(1, NOTHING), (2, NOTHING), (3, NOTHING)]);
const TIME: Kind = Struct(&[(1, Bool), (2, TIME_UNIT)]);
const INTEGER: Kind = Struct(&[(1, Byte), (2, Bool)]);
const LOGICAL_TYPE: Kind = Struct(&[
    (1, NOTHING),
    (2, NOTHING),
    (3, NOTHING),
    (4, NOTHING),
    (5, DECIMAL),
    (6, NOTHING),
    (7, TIME),
    (8, TIME),
    (10, INTEGER),
    (11, NOTHING),
    (12, NOTHING),
    (13, NOTHING),
    (14, NOTHING),
    (15, NOTHING),
    (16, Struct(&[(1, Byte)])),
    (17, Struct(&[(1, Binary)])),
    (18, Struct(&[(1, Binary), (2, Whole)])),
    (19, NOTHING),
]);
const SCHEMA_ELEMENT: Kind = Struct(&[
    (1, Whole),
    (2, Whole),
    (3, Whole),
    (4, Binary),
    (5, Whole),
    (6, Whole),
    (7, Whole),
    (8, Whole),
    (9, Whole),
    (10, LOGICAL_TYPE),
]);
const STATISTICS: Kind = Struct(&[
    (1, Binary),
    (2, Binary),
    (3, Whole),
    (4, Whole),
    (5, Binary),
    (6, Binary),
    (7, Bool),
    (8, Bool),
    (9, Whole),
]);
const ENCODING_STATS: Kind = Struct(&[(1, Whole), (2, Whole), (3, Whole)]);
const SIZE_STATISTICS: Kind = Struct(&[(1, Whole), (2, List(&Whole)), (3, List(&Whole))]);
const BOX: Kind =
    Struct(&[(1, Double), (2, Double), (3, Double), (4, Double), (5, Double), (6, Double), (7, Double), (8, Double)]);
const PLACES: Kind = Struct(&[(1, BOX), (2, List(&Whole))]);
const COLUMN_METADATA: Kind = Struct(&[
    (1, Whole),
    (2, List(&Whole)),
    (4, Whole),
    (5, Whole),
    (6, Whole),
    (7, Whole),
    (9, Whole),
    (10, Whole),
    (11, Whole),
    (12, STATISTICS),
    (13, List(&ENCODING_STATS)),
    (14, Whole),
    (15, Whole),
    (16, SIZE_STATISTICS),
    (17, PLACES),
]);
const COLUMN_CHUNK: Kind =
    Struct(&[(1, Binary), (2, Whole), (3, COLUMN_METADATA), (4, Whole), (5, Whole), (6, Whole), (7, Whole)]);
const SORTING_COLUMN: Kind = Struct(&[(1, Whole), (2, Bool), (3, Bool)]);
const ROW_GROUP: Kind =
    Struct(&[(1, List(&COLUMN_CHUNK)), (2, Whole), (3, Whole), (4, List(&SORTING_COLUMN)), (5, Whole), (7, Whole)]);
const KEY_VALUE: Kind = Struct(&[(1, Binary), (2, Binary)]);
const COLUMN_ORDER: Kind = Struct(&[(1, NOTHING), (2, NOTHING), (3, NOTHING)]);
const FOOTER: &[(i16, Kind)] = &[
    (1, Whole),
    (2, List(&SCHEMA_ELEMENT)),
    (3, Whole),
    (4, List(&ROW_GROUP)),
    (5, List(&KEY_VALUE)),
    (6, Binary),
    (7, List(&COLUMN_ORDER)),
];

/// Reads from the start of a page's header to its end and no further, `bytes_max` at most.
pub(super) fn walk_page_header(input: impl Read, bytes_max: usize) -> Result<()> {
    Walk { input, left: bytes_max }.fields(PAGE_HEADER)
}

/// Walks over a footer.
pub(super) fn walk_footer(footer: &[u8]) -> Result<()> {
    Walk { input: footer, left: footer.len() }.fields(FOOTER)
}

/// Every step takes a byte at least, so that the bytes bound the steps.
struct Walk<R> {
    input: R,
    left: usize,
}

impl<R: Read> Walk<R> {
    fn fields(&mut self, known: &[(i16, Kind)]) -> Result<()> {
        let mut last = 0_i16;
        while let Some((wire, id)) = self.field(last)? {
            match known.iter().find(|(known, _)| *known == id) {
                Some((_, kind)) => self.known(*kind, wire)?,
                None => self.skip(wire, DEPTH_MAX)?,
            }
            last = id;
        }
        Ok(())
    }

    /// The type and the number of the next field; none at the end of the structure.
    fn field(&mut self, last: i16) -> Result<Option<(u8, i16)>> {
        let head = self.byte()?;
        let wire = head & 0x0f;
        if wire == 0 {
            return Ok(None);
        }
        let id = match head >> 4 {
            0 => {
                let zigzag = self.number()?;
                ((zigzag >> 1) as i64 ^ -((zigzag & 1) as i64)) as i16
            }
            step => last.checked_add(i16::from(step)).ok_or_else(|| refused("numbers a field beyond the last"))?,
        };
        Ok(Some((wire, id)))
    }

    fn known(&mut self, kind: Kind, wire: u8) -> Result<()> {
        let is_right = match kind {
            Bool => matches!(wire, 1 | 2),
            Byte => wire == 3,
            Whole => matches!(wire, 4..=6),
            Double => wire == 7,
            Binary => wire == 8,
            List(_) => wire == 9,
            Struct(_) => wire == 12,
        };
        if !is_right {
            return Err(refused("has a field of another type than the format says"));
        }
        match kind {
            Struct(known) => self.fields(known),
            List(element) => {
                let (wire, count) = self.list()?;
                (0..count).try_for_each(|_| self.known(*element, wire))
            }
            _ => self.skip(wire, DEPTH_MAX),
        }
    }

    /// Passes over a value of a type.
    fn skip(&mut self, wire: u8, depth: usize) -> Result<()> {
        let Some(inner) = depth.checked_sub(1) else { return Err(refused("nests too deep")) };
        match wire {
            // A field of this type is its own value.
            1 | 2 => Ok(()),
            3 => self.bytes(1),
            4..=6 => self.number().map(|_| ()),
            7 => self.bytes(8),
            8 => {
                let length = self.number()?;
                self.bytes(usize::try_from(length).unwrap_or(usize::MAX))
            }
            9 | 10 => {
                let (wire, count) = self.list()?;
                (0..count).try_for_each(|_| self.skip(wire, inner))
            }
            11 => {
                let (key, value, count) = self.map()?;
                (0..count).try_for_each(|_| self.skip(key, inner).and_then(|()| self.skip(value, inner)))
            }
            12 => {
                while let Some((wire, _)) = self.field(0)? {
                    self.skip(wire, inner)?;
                }
                Ok(())
            }
            13 => self.bytes(16),
            _ => Err(refused("has a field of no known type")),
        }
    }

    /// The type of a list's elements, and how many it claims.
    fn list(&mut self) -> Result<(u8, i32)> {
        let head = self.byte()?;
        let count = match head >> 4 {
            15 => self.count()?,
            count => i32::from(count),
        };
        Ok((element(head & 0x0f, count)?, count))
    }

    /// The types of a map's keys and values, and how many pairs it claims.
    fn map(&mut self) -> Result<(u8, u8, i32)> {
        let count = self.count()?;
        let types = if count == 0 { 0 } else { self.byte()? };
        Ok((element(types >> 4, count)?, element(types & 0x0f, count)?, count))
    }

    fn count(&mut self) -> Result<i32> {
        i32::try_from(self.number()?).map_err(|_| refused("claims more than a list can hold"))
    }

    /// A number, seven bits a byte; the lowest stand first.
    fn number(&mut self) -> Result<u64> {
        let mut number = 0;
        for place in 0..NUMBER_BYTES_MAX {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7f) << (7 * place);
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
        Err(refused("has a number of more than 64 bits"))
    }

    fn byte(&mut self) -> Result<u8> {
        let mut byte = [0];
        self.read(&mut byte)?;
        Ok(byte[0])
    }

    /// Passes over so many bytes.
    fn bytes(&mut self, mut count: usize) -> Result<()> {
        if count > self.left {
            return Err(refused("is longer than it may be"));
        }
        let mut step = [0; STEP_BYTES];
        while count > 0 {
            let now = count.min(STEP_BYTES);
            self.read(&mut step[..now])?;
            count -= now;
        }
        Ok(())
    }

    fn read(&mut self, into: &mut [u8]) -> Result<()> {
        self.left = self.left.checked_sub(into.len()).ok_or_else(|| refused("is longer than it may be"))?;
        self.input.read_exact(into).map_err(|error| match error.kind() {
            ErrorKind::UnexpectedEof => refused("ends before its last field"),
            _ => error.into(),
        })
    }
}

/// The type of an element. The library takes no byte for a boolean in a list, so that six bytes make a list of two billion.
fn element(wire: u8, count: i32) -> Result<u8> {
    if count > 0 && matches!(wire, 1 | 2) {
        return Err(refused("has a list of booleans, which no field of the format is"));
    }
    Ok(wire)
}

fn refused(what: &str) -> ParquetError {
    ParquetError::General(format!("a header of the file {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A page header with this behind its three sizes and types.
    fn header(rest: &[u8]) -> Vec<u8> {
        [&[0x15, 0x00, 0x15, 0x02, 0x15, 0x02], rest].concat()
    }

    fn page(rest: &[u8]) -> Result<usize, String> {
        let header = header(rest);
        let mut left = header.as_slice();
        walk_page_header(&mut left, 1 << 10).map(|()| left.len()).map_err(|error| error.to_string())
    }

    #[test]
    fn a_header_is_read_to_its_end_and_no_further() {
        assert_eq!(page(&[0, 7, 7]), Ok(2));
        // A data page with statistics, and a list of two texts under a number of which nothing is known.
        let rest = [0x2c, 0x15, 2, 0x15, 0, 0x15, 6, 0x15, 6, 0x1c, 0x18, 1, b'a', 0, 0, 0xf9, 0x28, 1, b'b', 0, 0, 7];
        assert_eq!(page(&rest), Ok(1));
    }

    #[test]
    fn a_list_that_costs_the_library_more_than_its_bytes_is_refused() {
        // Two billion booleans in a list; any in a set and in a map.
        for rest in [&[0xf9, 0xf1, 0xff, 0xff, 0xff, 0xff, 7, 0][..], &[0xfa, 0x12, 0], &[0xfb, 2, 0x11, 0]] {
            assert!(page(rest).unwrap_err().contains("a list of booleans"), "{rest:?}");
        }
        // Two billion numbers of eight bytes, beyond the end of which the library goes on counting.
        for rest in [&[0xf9, 0xf7, 0xff, 0xff, 0xff, 0xff, 7][..], &[0xfb, 0xff, 0xff, 0xff, 0xff, 7, 0x7d]] {
            assert!(page(rest).unwrap_err().contains("ends before its last field"), "{rest:?}");
        }
        assert!(page(&[0xf9, 0xf7, 0xff, 0xff, 0xff, 0xff, 8]).unwrap_err().contains("more than a list can hold"));
        assert_eq!(page(&[0xf9, 0x01, 0xfb, 0, 0]), Ok(0), "an empty one costs nothing");
    }

    #[test]
    fn a_field_that_the_library_would_read_as_another_type_is_refused() {
        // The eight bytes of a fraction where a whole number stands: the library takes the first for the number and the
        // others for fields.
        let refused = page(&[0x17, 0, 0, 0, 0, 0, 0, 0, 0, 0]).unwrap_err();
        assert!(refused.contains("another type"), "{refused}");
    }

    #[test]
    fn what_is_malformed_or_too_long_is_refused() {
        for (rest, what) in [
            (&[0xfe, 0][..], "no known type"),
            (&[0xf6, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 1, 0], "more than 64 bits"),
            (&[0xf8, 255, 255, 255, 255, 15, 0], "longer than it may be"),
            (&[0x06, 0xfe, 0xff, 3, 0, 0x16, 0, 0], "beyond the last"),
            (&[0xfc; 70], "nests too deep"),
        ] {
            let refused = page(rest).unwrap_err();
            assert!(refused.contains(what), "{rest:?}: {refused}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_walked_over_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = (walk_footer(&bytes), walk_page_header(bytes.as_slice(), 100), page(&bytes));
        }
    }
}
