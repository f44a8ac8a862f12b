//! The folder of a run under other hands: two processes that want to write it, readers while it is written, and places
//! where nothing can be written. Read-only places are bind mounts, which only root may make.

use crate::crash::{Undisturbed, begin, resume, turns, verdicts};
use crate::oracle_server::OracleServer;
use crate::program::{Mount, Place, err, out};

const CONCURRENCY: u32 = 3;
const QUESTIONS: usize = 9;
/// The first request whose answer is held back, so that the run is in the midst of it while others come.
const HELD_FROM: u32 = 15;
const ALL_WAIT: u32 = HELD_FROM - 1 + CONCURRENCY;

#[test]
fn a_second_writer_is_refused_by_name_while_readers_are_not() {
    let (place, server) = (Place::new(), OracleServer::start());
    let undisturbed = Undisturbed::run(&place, &server, QUESTIONS, CONCURRENCY);
    server.furnish(&place, "live", QUESTIONS);
    server.hold_from(HELD_FROM);
    let running = place.start(&begin("live", CONCURRENCY));
    assert!(server.wait_for("live", ALL_WAIT, || running.is_over()));

    let refused = place.run(&resume("live", CONCURRENCY));
    assert_eq!(refused.status.code(), Some(1));
    for told in ["another process is writing to the run in runs/live", "run.lock", "wait for it to end or stop it"] {
        assert!(err(&refused).contains(told), "{told:?} in {}", err(&refused));
    }
    if cfg!(target_os = "linux") {
        assert!(err(&refused).contains(&format!("(process {})", running.id())), "{}", err(&refused));
    }
    let refused = place.run(&["ledger", "rebuild", "runs/live"]);
    assert!(err(&refused).contains("another process is writing"), "{}", err(&refused));
    let refused = place.run(&begin("live", CONCURRENCY));
    assert!(err(&refused).contains("holds a run already; continue it with --resume"), "{}", err(&refused));
    assert_eq!(server.asked("live").0, ALL_WAIT, "whoever is refused has asked nothing");

    for verb in ["verify", "report", "replay"] {
        let read = place.run(&[verb, "runs/live"]);
        assert_eq!(read.status.code(), Some(0), "{verb}: {}", err(&read));
        assert!(!out(&read).is_empty());
    }
    assert_eq!(turns(&place.path("runs/live")).answered, ALL_WAIT - CONCURRENCY);

    server.release();
    assert_eq!(running.end().code, Some(0));
    assert_eq!(verdicts(&place.path("runs/live")), undisturbed.verdicts);
    assert_eq!(server.asked("live"), (undisturbed.calls, 0), "readers do not disturb it");
}

#[test]
fn a_place_that_cannot_be_written_is_refused_before_anybody_is_asked() {
    let (place, server) = (Place::new(), OracleServer::start());
    let undisturbed = Undisturbed::run(&place, &server, QUESTIONS, CONCURRENCY);
    server.furnish(&place, "killed", QUESTIONS);
    let running = place.start(&begin("killed", CONCURRENCY));
    server.wait_for("killed", undisturbed.calls / 2, || running.is_over());
    running.kill();
    let asked = server.asked("killed");
    let folder = place.path("runs/killed");

    let Some(whole) = Mount::read_only(&place.path("runs"), &place.path("runs")) else { return };
    server.furnish(&place, "new", QUESTIONS);
    for args in [begin("new", CONCURRENCY), resume("killed", CONCURRENCY)] {
        let refused = place.run(&args);
        assert_eq!(refused.status.code(), Some(1), "{args:?}");
        for told in ["cannot write runs", "Read-only file system", "make it writable, or use another folder"] {
            assert!(err(&refused).contains(told), "{told:?} in {}", err(&refused));
        }
    }
    drop(whole);
    for file in ["run.db", "run.lock"] {
        let Some(_file) = Mount::read_only(&folder.join(file), &folder.join(file)) else { return };
        let refused = place.run(&resume("killed", CONCURRENCY));
        assert_eq!(refused.status.code(), Some(1), "{file}");
        assert!(err(&refused).contains("Read-only file system"), "{file}: {}", err(&refused));
        assert!(err(&refused).contains(file) && err(&refused).contains("writable"), "{file}: {}", err(&refused));
    }
    assert_eq!(server.asked("new"), (0, 0));
    assert_eq!(server.asked("killed"), asked);

    let output = place.run(&resume("killed", CONCURRENCY));
    assert!(output.status.success(), "{}", err(&output));
    assert_eq!(verdicts(&folder), undisturbed.verdicts, "nothing was lost by trying");
}

#[test]
fn a_killed_run_is_read_whole_where_nothing_can_be_written() {
    let (place, server) = (Place::new(), OracleServer::start());
    let undisturbed = Undisturbed::run(&place, &server, QUESTIONS, CONCURRENCY);
    server.furnish(&place, "killed", QUESTIONS);
    server.hold_from(HELD_FROM);
    let running = place.start(&begin("killed", CONCURRENCY));
    assert!(server.wait_for("killed", ALL_WAIT, || running.is_over()));
    running.kill();
    assert!(
        place.path("runs/killed/run.db-wal").metadata().unwrap().len() > 0,
        "it is in the log, not in the database"
    );
    let Some(_mount) = Mount::read_only(&place.path("runs"), &place.path("read")) else { return };
    assert_eq!(turns(&place.path("read/killed")).answered, ALL_WAIT - CONCURRENCY);
    let reads: [&[&str]; 4] = [
        &["verify", "read/killed"],
        &["report", "read/killed", "--print-only"],
        &["replay", "read/killed"],
        &["compare", "read/killed", "read/killed"],
    ];
    for args in reads {
        let read = place.run(args);
        assert_eq!(read.status.code(), Some(0), "{args:?}: {}", err(&read));
    }
    assert!(undisturbed.calls > ALL_WAIT);
}
