//! The order of a training run as a pure machine: when to form a slot, step, evaluate, save, begin again after a death, and
//! end. Facts go in, at most one thing to do comes out.
//! It refuses to know ranks, files and time.

use serde::{Deserialize, Serialize};

/// How far training has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    /// Slots that were stepped over.
    pub slots: u64,
    /// Of these, those whose update was made: it is left out when a gradient is not finite. As in Megatron, rate and bias
    /// correction count updates.
    pub updates: u64,
}

/// What a course is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CourseSettings {
    /// Slots of the whole course; without a number, as many as come.
    pub slots: Option<u64>,
    /// Slots between two checkpoints; 0 for one at the end only.
    pub save_every: u64,
    /// Slots between two evaluations, beside those at the beginning and at the end; 0 for no others. Without a number there
    /// are none at all.
    pub evaluate_every: Option<u64>,
}

/// What has happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CourseEvent {
    /// Somebody wants it to begin.
    Begun,
    /// All ranks are made and hold the state of the last checkpoint, or of the beginning.
    RanksReady {
        /// What that state is.
        at: Progress,
        /// Whether it was evaluated already.
        is_evaluated: bool,
    },
    /// The slot that was asked for is there.
    SlotFormed,
    /// There is no slot after those that were formed.
    NoMoreSlots,
    /// All ranks have made the step.
    Stepped {
        /// Whether the update was made.
        updated: bool,
    },
    /// All ranks have evaluated.
    Evaluated,
    /// The checkpoint is there, whole.
    Saved,
    /// A rank is no more, or its reply was lost: what all of them did since the last checkpoint is lost too.
    RankDied(String),
    /// Something that trying again does not mend.
    Failed(String),
    /// The ranks are gone that were to be dropped.
    RanksGone {
        /// Whether the restart budget has room. Only asked for after [`CourseEvent::RankDied`].
        may_retry: bool,
    },
    /// Somebody wants it to end after the step under way.
    StopAsked,
}

/// What is to be done next; each is answered by one event, or by [`CourseEvent::RankDied`] or [`CourseEvent::Failed`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CourseEffect {
    /// Make all ranks and give them the last checkpoint, if there is one.
    MakeRanks,
    /// Form this slot, from 0.
    FormSlot(u64),
    /// Step over the slot that was formed.
    Step {
        /// The slot, from 0.
        slot: u64,
        /// The number of the update, from 1.
        update: u64,
    },
    /// Evaluate what is held out.
    Evaluate(Progress),
    /// Write a checkpoint.
    Save(Progress),
    /// Let go of all ranks and wait until they are gone.
    DropRanks {
        /// Whether they are to be made anew.
        to_retry: bool,
    },
    /// It is over.
    End(CourseEnd),
}

/// How a course ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CourseEnd {
    /// All slots are done and the last checkpoint is written.
    Complete(Progress),
    /// Somebody stopped it; the last checkpoint is of this.
    Stopped(Progress),
    /// It could not go on; the last checkpoint is of this.
    Failed {
        /// What the last checkpoint is of.
        saved: Progress,
        /// Why.
        why: String,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Stage {
    NotBegun,
    Making,
    Forming,
    Stepping,
    Evaluating,
    Saving,
    Dropping(After),
    Ended,
}

/// What follows when the ranks are gone.
#[derive(Clone, Debug, PartialEq, Eq)]
enum After {
    Retry(String),
    End(CourseEnd),
}

/// The machine.
#[derive(Clone, Debug)]
pub struct Course {
    settings: CourseSettings,
    stage: Stage,
    at: Progress,
    saved: Progress,
    is_evaluated: bool,
    has_all_slots: bool,
    stopping: bool,
}

impl Course {
    /// A course that has not begun. `saved` is what its last checkpoint is of, or the beginning.
    pub fn new(settings: CourseSettings, saved: Progress) -> Self {
        Self {
            settings,
            stage: Stage::NotBegun,
            at: saved,
            saved,
            is_evaluated: false,
            has_all_slots: false,
            stopping: false,
        }
    }

    /// How far it has come.
    pub fn at(&self) -> Progress {
        self.at
    }

    /// What the last checkpoint is of.
    pub fn saved(&self) -> Progress {
        self.saved
    }

    /// Whether somebody wants it to end.
    pub fn is_stopping(&self) -> bool {
        self.stopping
    }

    /// Takes a fact in. What does not fit where the course stands is late news of what was given up, and changes nothing.
    pub fn apply(&mut self, event: CourseEvent) -> Option<CourseEffect> {
        match (&self.stage, event) {
            (Stage::Ended, _) => None,
            (Stage::NotBegun, CourseEvent::Begun) => self.go(Stage::Making, CourseEffect::MakeRanks),
            (Stage::Making, CourseEvent::RanksReady { at, is_evaluated }) => {
                (self.at, self.saved, self.is_evaluated, self.has_all_slots) = (at, at, is_evaluated, false);
                self.next()
            }
            (Stage::Forming, CourseEvent::SlotFormed) => {
                let step = CourseEffect::Step { slot: self.at.slots, update: self.at.updates + 1 };
                self.go(Stage::Stepping, step)
            }
            (Stage::Forming, CourseEvent::NoMoreSlots) => {
                self.has_all_slots = true;
                self.next()
            }
            (Stage::Stepping, CourseEvent::Stepped { updated }) => {
                self.at.slots += 1;
                self.at.updates += u64::from(updated);
                self.is_evaluated = false;
                self.next()
            }
            (Stage::Evaluating, CourseEvent::Evaluated) => {
                self.is_evaluated = true;
                self.next()
            }
            (Stage::Saving, CourseEvent::Saved) => {
                self.saved = self.at;
                self.next()
            }
            (Stage::Dropping(after), CourseEvent::RanksGone { may_retry }) => match after.clone() {
                After::End(end) => self.end(end),
                After::Retry(_) if self.stopping => self.end(CourseEnd::Stopped(self.saved)),
                After::Retry(_) if may_retry => self.go(Stage::Making, CourseEffect::MakeRanks),
                After::Retry(why) => self.end(CourseEnd::Failed { saved: self.saved, why }),
            },
            (stage, CourseEvent::RankDied(why)) if stage.has_ranks() => {
                self.go(Stage::Dropping(After::Retry(why)), CourseEffect::DropRanks { to_retry: true })
            }
            (stage, CourseEvent::Failed(why)) if stage.has_ranks() => {
                let end = CourseEnd::Failed { saved: self.saved, why };
                self.go(Stage::Dropping(After::End(end)), CourseEffect::DropRanks { to_retry: false })
            }
            // While ranks are being dropped to be made anew, nobody makes them any more.
            (Stage::Dropping(After::Retry(_)), CourseEvent::Failed(why)) => {
                self.stage = Stage::Dropping(After::End(CourseEnd::Failed { saved: self.saved, why }));
                None
            }
            (stage, CourseEvent::StopAsked) => {
                let (is_waiting, is_not_begun) = (*stage == Stage::Forming, *stage == Stage::NotBegun);
                self.stopping = true;
                match (is_waiting, is_not_begun) {
                    (true, _) => self.next(),
                    (_, true) => self.end(CourseEnd::Stopped(self.saved)),
                    _ => None,
                }
            }
            _ => None,
        }
    }

    /// What is due where the course stands.
    fn next(&mut self) -> Option<CourseEffect> {
        let is_complete = self.has_all_slots || self.settings.slots.is_some_and(|slots| self.at.slots >= slots);
        let is_at = |every: u64| every > 0 && self.at.slots.is_multiple_of(every);
        let is_edge = self.at.slots == 0 || is_complete;
        let to_evaluate = self.settings.evaluate_every.is_some_and(|every| is_edge || is_at(every));
        if to_evaluate && !self.is_evaluated && !self.stopping {
            return self.go(Stage::Evaluating, CourseEffect::Evaluate(self.at));
        }
        let to_save = is_complete || self.stopping || is_at(self.settings.save_every);
        if to_save && self.at.slots > self.saved.slots {
            return self.go(Stage::Saving, CourseEffect::Save(self.at));
        }
        let end = match (is_complete, self.stopping) {
            // Whoever stops a course at its very end without its last evaluation goes on with it to have that.
            (true, false) => CourseEnd::Complete(self.at),
            (true, true) if self.is_evaluated || !to_evaluate => CourseEnd::Complete(self.at),
            (_, true) => CourseEnd::Stopped(self.at),
            (false, false) => return self.go(Stage::Forming, CourseEffect::FormSlot(self.at.slots)),
        };
        self.go(Stage::Dropping(After::End(end)), CourseEffect::DropRanks { to_retry: false })
    }

    fn go(&mut self, stage: Stage, effect: CourseEffect) -> Option<CourseEffect> {
        self.stage = stage;
        Some(effect)
    }

    fn end(&mut self, end: CourseEnd) -> Option<CourseEffect> {
        self.go(Stage::Ended, CourseEffect::End(end))
    }
}

impl Stage {
    fn has_ranks(&self) -> bool {
        matches!(self, Stage::Making | Stage::Forming | Stage::Stepping | Stage::Evaluating | Stage::Saving)
    }
}

#[cfg(test)]
mod tests;
