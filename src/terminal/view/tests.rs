//! What the view shows at three sizes, and that no id can break it.

use super::super::WatchMode;
use super::*;
use legwork_protocol::failure::FailureKind;
use legwork_protocol::generation::Route;
use legwork_protocol::id::EpisodeKey;
use legwork_protocol::outcome::Outcome;
use proptest::prelude::*;
use ratatui::Terminal;
use ratatui::backend::TestBackend;

fn key(question: &str) -> EpisodeKey {
    EpisodeKey { round: 0, question: question.into() }
}

fn snapshot() -> Snapshot {
    Snapshot {
        planned: 150,
        ended: 75,
        ended_before: 10,
        running: vec![(key("q-slow"), 31), (key("q-quick"), 2)],
        running_count: 2,
        tiers: vec![("easy".to_owned(), 30, 35), ("hard".to_owned(), 24, 40)],
        outcomes: [("correct", 54), ("wrong", 18), ("failed", 3)].into(),
        correct: 54,
        turns: 1_234,
        lookups: 567,
        tokens: [(Route::Coordinator, 8_000), (Route::Worker, 120_000)].into(),
        micros: 1_250_000,
        stumbles: [("timed out", 4)].into(),
        restarts: [("retriever", 1)].into(),
        elapsed_ms: 252_000,
        recent: [(key("q-last"), Outcome::Correct), (key("q-lost"), Outcome::Failed(FailureKind::ServerError))].into(),
        draining: false,
    }
}

fn options(mock: bool) -> WatchOptions {
    WatchOptions {
        mode: WatchMode::Live,
        title: "legwork eval".to_owned(),
        profile: "archive".to_owned(),
        mock,
        concurrency: 8,
    }
}

fn rates() -> Rates {
    Rates { episodes_per_min: Some(18.2), turns_per_s: Some(4.9), tokens_per_s: Some(812.0), eta_ms: Some(190_000) }
}

/// The drawn screen, one line of text a row.
fn drawn(width: u16, height: u16, snapshot: &Snapshot, mock: bool, change: impl FnOnce(&mut View<'_>)) -> String {
    let (options, rates) = (options(mock), rates());
    let mut view =
        View { snapshot, rates: &rates, options: &options, stopping: Stopping::No, silent_ms: 0, logs: Vec::new() };
    change(&mut view);
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| draw(frame, &view)).unwrap();
    let buffer = terminal.backend().buffer();
    let row = |y| (0..width).map(|x| buffer[(x, y)].symbol()).collect::<String>();
    (0..height).map(row).map(|row| row.trim_end().to_owned() + "\n").collect()
}

fn assert_shows(screen: &str, texts: &[&str]) {
    for text in texts {
        assert!(screen.contains(text), "{text:?} is missing in:\n{screen}");
    }
}

const ESSENTIALS: [&str; 5] = ["legwork eval", "75 / 150", "ETA 3 min 10 s", "72.00 %", "60.96–80.90 %"];

#[test]
fn a_usual_terminal_shows_everything() {
    let screen = drawn(80, 24, &snapshot(), false, |_| ());
    assert_shows(&screen, &ESSENTIALS);
    assert_shows(&screen, &["waiting", "73", "2 of 8", "· before", "4 min 12 s"]);
    assert_shows(&screen, &["easy", "85.71 %", "30/35", "hard", "24/40"]);
    assert_shows(&screen, &["18.2", "4.9", "812", "1,234", "567"]);
    assert_shows(&screen, &["correct", "wrong", "failed", "coordinator", "120,000", "1.2500"]);
    assert_shows(&screen, &["timed out", "restarts: retriever", "q-slow#0", "q-last#0", "server error"]);
    assert_shows(&screen, &["q or Ctrl-C: let the running episodes end"]);
    assert!(!screen.contains("MOCK"));
}

#[test]
fn a_wide_terminal_shows_the_tiers_intervals_too() {
    let screen = drawn(120, 40, &snapshot(), false, |_| ());
    assert_shows(&screen, &ESSENTIALS);
    assert_shows(&screen, &["70.62–93.74 %", "q-quick#0"]);
}

#[test]
fn a_tiny_terminal_shows_the_essentials() {
    let screen = drawn(40, 10, &snapshot(), true, |_| ());
    assert_shows(&screen, &ESSENTIALS);
    assert_shows(&screen, &["MOCK", "running 2", "waiting 73", "errors 4 · restarts 1", "18.2 ep/min", "q: drain"]);
}

#[test]
fn a_mock_run_says_so_at_every_size() {
    for (width, height) in [(40, 10), (80, 24), (120, 40)] {
        assert!(drawn(width, height, &snapshot(), true, |_| ()).starts_with(' '), "the banner is the first row");
        assert!(drawn(width, height, &snapshot(), true, |_| ()).lines().next().unwrap().contains("MOCK"));
    }
}

#[test]
fn before_the_first_end_there_are_dashes_and_no_division_by_zero() {
    let screen = drawn(80, 24, &Snapshot::default(), false, |view| {
        view.rates = &Rates { episodes_per_min: None, turns_per_s: None, tokens_per_s: None, eta_ms: None }
    });
    assert_shows(&screen, &["0 / 0 ended · 0.0 % · ETA –", "all", "–"]);
}

#[test]
fn longest_running_episodes_come_first_and_those_not_listed_are_counted() {
    let running = (0..64).map(|n| (key(&format!("q{n}")), n)).collect();
    let screen = drawn(80, 24, &Snapshot { running, running_count: 100, ..snapshot() }, false, |_| ());
    assert_shows(&screen, &["63  q63#0", "more"]);
    let screen = drawn(80, 24, &Snapshot { running_count: 100, ..snapshot() }, false, |_| ());
    assert_shows(&screen, &["98 not listed"]);
}

#[test]
fn draining_stopping_and_silence_are_told() {
    let draining = Snapshot { draining: true, ..snapshot() };
    let screen = drawn(80, 24, &draining, false, |view| view.stopping = Stopping::Draining);
    assert_shows(&screen, &["not entered", "draining: no new episodes; once more stops at once"]);
    let screen = drawn(40, 10, &draining, false, |view| view.stopping = Stopping::AtOnce);
    assert_shows(&screen, &["stopping · q: do not wait"]);
    let screen = drawn(80, 24, &snapshot(), false, |view| view.silent_ms = 65_000);
    assert_shows(&screen, &["no news from the board for 1 min 05 s"]);
}

#[test]
fn log_lines_appear_where_there_is_room_and_take_none_of_the_lists() {
    let logs = vec!["older".to_owned(), "actor died".to_owned()];
    let screen = drawn(80, 30, &snapshot(), false, |view| view.logs = logs.clone());
    assert_shows(&screen, &["older", "actor died", "q-slow#0"]);
    let screen = drawn(80, 20, &snapshot(), false, |view| view.logs = logs);
    assert_shows(&screen, &["q-slow#0"]);
    assert!(!screen.contains("actor died"));
}

#[test]
fn an_id_that_holds_escapes_is_written_out() {
    let running = vec![(key("evil\x1b[2J\r\u{202e}id"), 1)];
    let screen = drawn(120, 40, &Snapshot { running, ..snapshot() }, false, |_| ());
    assert_shows(&screen, &["evil\\x1b[2J\\r\\u{202e}id#0"]);
}

proptest! {
    #[test]
    fn any_size_and_any_names_draw_without_a_panic(
        width in 1u16..200,
        height in 1u16..60,
        name in any::<String>(),
        counts in prop::array::uniform6(any::<u32>()),
        mock in any::<bool>(),
    ) {
        let [planned, ended, correct, running_count, turns, elapsed_ms] = counts.map(u64::from);
        let odd = Snapshot {
            planned, ended, correct, running_count, turns, elapsed_ms,
            running: vec![(key(&name), u32::MAX)],
            tiers: (0..20).map(|n| (format!("{name}{n}"), correct, ended)).collect(),
            recent: [(key(&name), Outcome::Failed(FailureKind::EmptyCompletion))].into(),
            ..snapshot()
        };
        let screen = drawn(width, height, &odd, mock, |view| view.logs = vec![name.clone(); 3]);
        prop_assert_eq!(screen.lines().count(), height as usize);
    }
}
