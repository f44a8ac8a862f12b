//! What a person sees of a training run: a bar where the terminal can draw one, a plain line now and then, or each record as
//! JSON. It reads no clock: records say when they were made.
//! It refuses to know the trainer.

use super::mode::WatchMode;
use super::progress;
use indicatif::ProgressBar;
use legwork_actors::trainer::{Record, StepRecord};
use legwork_protocol::untrusted::Untrusted;
use legwork_report::number;
use std::collections::VecDeque;

/// Between two plain lines about steps, in milliseconds.
const PLAIN_EVERY_MS: u64 = 2_000;
/// Steps over which the time that is left is estimated.
const PACE_STEPS: usize = 32;
/// Characters of a reason that are shown.
const REASON_CHARS_MAX: usize = 1_000;

/// Where a text goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Said {
    /// Beside the result.
    Note(String),
    /// As a part of the result.
    Json(String),
}

/// The view of one run.
pub(crate) struct TrainingView {
    mode: WatchMode,
    is_json: bool,
    /// Steps of the whole run; 0 where nobody knows.
    total: u64,
    bar: ProgressBar,
    pace: VecDeque<u64>,
    last_plain_ms: Option<u64>,
}

impl TrainingView {
    /// A view of a run of so many steps; 0 is an unknown number.
    pub(crate) fn new(mode: WatchMode, is_json: bool, total: u64) -> Self {
        let is_wanted = mode == WatchMode::Live;
        let bar = match total {
            0 => progress::documents("training", is_wanted).with_message("steps"),
            total => progress::counted("training", "steps", total, is_wanted),
        };
        Self { mode, is_json, total, bar, pace: VecDeque::new(), last_plain_ms: None }
    }

    /// Takes a record in; what is to be said about it comes back.
    pub(crate) fn take(&mut self, record: &Record) -> Option<Said> {
        if let Record::Step(step) = record {
            self.pace.push_back(step.took_ms);
            if self.pace.len() > PACE_STEPS {
                self.pace.pop_front();
            }
        }
        if self.is_json {
            return serde_json::to_string(record).ok().map(Said::Json);
        }
        match (self.mode, record) {
            (WatchMode::Silent, _) => None,
            (WatchMode::Live, Record::Step(step)) => {
                self.bar.set_position(step.step);
                self.bar.set_message(format!("steps  {}", figures(step)));
                None
            }
            (WatchMode::Plain, Record::Step(step)) => {
                let is_due = self.last_plain_ms.is_none_or(|last| step.at_ms >= last + PLAIN_EVERY_MS);
                if !is_due && step.step != self.total {
                    return None;
                }
                self.last_plain_ms = Some(step.at_ms);
                Some(Said::Note(self.line(step)))
            }
            (_, record) => {
                if let Record::Recovered { at, .. } | Record::Begun { at, .. } = record {
                    self.bar.set_position(at.slots);
                }
                let said = self.event(record)?;
                if self.bar.is_hidden() { Some(Said::Note(said)) } else { self.above(&said) }
            }
        }
    }

    /// Takes the bar away.
    pub(crate) fn close(&self) {
        self.bar.finish_and_clear();
    }

    fn above(&self, said: &str) -> Option<Said> {
        self.bar.println(said);
        None
    }

    /// A step on one line.
    fn line(&self, step: &StepRecord) -> String {
        match self.total {
            0 => format!("{}  {}", self.of(step.step), figures(step)),
            _ => format!("{}  {}  ETA {}", self.of(step.step), figures(step), self.eta(step.step)),
        }
    }

    /// A step's number, and of how many.
    fn of(&self, step: u64) -> String {
        if self.total == 0 { format!("step {step}") } else { format!("step {step}/{}", self.total) }
    }

    fn eta(&self, step: u64) -> String {
        if self.pace.is_empty() {
            return number::UNDEFINED.to_owned();
        }
        let mean_ms = self.pace.iter().sum::<u64>() as f64 / self.pace.len() as f64;
        let left_s = (mean_ms * self.total.saturating_sub(step) as f64 / 1_000.0).round() as u64;
        format!("{:02}:{:02}:{:02}", left_s / 3_600, left_s / 60 % 60, left_s % 60)
    }

    fn event(&self, record: &Record) -> Option<String> {
        let of = |step: u64| self.of(step);
        Some(match record {
            Record::Begun { at, .. } if at.slots == 0 => return None,
            Record::Begun { at, .. } => format!("{}  goes on", of(at.slots)),
            Record::Evaluation { at, loss, .. } => format!("{}  held out: loss {}", of(at.slots), figure(*loss)),
            Record::Checkpoint { at, took_ms, .. } => {
                format!("{}  checkpoint, in {}", of(at.slots), number::duration(*took_ms))
            }
            Record::Recovered { at, lost_at, why, .. } => {
                let why = Untrusted::new(why.as_str()).for_log(REASON_CHARS_MAX).into_owned();
                format!("{}  ranks died at step {} and were made anew: {why}", of(at.slots), lost_at.slots)
            }
            Record::Step(_) => return None,
        })
    }
}

/// The figures of a step.
fn figures(step: &StepRecord) -> String {
    let pace = step.tokens_per_s().map_or(number::UNDEFINED.to_owned(), |pace| number::count(pace.round() as u64));
    let mut text =
        format!("loss {}  lr {:.1e}  norm {}  {pace} tok/s", figure(step.loss), step.rate, norm(step.grad_norm));
    if let Some(mfu) = step.mfu {
        text.push_str(&format!("  MFU {:.1} %", mfu * 100.0));
    }
    if !step.updated {
        text.push_str("  no update: the gradient is not finite");
    }
    text
}

fn figure(loss: Option<f64>) -> String {
    loss.map_or_else(|| "not finite".to_owned(), |loss| format!("{loss:.4}"))
}

fn norm(norm: Option<f64>) -> String {
    norm.map_or_else(|| "not finite".to_owned(), |norm| format!("{norm:.2}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use legwork_training::course::Progress;

    fn step(number: u64, at_ms: u64) -> Record {
        Record::Step(StepRecord {
            step: number,
            updates: number,
            loss: Some(2.345_61),
            rate: 1.2e-6,
            grad_norm: Some(0.831),
            updated: true,
            tokens: 2_468,
            supervised: 100,
            padding: 0,
            took_ms: 2_000,
            flops: None,
            mfu: Some(0.1234),
            at_ms,
        })
    }

    fn note(said: Option<Said>) -> String {
        match said {
            Some(Said::Note(text)) => text,
            other => panic!("expected a note, got {other:?}"),
        }
    }

    #[test]
    fn a_plain_line_has_all_figures_and_the_time_that_is_left() {
        let mut view = TrainingView::new(WatchMode::Plain, false, 1_366);
        let expected = "step 12/1366  loss 2.3456  lr 1.2e-6  norm 0.83  1,234 tok/s  MFU 12.3 %  ETA 00:45:08";
        assert_eq!(note(view.take(&step(12, 5_000))), expected);
        assert_eq!(view.take(&step(13, 6_999)), None, "not more often than every two seconds");
        assert!(view.take(&step(14, 7_000)).is_some());
        assert!(note(view.take(&step(1_366, 7_001))).ends_with("ETA 00:00:00"), "the last is always told");
    }

    #[test]
    fn of_a_run_whose_length_nobody_knows_neither_that_nor_the_time_that_is_left_is_said() {
        let mut view = TrainingView::new(WatchMode::Plain, false, 0);
        let expected = "step 12  loss 2.3456  lr 1.2e-6  norm 0.83  1,234 tok/s  MFU 12.3 %";
        assert_eq!(note(view.take(&step(12, 5_000))), expected);
        let at = Progress { slots: 12, updates: 12 };
        let checkpoint = Record::Checkpoint { at, took_ms: 5, at_ms: 1 };
        assert!(note(view.take(&checkpoint)).starts_with("step 12  checkpoint"));
    }

    #[test]
    fn what_is_not_finite_is_said_so() {
        let Record::Step(mut bad) = step(1, 0) else { unreachable!() };
        (bad.loss, bad.grad_norm, bad.updated, bad.took_ms, bad.mfu) = (None, None, false, 0, None);
        let expected = "loss not finite  lr 1.2e-6  norm not finite  – tok/s  no update: the gradient is not finite";
        assert_eq!(figures(&bad), expected);
    }

    #[test]
    fn events_are_told_at_once_and_a_reason_can_not_steer_the_terminal() {
        let mut view = TrainingView::new(WatchMode::Plain, false, 10);
        let at = Progress { slots: 4, updates: 4 };
        let evaluation = Record::Evaluation { at, loss: Some(1.5), took_ms: 1, at_ms: 1 };
        assert_eq!(note(view.take(&evaluation)), "step 4/10  held out: loss 1.5000");
        let recovered =
            Record::Recovered { at, lost_at: Progress { slots: 6, updates: 6 }, why: "\x1b[2J".to_owned(), at_ms: 1 };
        assert_eq!(note(view.take(&recovered)), "step 4/10  ranks died at step 6 and were made anew: \\x1b[2J");
        assert_eq!(view.take(&Record::Begun { at: Progress::default(), at_ms: 1 }), None);
    }

    #[test]
    fn machines_get_every_record_and_the_quiet_none() {
        let mut view = TrainingView::new(WatchMode::Silent, true, 10);
        for number in 1..4 {
            let Some(Said::Json(text)) = view.take(&step(number, 1)) else { panic!("each is told") };
            assert_eq!(serde_json::from_str::<Record>(&text).unwrap(), step(number, 1));
        }
        assert_eq!(TrainingView::new(WatchMode::Silent, false, 10).take(&step(1, 1)), None);
    }
}
