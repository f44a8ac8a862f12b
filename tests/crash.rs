//! `kill -9` at random moments of a real run with a real server, then `--resume`: the verdicts are those of an
//! undisturbed run, the same things were asked, and nothing twice but the turns in flight. `LEGWORK_KILLS` says how many
//! runs are killed; every fifth of them is killed once more while it is resumed.

use crate::oracle_server::OracleServer;
use crate::program::{Place, Running, err};
use legwork_actors::ledger::LedgerReader;
use legwork_protocol::event::Event;
use legwork_protocol::outcome::Outcome;
use legwork_protocol::worker::WorkerEvent;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

const CONCURRENCY: u32 = 6;
const QUESTIONS: usize = 18;
/// Looks at a folder in which something is about to be made.
const LOOK_EVERY: Duration = Duration::from_micros(200);
/// So many looks at most.
const LOOKS_MAX: u32 = 300_000;

/// What an episode came to: its outcome, its answer and the tokens that it took.
pub(crate) type Verdicts = BTreeMap<String, (Outcome, Option<String>, u64)>;

/// The verdicts of a run whose chain holds.
pub(crate) fn verdicts(folder: &Path) -> Verdicts {
    let reader = LedgerReader::open(folder).unwrap();
    reader.verify_chain().unwrap();
    let records = reader.records().unwrap();
    records.into_iter().map(|r| (r.key.to_string(), (r.outcome, r.answer, r.workers_spent.tokens))).collect()
}

/// Model turns of a run, as its ledger knows them.
#[derive(Debug)]
pub(crate) struct Turns {
    /// Those that it has an event for which wants them: nobody else may have been asked.
    pub(crate) wanted: u32,
    /// Those that were answered.
    pub(crate) answered: u32,
}

/// Counts them.
pub(crate) fn turns(folder: &Path) -> Turns {
    let reader = LedgerReader::open(folder).unwrap();
    let mut turns = Turns { wanted: 0, answered: 0 };
    for key in reader.planned().unwrap() {
        for recorded in reader.history(&key).unwrap().into_values().flatten() {
            match recorded.event {
                Event::Worker(WorkerEvent::Briefed { .. } | WorkerEvent::Observed { .. }) => turns.wanted += 1,
                Event::Worker(WorkerEvent::Generated { .. }) => turns.answered += 1,
                _ => {}
            }
        }
    }
    turns
}

/// An undisturbed run to compare others with.
pub(crate) struct Undisturbed {
    /// What it came to.
    pub(crate) verdicts: Verdicts,
    /// What was asked in it.
    pub(crate) distinct: BTreeSet<u64>,
    /// How much was asked in it.
    pub(crate) calls: u32,
}

impl Undisturbed {
    /// Carries it out.
    pub(crate) fn run(place: &Place, server: &OracleServer, questions: usize, concurrency: u32) -> Self {
        server.furnish(place, "undisturbed", questions);
        let output = place.run(&begin("undisturbed", concurrency));
        assert!(output.status.success(), "{}", err(&output));
        let verdicts = verdicts(&place.path("runs/undisturbed"));
        let (calls, repeated) = server.asked("undisturbed");
        assert_eq!((verdicts.len(), repeated), (questions, 0));
        let turns = turns(&place.path("runs/undisturbed"));
        assert_eq!((turns.wanted, turns.answered), (calls, calls));
        Self { verdicts, distinct: server.distinct("undisturbed"), calls }
    }
}

/// The arguments that begin a run of its own name.
pub(crate) fn begin(case: &str, concurrency: u32) -> Vec<String> {
    let (config, folder) = (format!("{case}.toml"), format!("runs/{case}"));
    let args = ["eval", "-c", &config, "--plain", "--concurrency", &concurrency.to_string(), "--run", &folder];
    args.map(str::to_owned).to_vec()
}

/// The arguments that go on with it.
pub(crate) fn resume(case: &str, concurrency: u32) -> Vec<String> {
    let mut args = begin(case, concurrency);
    let at = args.len() - 2;
    args[at] = "--resume".to_owned();
    args
}

/// When a run is killed: an event that can be seen from outside, and a little while after.
#[derive(Clone, Copy, Debug)]
enum Moment {
    /// Its folder is locked: the ledger is being made.
    Creation(Duration),
    /// It has said that it begins: episodes are let in.
    Admission(Duration),
    /// So many requests have come.
    Requests(u32, Duration),
    /// It has said that it is over: the table and the reports are being made.
    Reports(Duration),
}

impl Moment {
    /// Of ten first kills one is at each of the rare moments and seven are in the midst of it, which begins after
    /// `asked` requests and ends after `calls`. Second kills meet a resume.
    fn draw((kill, is_second): (u64, bool), asked: u32, calls: u32, rng: &mut ChaCha8Rng) -> Self {
        let micros = |rng: &mut ChaCha8Rng, most| Duration::from_micros(rng.random_range(0..most));
        let kind = if is_second { [1, 3, 2, 6][(kill / 5 % 4) as usize] } else { kill % 10 };
        match kind {
            0 => Moment::Creation(micros(rng, 50_000)),
            3 => Moment::Admission(micros(rng, 20_000)),
            6 => Moment::Reports(micros(rng, 6_000)),
            _ => Moment::Requests(rng.random_range(asked..=calls.max(asked)), micros(rng, 6_000)),
        }
    }

    /// Waits for it, or for the end of the run.
    fn wait(self, running: &Running, server: &OracleServer, case: &str, folder: &Path) {
        let after = match self {
            Moment::Creation(after) => {
                let lock = folder.join("run.lock");
                for _ in 0..LOOKS_MAX {
                    if lock.exists() || running.is_over() {
                        break;
                    }
                    std::thread::sleep(LOOK_EVERY);
                }
                after
            }
            Moment::Admission(after) => {
                running.says("run title=");
                after
            }
            Moment::Requests(requests, after) => {
                server.wait_for(case, requests, || running.is_over());
                after
            }
            Moment::Reports(after) => {
                running.says("end state=");
                after
            }
        };
        std::thread::sleep(after);
    }
}

/// Whether what a killed run has left on the disk is whole: read from a copy, so that the resume meets it as it was.
fn is_whole(place: &Place, case: &str, server: &OracleServer) {
    let (folder, copy) = (place.path("runs").join(case), place.path("copy"));
    if !folder.join("run.db").exists() {
        return;
    }
    std::fs::create_dir_all(&copy).unwrap();
    for file in ["run.db", "run.db-wal", "run.db-journal"] {
        let _was_there = std::fs::remove_file(copy.join(file));
        let _is_not_there = std::fs::copy(folder.join(file), copy.join(file));
    }
    verdicts(&copy);
    let (turns, (all, repeated)) = (turns(&copy), server.asked(case));
    let asked = all - repeated;
    assert!(asked <= turns.wanted, "{case}: {asked} turns were asked before what wants them was kept: {turns:?}");
    assert!(turns.answered + CONCURRENCY >= asked, "{case}: {asked} turns, {CONCURRENCY} in flight, but {turns:?}");
    std::fs::remove_dir_all(&copy).unwrap();
}

#[test]
fn a_killed_run_resumes_to_the_same_verdicts_and_asks_nothing_twice() {
    let kills: u64 = std::env::var("LEGWORK_KILLS").ok().and_then(|n| n.parse().ok()).unwrap_or(7);
    let (place, server) = (Place::new(), OracleServer::start());
    let undisturbed = Undisturbed::run(&place, &server, QUESTIONS, CONCURRENCY);
    let mut rng = ChaCha8Rng::seed_from_u64(915);
    let mut moments: BTreeMap<String, u32> = BTreeMap::new();
    for kill in 0..kills {
        let case = format!("kill-{kill}");
        server.furnish(&place, &case, QUESTIONS);
        let times: &[bool] = if kill % 5 == 4 { &[false, true] } else { &[false] };
        let mut hits = 0;
        for is_second in times {
            let asked = server.asked(&case).0;
            let moment = Moment::draw((kill, *is_second), asked, undisturbed.calls, &mut rng);
            let folder = place.path("runs").join(&case);
            let has_begun = folder.join("run.db").exists();
            let args = if has_begun { resume(&case, CONCURRENCY) } else { begin(&case, CONCURRENCY) };
            let running = place.start(&args);
            moment.wait(&running, &server, &case, &folder);
            let is_hit = running.kill().signal.is_some();
            hits += u32::from(is_hit);
            let moment = format!("{moment:?}");
            let name = moment.split('(').next().unwrap_or_default();
            let what = if !is_hit {
                "ended before"
            } else if has_begun {
                "in a resume"
            } else {
                "in the first go"
            };
            *moments.entry(format!("{name}, {what}")).or_default() += 1;
            is_whole(&place, &case, &server);
        }
        let has_begun = place.path("runs").join(&case).join("run.db").exists();
        let args = if has_begun { resume(&case, CONCURRENCY) } else { begin(&case, CONCURRENCY) };
        let output = place.run(&args);
        assert!(output.status.success(), "{case}: {}", err(&output));
        let folder = format!("runs/{case}");
        assert_eq!(verdicts(&place.path(&folder)), undisturbed.verdicts, "{case}");
        let (all, repeated) = server.asked(&case);
        assert_eq!(server.distinct(&case), undisturbed.distinct, "{case}: other things were asked");
        assert!(repeated <= hits * CONCURRENCY, "{case}: {repeated} of {all} requests were repeated");
        let report = std::fs::read(place.path(&folder).join("report.json")).unwrap();
        serde_json::from_slice::<serde_json::Value>(&report).unwrap();
        let replayed = place.run(&["replay", &folder]);
        assert_eq!(replayed.status.code(), Some(0), "{case}: {}", err(&replayed));
        assert_eq!(server.asked(&case).0, all, "a replay asks nobody");
        std::fs::remove_dir_all(place.path(&folder)).unwrap();
    }
    eprintln!("{kills} runs were killed: {moments:?}");
}

#[test]
fn a_killed_fork_is_there_whole_or_not_at_all() {
    let (place, server) = (Place::new(), OracleServer::start());
    let undisturbed = Undisturbed::run(&place, &server, QUESTIONS, CONCURRENCY);
    server.furnish(&place, "fork", QUESTIONS);
    let mut rng = ChaCha8Rng::seed_from_u64(915);
    for kill in 0..3 {
        let folder = format!("runs/fork-{kill}");
        let running =
            place.start(&["fork", "runs/undisturbed", "--turn", "1", "-c", "fork.toml", "--run", &folder, "--plain"]);
        for _ in 0..LOOKS_MAX {
            let mut names = std::fs::read_dir(place.path("runs")).unwrap().flatten().map(|entry| entry.file_name());
            if names.any(|name| name.to_string_lossy().contains(&format!("fork-{kill}"))) || running.is_over() {
                break;
            }
            std::thread::sleep(LOOK_EVERY);
        }
        std::thread::sleep(Duration::from_micros(rng.random_range(0..80_000)));
        let _end = running.kill();
        if place.path(&folder).join("run.db").exists() {
            let kept = turns(&place.path(&folder)).answered;
            assert_eq!(kept, undisturbed.calls, "{folder} holds a part of what it takes over");
        }
    }
    assert_eq!(server.asked("fork"), (0, 0), "all turns come before the second round of briefs");
}
