//! A card's seat in a group of ranks, by NCCL: what all ranks have is summed or passed on where it is, in order with all other
//! work of the card.
//!
//! It refuses to know what is summed. Ranks that are threads of one process meet before and after each of them has started a sum,
//! so that none loads a kernel or reserves memory while another's card waits within one, which the driver may answer by waiting
//! for ever; and so that one who is gone is missed at once. Ranks of other processes are in nobody's way: they meet once, before
//! the library connects them, and whoever waits for the card looks whether they are still there. Dropping the seat aborts what is
//! under way.

use super::driver::{Combine, Owned};
use super::error::CardError;
use crate::cpu::group::{Member, Reduce};
use crate::ops::OpsError;
use cudarc::driver::CudaStream;
use cudarc::nccl::result::{self, NcclError, NcclStatus};
use cudarc::nccl::sys;
use std::ffi::{c_char, c_void};
use std::mem::MaybeUninit;
use std::sync::Arc;

/// Tensors that are started as one at most: NCCL plans all of them before it starts any.
const GROUPED_MAX: usize = 512;

/// Bytes of a group's name.
const GROUP_NAME_BYTES: usize = 128;

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
            return Err(CardError::Library {
                library: "libnccl",
                package: "NCCL under the name libnccl.so (the wheel nvidia-nccl-cu13 has libnccl.so.2: link to it by that name)",
            });
        }
        result::get_uniqueid().map(Self).map_err(failed("naming a group"))
    }

    /// As ranks of other processes are told it.
    pub fn to_bytes(self) -> [u8; GROUP_NAME_BYTES] {
        self.0.internal.map(|byte| byte as u8)
    }

    /// As it was told by the process that made it.
    pub fn from_bytes(bytes: [u8; GROUP_NAME_BYTES]) -> Self {
        Self(sys::ncclUniqueId { internal: bytes.map(|byte| byte as c_char) })
    }
}

/// Which rank of which group a card is.
pub struct Seat {
    /// The group.
    pub name: GroupName,
    /// The rank, from 0.
    pub rank: usize,
    /// How many there are.
    pub ranks: usize,
    /// Where it meets the others, or hears that they are gone: at the same rank.
    pub meeting: Option<Member>,
}

/// A rank's connection to the others.
pub(super) struct Connection {
    pub(super) rank: usize,
    pub(super) ranks: usize,
    comm: sys::ncclComm_t,
    stream: Arc<CudaStream>,
    meeting: Option<Member>,
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

fn failed(doing: &'static str) -> impl Fn(NcclError) -> CardError {
    move |error| CardError::call(doing)(&error.0)
}

/// A number of NCCL, which counts ranks and roots so.
fn counted(number: usize) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}

/// NCCL sums where the values are.
fn in_place(address: u64) -> (*const c_void, *mut c_void) {
    (address as *const c_void, address as *mut c_void)
}

impl Connection {
    /// Meets the others; returns when all are there. The stream's card must be that of this thread.
    pub(super) fn new(stream: &Arc<CudaStream>, seat: Seat) -> Result<Self, OpsError> {
        let Seat { name, rank, ranks, meeting } = seat;
        // One whose card could not be opened is missed here, and not waited for by the library.
        meet(meeting.as_ref(), "meeting the other ranks")?;
        let mut comm = MaybeUninit::uninit();
        #[allow(unsafe_code)]
        // SAFETY: the library writes the connection where it says that it succeeded.
        let comm = unsafe {
            result::comm_init_rank(comm.as_mut_ptr(), counted(ranks), name.0, counted(rank))
                .map_err(failed("meeting the other ranks"))?;
            comm.assume_init()
        };
        Ok(Self { rank, ranks, comm, stream: Arc::clone(stream), meeting })
    }

    /// Starts what all ranks start.
    fn together(
        &self,
        doing: &'static str,
        start: impl FnOnce() -> Result<NcclStatus, NcclError>,
    ) -> Result<(), OpsError> {
        let threads = match &self.meeting {
            Some(member) if member.is_across_processes() => {
                member.check()?;
                None
            }
            meeting => meeting.as_ref(),
        };
        meet(threads, doing)?;
        start().map_err(failed(doing))?;
        meet(threads, doing)
    }

    /// Says whether those of other processes are still there.
    ///
    /// # Errors
    /// Who is not.
    pub(super) fn check(&self) -> Result<(), OpsError> {
        self.meeting.as_ref().filter(|member| member.is_across_processes()).map_or(Ok(()), Member::check)
    }

    /// The same for each of many pieces, which the library starts as few large ones.
    fn each(
        &self,
        doing: &'static str,
        pieces: &[Owned],
        start: impl Fn(&Owned) -> Result<NcclStatus, NcclError>,
    ) -> Result<(), OpsError> {
        for some in pieces.chunks(GROUPED_MAX) {
            self.together(doing, || {
                result::group_start()?;
                let started = some.iter().try_for_each(|piece| start(piece).map(drop));
                // A group that was begun is ended in any case.
                let ended = result::group_end();
                started.and(ended)
            })?;
        }
        Ok(())
    }

    fn stream(&self) -> sys::cudaStream_t {
        self.stream.cu_stream().cast()
    }

    /// Sums so many bf16 values over all ranks, in place.
    ///
    /// # Safety
    /// The address is that of so many values on this card.
    #[allow(unsafe_code, reason = "addresses are not checked")]
    pub(super) unsafe fn sum(&self, address: u64, count: usize) -> Result<(), OpsError> {
        let (kind, sum) = (sys::ncclDataType_t::ncclBfloat16, sys::ncclRedOp_t::ncclSum);
        let (from, to) = in_place(address);
        // SAFETY: the connection is alive; the values are the caller's duty.
        let start = || unsafe { result::all_reduce(from, to, count, kind, sum, self.comm, self.stream()) };
        self.together("summing over ranks", start)
    }

    /// Combines so many values over all ranks, in place.
    ///
    /// # Safety
    /// The address is that of so many values on this card.
    #[allow(unsafe_code, reason = "addresses are not checked")]
    pub(super) unsafe fn combine(&self, how: Combine, address: u64, count: usize) -> Result<(), OpsError> {
        let (kind, way) = match how {
            Combine::SumSingle => (sys::ncclDataType_t::ncclFloat32, sys::ncclRedOp_t::ncclSum),
            Combine::GreatestSingle => (sys::ncclDataType_t::ncclFloat32, sys::ncclRedOp_t::ncclMax),
            Combine::SumDouble => (sys::ncclDataType_t::ncclFloat64, sys::ncclRedOp_t::ncclSum),
        };
        let (from, to) = in_place(address);
        // SAFETY: the connection is alive; the values are the caller's duty.
        let start = || unsafe { result::all_reduce(from, to, count, kind, way, self.comm, self.stream()) };
        self.together("combining over ranks", start)
    }

    /// Sums `f32` values over all ranks, each piece at its owner.
    ///
    /// # Safety
    /// The addresses are those of so many values on this card.
    #[allow(unsafe_code, reason = "addresses are not checked")]
    pub(super) unsafe fn reduce(&self, pieces: &[Owned]) -> Result<(), OpsError> {
        let (kind, sum) = (sys::ncclDataType_t::ncclFloat32, sys::ncclRedOp_t::ncclSum);
        self.each("summing gradients over replicas", pieces, |piece| {
            let (from, to) = in_place(piece.address);
            // SAFETY: the connection is alive; the values are the caller's duty.
            unsafe { result::reduce(from, to, piece.count, kind, sum, counted(piece.owner), self.comm, self.stream()) }
        })
    }

    /// Passes bytes on to all ranks, each piece from its owner.
    ///
    /// # Safety
    /// The addresses are those of so many bytes on this card.
    #[allow(unsafe_code, reason = "addresses are not checked")]
    pub(super) unsafe fn spread(&self, pieces: &[Owned]) -> Result<(), OpsError> {
        let kind = sys::ncclDataType_t::ncclUint8;
        self.each("passing values on to replicas", pieces, |piece| {
            let (from, to) = in_place(piece.address);
            // SAFETY: the connection is alive; the bytes are the caller's duty.
            unsafe { result::broadcast(from, to, piece.count, kind, counted(piece.owner), self.comm, self.stream()) }
        })
    }

    /// Passes bytes of their owner to the first rank.
    ///
    /// # Safety
    /// For owner and first rank, the address is that of so many bytes on this card.
    #[allow(unsafe_code, reason = "addresses are not checked")]
    pub(super) unsafe fn pass(&self, piece: &Owned) -> Result<(), OpsError> {
        let kind = sys::ncclDataType_t::ncclUint8;
        let (from, to) = in_place(piece.address);
        let &Owned { count, owner, .. } = piece;
        if owner == 0 {
            return Ok(());
        }
        self.together("passing a part to the first replica", || match self.rank {
            // SAFETY: the connection is alive; the bytes are the caller's duty.
            0 => unsafe { result::recv(to, count, kind, counted(owner), self.comm, self.stream()) },
            // SAFETY: as above.
            rank if rank == owner => unsafe { result::send(from, count, kind, 0, self.comm, self.stream()) },
            _ => Ok(NcclStatus::Success),
        })
    }
}

/// Waits until all of a group are here, if they can meet.
fn meet(meeting: Option<&Member>, doing: &'static str) -> Result<(), OpsError> {
    meeting.map_or(Ok(()), |member| member.meet::<f64>(doing, Reduce::Sum, &mut []))
}
