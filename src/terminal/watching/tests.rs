//! The loop against a board and a run that only write down what they hear, on a paused clock.

use super::super::WatchMode;
use super::*;
use crate::terminal::screen::Lines;
use ractor::{Actor, ActorProcessingErr};
use std::sync::{Arc, Mutex};

/// What was shown and heard, in order.
type Heard = Arc<Mutex<Vec<String>>>;

/// A board of a run with one episode ended for each look, that falls silent after so many looks.
struct FakeBoard {
    silent_from: u64,
}

impl Actor for FakeBoard {
    type Msg = BoardMsg;
    type State = (u64, Vec<BoardMsg>);
    type Arguments = ();

    async fn pre_start(&self, _: ActorRef<BoardMsg>, (): ()) -> Result<Self::State, ActorProcessingErr> {
        Ok((0, Vec::new()))
    }

    async fn handle(
        &self,
        _: ActorRef<BoardMsg>,
        message: BoardMsg,
        (looks, kept): &mut Self::State,
    ) -> Result<(), ActorProcessingErr> {
        *looks += 1;
        if *looks > self.silent_from {
            // Keeping the message keeps its reply owed.
            kept.push(message);
        } else if let BoardMsg::Look(reply) = message {
            reply.send(Snapshot { planned: 100, ended: *looks, elapsed_ms: *looks * 2_000, ..Snapshot::default() });
        }
        Ok(())
    }
}

/// A run that writes down its commands.
struct FakeRun(Heard);

impl Actor for FakeRun {
    type Msg = RunMsg;
    type State = ();
    type Arguments = ();

    async fn pre_start(&self, _: ActorRef<RunMsg>, (): ()) -> Result<(), ActorProcessingErr> {
        Ok(())
    }

    async fn handle(&self, _: ActorRef<RunMsg>, message: RunMsg, (): &mut ()) -> Result<(), ActorProcessingErr> {
        self.0.lock().unwrap().push(format!("run hears {message:?}"));
        Ok(())
    }
}

/// A screen whose terminal breaks after so many calls.
struct Breaking {
    left: usize,
    heard: Heard,
    requests: Vec<usize>,
}

impl Breaking {
    fn call(&mut self, what: String) -> io::Result<()> {
        let Some(left) = self.left.checked_sub(1) else {
            self.heard.lock().unwrap().push("broken".to_owned());
            return Err(io::ErrorKind::BrokenPipe.into());
        };
        self.left = left;
        self.heard.lock().unwrap().push(what);
        Ok(())
    }
}

impl Screen for Breaking {
    fn every(&self) -> Option<Duration> {
        Some(super::super::LIVE_EVERY)
    }
    fn begin(&mut self, _: &View<'_>) -> io::Result<()> {
        self.call("begin".to_owned())
    }
    fn show(&mut self, view: &View<'_>, _: bool) -> io::Result<()> {
        self.call(format!("show {}", view.snapshot.ended))
    }
    fn requests(&mut self) -> io::Result<usize> {
        Ok(self.requests.pop().unwrap_or(0))
    }
    fn say(&mut self, text: &str) -> io::Result<()> {
        self.call(format!("say {text}"))
    }
    fn end(&mut self, _: &View<'_>, end: &RunEnd, _: bool) -> io::Result<()> {
        self.call(format!("end {end:?}"))
    }
}

/// A writer that shares what was written.
#[derive(Clone, Default)]
struct Written(Arc<Mutex<Vec<u8>>>);

impl io::Write for Written {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

struct Stand {
    heard: Heard,
    signals: mpsc::Sender<Request>,
    over: oneshot::Sender<RunEnd>,
    watching: Watching,
}

async fn stand(screen: Box<dyn Screen>, heard: &Heard, silent_from: u64) -> Stand {
    let board = Address::vacant("board");
    board.point_at(Actor::spawn(None, FakeBoard { silent_from }, ()).await.unwrap().0);
    let (run, _) = Actor::spawn(None, FakeRun(Arc::clone(heard)), ()).await.unwrap();
    let (signal, signals) = mpsc::channel(4);
    let (over_sender, over) = oneshot::channel();
    let options = WatchOptions {
        mode: WatchMode::Plain,
        title: "eval".to_owned(),
        profile: "archive".to_owned(),
        mock: true,
        concurrency: 8,
    };
    let watching = Watching { board, run, over, options, signals, screen };
    Stand { heard: Arc::clone(heard), signals: signal, over: over_sender, watching }
}

fn breaking(heard: &Heard, left: usize, requests: Vec<usize>) -> Box<dyn Screen> {
    Box::new(Breaking { left, heard: Arc::clone(heard), requests })
}

fn heard(stand: &Heard, starts_with: &str) -> Vec<String> {
    stand.lock().unwrap().iter().filter(|line| line.starts_with(starts_with)).cloned().collect()
}

#[tokio::test(start_paused = true)]
async fn plain_lines_begin_count_and_end() {
    let (written, noted) = (Written::default(), Heard::default());
    let stand = stand(Box::new(Lines::new(written.clone())), &noted, u64::MAX).await;
    let watched = tokio::spawn(attend(stand.watching));
    tokio::time::sleep(Duration::from_secs(5)).await;
    stand.over.send(RunEnd::Complete).unwrap();
    assert_eq!(watched.await.unwrap(), RunEnd::Complete);
    let text = String::from_utf8(written.0.lock().unwrap().clone()).unwrap();
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(lines[0], "run title=eval profile=archive concurrency=8 mock=true");
    assert!(lines[1].starts_with("progress elapsed_s=2 ended=1 planned=100"), "{text}");
    assert!(
        lines[lines.len() - 2].starts_with("progress elapsed_s=8 ended=4 "),
        "one look at 0, 2, 4 s, the last: {text}"
    );
    assert_eq!(lines[lines.len() - 1], "end state=complete");
    assert!(!text.contains('\x1b'));
}

#[tokio::test(start_paused = true)]
async fn a_board_that_has_left_gets_no_last_line_of_old_figures() {
    let (written, noted) = (Written::default(), Heard::default());
    let stand = stand(Box::new(Lines::new(written.clone())), &noted, 0).await;
    stand.over.send(RunEnd::Complete).unwrap();
    assert_eq!(attend(stand.watching).await, RunEnd::Complete);
    let text = String::from_utf8(written.0.lock().unwrap().clone()).unwrap();
    assert_eq!(text.lines().skip(1).collect::<Vec<_>>(), ["end state=complete"]);
}

#[tokio::test(start_paused = true)]
async fn the_first_signal_drains_the_second_stops_the_third_leaves() {
    let noted = Heard::default();
    let stand = stand(breaking(&noted, usize::MAX, Vec::new()), &noted, u64::MAX).await;
    let watched = tokio::spawn(attend(stand.watching));
    for _ in 0..3 {
        stand.signals.send(Request::Interrupt).await.unwrap();
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    let RunEnd::Failed(failure) = watched.await.unwrap() else { panic!("expected a failure") };
    assert_eq!(failure.kind, FailureKind::Cancelled);
    assert_eq!(heard(&stand.heard, "run hears"), ["run hears Drain", "run hears Stop"]);
    assert_eq!(heard(&stand.heard, "say").len(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_terminated_run_drains_and_is_stopped_before_the_system_loses_its_patience() {
    let noted = Heard::default();
    let stand = stand(breaking(&noted, usize::MAX, Vec::new()), &noted, u64::MAX).await;
    let watched = tokio::spawn(attend(stand.watching));
    stand.signals.send(Request::Terminate).await.unwrap();
    tokio::time::sleep(TERMINATED_GRACE - Duration::from_secs(1)).await;
    assert_eq!(heard(&stand.heard, "run hears"), ["run hears Drain"]);
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(heard(&stand.heard, "run hears"), ["run hears Drain", "run hears Stop"]);
    tokio::time::sleep(TERMINATED_GRACE * 3).await;
    assert!(!watched.is_finished(), "the ledger is given the time that it needs");
    stand.over.send(RunEnd::Incomplete { left: 2 }).unwrap();
    assert_eq!(watched.await.unwrap(), RunEnd::Incomplete { left: 2 });
}

#[tokio::test(start_paused = true)]
async fn an_interrupted_run_drains_as_long_as_it_takes() {
    let noted = Heard::default();
    let stand = stand(breaking(&noted, usize::MAX, Vec::new()), &noted, u64::MAX).await;
    let watched = tokio::spawn(attend(stand.watching));
    stand.signals.send(Request::Interrupt).await.unwrap();
    tokio::time::sleep(TERMINATED_GRACE * 10).await;
    assert_eq!(heard(&stand.heard, "run hears"), ["run hears Drain"]);
    stand.signals.send(Request::Terminate).await.unwrap();
    tokio::time::sleep(Duration::from_millis(10)).await;
    assert_eq!(heard(&stand.heard, "run hears"), ["run hears Drain", "run hears Stop"], "and then is stopped at once");
    stand.over.send(RunEnd::Incomplete { left: 2 }).unwrap();
    watched.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn keys_ask_as_signals_do() {
    let noted = Heard::default();
    let stand = stand(breaking(&noted, usize::MAX, vec![1, 0, 1]), &noted, u64::MAX).await;
    let watched = tokio::spawn(attend(stand.watching));
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(heard(&stand.heard, "run hears"), ["run hears Drain", "run hears Stop"]);
    stand.over.send(RunEnd::Incomplete { left: 3 }).unwrap();
    assert_eq!(watched.await.unwrap(), RunEnd::Incomplete { left: 3 });
    assert_eq!(heard(&stand.heard, "end"), ["end Incomplete { left: 3 }"]);
}

#[tokio::test(start_paused = true)]
async fn a_screen_that_breaks_leaves_the_run_alone() {
    let noted = Heard::default();
    let stand = stand(breaking(&noted, 3, Vec::new()), &noted, u64::MAX).await;
    let watched = tokio::spawn(attend(stand.watching));
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(*stand.heard.lock().unwrap(), ["begin", "show 1", "show 2", "broken"], "and is not tried again");
    stand.over.send(RunEnd::Complete).unwrap();
    assert_eq!(watched.await.unwrap(), RunEnd::Complete);
}

#[tokio::test(start_paused = true)]
async fn a_silent_board_is_asked_again_and_holds_nothing_up() {
    let noted = Heard::default();
    let stand = stand(breaking(&noted, usize::MAX, Vec::new()), &noted, 2).await;
    let watched = tokio::spawn(attend(stand.watching));
    tokio::time::sleep(Duration::from_secs(12)).await;
    stand.signals.send(Request::Interrupt).await.unwrap();
    tokio::time::sleep(Duration::from_millis(10)).await;
    assert_eq!(heard(&stand.heard, "run hears"), ["run hears Drain"], "a request does not wait for the board");
    let shown = heard(&stand.heard, "show");
    assert_eq!(shown, ["show 1", "show 2", "show 2", "show 2", "show 2"], "two given up, one for the request");
    stand.over.send(RunEnd::Complete).unwrap();
    assert_eq!(watched.await.unwrap(), RunEnd::Complete);
}

#[tokio::test(start_paused = true)]
async fn a_run_that_dies_without_a_word_is_a_named_failure() {
    let noted = Heard::default();
    let stand = stand(Box::new(Silent), &noted, u64::MAX).await;
    drop(stand.over);
    let RunEnd::Failed(failure) = attend(stand.watching).await else { panic!("expected a failure") };
    assert_eq!(failure.kind, FailureKind::ActorDied);
    assert!(failure.detail.contains("resume the run"), "{failure}");
}
