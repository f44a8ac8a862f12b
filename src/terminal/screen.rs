//! The places where a run is shown: the live screen, plain lines, or nowhere. The live screen takes the terminal and
//! gives it back on every way out: a return, a drop, a panic here or in any actor.

use super::WatchMode;
use super::fields;
use super::logs;
use super::plain::{self, Worth};
use super::view::{self, View};
use legwork_actors::run::RunEnd;
use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::cursor::Show;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode};
use std::backtrace::{Backtrace, BacktraceStatus};
use std::io::{self, BufWriter, IsTerminal, Stderr, Write};
use std::sync::Once;
use std::time::Duration;

/// Events of the terminal that are taken in at a time; the rest waits for the next look.
const EVENTS_MAX: usize = 256;

/// Where a run is shown.
pub(crate) trait Screen: Send {
    /// Between two looks, or none if nothing is shown.
    fn every(&self) -> Option<Duration>;
    /// The run has begun.
    fn begin(&mut self, view: &View<'_>) -> io::Result<()>;
    /// How it stands. `is_news` is false if the board did not answer.
    fn show(&mut self, view: &View<'_>, is_news: bool) -> io::Result<()>;
    /// Requests to end it that came by key since the last call.
    fn requests(&mut self) -> io::Result<usize>;
    /// Something that a person should be told.
    fn say(&mut self, text: &str) -> io::Result<()>;
    /// It is over. `is_news` is false if the board had left already, so that the view is of some time before.
    fn end(&mut self, view: &View<'_>, end: &RunEnd, is_news: bool) -> io::Result<()>;
}

/// The screen for a mode, or the next plainer one that can be had.
pub(crate) fn open(mode: WatchMode) -> Box<dyn Screen> {
    match mode {
        WatchMode::Live => match Live::open() {
            Ok(live) => Box::new(live),
            Err(error) => {
                tracing::warn!(%error, "the live view cannot have the terminal: plain lines instead");
                Box::new(Lines::new(io::stderr()))
            }
        },
        WatchMode::Plain => Box::new(Lines::new(io::stderr())),
        WatchMode::Silent => Box::new(Silent),
    }
}

/// The live view on standard error.
struct Live {
    terminal: Terminal<CrosstermBackend<BufWriter<Stderr>>>,
    _held: Held<Stderr>,
}

impl Live {
    fn open() -> io::Result<Self> {
        if !io::stderr().is_terminal() {
            return Err(io::Error::other("expected a terminal at standard error, got something else: use --plain"));
        }
        catch_panic_messages();
        let held = Held::take(io::stderr(), true)?;
        let terminal = Terminal::new(CrosstermBackend::new(BufWriter::new(io::stderr())))?;
        Ok(Self { terminal, _held: held })
    }
}

impl Screen for Live {
    fn every(&self) -> Option<Duration> {
        Some(super::LIVE_EVERY)
    }

    fn begin(&mut self, view: &View<'_>) -> io::Result<()> {
        self.show(view, true)
    }

    fn show(&mut self, view: &View<'_>, _is_news: bool) -> io::Result<()> {
        self.terminal.draw(|frame| view::draw(frame, view)).map(drop)
    }

    fn requests(&mut self) -> io::Result<usize> {
        let mut requests = 0;
        for _ in 0..EVENTS_MAX {
            if !event::poll(Duration::ZERO)? {
                break;
            }
            if let Event::Key(key) = event::read()? {
                requests += usize::from(is_request(&key));
            }
        }
        Ok(requests)
    }

    fn say(&mut self, _text: &str) -> io::Result<()> {
        // The view's last line says it.
        Ok(())
    }

    fn end(&mut self, view: &View<'_>, _end: &RunEnd, is_news: bool) -> io::Result<()> {
        self.show(view, is_news)
    }
}

/// Whether a key asks for the end: `q`, or Ctrl-C, which is a key and no signal while the terminal is raw.
fn is_request(key: &KeyEvent) -> bool {
    let is_ctrl_c = key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL);
    let is_q = matches!(key.code, KeyCode::Char('q' | 'Q')) && !key.modifiers.contains(KeyModifiers::CONTROL);
    key.kind == KeyEventKind::Press && (is_ctrl_c || is_q)
}

/// A terminal that was taken: raw, on the alternate screen, with log lines held. Dropping it gives all of it back.
struct Held<W: Write> {
    out: W,
    is_raw: bool,
}

impl<W: Write> Held<W> {
    /// `with_raw` is false only where there is no terminal to be made raw.
    fn take(out: W, with_raw: bool) -> io::Result<Self> {
        if with_raw {
            enable_raw_mode()?;
        }
        let mut held = Self { out, is_raw: with_raw };
        logs::hold();
        execute!(held.out, EnterAlternateScreen)?;
        Ok(held)
    }
}

impl<W: Write> Drop for Held<W> {
    fn drop(&mut self) {
        // Each step is tried whatever became of the one before: there is nobody left to tell.
        if self.is_raw {
            let _unraw = disable_raw_mode();
        }
        let _left = execute!(self.out, LeaveAlternateScreen, Show);
        for line in logs::release() {
            let _printed = writeln!(self.out, "{line}");
        }
        let _flushed = self.out.flush();
    }
}

/// While the terminal is taken, the message of a panic is held with the log lines: an actor that panics is restarted,
/// and the view goes on. A panic of the view itself unwinds through [`Held`], which prints the message.
fn catch_panic_messages() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            let backtrace = Backtrace::capture();
            let is_wanted = backtrace.status() == BacktraceStatus::Captured;
            let detail = if is_wanted { backtrace.to_string() } else { String::new() };
            if !logs::hold_message(&panic.to_string(), &detail) {
                usual(panic);
            }
        }));
    });
}

/// Plain lines.
pub(crate) struct Lines<W> {
    out: W,
    worth: Worth,
}

impl<W: Write> Lines<W> {
    pub(crate) fn new(out: W) -> Self {
        Self { out, worth: Worth::default() }
    }

    fn line(&mut self, line: &str) -> io::Result<()> {
        // In one piece, so that lines of other writers do not come in between.
        self.out.write_all(format!("{line}\n").as_bytes())?;
        self.out.flush()
    }
}

impl<W: Write + Send> Screen for Lines<W> {
    fn every(&self) -> Option<Duration> {
        Some(super::PLAIN_EVERY)
    }

    fn begin(&mut self, view: &View<'_>) -> io::Result<()> {
        self.line(&plain::start_line(view.options))
    }

    fn show(&mut self, view: &View<'_>, is_news: bool) -> io::Result<()> {
        if is_news && self.worth.is_due(view.snapshot) {
            self.line(&plain::progress_line(view.snapshot, view.rates, view.options.mock))?;
        }
        Ok(())
    }

    fn requests(&mut self) -> io::Result<usize> {
        Ok(0)
    }

    fn say(&mut self, text: &str) -> io::Result<()> {
        self.line(&plain::notice_line(text))
    }

    fn end(&mut self, view: &View<'_>, end: &RunEnd, is_news: bool) -> io::Result<()> {
        if is_news {
            self.line(&plain::progress_line(view.snapshot, view.rates, view.options.mock))?;
        }
        self.line(&plain::end_line(end))
    }
}

/// Nowhere; only what answers a person's own request is said.
pub(crate) struct Silent;

impl Screen for Silent {
    fn every(&self) -> Option<Duration> {
        None
    }

    fn begin(&mut self, _view: &View<'_>) -> io::Result<()> {
        Ok(())
    }

    fn show(&mut self, _view: &View<'_>, _is_news: bool) -> io::Result<()> {
        Ok(())
    }

    fn requests(&mut self) -> io::Result<usize> {
        Ok(0)
    }

    fn say(&mut self, text: &str) -> io::Result<()> {
        writeln!(io::stderr(), "{}", fields::text(text))
    }

    fn end(&mut self, _view: &View<'_>, _end: &RunEnd, _is_news: bool) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, Mutex};

    #[derive(Clone, Default)]
    struct Shared(Arc<Mutex<Vec<u8>>>);

    impl Write for Shared {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// One test only holds log lines: they are one thing of the whole process.
    #[test]
    fn a_panic_gives_the_terminal_back_and_then_prints_what_was_held() {
        let out = Shared::default();
        let written = out.clone();
        let panicked = std::panic::catch_unwind(move || {
            let _held = Held::take(out, false).unwrap();
            write!(logs::log_writer(), "a log line\x1b[2J").unwrap();
            assert!(logs::hold_message("an actor panicked", "0: a frame"));
            assert_eq!(logs::last(1), ["an actor panicked"], "the view has no room for details");
            // Does not call the panic hook, so that the test prints nothing.
            std::panic::resume_unwind(Box::new("on purpose"));
        });
        assert!(panicked.is_err());
        let written = String::from_utf8(written.0.lock().unwrap().clone()).unwrap();
        assert_eq!(
            written, "\x1b[?1049h\x1b[?1049l\x1b[?25ha log line\\x1b[2J\nan actor panicked\n0: a frame\n",
            "entered, left, cursor shown, lines printed"
        );
        assert!(!logs::hold_message("after", ""), "lines are no longer held");
    }

    #[test]
    fn q_and_ctrl_c_ask_for_the_end_and_their_release_does_not() {
        let key = |code, modifiers| KeyEvent::new(code, modifiers);
        assert!(is_request(&key(KeyCode::Char('q'), KeyModifiers::NONE)));
        assert!(is_request(&key(KeyCode::Char('Q'), KeyModifiers::SHIFT)));
        assert!(is_request(&key(KeyCode::Char('c'), KeyModifiers::CONTROL)));
        assert!(!is_request(&key(KeyCode::Char('c'), KeyModifiers::NONE)));
        assert!(!is_request(&key(KeyCode::Char('x'), KeyModifiers::CONTROL)));
        let mut released = key(KeyCode::Char('q'), KeyModifiers::NONE);
        released.kind = KeyEventKind::Release;
        assert!(!is_request(&released));
    }
}
