//! Steps that are recorded once and played back: what a step of single new tokens starts depends on how many there are and on
//! addresses, not on the sequences, so that some hundred launches become one. The first step of a number of rows runs as it
//! is, which compiles kernels and reserves memory; the second is recorded.
//!
//! A recording is that of its addresses: where memory has grown since, the step is recorded anew.

use super::backend::Card;
use super::driver::Driver;
use crate::batch::Batch;
use crate::ops::{Heads, OpsError};
use std::collections::BTreeMap;

/// Rows of a step that is recorded, at most: larger ones keep a card busy for longer than their launches take.
const ROWS_MAX: usize = 256;
/// Recordings that are kept at most; beyond it all are forgotten. Each holds a megabyte or so.
const KEPT_MAX: usize = 512;

/// How often steps were played back, and what kept others from it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recordings {
    /// Recordings that are kept.
    pub kept: usize,
    /// Steps that were recorded.
    pub recorded: u64,
    /// Steps that were played back.
    pub played: u64,
    /// Why a step could not be recorded, the last time: it runs as it is.
    pub refused: Option<String>,
}

/// Recordings of one card.
pub(super) struct Recorder<D: Driver> {
    is_on: bool,
    /// Rows and kind of the steps that have run as they are, or cannot be recorded.
    met: BTreeMap<(usize, u32), Met>,
    kept: BTreeMap<Key, D::Graph>,
    told: Recordings,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Met {
    Run,
    Refused,
}

/// What a recording depends on: rows, kind, and what launches are made of beside them.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    rows: usize,
    kind: u32,
    launched: Vec<u64>,
}

impl<D: Driver> Recorder<D> {
    pub(super) fn new() -> Self {
        Self { is_on: true, met: BTreeMap::new(), kept: BTreeMap::new(), told: Recordings::default() }
    }
}

/// Whether each sequence has one new token.
fn is_of_single_tokens(batch: &Batch) -> bool {
    !batch.spans.is_empty() && batch.spans.iter().all(|span| span.rows == 1)
}

impl<D: Driver> Card<D> {
    /// Whether steps are recorded from now on; those that were are forgotten.
    pub fn set_recording(&self, is_on: bool) {
        *self.recorder.borrow_mut() = Recorder { is_on, ..Recorder::new() };
    }

    /// What has been recorded and played back.
    pub fn recordings(&self) -> Recordings {
        let recorder = self.recorder.borrow();
        Recordings { kept: recorder.kept.len(), ..recorder.told.clone() }
    }

    /// Runs a step, or plays back one that was recorded.
    pub(super) fn run_or_play(
        &self,
        batch: &Batch,
        heads: Heads,
        pages: usize,
        kind: u32,
        run: &mut dyn FnMut() -> Result<(), OpsError>,
    ) -> Result<(), OpsError> {
        let rows = batch.rows();
        let is_recorded = self.recorder.borrow().is_on && rows <= ROWS_MAX && is_of_single_tokens(batch);
        if !is_recorded {
            return run();
        }
        let met = self.recorder.borrow().met.get(&(rows, kind)).copied();
        if met != Some(Met::Run) {
            run()?;
            self.recorder.borrow_mut().met.entry((rows, kind)).or_insert(Met::Run);
            return Ok(());
        }
        let key = Key { rows, kind, launched: self.launched(batch, heads, pages)? };
        if let Some(graph) = self.recorder.borrow().kept.get(&key) {
            self.driver.play(graph)?;
        } else {
            match self.driver.record(run) {
                Ok(Some(graph)) => {
                    self.driver.play(&graph)?;
                    let mut recorder = self.recorder.borrow_mut();
                    if recorder.kept.len() >= KEPT_MAX {
                        recorder.kept.clear();
                    }
                    recorder.kept.insert(key, graph);
                    recorder.told.recorded += 1;
                }
                refused => {
                    let why = refused.err().map_or_else(|| "the driver records nothing".to_owned(), |e| e.to_string());
                    let mut recorder = self.recorder.borrow_mut();
                    recorder.met.insert((rows, kind), Met::Refused);
                    recorder.told.refused = Some(why);
                    drop(recorder);
                    return run();
                }
            }
        }
        self.recorder.borrow_mut().told.played += 1;
        Ok(())
    }

    /// Puts a batch on the card, makes room for what its kernels write, and gives all that their launches depend on beside the
    /// number of rows.
    fn launched(&self, batch: &Batch, heads: Heads, pages: usize) -> Result<Vec<u64>, OpsError> {
        let mut step = self.step.borrow_mut();
        step.prepare(&self.driver, batch, heads, pages)?;
        step.room(&self.driver, heads)?;
        Ok(step.addresses())
    }
}
