//! Ctrl-C and SIGTERM as a person and a scheduler send them to a real run: once lets those inside end and nobody new
//! enter, twice stops at once, and whatever comes after, the resumed run has the undisturbed verdicts.

use crate::crash::{Undisturbed, begin, resume, turns, verdicts};
use crate::oracle_server::OracleServer;
use crate::program::{Place, Running, err};
use legwork_actors::ledger::LedgerReader;
use std::process::Command;

const CONCURRENCY: u32 = 3;
const QUESTIONS: usize = 9;
/// The first request whose answer is held back: by then an episode or two have ended.
const HELD_FROM: u32 = 15;
/// Requests that have come when every permit waits for an answer.
const ALL_WAIT: u32 = HELD_FROM - 1 + CONCURRENCY;
const INCOMPLETE: Option<i32> = Some(3);

struct Stand {
    place: Place,
    server: OracleServer,
    undisturbed: Undisturbed,
}

impl Stand {
    fn new() -> Self {
        let (place, server) = (Place::new(), OracleServer::start());
        let undisturbed = Undisturbed::run(&place, &server, QUESTIONS, CONCURRENCY);
        Self { place, server, undisturbed }
    }

    /// Starts a run and returns when each episode inside waits for an answer that does not come.
    fn in_the_midst(&self, case: &str) -> Running {
        self.server.hold_from(HELD_FROM);
        self.server.furnish(&self.place, case, QUESTIONS);
        let running = self.place.start(&begin(case, CONCURRENCY));
        assert!(self.server.wait_for(case, ALL_WAIT, || running.is_over()), "{case} ended too early");
        running
    }

    /// Episodes of a run that have ended, and those that have begun and not ended.
    fn ended_and_inside(&self, case: &str) -> (usize, usize) {
        let reader = LedgerReader::open(&self.place.path("runs").join(case)).unwrap();
        (reader.ended().unwrap().len(), reader.begun().unwrap().len())
    }

    /// Resumes a run to its end; returns how many requests were made twice.
    fn resumed(&self, case: &str) -> u32 {
        self.server.release();
        let output = self.place.run(&resume(case, CONCURRENCY));
        assert!(output.status.success(), "{case}: {}", err(&output));
        assert_eq!(verdicts(&self.place.path("runs").join(case)), self.undisturbed.verdicts, "{case}");
        assert_eq!(self.server.distinct(case), self.undisturbed.distinct, "{case}");
        self.server.asked(case).1
    }
}

#[test]
fn one_signal_lets_those_inside_end_and_nobody_new_enter() {
    let stand = Stand::new();
    for signal in ["INT", "TERM"] {
        let running = stand.in_the_midst(signal);
        running.signal(signal);
        running.must_say("draining: no new episodes");
        let before = stand.ended_and_inside(signal);
        assert_eq!(before.1, CONCURRENCY as usize);
        stand.server.release();
        let end = running.end();
        assert_eq!(end.code, INCOMPLETE, "{signal}: {}", end.err);
        let after = stand.ended_and_inside(signal);
        assert_eq!(after, (before.0 + before.1, 0), "{signal}: all that were inside have ended, and only they");
        let left = QUESTIONS - after.0;
        for told in [format!("{left} episodes have not ended"), format!("--resume runs/{signal}")] {
            assert!(end.err.contains(&told), "{told:?} in {}", end.err);
        }
        assert!(stand.place.path("runs").join(signal).join("report.html").exists());
        assert_eq!(stand.resumed(signal), 0, "{signal}: nothing was in flight");
    }
}

#[test]
fn two_signals_stop_at_once_and_keep_what_was_acknowledged() {
    let stand = Stand::new();
    for (case, signals) in [("twice", ["INT", "INT"]), ("both", ["INT", "TERM"])] {
        let running = stand.in_the_midst(case);
        running.signal(signals[0]);
        running.must_say("draining: no new episodes");
        running.signal(signals[1]);
        // Nobody is answered any more: it must not wait for those inside.
        let end = running.end();
        assert_eq!(end.code, INCOMPLETE, "{case}: {}", end.err);
        assert!(end.err.contains("stopping: the ledger is being closed"), "{}", end.err);
        assert!(end.err.contains(&format!("--resume runs/{case}")), "{}", end.err);
        let (ended, inside) = stand.ended_and_inside(case);
        assert_eq!(inside, CONCURRENCY as usize, "{case}: those inside are kept as they are");
        assert!(end.err.contains(&format!("{} episodes have not ended", QUESTIONS - ended)), "{}", end.err);
        let folder = stand.place.path("runs").join(case);
        assert_eq!(turns(&folder).answered, ALL_WAIT - CONCURRENCY, "every turn that was answered is kept");
        assert!(!folder.join("run.db-wal").exists(), "the ledger is closed");
        assert_eq!(stand.resumed(case), CONCURRENCY, "{case}: the turns in flight and no others are asked again");
    }
}

#[test]
fn a_scheduler_that_kills_after_its_patience_loses_only_turns_in_flight() {
    let stand = Stand::new();
    let running = stand.in_the_midst("killed");
    running.signal("TERM");
    running.must_say("stops in 20 s");
    assert_eq!(running.kill().signal, Some(9));
    assert_eq!(stand.resumed("killed"), CONCURRENCY);
}

#[test]
fn a_run_that_has_begun_nothing_ends_by_the_signal_and_can_be_begun_again() {
    let (place, server) = (Place::new(), OracleServer::start());
    let undisturbed = Undisturbed::run(&place, &server, QUESTIONS, CONCURRENCY);
    server.furnish(&place, "early", QUESTIONS);
    // Its questions come through a pipe into which nobody writes: there is nothing to drain yet.
    let questions = place.path("world/questions.jsonl");
    std::fs::rename(&questions, place.path("kept")).unwrap();
    assert!(Command::new("mkfifo").arg(&questions).status().unwrap().success());
    let running = place.start(&begin("early", CONCURRENCY));
    running.signal("TERM");
    let end = running.end();
    assert_eq!((end.code, end.signal), (None, Some(15)), "{}", end.err);
    assert!(!place.path("runs/early").exists());
    std::fs::rename(place.path("kept"), questions).unwrap();
    let output = place.run(&begin("early", CONCURRENCY));
    assert!(output.status.success(), "{}", err(&output));
    assert_eq!(verdicts(&place.path("runs/early")), undisturbed.verdicts);
}
