//! What runs kernels: memory of a card, copies to and from it, kernels by name, and products of large matrices. All work goes
//! to one stream, so each call sees what those before it did.
//!
//! It refuses to know what is computed.

use super::source::Unit;
use crate::host::HostBytes;
use crate::ops::OpsError;

/// One argument of a kernel.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Arg {
    /// An address on the card; 0 is none.
    Address(u64),
    /// A `u32`.
    Word(u32),
    /// A `u64`.
    Long(u64),
    /// A float.
    Float(f32),
}

impl Arg {
    /// Its bits, and how many bytes of them count.
    pub fn bits(self) -> (u64, u32) {
        match self {
            Arg::Address(value) | Arg::Long(value) => (value, 8),
            Arg::Word(value) => (value.into(), 4),
            Arg::Float(value) => (value.to_bits().into(), 4),
        }
    }
}

/// How many blocks of how many threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Blocks side by side, and one below the other (at most 65,535).
    pub grid: [u32; 2],
    /// Threads of a block: whole warps of 32, at most 1,024.
    pub threads: u32,
    /// Bytes of shared memory that are not part of the kernel.
    pub shared_bytes: u32,
}

/// `out = x Wᵀ + bias` in bf16 with sums in `f32`; matrices are row-major with strides in values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Product {
    /// Rows of `x` and of `out`.
    pub rows: usize,
    /// Columns of `x` and of `W`.
    pub inputs: usize,
    /// Rows of `W`, columns of `out`.
    pub outputs: usize,
    /// Where `x` is, and its stride.
    pub x: (u64, usize),
    /// Where `W` is, and its stride.
    pub weight: (u64, usize),
    /// Where the bias is, if there is one.
    pub bias: Option<u64>,
    /// Where `out` is, and its stride.
    pub out: (u64, usize),
}

/// Which of the two products of a linear map's way back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum GradientOf {
    /// `dx = d W` in bf16; the other matrix is `W`.
    Inputs,
    /// `dW += dᵀ x` in `f32`; the other matrix is `x`.
    Weight,
}

/// A product of a linear map's way back; matrices are row-major with strides in values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GradientProduct {
    /// Which.
    pub of: GradientOf,
    /// Rows of `x` and of `d`.
    pub rows: usize,
    /// Columns of `x` and of `W`.
    pub inputs: usize,
    /// Rows of `W`, columns of `d`.
    pub outputs: usize,
    /// Where `d` is, and its stride.
    pub d_out: (u64, usize),
    /// Where the other matrix is, and its stride.
    pub other: (u64, usize),
    /// Where the result is, and its stride.
    pub out: (u64, usize),
}

/// How ranks combine what each of them has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Combine {
    /// The sum of `f32` values.
    SumSingle,
    /// The greatest of `f32` values.
    GreatestSingle,
    /// The sum of `f64` values.
    SumDouble,
}

/// A piece of memory that lies on every replica, and the replica that it belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owned {
    /// Where it is on this card.
    pub address: u64,
    /// Values or bytes of it.
    pub count: usize,
    /// Whose it is.
    pub owner: usize,
}

/// A card's driver.
pub trait Driver {
    /// A piece of the card's memory; given back when dropped, after the work that was started before.
    type Memory: Send;
    /// A kernel that can be launched.
    type Kernel: Clone + Send;
    /// Work that was recorded.
    type Graph: Send;

    /// Multiprocessors of the card: what kernels whose blocks go on to further work are launched by.
    fn multiprocessors(&self) -> u32;

    /// Reserves memory that holds zeros, aligned to 256 bytes; at least one byte.
    ///
    /// # Errors
    /// [`OpsError::Memory`] where there is too little.
    fn reserve(&self, what: &'static str, bytes: usize) -> Result<Self::Memory, OpsError>;

    /// Where it is.
    fn address(&self, memory: &Self::Memory) -> u64;

    /// Copies bytes to memory, from byte `at` on.
    ///
    /// # Errors
    /// Bytes that do not fit, or a device that failed.
    fn upload(&self, bytes: &[u8], memory: &mut Self::Memory, at: usize) -> Result<(), OpsError>;

    /// Copies memory from byte `at` on, when all work before has been done.
    ///
    /// # Errors
    /// Bytes that are not there, or a device that failed.
    fn download(&self, memory: &Self::Memory, at: usize, bytes: &mut [u8]) -> Result<(), OpsError>;

    /// Memory of the host that is copied to and from fastest; what it holds is not known.
    fn host(&self, bytes: usize) -> HostBytes {
        vec![0; bytes].into()
    }

    /// A kernel of a unit, compiled if need be, that may use `shared_bytes` of shared memory beside its own.
    ///
    /// # Errors
    /// A source that does not compile, with the compiler's words.
    fn kernel(&self, unit: &Unit, name: &'static str, shared_bytes: u32) -> Result<Self::Kernel, OpsError>;

    /// Whether it has the instructions that only Hopper has.
    fn is_hopper(&self) -> bool {
        false
    }

    /// What the copy engine of a Hopper card must know of so many rows of bf16 values from an address on: 128 bytes, for its
    /// kernels to find at a multiple of as many; none of another card.
    ///
    /// # Errors
    /// Rows that it cannot take boxes of 64 rows and 64 values from.
    fn boxes(&self, _address: u64, _rows: u64, _width: usize) -> Result<Option<[u8; 128]>, OpsError> {
        Ok(None)
    }

    /// Starts a kernel.
    ///
    /// # Errors
    /// A device that failed.
    ///
    /// # Safety
    /// The arguments are those that the kernel declares, their addresses those of memory that holds what it reads and has room
    /// for what it writes, and that memory is not dropped by another driver's stream before.
    #[allow(unsafe_code, reason = "kernels are not checked")]
    unsafe fn launch(&self, kernel: &Self::Kernel, shape: Shape, args: &[Arg]) -> Result<(), OpsError>;

    /// Records what `run` starts, and starts nothing; none where the driver cannot. Copies and reservations fail meanwhile.
    ///
    /// # Errors
    /// Those of `run`, or a device that failed. What was recorded until then is forgotten.
    fn record(&self, run: &mut dyn FnMut() -> Result<(), OpsError>) -> Result<Option<Self::Graph>, OpsError>;

    /// Starts what was recorded. All memory that it uses must still be there.
    ///
    /// # Errors
    /// A device that failed.
    fn play(&self, graph: &Self::Graph) -> Result<(), OpsError>;

    /// Ranks of its group.
    fn ranks(&self) -> usize {
        1
    }

    /// This rank in its group, from 0.
    fn rank(&self) -> usize {
        0
    }

    /// Starts to sum bf16 values over all ranks of its group, in place.
    ///
    /// # Errors
    /// A device or a peer that failed.
    ///
    /// # Safety
    /// The address is that of so many values.
    #[allow(unsafe_code, reason = "addresses are not checked")]
    unsafe fn sum_over_ranks(&self, _address: u64, _count: usize) -> Result<(), OpsError> {
        Ok(())
    }

    /// Starts a product.
    ///
    /// # Errors
    /// A device that failed.
    ///
    /// # Safety
    /// The addresses are those of memory that holds such matrices.
    #[allow(unsafe_code, reason = "addresses are not checked")]
    unsafe fn product(&self, product: &Product) -> Result<(), OpsError>;

    /// Starts to combine values over all ranks of its group, in place; all get the same bits.
    ///
    /// # Errors
    /// A device or a peer that failed.
    ///
    /// # Safety
    /// The address is that of so many values.
    #[allow(unsafe_code, reason = "addresses are not checked")]
    unsafe fn combine_over_ranks(&self, _how: Combine, _address: u64, _count: usize) -> Result<(), OpsError> {
        Ok(())
    }

    /// Replicas of what this card computes, which learn from other rows.
    fn replicas(&self) -> usize {
        1
    }

    /// This replica among them, from 0.
    fn replica(&self) -> usize {
        0
    }

    /// Starts to sum `f64` values over all replicas, in place.
    ///
    /// # Errors
    /// A device or a peer that failed.
    ///
    /// # Safety
    /// The address is that of so many values.
    #[allow(unsafe_code, reason = "addresses are not checked")]
    unsafe fn sum_over_replicas(&self, _address: u64, _count: usize) -> Result<(), OpsError> {
        Ok(())
    }

    /// Starts to sum `f32` values over all replicas, each piece at its owner; elsewhere they are of no use then.
    ///
    /// # Errors
    /// A device or a peer that failed.
    ///
    /// # Safety
    /// The addresses are those of so many values.
    #[allow(unsafe_code, reason = "addresses are not checked")]
    unsafe fn reduce_to_owners(&self, _pieces: &[Owned]) -> Result<(), OpsError> {
        Ok(())
    }

    /// Starts to make the bytes of all replicas those of their owner.
    ///
    /// # Errors
    /// A device or a peer that failed.
    ///
    /// # Safety
    /// The addresses are those of so many bytes.
    #[allow(unsafe_code, reason = "addresses are not checked")]
    unsafe fn spread_from_owners(&self, _pieces: &[Owned]) -> Result<(), OpsError> {
        Ok(())
    }

    /// Starts to make the bytes of the first replica those of their owner. Others take no part, and all are told.
    ///
    /// # Errors
    /// A device or a peer that failed.
    ///
    /// # Safety
    /// On both, the address is that of so many bytes.
    #[allow(unsafe_code, reason = "addresses are not checked")]
    unsafe fn pass_to_first(&self, _piece: &Owned) -> Result<(), OpsError> {
        Ok(())
    }

    /// Starts a product of a way back.
    ///
    /// # Errors
    /// A device that failed.
    ///
    /// # Safety
    /// The addresses are those of memory that holds such matrices.
    #[allow(unsafe_code, reason = "addresses are not checked")]
    unsafe fn gradient_product(&self, product: &GradientProduct) -> Result<(), OpsError>;
}
