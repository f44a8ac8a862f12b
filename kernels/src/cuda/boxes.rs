//! Rows in a card's memory as its copy engine knows them: from a description (`CUtensorMap`) it takes boxes of 64 rows and
//! 64 values, and lays them into shared memory as the products of Hopper read them.
//!
//! It refuses to know what the rows are.

use super::error::CardError;
use cudarc::driver::sys;
use std::ffi::c_void;

/// Bytes of a description.
pub(super) const BOXES_BYTES: usize = 128;
/// Rows and values of a box.
const BOX_SIDE: usize = 64;
/// Rows at most: the engine counts them in 31 bits.
const ROWS_MAX: u64 = 1 << 31;

/// Describes so many rows of bf16 values, one behind the other from an address on.
pub(super) fn described(address: u64, rows: u64, width: usize) -> Result<[u8; BOXES_BYTES], CardError> {
    if rows == 0 || rows >= ROWS_MAX || width < BOX_SIDE {
        return Err(CardError::Boxes { rows, rows_max: ROWS_MAX - 1, width });
    }
    let mut map = sys::CUtensorMap { opaque: [0; BOXES_BYTES / 8] };
    let (dims, stride) = ([width as u64, rows], [width as u64 * 2]);
    let (side, step) = ([BOX_SIDE as u32; 2], [1_u32; 2]);
    #[allow(unsafe_code)]
    // SAFETY: all arrays live through the call and have as many elements as two dimensions need; the address is only noted.
    let status = unsafe {
        sys::cuTensorMapEncodeTiled(
            &raw mut map,
            sys::CUtensorMapDataType::CU_TENSOR_MAP_DATA_TYPE_BFLOAT16,
            2,
            address as *mut c_void,
            dims.as_ptr(),
            stride.as_ptr(),
            side.as_ptr(),
            step.as_ptr(),
            sys::CUtensorMapInterleave::CU_TENSOR_MAP_INTERLEAVE_NONE,
            sys::CUtensorMapSwizzle::CU_TENSOR_MAP_SWIZZLE_128B,
            sys::CUtensorMapL2promotion::CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
            sys::CUtensorMapFloatOOBfill::CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
        )
    };
    status.result().map_err(|error| CardError::call("describing a cache")(&error))?;
    let mut bytes = [0; BOXES_BYTES];
    for (bytes, word) in bytes.chunks_exact_mut(8).zip(map.opaque) {
        bytes.copy_from_slice(&word.to_le_bytes());
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_that_the_engine_cannot_count_are_refused_with_the_numbers() {
        let refused = |rows, width| described(256, rows, width).unwrap_err().to_string();
        assert!(refused(ROWS_MAX, 128).contains("1 to 2147483647 rows of at least 64 values"));
        assert!(refused(ROWS_MAX, 128).contains("got 2147483648 of 128"));
        assert!(refused(0, 64).contains("got 0 of 64") && refused(1, 63).contains("got 1 of 63"));
    }
}
