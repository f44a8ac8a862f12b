//! What learning keeps on a card between operations: its kernels, and room for what they hand to each other.
//!
//! It refuses to know what is computed.

use super::attend::{Fastened, Sequences};
use super::attend_hopper::{Descriptions, OnHopper};
use super::turn::Turns;
use crate::cuda::backend::Card;
use crate::cuda::driver::{Arg, Driver, Shape};
use crate::cuda::memory::Growing;
use crate::cuda::plan::Fast;
use crate::cuda::source::Unit;
use crate::ops::OpsError;
use std::cell::RefMut;
use std::collections::HashMap;

/// Threads of a block of the kernels that go over values as they lie.
const THREADS: usize = 256;

/// All of it.
pub(in crate::cuda) struct Room<D: Driver> {
    pub(super) kernels: Kernels<D>,
    pub(super) fast: HashMap<Fast, Fastened<D>>,
    pub(super) hopper: HashMap<Fast, OnHopper<D>>,
    pub(super) descriptions: Descriptions<D>,
    pub(super) sequences: Sequences<D>,
    pub(super) turns: Turns<D>,
    pub(super) words: Growing<D>,
    pub(super) order: Growing<D>,
    /// Sums of blocks, until they are added up.
    pub(super) partial: Growing<D>,
    pub(super) delta: Growing<D>,
    pub(super) stats: Growing<D>,
    pub(super) squares: Growing<D>,
    pub(super) host: Growing<D>,
    pub(super) passed: Growing<D>,
}

/// Makes the kernels' struct, each of one unit.
macro_rules! kernels {
    ($($unit:ident: $($name:ident)*;)*) => {
        /// The kernels that every network needs.
        pub(super) struct Kernels<D: Driver> {
            $($(pub(super) $name: D::Kernel,)*)*
        }

        impl<D: Driver> Kernels<D> {
            fn new(driver: &D) -> Result<Self, OpsError> {
                Ok(Self { $($($name: driver.kernel(&Unit::$unit(), stringify!($name), 0)?,)*)* })
            }
        }
    };
}

kernels! {
    rows: rms_norm;
    rotate: angles;
    train_rows: fill_zero copy_pieces add_rows sum_rows sum_norm gather_some scatter_single scatter_rows norm_back column_partials add_columns swiglu_back;
    train_rotate: rotate_rows rotate_back rotate_rows_wide rotate_back_wide;
    train_plain: deltas attend_rows back_rows back_seen;
    train_loss: loss_stats loss_rescale loss_gradient;
    train_update: squares sum_partials adamw narrow_copy;
}

impl<D: Driver> Card<D> {
    /// What learning keeps, made when first asked for.
    pub(super) fn room(&self) -> Result<RefMut<'_, Room<D>>, OpsError> {
        let mut room = self.learning.borrow_mut();
        if room.is_none() {
            *room = Some(Room {
                kernels: Kernels::new(&self.driver)?,
                fast: HashMap::new(),
                hopper: HashMap::new(),
                descriptions: Descriptions::new(),
                sequences: Sequences::new(),
                turns: Turns::new(),
                words: Growing::new(),
                order: Growing::new(),
                partial: Growing::new(),
                delta: Growing::new(),
                stats: Growing::new(),
                squares: Growing::new(),
                host: Growing::new(),
                passed: Growing::new(),
            });
        }
        Ok(RefMut::map(room, |room| room.as_mut().expect("the lines above made it")))
    }
}

/// A thread for each of so many pieces.
pub(super) fn flat(pieces: usize) -> Shape {
    Shape { grid: [pieces.div_ceil(THREADS) as u32, 1], threads: THREADS as u32, shared_bytes: 0 }
}

/// Blocks of so many threads.
pub(super) fn blocks(grid: [usize; 2], threads: usize) -> Shape {
    Shape { grid: grid.map(|count| count as u32), threads: threads as u32, shared_bytes: 0 }
}

/// A number of 32 bits: rows, widths and ids are below 2^31 wherever there is memory for them.
pub(super) fn word(number: usize) -> Arg {
    Arg::Word(number as u32)
}
