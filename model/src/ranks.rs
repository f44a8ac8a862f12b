//! A model cut over several ranks, each on a thread of its own, as one model: every step is told to all of them, and all give
//! the same answer, of which the first one's counts.
//!
//! It refuses to know what a rank computes on. A rank that failed has left its group in the middle of a step, so after an
//! error there is no further step.

use crate::error::ModelError;
use crate::forward::{Forward, ModelLimits, Next};
use legwork_kernels::ops::expect_equal;
use legwork_kernels::{Batch, DrawRules, HostBytes, OpsError};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

/// Makes one rank's model, on the thread where it stays.
pub type MakeRank = Box<dyn FnOnce() -> Result<Box<dyn Forward>, ModelError> + Send>;

/// Steps that wait for a rank: the next one is told when all have answered.
const TOLD_MAX: usize = 1;

/// A model of several ranks.
pub struct Ranks {
    limits: ModelLimits,
    ranks: Vec<Rank>,
    /// Why there is no further step.
    failed: Option<String>,
}

struct Rank {
    tell: Option<SyncSender<Told>>,
    hear: Receiver<Result<Heard, ModelError>>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Clone)]
enum Told {
    Forward(Arc<Batch>),
    Draw(Arc<Batch>, Arc<[Option<DrawRules>]>),
    Save(Arc<[u32]>),
    Load(Arc<[u32]>, Arc<[u8]>),
}

#[derive(Default)]
struct Heard {
    next: Vec<Next>,
    logits: Vec<f32>,
    bytes: HostBytes,
}

impl Ranks {
    /// Makes all ranks at once, each on its thread.
    ///
    /// # Errors
    /// No rank, the first rank that could not be made, or ranks with different limits.
    pub fn start(makers: Vec<MakeRank>) -> Result<Self, ModelError> {
        let made: Vec<_> = makers.into_iter().enumerate().map(|(rank, make)| start(rank, make)).collect();
        let mut ranks = Vec::new();
        let mut limits: Option<ModelLimits> = None;
        for made in made {
            let (rank, made) = made.map_err(|error| gone(&error.to_string()))?;
            let of_rank = made.recv().map_err(|_| gone("a rank ended while it was made"))??;
            if *limits.get_or_insert(of_rank) != of_rank {
                return Err(gone("ranks have different limits"));
            }
            ranks.push(rank);
        }
        let limits = limits.ok_or_else(|| gone("there is no rank"))?;
        Ok(Self { limits, ranks, failed: None })
    }

    /// Tells all ranks the same, each its own of `told`, and hears all of them.
    fn all(&mut self, told: impl Fn(usize) -> Told) -> Result<Vec<Heard>, ModelError> {
        if let Some(why) = &self.failed {
            return Err(gone(why));
        }
        let is_told = |(at, rank): (usize, &Rank)| rank.tell.as_ref().is_some_and(|door| door.send(told(at)).is_ok());
        let mut failure = match self.ranks.iter().enumerate().all(is_told) {
            true => None,
            false => Some(gone("a rank has ended")),
        };
        let mut heard = Vec::with_capacity(self.ranks.len());
        for rank in self.ranks.iter().take(if failure.is_some() { 0 } else { usize::MAX }) {
            match rank.hear.recv().unwrap_or_else(|_| Err(gone("a rank has ended"))) {
                Ok(answer) => heard.push(answer),
                Err(error) => failure = failure.or(Some(error)),
            }
        }
        match failure {
            None => Ok(heard),
            Some(error) => {
                self.failed = Some(format!("a rank has failed: {error}"));
                Err(error)
            }
        }
    }
}

fn gone(why: &str) -> ModelError {
    OpsError::Device(why.to_owned()).into()
}

type Made = Receiver<Result<ModelLimits, ModelError>>;

fn start(number: usize, make: MakeRank) -> std::io::Result<(Rank, Made)> {
    let (tell, told) = sync_channel(TOLD_MAX);
    let (say, hear) = sync_channel(TOLD_MAX);
    let (say_made, made) = sync_channel(1);
    let live = move || {
        let mut model = match make() {
            Ok(model) => model,
            Err(error) => return drop(say_made.send(Err(error))),
        };
        if say_made.send(Ok(model.limits())).is_err() {
            return;
        }
        while let Ok(told) = told.recv() {
            if say.send(answer(&mut *model, told)).is_err() {
                return;
            }
        }
    };
    let thread = std::thread::Builder::new().name(format!("rank {number}")).spawn(live)?;
    Ok((Rank { tell: Some(tell), hear, thread: Some(thread) }, made))
}

fn answer(model: &mut dyn Forward, told: Told) -> Result<Heard, ModelError> {
    let mut heard = Heard::default();
    match told {
        Told::Forward(batch) => model.forward(&batch, &mut heard.logits)?,
        Told::Draw(batch, rules) => {
            model.forward_and_draw(&batch, &rules, &mut heard.next, &mut heard.logits)?;
        }
        Told::Save(pages) => heard.bytes = model.save_pages(&pages)?,
        Told::Load(pages, bytes) => model.load_pages(&pages, &bytes)?,
    }
    Ok(heard)
}

impl Drop for Ranks {
    /// Ends all ranks and waits for them: a rank that fails leaves its group, which ends the others.
    fn drop(&mut self) {
        self.ranks.iter_mut().for_each(|rank| rank.tell = None);
        for thread in self.ranks.iter_mut().filter_map(|rank| rank.thread.take()) {
            let _ = thread.join();
        }
    }
}

impl Forward for Ranks {
    fn limits(&self) -> ModelLimits {
        self.limits
    }

    fn forward(&mut self, batch: &Batch, logits: &mut Vec<f32>) -> Result<(), ModelError> {
        let batch = Arc::new(batch.clone());
        let heard = self.all(|_| Told::Forward(Arc::clone(&batch)))?;
        *logits = heard.into_iter().next().unwrap_or_default().logits;
        Ok(())
    }

    fn forward_and_draw(
        &mut self,
        batch: &Batch,
        rules: &[Option<DrawRules>],
        next: &mut Vec<Next>,
        logits: &mut Vec<f32>,
    ) -> Result<(), ModelError> {
        let (batch, rules) = (Arc::new(batch.clone()), Arc::<[_]>::from(rules));
        let heard = self.all(|_| Told::Draw(Arc::clone(&batch), Arc::clone(&rules)))?;
        let first = heard.into_iter().next().unwrap_or_default();
        (*next, *logits) = (first.next, first.logits);
        Ok(())
    }

    /// Each page is the ranks' parts of it, one behind the other.
    fn save_pages(&mut self, pages: &[u32]) -> Result<HostBytes, ModelError> {
        let numbers = Arc::<[u32]>::from(pages);
        let heard = self.all(|_| Told::Save(Arc::clone(&numbers)))?;
        let of_page = |page: usize| {
            heard.iter().flat_map(move |rank| {
                let part = rank.bytes.len() / pages.len().max(1);
                &rank.bytes[page * part..(page + 1) * part]
            })
        };
        Ok((0..pages.len()).flat_map(of_page).copied().collect::<Vec<_>>().into())
    }

    fn load_pages(&mut self, pages: &[u32], bytes: &[u8]) -> Result<(), ModelError> {
        let (count, ranks) = (pages.len(), self.ranks.len());
        let part = bytes.len() / (count * ranks).max(1);
        expect_equal("load_pages", "bytes", count * ranks * part, bytes.len())?;
        let numbers = Arc::<[u32]>::from(pages);
        let of_rank = |rank: usize| {
            let bytes = (0..count).flat_map(|page| &bytes[(page * ranks + rank) * part..][..part]);
            Told::Load(Arc::clone(&numbers), bytes.copied().collect())
        };
        self.all(of_rank).map(drop)
    }
}
