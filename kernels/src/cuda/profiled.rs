//! A card whose every launch is timed by itself, while somebody watches: what a step's time is made of, kernel by kernel. Each is
//! then waited for, so that a step takes longer than it does otherwise; and nothing is ever recorded.
//!
//! It refuses to know what is computed.

use super::driver::{Arg, Combine, Driver, GradientOf, GradientProduct, Owned, Product, Shape};
use super::nvidia::Nvidia;
use super::source::Unit;
use crate::host::HostBytes;
use crate::ops::OpsError;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

/// A card that may be watched.
pub struct Profiled {
    card: Nvidia,
    is_watched: Cell<bool>,
    spent: RefCell<BTreeMap<&'static str, Spent>>,
}

/// What a kernel, or products of one kind, took.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Spent {
    /// Launches.
    pub launches: usize,
    /// Seconds of all of them, by the card's clock.
    pub seconds: f64,
}

impl Profiled {
    /// A card that nobody watches yet.
    pub fn new(card: Nvidia) -> Self {
        Self { card, is_watched: Cell::new(false), spent: RefCell::default() }
    }

    /// The card itself.
    pub fn card(&self) -> &Nvidia {
        &self.card
    }

    /// Watches it from now on, or no more.
    pub fn watch(&self, is_watched: bool) {
        self.is_watched.set(is_watched);
    }

    /// What was spent since this was last asked, by name.
    pub fn spent(&self) -> BTreeMap<&'static str, Spent> {
        self.spent.take()
    }

    fn timed(&self, name: &'static str, run: impl FnOnce() -> Result<(), OpsError>) -> Result<(), OpsError> {
        if !self.is_watched.get() {
            return run();
        }
        let seconds = self.card.seconds_once(run)?;
        let mut all = self.spent.borrow_mut();
        let spent = all.entry(name).or_default();
        spent.launches += 1;
        spent.seconds += seconds;
        Ok(())
    }
}

#[allow(unsafe_code, reason = "passes duties on")]
impl Driver for Profiled {
    type Memory = <Nvidia as Driver>::Memory;
    type Kernel = (&'static str, <Nvidia as Driver>::Kernel);
    type Graph = <Nvidia as Driver>::Graph;

    fn multiprocessors(&self) -> u32 {
        self.card.multiprocessors()
    }

    fn reserve(&self, what: &'static str, bytes: usize) -> Result<Self::Memory, OpsError> {
        self.card.reserve(what, bytes)
    }

    fn address(&self, memory: &Self::Memory) -> u64 {
        self.card.address(memory)
    }

    fn upload(&self, bytes: &[u8], memory: &mut Self::Memory, at: usize) -> Result<(), OpsError> {
        self.timed("to the card", || self.card.upload(bytes, memory, at))
    }

    fn download(&self, memory: &Self::Memory, at: usize, bytes: &mut [u8]) -> Result<(), OpsError> {
        self.timed("from the card", || self.card.download(memory, at, bytes))
    }

    fn host(&self, bytes: usize) -> HostBytes {
        self.card.host(bytes)
    }

    fn kernel(&self, unit: &Unit, name: &'static str, shared_bytes: u32) -> Result<Self::Kernel, OpsError> {
        Ok((name, self.card.kernel(unit, name, shared_bytes)?))
    }

    fn is_hopper(&self) -> bool {
        self.card.is_hopper()
    }

    fn boxes(&self, address: u64, rows: u64, width: usize) -> Result<Option<[u8; 128]>, OpsError> {
        self.card.boxes(address, rows, width)
    }

    unsafe fn launch(&self, (name, kernel): &Self::Kernel, shape: Shape, args: &[Arg]) -> Result<(), OpsError> {
        // SAFETY: the caller's duty, here and below.
        self.timed(name, || unsafe { self.card.launch(kernel, shape, args) })
    }

    fn record(&self, _run: &mut dyn FnMut() -> Result<(), OpsError>) -> Result<Option<Self::Graph>, OpsError> {
        Ok(None)
    }

    fn play(&self, graph: &Self::Graph) -> Result<(), OpsError> {
        self.card.play(graph)
    }

    fn ranks(&self) -> usize {
        self.card.ranks()
    }

    fn rank(&self) -> usize {
        self.card.rank()
    }

    unsafe fn sum_over_ranks(&self, address: u64, count: usize) -> Result<(), OpsError> {
        self.timed("sum over ranks", || unsafe { self.card.sum_over_ranks(address, count) })
    }

    unsafe fn product(&self, product: &Product) -> Result<(), OpsError> {
        self.timed("product forward", || unsafe { self.card.product(product) })
    }

    unsafe fn combine_over_ranks(&self, how: Combine, address: u64, count: usize) -> Result<(), OpsError> {
        self.timed("combine over ranks", || unsafe { self.card.combine_over_ranks(how, address, count) })
    }

    fn replicas(&self) -> usize {
        self.card.replicas()
    }

    fn replica(&self) -> usize {
        self.card.replica()
    }

    unsafe fn sum_over_replicas(&self, address: u64, count: usize) -> Result<(), OpsError> {
        self.timed("sum over replicas", || unsafe { self.card.sum_over_replicas(address, count) })
    }

    unsafe fn reduce_to_owners(&self, pieces: &[Owned]) -> Result<(), OpsError> {
        self.timed("gradients to owners", || unsafe { self.card.reduce_to_owners(pieces) })
    }

    unsafe fn spread_from_owners(&self, pieces: &[Owned]) -> Result<(), OpsError> {
        self.timed("values from owners", || unsafe { self.card.spread_from_owners(pieces) })
    }

    unsafe fn pass_to_first(&self, piece: &Owned) -> Result<(), OpsError> {
        self.timed("a part to the first", || unsafe { self.card.pass_to_first(piece) })
    }

    unsafe fn gradient_product(&self, product: &GradientProduct) -> Result<(), OpsError> {
        let name = match product.of {
            GradientOf::Inputs => "product back, inputs",
            GradientOf::Weight => "product back, weights",
        };
        self.timed(name, || unsafe { self.card.gradient_product(product) })
    }
}
