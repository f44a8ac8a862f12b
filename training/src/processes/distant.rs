//! A rank of another process, as the first one has it: orders go there, answers come back, and between the two its calls to its
//! groups are brought to the members that it has here.
//! It refuses to know what it computes.

use super::line::{Line, peer};
use super::message::{Making, Message};
use crate::error::TrainingError;
use crate::pack::Pack;
use crate::rank::{Rank, StepDone, Update};
use legwork_kernels::Member;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// How often whoever waits for an answer looks whether the groups are still whole.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// A rank of another process.
#[derive(Debug)]
pub struct DistantRank {
    line: Arc<Line>,
    /// Its places among those that the model is cut among, and its replicas.
    members: [Member; 2],
}

impl DistantRank {
    /// Has it made there.
    ///
    /// # Errors
    /// What went wrong there, or on the way.
    pub fn make(line: Arc<Line>, members: [Member; 2], making: Making) -> Result<Self, TrainingError> {
        let mut rank = Self { line, members };
        rank.done(&Message::Make(making))?;
        Ok(rank)
    }

    /// Gives an order and serves its calls until it is answered.
    fn answer(&mut self, order: &Message) -> Result<Message, TrainingError> {
        self.line.send(order)?;
        loop {
            match self.line.heard_within(LOOK_EVERY)? {
                None => self.look()?,
                Some(Message::Meet { group, op, reduce, mut values }) => {
                    let Some(member) = self.members.get(group) else {
                        return Err(peer(self.line.who(), format!("expected a group of its two, got number {group}")));
                    };
                    match member.meet_for(op, reduce, &mut values) {
                        Ok(()) => self.line.send(&Message::Met(values))?,
                        Err(error) => {
                            let _ends_by_itself = self.line.send(&Message::Failed(error.to_string()));
                            return Err(error.into());
                        }
                    }
                }
                Some(Message::Failed(why)) => return Err(peer(self.line.who(), why)),
                Some(answer) => return Ok(answer),
            }
        }
    }

    /// Others may be gone while it waits for them on its card, where it hears of nothing.
    fn look(&self) -> Result<(), TrainingError> {
        self.members.iter().try_for_each(Member::check).map_err(|error| {
            let _ends_by_itself = self.line.send(&Message::Left(error.to_string()));
            error.into()
        })
    }

    fn done(&mut self, order: &Message) -> Result<(), TrainingError> {
        match self.answer(order)? {
            Message::Done => Ok(()),
            other => Err(self.unasked("that it is done", &other)),
        }
    }

    fn unasked(&self, expected: &str, got: &Message) -> TrainingError {
        peer(self.line.who(), format!("expected {expected}, got {}; start the same program everywhere", got.name()))
    }
}

/// The last part of a folder's name. The other process has the run's folder under a path of its own.
fn name(folder: &Path) -> String {
    folder.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

impl Rank for DistantRank {
    fn step(&mut self, packs: &[Pack], update: &Update) -> Result<StepDone, TrainingError> {
        match self.answer(&Message::Step(packs.to_vec(), *update))? {
            Message::Stepped(done) => Ok(done),
            other => Err(self.unasked("a step", &other)),
        }
    }

    fn evaluate(&mut self, packs: &[Pack]) -> Result<f64, TrainingError> {
        match self.answer(&Message::Evaluate(packs.to_vec()))? {
            Message::Evaluated(loss) => Ok(loss),
            other => Err(self.unasked("an evaluation", &other)),
        }
    }

    fn save(&mut self, folder: &Path) -> Result<(), TrainingError> {
        self.done(&Message::Save(name(folder)))
    }

    fn restore(&mut self, folder: &Path) -> Result<(), TrainingError> {
        self.done(&Message::Restore(name(folder)))
    }
}
