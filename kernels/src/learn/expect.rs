//! What every backend expects of the rows, heads and starts that it is given to learn from.
//!
//! It refuses to know where the rows lie.

use crate::ops::{Heads, OpsError, Rope, expect_equal};

/// Rows of heads: how many, and how wide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fused {
    pub(crate) rows: usize,
    pub(crate) width: usize,
}

fn expect_heads(op: &'static str, qkv: Fused, heads: Heads) -> Result<(), OpsError> {
    let sound = heads.kv > 0 && heads.query.is_multiple_of(heads.kv) && heads.dim > 0 && heads.dim.is_multiple_of(2);
    if !sound {
        let expected = "query heads that are a multiple of key heads, and an even dim".to_owned();
        return Err(OpsError::Shape { op, expected, got: format!("{heads:?}") });
    }
    expect_equal(op, "values of a row", heads.fused(), qkv.width)
}

/// That rows can be rotated.
pub(crate) fn expect_rotation(
    op: &'static str,
    qkv: Fused,
    heads: Heads,
    rope: &Rope,
    positions: &[u32],
) -> Result<(), OpsError> {
    expect_heads(op, qkv, heads)?;
    expect_equal(op, "positions", qkv.rows, positions.len())?;
    expect_equal(op, "frequencies", heads.dim / 2, rope.frequencies.len())
}

/// That rows are sequences one behind the other.
pub(crate) fn expect_attention(op: &'static str, qkv: Fused, heads: Heads, starts: &[u32]) -> Result<(), OpsError> {
    expect_heads(op, qkv, heads)?;
    let ends = starts.first() == Some(&0) && starts.last().is_some_and(|end| *end as usize == qkv.rows);
    if ends && starts.is_sorted() {
        return Ok(());
    }
    let expected = format!("starts in order from 0 to the {} rows", qkv.rows);
    let got = match starts {
        [first, .., last] => format!("{} starts from {first} to {last}", starts.len()),
        _ => format!("{starts:?}"),
    };
    Err(OpsError::Shape { op, expected, got })
}
