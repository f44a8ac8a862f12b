//! A disk that fills up under a real run: the run fails and says why, what was acknowledged is there, and with more room
//! the resumed run has the undisturbed verdicts. Small disks are file systems in memory, which only root may mount.

use crate::crash::{Undisturbed, begin, resume, turns, verdicts};
use crate::oracle_server::OracleServer;
use crate::program::{Mount, Place, err, out};

const CONCURRENCY: u32 = 4;
const QUESTIONS: usize = 12;
/// What a run of this size needs, with its reports and a log that was not yet moved into the database.
const ENOUGH_KIB: u32 = 16_384;

#[test]
fn a_run_on_a_disk_that_fills_up_keeps_what_was_acknowledged_and_goes_on_with_more_room() {
    let (place, server) = (Place::new(), OracleServer::start());
    let undisturbed = Undisturbed::run(&place, &server, QUESTIONS, CONCURRENCY);
    // Full in the first turns, in the midst of it, and nearly at its end.
    for kib in [160, 400, 720] {
        let case = format!("full-{kib}");
        server.furnish(&place, &case, QUESTIONS);
        let folder = place.path("runs").join(&case);
        let Some(disk) = Mount::small(&folder, kib) else { return };
        let output = place.run(&begin(&case, CONCURRENCY));
        let said = err(&output);
        assert_eq!(output.status.code(), Some(1), "{case}: {said}");
        let last = said.lines().last().unwrap_or_default();
        for told in ["legwork: ", "is full", "make room", "--resume"] {
            assert!(last.contains(told), "{case}: {told:?} in {last:?} of {said}");
        }
        assert!(said.contains(&format!("--resume runs/{case}")), "{said}");
        let verified = place.run(&["verify", &format!("runs/{case}")]);
        assert!(verified.status.success(), "{case}: {}", err(&verified));
        let (turns, (asked, _)) = (turns(&folder), server.asked(&case));
        assert!(asked < undisturbed.calls, "{case}: the disk is too large to be full");
        assert!(asked <= turns.wanted, "{case}: {asked} turns were asked before what wants them was kept: {turns:?}");
        assert!(turns.answered + CONCURRENCY >= asked, "{case}: {asked} turns, {CONCURRENCY} in flight, but {turns:?}");
        disk.grow(ENOUGH_KIB);
        let output = place.run(&resume(&case, CONCURRENCY));
        assert!(output.status.success(), "{case}: {}", err(&output));
        assert_eq!(verdicts(&folder), undisturbed.verdicts, "{case}");
        assert_eq!(server.distinct(&case), undisturbed.distinct, "{case}");
        let repeated = server.asked(&case).1;
        assert!(repeated <= CONCURRENCY, "{case}: {repeated} turns were asked again");
    }
}

#[test]
fn a_disk_without_room_for_the_plan_says_to_begin_again_and_that_works() {
    let (place, server) = (Place::new(), OracleServer::start());
    let undisturbed = Undisturbed::run(&place, &server, QUESTIONS, CONCURRENCY);
    let Some(disk) = Mount::small(&place.path("runs/tiny"), 24) else { return };
    server.furnish(&place, "tiny", QUESTIONS);
    let output = place.run(&begin("tiny", CONCURRENCY));
    assert_eq!(output.status.code(), Some(1), "{}", err(&output));
    let said = err(&output);
    assert!(said.contains("is full; make room and begin the run again"), "{said}");
    assert!(!said.contains("--resume"), "there is nothing to resume: {said}");
    assert_eq!(server.asked("tiny"), (0, 0));
    disk.grow(ENOUGH_KIB);
    let output = place.run(&begin("tiny", CONCURRENCY));
    assert!(output.status.success(), "{}", err(&output));
    assert_eq!(verdicts(&place.path("runs/tiny")), undisturbed.verdicts);
}

#[test]
fn a_disk_that_is_full_when_a_run_is_opened_is_called_full() {
    let (place, server) = (Place::new(), OracleServer::start());
    let undisturbed = Undisturbed::run(&place, &server, QUESTIONS, CONCURRENCY);
    server.furnish(&place, "later", QUESTIONS);
    let Some(disk) = Mount::small(&place.path("runs/later"), ENOUGH_KIB) else { return };
    let running = place.start(&begin("later", CONCURRENCY));
    server.wait_for("later", undisturbed.calls / 2, || running.is_over());
    running.kill();
    std::fs::remove_file(place.path("runs/later/run.db-shm")).unwrap();
    // Somebody else has taken all the room that was left.
    let filler = place.path("runs/later/filler");
    let _is_full = std::fs::write(&filler, vec![0; ENOUGH_KIB as usize * 1024]);
    let asked = server.asked("later");
    let output = place.run(&resume("later", CONCURRENCY));
    assert_eq!(output.status.code(), Some(1), "{}", err(&output));
    assert!(err(&output).contains("is full; make room and continue with --resume"), "{}", err(&output));
    assert_eq!(server.asked("later"), asked, "nobody was asked anything");
    std::fs::remove_file(filler).unwrap();
    let output = place.run(&resume("later", CONCURRENCY));
    assert!(output.status.success(), "{}", err(&output));
    assert_eq!(verdicts(&place.path("runs/later")), undisturbed.verdicts);
    drop(disk);
}

#[test]
fn a_report_that_cannot_be_written_is_said_and_loses_nothing() {
    let (place, server) = (Place::new(), OracleServer::start());
    server.furnish(&place, "unreported", QUESTIONS);
    // A folder stands where the report should: no file can be put there.
    let in_the_way = place.path("runs/unreported/report.html");
    std::fs::create_dir_all(&in_the_way).unwrap();
    let output = place.run(&begin("unreported", CONCURRENCY));
    let said = err(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    for told in
        ["every episode of runs/unreported has ended and is kept", "report.html", "`legwork report runs/unreported`"]
    {
        assert!(said.contains(told), "{told:?} in {said}");
    }
    assert!(out(&output).contains("total"), "the table is printed all the same: {}", out(&output));
    assert_eq!(verdicts(&place.path("runs/unreported")).len(), QUESTIONS);
    std::fs::remove_dir(in_the_way).unwrap();
    let output = place.run(&["report", "runs/unreported"]);
    assert!(output.status.success() && place.path("runs/unreported/report.html").is_file(), "{}", err(&output));
}
