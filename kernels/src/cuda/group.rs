//! A card's seat in a tensor-parallel group, by NCCL: rows of all ranks are summed where they are, in order with all other work
//! of the card.
//!
//! It refuses to know what is summed. A rank that is gone keeps the others waiting in their stream until their own wait for
//! the card ends; dropping the seat aborts what is under way.

use super::driver::Combine;
use super::error::CardError;
use cudarc::driver::CudaStream;
use cudarc::nccl::{result, sys};
use std::mem::MaybeUninit;
use std::sync::Arc;

/// The name of a group, by which its ranks find each other.
#[derive(Clone, Copy)]
pub struct GroupName(sys::ncclUniqueId);

impl GroupName {
    /// A new one, for all ranks of one group.
    ///
    /// # Errors
    /// No NCCL.
    pub fn new() -> Result<Self, CardError> {
        #[allow(unsafe_code)]
        // SAFETY: looking for a library runs its initialisers, which do nothing that others see.
        if !unsafe { sys::is_culib_present() } {
            return Err(CardError::Library { library: "libnccl", package: "NCCL or its wheel nvidia-nccl-cu13" });
        }
        result::get_uniqueid().map(Self).map_err(failed("naming a group"))
    }
}

/// Which rank of which group a card is.
#[derive(Clone, Copy)]
pub struct Seat {
    /// The group.
    pub name: GroupName,
    /// The rank, from 0.
    pub rank: usize,
    /// How many there are.
    pub ranks: usize,
}

/// A rank's connection to the others.
pub(super) struct Connection {
    pub(super) rank: usize,
    comm: sys::ncclComm_t,
    stream: Arc<CudaStream>,
}

// SAFETY: a connection may be used from any thread, from one at a time; nobody but its card has it, and it is not `Sync`.
#[allow(unsafe_code)]
unsafe impl Send for Connection {}

impl Drop for Connection {
    fn drop(&mut self) {
        #[allow(unsafe_code)]
        // SAFETY: only this owner has it, so it is ended once. Aborting waits for nobody, as destroying would.
        let _ = unsafe { result::comm_abort(self.comm) };
    }
}

fn failed(doing: &'static str) -> impl Fn(result::NcclError) -> CardError {
    move |error| CardError::call(doing)(&error)
}

impl Connection {
    /// Meets the others; returns when all are there. The stream's card must be that of this thread.
    pub(super) fn new(stream: &Arc<CudaStream>, seat: Seat) -> Result<Self, CardError> {
        let mut comm = MaybeUninit::uninit();
        let count = |number: usize| i32::try_from(number).unwrap_or(i32::MAX);
        #[allow(unsafe_code)]
        // SAFETY: the library writes the connection where it says that it succeeded.
        let comm = unsafe {
            result::comm_init_rank(comm.as_mut_ptr(), count(seat.ranks), seat.name.0, count(seat.rank))
                .map_err(failed("meeting the other ranks"))?;
            comm.assume_init()
        };
        Ok(Self { rank: seat.rank, comm, stream: Arc::clone(stream) })
    }

    /// Sums so many bf16 values over all ranks, in place.
    ///
    /// # Safety
    /// The address is that of so many values on this card.
    #[allow(unsafe_code, reason = "addresses are not checked")]
    pub(super) unsafe fn sum(&self, address: u64, count: usize) -> Result<(), CardError> {
        let (kind, sum) = (sys::ncclDataType_t::ncclBfloat16, sys::ncclRedOp_t::ncclSum);
        let (from, to) = (address as *const std::ffi::c_void, address as *mut std::ffi::c_void);
        // SAFETY: the connection is alive; the values are the caller's duty.
        unsafe { result::all_reduce(from, to, count, kind, sum, self.comm, self.stream.cu_stream().cast()) }
            .map(drop)
            .map_err(failed("summing over ranks"))
    }

    /// Combines so many values over all ranks, in place.
    ///
    /// # Safety
    /// The address is that of so many values on this card.
    #[allow(unsafe_code, reason = "addresses are not checked")]
    pub(super) unsafe fn combine(&self, how: Combine, address: u64, count: usize) -> Result<(), CardError> {
        let (kind, way) = match how {
            Combine::SumSingle => (sys::ncclDataType_t::ncclFloat32, sys::ncclRedOp_t::ncclSum),
            Combine::GreatestSingle => (sys::ncclDataType_t::ncclFloat32, sys::ncclRedOp_t::ncclMax),
            Combine::SumDouble => (sys::ncclDataType_t::ncclFloat64, sys::ncclRedOp_t::ncclSum),
        };
        let (from, to) = (address as *const std::ffi::c_void, address as *mut std::ffi::c_void);
        // SAFETY: the connection is alive; the values are the caller's duty.
        unsafe { result::all_reduce(from, to, count, kind, way, self.comm, self.stream.cu_stream().cast()) }
            .map(drop)
            .map_err(failed("combining over ranks"))
    }
}
