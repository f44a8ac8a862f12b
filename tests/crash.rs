//! `kill -9` at random moments of a real run with a real server, then `--resume`: the verdicts are those of an
//! undisturbed run, and nothing was asked twice but the turns in flight. `LEGWORK_KILLS` says how many runs are killed.

use crate::oracle_server::OracleServer;
use crate::program::{Place, err};
use crate::stage;
use legwork_actors::ledger::LedgerReader;
use legwork_protocol::outcome::Outcome;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

const CONCURRENCY: u32 = 6;
const QUESTIONS: &str = "18";

fn configuration(place: &Place, server: &OracleServer) {
    let text = format!(
        "[models.worker]\nkind = \"openai\"\nurl = \"http://{}/v1\"\nmodel = \"oracle\"\nstream = false\n",
        server.address
    );
    place.write("run.toml", &text);
}

fn verdicts(folder: &Path) -> BTreeMap<String, (Outcome, Option<String>, u64)> {
    let reader = LedgerReader::open(folder).unwrap();
    reader.verify_chain().unwrap();
    let records = reader.records().unwrap();
    records.into_iter().map(|r| (r.key.to_string(), (r.outcome, r.answer, r.workers_spent.tokens))).collect()
}

#[test]
fn a_killed_run_resumes_to_the_same_verdicts_and_asks_nothing_twice() {
    let kills: u64 = std::env::var("LEGWORK_KILLS").ok().and_then(|n| n.parse().ok()).unwrap_or(4);
    let questions: Vec<_> = stage::questions(150);
    let place = Place::new();
    let concurrency = CONCURRENCY.to_string();
    let begin = |run: &'static str| {
        vec!["eval", "-c", "run.toml", "--plain", "--questions", QUESTIONS, "--concurrency", &concurrency, "--run", run]
    };
    let undisturbed = OracleServer::start(&questions, Duration::from_millis(3));
    configuration(&place, &undisturbed);
    let output = place.run(&begin("runs/undisturbed"));
    assert!(output.status.success(), "{}", err(&output));
    let expected = verdicts(&place.path("runs/undisturbed"));
    let (calls, repeated) = undisturbed.asked();
    assert_eq!((expected.len(), repeated), (18, 0));

    let mut rng = ChaCha8Rng::seed_from_u64(915);
    for kill in 0..kills {
        let run: &'static str = Box::leak(format!("runs/killed-{kill}").into_boxed_str());
        let server = OracleServer::start(&questions, Duration::from_millis(3));
        configuration(&place, &server);
        let accept = ["--accept", "inputs.models.worker"];
        let mut child = place.command(&begin(run)).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        // A moment is a number of requests that have come, and a little while after.
        assert!(server.wait_for(rng.random_range(0..=calls), Duration::from_secs(60)));
        std::thread::sleep(Duration::from_micros(rng.random_range(0..6_000)));
        let _ended_already = child.kill();
        child.wait().unwrap();
        let mut resume = begin(run);
        resume.truncate(resume.len() - 2);
        if place.path(run).join("run.db").exists() {
            resume.extend(["--resume", run]);
            resume.extend(accept);
        } else {
            resume.extend(["--run", run]);
        }
        let output = place.run(&resume);
        assert!(output.status.success(), "kill {kill}: {}", err(&output));
        assert_eq!(verdicts(&place.path(run)), expected, "kill {kill}");
        let (all, repeated) = server.asked();
        assert!(repeated <= CONCURRENCY, "kill {kill}: {repeated} of {all} requests were repeated");
        assert!(all <= calls + CONCURRENCY, "kill {kill}: {all} requests, {calls} undisturbed");
        let replayed = place.run(&["replay", run]);
        assert_eq!(replayed.status.code(), Some(0), "kill {kill}");
        assert_eq!(server.asked().0, all, "a replay asks nobody");
    }
}
