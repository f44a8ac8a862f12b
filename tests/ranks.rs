//! `legwork train` over several processes, as whoever starts them would: they learn what ranks in one process learn, to the bit;
//! one that dies ends the run for all with its name; they are resumed; and one that was started otherwise is refused.

use crate::program::{Place, Running, err};
use crate::training::{Came, INCOMPLETE, STEPS, came, furnished, train};
use std::net::TcpListener;
use std::sync::atomic::{AtomicU16, Ordering};

/// Steps of a run that is killed in its midst: its rows are passed over so often.
const EPOCHS: u64 = 10;

/// A port that nobody has just now, below those that the system gives to whoever asks for any: until it is bound again nobody
/// else is given it.
fn port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let first = (std::process::id() % 1_000) as u16 * 10;
    let next = || 20_000 + (first + NEXT.fetch_add(1, Ordering::Relaxed)) % 10_000;
    std::iter::repeat_with(next).find(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok()).unwrap()
}

/// One process of a run.
fn rank(place: &Place, rank: usize, ranks: usize, port: u16, args: &[String]) -> Running {
    let variables = [
        ("RANK", rank.to_string()),
        ("LOCAL_RANK", rank.to_string()),
        ("WORLD_SIZE", ranks.to_string()),
        ("MASTER_ADDR", "127.0.0.1".to_owned()),
        ("MASTER_PORT", port.to_string()),
    ];
    place.start_with(args, &variables)
}

/// All processes of a run, started in the order of their ranks.
fn all(place: &Place, ranks: usize, run: &str, more: &[&str]) -> Vec<Running> {
    let (port, args) = (port(), train(run, more));
    (0..ranks).map(|number| rank(place, number, ranks, port, &args)).collect()
}

/// Runs all of them to their end.
fn done(place: &Place, ranks: usize, run: &str, more: &[&str]) -> Came {
    for (number, process) in all(place, ranks, run, more).into_iter().enumerate() {
        let end = process.end();
        assert_eq!(end.code, Some(0), "rank {number}: {}", end.err);
        assert!(number == 0 || end.err.is_empty(), "only rank 0 says anything: {}", end.err);
    }
    let epochs = if more.contains(&"--epochs") { EPOCHS } else { 1 };
    came(&place.path(&format!("runs/{run}")), STEPS * epochs)
}

#[test]
fn processes_learn_what_ranks_in_one_process_learn_bit_for_bit() {
    let place = furnished();
    for (ranks, grid) in [(2, ["--tp", "2", "--dp", "1"]), (4, ["--tp", "2", "--dp", "2"])] {
        let (one, many) = (format!("one-{ranks}"), format!("many-{ranks}"));
        let output = place.run(&train(&one, &grid));
        assert!(output.status.success(), "{}", err(&output));
        let together = came(&place.path(&format!("runs/{one}")), STEPS);
        assert_eq!(done(&place, ranks, &many, &grid), together, "{ranks} processes");
    }
}

#[test]
fn a_process_that_dies_ends_the_run_for_all_by_its_name_and_the_resumed_run_is_the_same() {
    let place = furnished();
    let epochs = EPOCHS.to_string();
    let more = ["--tp", "2", "--epochs", &epochs];
    let undisturbed = done(&place, 2, "undisturbed", &more);
    for dead in [1, 0] {
        let run = format!("dead-{dead}");
        let mut processes = all(&place, 2, &run, &more);
        processes[0].must_say("step 4/120  checkpoint");
        let killed = processes.remove(dead).kill();
        assert!(killed.signal.is_some(), "rank {dead} had ended before: {}", killed.err);
        let other = processes.remove(0).end();
        assert_eq!(other.code, Some(1), "{}", other.err);
        let told = format!("rank {dead} at 127.0.0.1:");
        let last = other.err.lines().last().unwrap_or_default();
        assert!(last.contains(&told) && last.contains("its process has ended"), "{told}: {last}");
        assert!(dead == 0 || last.contains(&format!("--out runs/{run} and --resume")), "{last}");
        let resumed = ["--tp", "2", "--epochs", &epochs, "--resume"];
        assert_eq!(done(&place, 2, &run, &resumed), undisturbed, "after the death of rank {dead}");
    }
}

#[test]
fn a_process_that_is_asked_to_end_ends_the_run_for_all_with_a_checkpoint() {
    let place = furnished();
    let epochs = EPOCHS.to_string();
    let processes = all(&place, 2, "asked", &["--tp", "2", "--epochs", &epochs]);
    processes[0].must_say("step 3/120  held out");
    processes[1].signal("TERM");
    for process in processes {
        let end = process.end();
        assert_eq!(end.code, INCOMPLETE, "{}", end.err);
        assert!(end.err.is_empty() || end.err.contains("as rank 1 was asked to"), "{}", end.err);
    }
    assert!(place.path("runs/asked/checkpoints").read_dir().unwrap().count() > 0);
}

#[test]
fn processes_that_were_started_otherwise_are_refused_with_the_difference_before_anything_is_made() {
    let place = furnished();
    let (first, other) = (train("a", &["--tp", "2"]), train("a", &["--tp", "2", "--seed", "7"]));
    let other_rows = {
        place.write("others.jsonl", &(std::fs::read_to_string(place.path("rows.jsonl")).unwrap() + "\n"));
        let mut args = train("a", &["--tp", "2"]);
        args[2] = "others.jsonl".to_owned();
        args
    };
    for (second, told) in [(other, "settings.seed was 42, is 7"), (other_rows, "inputs.rows was ")] {
        let port = port();
        let processes = [rank(&place, 0, 2, port, &first), rank(&place, 1, 2, port, &second)];
        for process in processes {
            let end = process.end();
            assert_eq!(end.code, Some(1), "{}", end.err);
            let last = end.err.lines().last().unwrap_or_default();
            assert!(last.contains(told) && last.contains("rank 1 was started otherwise than rank 0"), "{last}");
        }
    }
    let short = rank(&place, 0, 2, port(), &train("a", &["--tp", "2", "--wait-s", "1"])).end();
    assert!(short.err.contains("rank 1 did not come"), "{}", short.err);
    let wrong = rank(&place, 0, 3, port(), &train("a", &["--tp", "2"])).end();
    assert!(wrong.err.contains("WORLD_SIZE is 3 processes, and tp 2 times dp 1 are 2 ranks"), "{}", wrong.err);
    assert!(!place.path("runs/a").exists());
}
