//! A training under way as this process sees it: records shown, signals and news of a run passed on to the trainer, and at the end
//! what came of it told.
//! It refuses to know how a training is put together.

use super::follow::{Came, FOLLOWED, Following, News};
use super::ranked::GONE_GRACE;
use super::{BAD_ROWS, CHECKPOINTS, write_bad_rows};
use crate::terminal::{Request, Said, TrainingView};
use crate::verbs::{Ended, VerbError, output};
use legwork_actors::trainer::{Record, TrainerMsg};
use legwork_training::course::{CourseEnd, Progress};
use legwork_training::processes as rank;
use ractor::ActorRef;
use std::path::{Path, PathBuf};
use tokio::sync::{mpsc, oneshot};

/// A training under way, as this process sees it.
pub(super) struct Watched {
    pub(super) out: PathBuf,
    pub(super) trainer: ActorRef<TrainerMsg>,
    pub(super) view: TrainingView,
    pub(super) seen: Seen,
    pub(super) is_silent: bool,
}

impl Watched {
    /// Shows and passes on what comes until the training is over.
    pub(super) async fn until_over(
        &mut self,
        mut shown: mpsc::Receiver<Record>,
        mut waits: oneshot::Receiver<CourseEnd>,
        mut news: mpsc::Receiver<News>,
        mut signals: mpsc::Receiver<Request>,
        mut of_ranks: Option<mpsc::Receiver<(usize, rank::News)>>,
    ) -> Result<CourseEnd, VerbError> {
        let (mut is_stopping, mut is_caught_up) = (false, false);
        let (overdue, mut overdue_for) = mpsc::channel(1);
        let end = loop {
            tokio::select! {
                biased;
                Some(record) = shown.recv() => self.take(&record, true),
                Some(_) = signals.recv() => {
                    if is_stopping {
                        self.view.close();
                        return Err(format!("left without waiting; {}", how_to_go_on(&self.out)).into());
                    }
                    is_stopping = true;
                    let _is_over_already = if is_caught_up {
                        output::note("ending: what has come is finished and a checkpoint written; once more leaves at once");
                        self.trainer.cast(TrainerMsg::NoMoreTrajectories)
                    } else {
                        output::note("ending: the step is finished and a checkpoint written; once more leaves at once");
                        self.trainer.cast(TrainerMsg::Stop)
                    };
                }
                Some((rank, heard)) = next(&mut of_ranks) => self.hear_of(rank, heard, &overdue),
                // Its peers could not be woken, or are at something long.
                Some(why) = overdue_for.recv() => {
                    self.view.close();
                    return Err(format!("training failed: {why}; {}", how_to_go_on(&self.out)).into());
                }
                Some(heard) = news.recv() => is_caught_up = self.hear(heard, is_caught_up),
                end = &mut waits => break end.map_err(|_| "the trainer died; see the log for why")?,
            }
        };
        // What was kept last may still be on its way.
        while let Ok(record) = shown.try_recv() {
            self.take(&record, false);
        }
        self.view.close();
        Ok(end)
    }

    fn take(&mut self, record: &Record, is_note_told: bool) {
        self.seen.take(record);
        match self.view.take(record) {
            Some(Said::Note(text)) if is_note_told => output::note(&text),
            Some(Said::Json(text)) => output::print(&text),
            _ => {}
        }
    }

    /// News of another process of the run. That one is gone is found by those who compute with it, who say it better; but they may
    /// be where nothing wakes them.
    fn hear_of(&self, rank: usize, heard: rank::News, overdue: &mpsc::Sender<String>) {
        match heard {
            rank::News::StopAsked => {
                output::note(&format!(
                    "ending, as rank {rank} was asked to: the step is finished and a checkpoint written"
                ));
                let _is_over_already = self.trainer.cast(TrainerMsg::Stop);
            }
            rank::News::Over(_) => {}
            rank::News::Gone(why) => {
                let overdue = overdue.clone();
                tokio::spawn(async move {
                    tokio::time::sleep(GONE_GRACE).await;
                    let _is_over = overdue.send(why).await;
                });
            }
        }
    }

    /// News of the run that is followed. Returns whether all that there is has been taken.
    fn hear(&self, news: News, was_caught_up: bool) -> bool {
        let _is_over_already = match news {
            News::CaughtUp { ended, planned } => {
                if !was_caught_up && !self.is_silent {
                    output::note(&format!(
                        "{ended} of {planned} episodes have ended and are taken; the others are waited for, until Ctrl-C"
                    ));
                }
                return true;
            }
            News::All => self.trainer.cast(TrainerMsg::NoMoreTrajectories),
            News::Failed => self.trainer.cast(TrainerMsg::Stop),
        };
        true
    }
}

/// What is heard next, where anybody is listened to.
async fn next(of_ranks: &mut Option<mpsc::Receiver<(usize, rank::News)>>) -> Option<(usize, rank::News)> {
    of_ranks.as_mut()?.recv().await
}

/// What follows the run is let go; what came of the run is told, and then what came of the training.
pub(super) fn end_following(
    following: Following,
    out: &Path,
    end: CourseEnd,
    batch: u64,
    seen: &Seen,
    is_json: bool,
) -> Result<Ended, VerbError> {
    let (came, failed) = tokio::task::block_in_place(|| following.end())?;
    write_bad_rows(out, &came.bad)?;
    tell_came(out, &came, &end, batch, is_json);
    let is_complete = matches!(end, CourseEnd::Complete(_));
    let ended = tell_end(out, end, seen, is_json)?;
    if let Some(error) = failed {
        return Err(format!("{error}; {}", how_to_go_on(out)).into());
    }
    if is_complete && !came.is_all() {
        let (ended, planned) = (came.summary.ended, came.summary.planned);
        output::note(&format!("{ended} of {planned} episodes had ended; when more have, {}", how_to_go_on(out)));
        return Ok(Ended::Incomplete);
    }
    Ok(ended)
}

fn tell_came(out: &Path, came: &Came, end: &CourseEnd, batch: u64, is_json: bool) {
    let Came { summary, samples, sources, bad } = came;
    let (CourseEnd::Complete(at) | CourseEnd::Stopped(at) | CourseEnd::Failed { saved: at, .. }) = end;
    let used = at.slots * batch;
    if is_json {
        let followed = serde_json::json!({
            "run": summary.out, "format": summary.format.name(), "planned": summary.planned, "ended": summary.ended,
            "rows": samples, "rows_used": used, "sources": sources, "skipped": bad.total(), "left_out": summary.left_out,
        });
        return output::print(&serde_json::json!({ "followed": followed }).to_string());
    }
    let (run, list) = (summary.out.display(), out.join(FOLLOWED));
    output::print(&format!(
        "{run}: {samples} rows of {} of {} episodes, {used} used; {} lists them",
        summary.ended,
        summary.planned,
        list.display()
    ));
    summary.left_out.iter().for_each(|(why, count)| output::print(&format!("  left out: {count} ({why})")));
    if bad.total() > 0 {
        let path = out.join(BAD_ROWS);
        output::note(&format!("{} bad rows were skipped; {} lists them", bad.total(), path.display()));
    }
}

/// What a run came to, as far as this process saw it.
#[derive(Default)]
pub(super) struct Seen {
    losses: Option<(f64, f64)>,
    held_out: Option<(f64, f64)>,
}

impl Seen {
    fn take(&mut self, record: &Record) {
        let widened = |pair: Option<(f64, f64)>, loss: f64| Some((pair.map_or(loss, |(first, _)| first), loss));
        match record {
            Record::Step(step) => self.losses = step.loss.map_or(self.losses, |loss| widened(self.losses, loss)),
            Record::Evaluation { loss: Some(loss), .. } => self.held_out = widened(self.held_out, *loss),
            _ => {}
        }
    }
}

/// Tells how it ended.
pub(super) fn tell_end(out: &Path, end: CourseEnd, seen: &Seen, is_json: bool) -> Result<Ended, VerbError> {
    let checkpoint = |at: Progress| out.join(CHECKPOINTS).join(format!("step-{:08}", at.slots));
    let told = |at: Progress| {
        if is_json {
            let end = serde_json::json!({"end": &end, "checkpoint": checkpoint(at), "losses": seen.losses,
                "held_out": seen.held_out});
            return output::print(&end.to_string());
        }
        let pair = |what: &str, pair: Option<(f64, f64)>| {
            pair.map(|(first, last)| format!(", {what} {first:.4} to {last:.4}")).unwrap_or_default()
        };
        output::print(&format!(
            "{}: {} slots, {} updates{}{}",
            out.display(),
            at.slots,
            at.updates,
            pair("loss", seen.losses),
            pair("held out", seen.held_out)
        ));
        if at.slots > 0 {
            output::print(&format!("checkpoint {}", checkpoint(at).display()));
        }
    };
    match &end {
        CourseEnd::Complete(at) => {
            told(*at);
            Ok(Ended::Done)
        }
        CourseEnd::Stopped(at) => {
            told(*at);
            output::note(&format!("stopped; {}", how_to_go_on(out)));
            Ok(Ended::Incomplete)
        }
        CourseEnd::Failed { saved, why } => {
            let why = legwork_protocol::untrusted::Untrusted::new(why.as_str());
            let kept = match saved.slots {
                0 => "there is no checkpoint yet".to_owned(),
                slots => format!("the checkpoint of step {slots} is kept"),
            };
            Err(format!("training failed: {}; {kept}; {}", why.for_log(4_000), how_to_go_on(out)).into())
        }
    }
}

fn how_to_go_on(out: &Path) -> String {
    format!("go on with the same flags, --out {} and --resume", out.display())
}
