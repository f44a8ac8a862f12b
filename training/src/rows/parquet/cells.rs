//! A row of a table as the JSON object that a line of JSONL would be. A table gives every structure of a column the same fields,
//! so that one without a field has a null there; nulls in structures are therefore left out.
//! It refuses to know which columns a row needs.

use crate::error::{Place, TrajectoryError};
use crate::rows::{BadKind, RowError};
use ::parquet::record::{Field, Row};
use serde_json::{Map, Number, Value};

/// Columns that may hold their value as JSON text.
const JSON_TEXT: [&str; 4] = ["messages", "metadata", "spans", "prompt_ids"];
/// A whole number to pandas, which has none that may be null.
const MASK: &str = "step_loss_mask";

/// The JSON of a row.
pub(super) fn row(row: &Row, place: &Place) -> Result<Value, RowError> {
    let mut columns = Map::new();
    for (name, field) in row.get_column_iter() {
        let mut value = cell(field, name, place)?;
        if let (Value::String(text), true) = (&value, JSON_TEXT.contains(&name.as_str())) {
            value = json_text(text, name, place)?;
        }
        if !value.is_null() {
            columns.insert(name.clone(), value);
        }
    }
    Ok(Value::Object(columns))
}

/// A column's JSON text; null where it is empty.
fn json_text(text: &str, column: &str, place: &Place) -> Result<Value, RowError> {
    if text.trim().is_empty() {
        return Ok(Value::Null);
    }
    serde_json::from_str(text).map_err(|error| {
        let malformed = || TrajectoryError::BadRow {
            place: place.clone(),
            expected: "json text",
            message: format!("column `{column}`: {error}"),
        };
        RowError::of(crate::jsonl::not_json(text, place).unwrap_or_else(malformed), text)
    })
}

fn cell(field: &Field, name: &str, place: &Place) -> Result<Value, RowError> {
    Ok(match field {
        Field::Null => Value::Null,
        Field::Bool(value) => (*value).into(),
        Field::Byte(value) => (*value).into(),
        Field::Short(value) => (*value).into(),
        Field::Int(value) => (*value).into(),
        Field::Long(value) => (*value).into(),
        Field::UByte(value) => (*value).into(),
        Field::UShort(value) => (*value).into(),
        Field::UInt(value) => (*value).into(),
        Field::ULong(value) => (*value).into(),
        Field::Float16(value) => float(value.to_f64(), name, place)?,
        Field::Float(value) => float(shortest(*value), name, place)?,
        Field::Double(value) => float(*value, name, place)?,
        Field::Str(text) => text.as_str().into(),
        Field::Bytes(bytes) => utf8(bytes.data(), place)?.into(),
        Field::Group(group) => {
            let mut fields = Map::new();
            for (name, field) in group.get_column_iter() {
                let value = cell(field, name, place)?;
                if !value.is_null() {
                    fields.insert(name.clone(), value);
                }
            }
            fields.into()
        }
        Field::ListInternal(list) => {
            let elements = list.elements().iter().map(|element| cell(element, name, place));
            Value::Array(elements.collect::<Result<_, _>>()?)
        }
        Field::MapInternal(map) => {
            let mut fields = Map::new();
            for (key, value) in map.entries() {
                let key = match cell(key, name, place)? {
                    Value::String(key) => key,
                    other => other.to_string(),
                };
                fields.insert(key, cell(value, name, place)?);
            }
            fields.into()
        }
        // Moments and decimals are of other tools' columns; they are kept as their text.
        other => other.to_string().into(),
    })
}

fn utf8<'a>(bytes: &'a [u8], place: &Place) -> Result<&'a str, RowError> {
    std::str::from_utf8(bytes).map_err(|error| {
        let at_byte = error.valid_up_to();
        RowError::Bad { kind: BadKind::NotUtf8, error: TrajectoryError::NotUtf8 { place: place.clone(), at_byte } }
    })
}

fn float(number: f64, name: &str, place: &Place) -> Result<Value, RowError> {
    let is_mask = name == MASK && number.fract() == 0.0 && (0.0..256.0).contains(&number);
    let made = if is_mask { Some(Number::from(number as u8)) } else { Number::from_f64(number) };
    made.map(Value::Number).ok_or_else(|| RowError::Bad {
        kind: BadKind::NotFinite,
        error: TrajectoryError::NotFinite { place: place.clone(), token: token(number) },
    })
}

/// The number that its shortest spelling means, as Python prints it.
fn shortest(number: f32) -> f64 {
    number.to_string().parse().unwrap_or(f64::from(number))
}

fn token(number: f64) -> &'static str {
    match (number.is_nan(), number > 0.0) {
        (true, _) => "NaN",
        (false, true) => "Infinity",
        (false, false) => "-Infinity",
    }
}
