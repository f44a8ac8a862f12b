//! A value of GGUF's metadata. Whole numbers of every width become one kind, and so do floats. It refuses to know keys.

use super::cursor::Cursor;

/// Lists within lists at most.
const DEPTH_MAX: usize = 4;
/// Values of one list at most: a vocabulary and its merges are below a million.
const LIST_MAX: u64 = 1 << 23;
/// Bytes of one text at most.
const TEXT_MAX_BYTES: u64 = 1 << 24;
/// Characters of a value that a message shows.
const SHOWN_MAX: usize = 80;

/// A value of the metadata.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A whole number from 0.
    Unsigned(u64),
    /// A whole number with a sign.
    Signed(i64),
    /// A float; one of 32 bits is exact.
    Float(f64),
    /// True or false.
    Flag(bool),
    /// A text.
    Text(String),
    /// Values of one kind.
    List(Vec<Value>),
}

impl Value {
    pub(super) fn read(cursor: &mut Cursor<'_>) -> Result<Self, String> {
        let code = cursor.u32()?;
        Self::read_as(cursor, code, 0)
    }

    fn read_as(cursor: &mut Cursor<'_>, code: u32, depth: usize) -> Result<Self, String> {
        Ok(match code {
            0 => Value::Unsigned(u64::from(cursor.array::<1>()?[0])),
            1 => Value::Signed(i64::from(i8::from_le_bytes(cursor.array()?))),
            2 => Value::Unsigned(u64::from(u16::from_le_bytes(cursor.array()?))),
            3 => Value::Signed(i64::from(i16::from_le_bytes(cursor.array()?))),
            4 => Value::Unsigned(u64::from(cursor.u32()?)),
            5 => Value::Signed(i64::from(i32::from_le_bytes(cursor.array()?))),
            6 => Value::Float(f64::from(f32::from_le_bytes(cursor.array()?))),
            7 => match cursor.array::<1>()?[0] {
                0 => Value::Flag(false),
                1 => Value::Flag(true),
                other => return Err(format!("expected 0 or 1 for true or false, got {other}")),
            },
            8 => Value::Text(cursor.text(TEXT_MAX_BYTES)?.to_owned()),
            9 => Self::read_list(cursor, depth)?,
            10 => Value::Unsigned(cursor.u64()?),
            11 => Value::Signed(i64::from_le_bytes(cursor.array()?)),
            12 => Value::Float(f64::from_le_bytes(cursor.array()?)),
            other => return Err(format!("expected a kind of value from 0 to 12, got {other}")),
        })
    }

    fn read_list(cursor: &mut Cursor<'_>, depth: usize) -> Result<Self, String> {
        if depth == DEPTH_MAX {
            return Err(format!("expected at most {DEPTH_MAX} lists within one another, got more"));
        }
        let (code, count) = (cursor.u32()?, cursor.u64()?);
        if count > LIST_MAX {
            return Err(format!("expected a list of at most {LIST_MAX} values, got {count}"));
        }
        let least = least_bytes(code)?;
        if count * least > cursor.left() {
            return Err(format!(
                "expected a list of {count} values, which is {} bytes or more, got the end of the file after {}",
                count * least,
                cursor.left()
            ));
        }
        let mut list = Vec::with_capacity(count as usize);
        for _ in 0..count {
            list.push(Self::read_as(cursor, code, depth + 1)?);
        }
        Ok(Value::List(list))
    }

    /// A whole number that is not below 0.
    pub fn as_u64(&self) -> Option<u64> {
        match self {
            Value::Unsigned(value) => Some(*value),
            Value::Signed(value) => u64::try_from(*value).ok(),
            _ => None,
        }
    }

    /// A number.
    pub fn as_f64(&self) -> Option<f64> {
        match self {
            Value::Unsigned(value) => Some(*value as f64),
            Value::Signed(value) => Some(*value as f64),
            Value::Float(value) => Some(*value),
            _ => None,
        }
    }

    /// True or false.
    pub fn as_bool(&self) -> Option<bool> {
        if let Value::Flag(value) = self { Some(*value) } else { None }
    }

    /// A text.
    pub fn as_str(&self) -> Option<&str> {
        if let Value::Text(value) = self { Some(value) } else { None }
    }

    /// A list.
    pub fn as_list(&self) -> Option<&[Value]> {
        if let Value::List(values) = self { Some(values) } else { None }
    }

    /// As a message shows it.
    pub(crate) fn shown(&self) -> String {
        match self {
            Value::Unsigned(value) => value.to_string(),
            Value::Signed(value) => value.to_string(),
            Value::Float(value) => value.to_string(),
            Value::Flag(value) => value.to_string(),
            Value::Text(text) => format!("{:?}", text.chars().take(SHOWN_MAX).collect::<String>()),
            Value::List(values) => format!("a list of {} values", values.len()),
        }
    }
}

/// Bytes that one value of a kind has at least.
fn least_bytes(code: u32) -> Result<u64, String> {
    Ok(match code {
        0 | 1 | 7 => 1,
        2 | 3 => 2,
        4..=6 => 4,
        8 | 10..=12 => 8,
        // Its kind and its count.
        9 => 12,
        other => return Err(format!("expected a kind of value from 0 to 12, got {other}")),
    })
}
