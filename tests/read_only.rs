//! Runs read where nothing can be written: one that has ended, one that was killed, one whose log's index is gone.
//! Read-only places are bind mounts, which only root may make.

use crate::crash::{Undisturbed, begin, verdicts};
use crate::oracle_server::OracleServer;
use crate::program::{Mount, Place, err, out};

const CONCURRENCY: u32 = 3;
const QUESTIONS: usize = 9;

#[test]
fn every_reading_verb_works_on_a_finished_run_where_nothing_can_be_written() {
    let (place, server) = (Place::new(), OracleServer::start());
    let undisturbed = Undisturbed::run(&place, &server, QUESTIONS, CONCURRENCY);
    // Letters that mean something in the name of a database.
    let odd = place.path("runs/odd ?#%20");
    std::fs::rename(place.path("runs/undisturbed"), &odd).unwrap();
    let Some(_mount) = Mount::read_only(&place.path("runs"), &place.path("read")) else { return };
    assert_eq!(verdicts(&place.path("read/odd ?#%20")), undisturbed.verdicts);
    let reads: [&[&str]; 5] = [
        &["verify", "read/odd ?#%20"],
        &["report", "read/odd ?#%20", "--print-only"],
        &["replay", "read/odd ?#%20"],
        &["compare", "read/odd ?#%20", "read/odd ?#%20"],
        &["ledger", "export", "csv", "read/odd ?#%20", "--out", "csv"],
    ];
    for args in reads {
        let read = place.run(args);
        assert_eq!(read.status.code(), Some(0), "{args:?}: {}", err(&read));
    }
    let unwritten = place.run(&["report", "read/odd ?#%20"]);
    assert_eq!(unwritten.status.code(), Some(1));
    assert!(err(&unwritten).contains("--print-only writes no files"), "{}", err(&unwritten));
    assert!(out(&unwritten).contains("total"), "the table is printed all the same");
}

#[test]
fn a_killed_run_without_its_logs_index_says_what_to_do_instead_of_leaving_the_log_out() {
    let (place, server) = (Place::new(), OracleServer::start());
    let undisturbed = Undisturbed::run(&place, &server, QUESTIONS, CONCURRENCY);
    server.furnish(&place, "killed", QUESTIONS);
    let running = place.start(&begin("killed", CONCURRENCY));
    server.wait_for("killed", undisturbed.calls / 2, || running.is_over());
    running.kill();
    std::fs::remove_file(place.path("runs/killed/run.db-shm")).unwrap();
    let Some(_mount) = Mount::read_only(&place.path("runs"), &place.path("read")) else { return };
    let refused = place.run(&["verify", "read/killed"]);
    assert_eq!(refused.status.code(), Some(1), "{}", out(&refused));
    assert!(err(&refused).contains("read from a copy of the whole folder"), "{}", err(&refused));
}
