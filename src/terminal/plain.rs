//! Plain progress: one line of `key=value` pairs, without control codes, in a fixed order. When a line is due is
//! decided from snapshots alone.

use super::WatchOptions;
use super::fields;
use super::rates::Rates;
use legwork_actors::board::Snapshot;
use legwork_actors::run::RunEnd;
use legwork_report::statistics::proportion::wilson;
use std::fmt::Write;

/// For this long a line comes with every look that shows something new, in milliseconds.
const OFTEN_UNTIL_MS: u64 = 60_000;
/// Later a line comes this often at most, in milliseconds, but for every tenth of the run.
const SELDOM_EVERY_MS: u64 = 30_000;
/// When nothing happens a line still comes this often, in milliseconds: it shows that the run waits.
const QUIET_EVERY_MS: u64 = 60_000;

/// Decides which snapshots are worth a line.
#[derive(Clone, Debug, Default)]
pub(crate) struct Worth {
    last: Option<Told>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Told {
    at_ms: u64,
    tenth: u64,
    counts: [u64; 5],
    draining: bool,
}

impl Worth {
    /// Whether this snapshot is to be told. Whoever asks tells it.
    pub(crate) fn is_due(&mut self, snapshot: &Snapshot) -> bool {
        let now = Told::of(snapshot);
        let is_due = match self.last {
            None => true,
            Some(last) if now.at_ms < last.at_ms || now.tenth != last.tenth || now.draining != last.draining => true,
            Some(last) => {
                let every_ms = match (now.counts == last.counts, now.at_ms < OFTEN_UNTIL_MS) {
                    (true, _) => QUIET_EVERY_MS,
                    (false, true) => 0,
                    (false, false) => SELDOM_EVERY_MS,
                };
                now.at_ms - last.at_ms >= every_ms
            }
        };
        if is_due {
            self.last = Some(now);
        }
        is_due
    }
}

impl Told {
    fn of(snapshot: &Snapshot) -> Self {
        let (stumbles, restarts) = (snapshot.stumbles.values().sum(), snapshot.restarts.values().sum());
        Self {
            at_ms: snapshot.elapsed_ms,
            tenth: (snapshot.ended.saturating_mul(10)).checked_div(snapshot.planned).unwrap_or(0),
            counts: [snapshot.ended, snapshot.turns, snapshot.lookups, stumbles, restarts],
            draining: snapshot.draining,
        }
    }
}

/// The first line: what is under way.
pub(crate) fn start_line(options: &WatchOptions) -> String {
    let mut line = String::from("run");
    pair(&mut line, "title", &quoted(&options.title));
    pair(&mut line, "profile", &quoted(&options.profile));
    pair(&mut line, "concurrency", &options.concurrency);
    pair(&mut line, "mock", &options.mock);
    line
}

/// How the run stands. Keys without a value yet are left out; none ever changes its meaning.
pub(crate) fn progress_line(snapshot: &Snapshot, rates: &Rates, mock: bool) -> String {
    let mut line = String::from("progress");
    pair(&mut line, "elapsed_s", &(snapshot.elapsed_ms / 1_000));
    pair(&mut line, "ended", &snapshot.ended);
    pair(&mut line, "planned", &snapshot.planned);
    pair(&mut line, "running", &snapshot.running_count);
    pair(&mut line, "waiting", &waiting(snapshot));
    pair(&mut line, "correct", &snapshot.correct);
    if let Some(interval) = wilson(snapshot.correct, snapshot.ended) {
        let share = snapshot.correct as f64 / snapshot.ended as f64;
        pair(&mut line, "accuracy", &format_args!("{:.2}%", share * 100.0));
        let (low, high) = (interval.low.get() * 100.0, interval.high.get() * 100.0);
        pair(&mut line, "wilson95", &format_args!("{low:.2}..{high:.2}%"));
    }
    let per = [
        ("episodes_per_min", rates.episodes_per_min),
        ("turns_per_s", rates.turns_per_s),
        ("tokens_per_s", rates.tokens_per_s),
    ];
    for (key, rate) in per {
        if let Some(rate) = rate {
            pair(&mut line, key, &format_args!("{rate:.1}"));
        }
    }
    if let Some(eta_ms) = rates.eta_ms {
        pair(&mut line, "eta_s", &(eta_ms / 1_000));
    }
    pair(&mut line, "tokens", &snapshot.tokens.values().sum::<u64>());
    if snapshot.micros > 0 {
        pair(&mut line, "cost", &legwork_report::number::money(snapshot.micros as f64));
    }
    pair(&mut line, "errors", &snapshot.stumbles.values().sum::<u64>());
    pair(&mut line, "restarts", &snapshot.restarts.values().sum::<u64>());
    if snapshot.draining {
        pair(&mut line, "draining", &true);
    }
    if mock {
        pair(&mut line, "mock", &true);
    }
    line
}

/// The last line: how it ended.
pub(crate) fn end_line(end: &RunEnd) -> String {
    let mut line = String::from("end");
    match end {
        RunEnd::Complete => pair(&mut line, "state", &"complete"),
        RunEnd::Incomplete { left } => {
            pair(&mut line, "state", &"incomplete");
            pair(&mut line, "left", left);
        }
        RunEnd::Failed(failure) => {
            pair(&mut line, "state", &"failed");
            pair(&mut line, "kind", &quoted(failure.kind.name()));
            pair(&mut line, "detail", &quoted(&failure.detail));
        }
    }
    line
}

/// A notice to whoever watches.
pub(crate) fn notice_line(text: &str) -> String {
    format!("notice text={}", quoted(text))
}

/// Episodes that have not entered yet.
pub(crate) fn waiting(snapshot: &Snapshot) -> u64 {
    snapshot.planned.saturating_sub(snapshot.ended).saturating_sub(snapshot.running_count)
}

fn pair(line: &mut String, key: &str, value: &dyn std::fmt::Display) {
    write!(line, " {key}={value}").expect("writing to a string does not fail");
}

/// A text as one value: quoted where it holds blanks, quotes or `=`, so that a line splits at blanks outside quotes.
fn quoted(text: &str) -> String {
    let text = fields::text(text);
    if !text.is_empty() && !text.contains([' ', '"', '=', '\\']) {
        return text;
    }
    format!("\"{}\"", text.replace('"', "\\\""))
}

#[cfg(test)]
mod tests {
    use super::super::WatchMode;
    use super::*;
    use legwork_protocol::failure::{Failure, FailureKind};
    use legwork_protocol::generation::Route;

    fn snapshot() -> Snapshot {
        Snapshot {
            planned: 150,
            ended: 75,
            running_count: 8,
            correct: 54,
            turns: 400,
            tokens: [(Route::Worker, 12_000), (Route::Coordinator, 345)].into(),
            stumbles: [("timed out", 2), ("rate limited", 1)].into(),
            elapsed_ms: 61_500,
            ..Snapshot::default()
        }
    }

    #[test]
    fn a_line_has_every_figure_once_in_a_fixed_order() {
        let rates =
            Rates { episodes_per_min: Some(75.0), turns_per_s: Some(6.5), tokens_per_s: None, eta_ms: Some(60_900) };
        assert_eq!(
            progress_line(&snapshot(), &rates, true),
            "progress elapsed_s=61 ended=75 planned=150 running=8 waiting=67 correct=54 accuracy=72.00% \
             wilson95=60.96..80.90% episodes_per_min=75.0 turns_per_s=6.5 eta_s=60 tokens=12345 errors=3 restarts=0 mock=true"
        );
    }

    #[test]
    fn before_anything_ended_there_is_no_accuracy() {
        let line = progress_line(&Snapshot { planned: 3, ..Snapshot::default() }, &Rates::default(), false);
        assert_eq!(
            line,
            "progress elapsed_s=0 ended=0 planned=3 running=0 waiting=3 correct=0 tokens=0 errors=0 restarts=0"
        );
    }

    #[test]
    fn names_and_details_stay_one_value_on_one_line() {
        let options = WatchOptions {
            mode: WatchMode::Plain,
            title: "my \"first\"\nrun\x1b[2J".to_owned(),
            profile: String::new(),
            mock: false,
            concurrency: 4,
        };
        assert_eq!(
            start_line(&options),
            "run title=\"my \\\"first\\\"\\nrun\\x1b[2J\" profile=\"\" concurrency=4 mock=false"
        );
        let failed = RunEnd::Failed(Failure::new(FailureKind::Ledger, "disk\nfull"));
        assert_eq!(end_line(&failed), "end state=failed kind=ledger detail=\"disk\\nfull\"");
        assert_eq!(end_line(&RunEnd::Incomplete { left: 7 }), "end state=incomplete left=7");
    }

    #[test]
    fn in_the_first_minute_every_change_is_told_later_every_tenth_and_now_and_then() {
        let mut worth = Worth::default();
        let mut at = |elapsed_ms, ended, turns| worth.is_due(&Snapshot { elapsed_ms, ended, turns, ..snapshot() });
        assert!(at(0, 0, 0), "the first");
        assert!(!at(2_000, 0, 0), "nothing new");
        assert!(at(4_000, 0, 1));
        assert!(at(59_000, 1, 9));
        assert!(!at(62_000, 2, 20), "the first minute is over");
        assert!(at(89_000, 3, 30));
        assert!(at(91_000, 15, 40), "a tenth");
        assert!(!at(121_000 - 1, 15, 50));
        assert!(at(121_000, 15, 50));
        assert!(!at(180_000, 15, 50), "nothing new");
        assert!(at(181_000, 15, 50), "quiet for a minute");
    }

    #[test]
    fn the_beginning_of_draining_is_told_at_once() {
        let mut worth = Worth::default();
        assert!(worth.is_due(&snapshot()));
        assert!(!worth.is_due(&snapshot()));
        assert!(worth.is_due(&Snapshot { draining: true, ..snapshot() }));
    }
}
