//! Page-locked memory of the host, which a card copies from and to at the speed of its bus, by blocks that are used again:
//! locking takes longer than copying.
//!
//! It refuses to know what is copied. Blocks go back to their pool, and to the system with the card.

use super::error::CardError;
use crate::host::{HostBytes, HostMemory};
use cudarc::driver::{CudaContext, PinnedHostSlice};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Bytes of a block from which on it is worth to lock memory for it.
const LOCKED_MIN_BYTES: usize = 64 << 10;

/// Free blocks by size.
type Free = Arc<Mutex<BTreeMap<usize, Vec<PinnedHostSlice<u8>>>>>;

/// Blocks of one card.
#[derive(Default)]
pub(super) struct Pool {
    free: Free,
}

impl Pool {
    /// A block of so many bytes, of which nothing is known; memory that is not locked where the system locks no more.
    pub(super) fn take(&self, context: &Arc<CudaContext>, bytes: usize) -> HostBytes {
        if bytes < LOCKED_MIN_BYTES {
            return vec![0; bytes].into();
        }
        let known = self.free.lock().unwrap_or_else(PoisonError::into_inner).get_mut(&bytes).and_then(Vec::pop);
        let slice = match known {
            Some(slice) => Ok(slice),
            None => lock(context, bytes),
        };
        match slice {
            Ok(slice) => HostBytes::new(Block { slice: Some(slice), free: Arc::clone(&self.free) }),
            Err(_) => vec![0; bytes].into(),
        }
    }
}

fn lock(context: &Arc<CudaContext>, bytes: usize) -> Result<PinnedHostSlice<u8>, CardError> {
    #[allow(unsafe_code)]
    // SAFETY: the block is filled below, before anybody sees it.
    let slice = unsafe { context.alloc_pinned_with_flags::<u8>(bytes, 0) };
    let mut slice = slice.map_err(|error| CardError::call("locking host memory")(&error))?;
    let bytes = slice.as_mut_slice().map_err(|error| CardError::call("locking host memory")(&error))?;
    bytes.fill(0);
    Ok(slice)
}

/// A block that goes back to its pool.
struct Block {
    /// There until it is dropped.
    slice: Option<PinnedHostSlice<u8>>,
    free: Free,
}

impl HostMemory for Block {
    /// Nothing, once the card has failed.
    fn bytes(&self) -> &[u8] {
        self.slice.as_ref().and_then(|slice| slice.as_slice().ok()).unwrap_or_default()
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        self.slice.as_mut().and_then(|slice| slice.as_mut_slice().ok()).unwrap_or_default()
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        if let Some(slice) = self.slice.take() {
            let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
            free.entry(slice.len()).or_default().push(slice);
        }
    }
}
