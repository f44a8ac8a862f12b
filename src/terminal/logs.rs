//! Where log lines go while the live view owns the terminal: they are held, the last of them shown in the view,
//! and printed when the screen is given back. A terminal is one thing of the whole process, and so is this.

use legwork_protocol::untrusted::Untrusted;
use std::collections::VecDeque;
use std::io::{self, Write};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Lines that are held; older ones are dropped and counted.
pub(crate) const HELD_MAX: usize = 500;
/// Characters of a held line.
const LINE_CHARS_MAX: usize = 2_000;

static LOGS: Mutex<Logs> = Mutex::new(Logs::new());

/// Log lines on their way to standard error.
struct Logs {
    is_held: bool,
    lines: VecDeque<Line>,
    dropped: u64,
}

struct Line {
    text: String,
    /// Printed in the end, and not shown in the view.
    is_detail: bool,
}

/// A writer for `tracing_subscriber`: pass [`log_writer`] to `with_writer`.
#[derive(Clone, Copy, Debug)]
pub struct LogWriter(());

/// A writer to standard error that never disturbs the live view.
pub fn log_writer() -> LogWriter {
    LogWriter(())
}

impl Write for LogWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut logs = lock();
        if logs.is_held {
            String::from_utf8_lossy(bytes).lines().for_each(|line| logs.push(line, false));
        } else {
            io::stderr().write_all(bytes)?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}

/// From now on lines are held.
pub(crate) fn hold() {
    lock().is_held = true;
}

/// Lines go to standard error again; those held are returned to be printed.
pub(crate) fn release() -> Vec<String> {
    lock().release()
}

/// Holds a message and its detail, such as a backtrace, if lines are held now; tells whether.
pub(crate) fn hold_message(text: &str, detail: &str) -> bool {
    let mut logs = lock();
    if logs.is_held {
        text.lines().for_each(|line| logs.push(line, false));
        detail.lines().for_each(|line| logs.push(line, true));
    }
    logs.is_held
}

/// The last lines held but for details, oldest first.
pub(crate) fn last(lines: usize) -> Vec<String> {
    let logs = lock();
    let newest = logs.lines.iter().rev().filter(|line| !line.is_detail).take(lines);
    let mut last: Vec<_> = newest.map(|line| line.text.clone()).collect();
    last.reverse();
    last
}

/// A thread that died while holding the lock has left whole lines behind.
fn lock() -> MutexGuard<'static, Logs> {
    LOGS.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Logs {
    const fn new() -> Self {
        Self { is_held: false, lines: VecDeque::new(), dropped: 0 }
    }

    fn push(&mut self, line: &str, is_detail: bool) {
        if self.lines.len() == HELD_MAX {
            self.lines.pop_front();
            self.dropped += 1;
        }
        let text = Untrusted::new(line).for_log(LINE_CHARS_MAX).into_owned();
        self.lines.push_back(Line { text, is_detail });
    }

    fn release(&mut self) -> Vec<String> {
        self.is_held = false;
        let dropped = std::mem::take(&mut self.dropped);
        let told = (dropped > 0).then(|| format!("({dropped} older log lines were dropped)"));
        told.into_iter().chain(self.lines.drain(..).map(|line| line.text)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn held_lines_come_back_in_order_once_and_clean() {
        let mut logs = Logs::new();
        logs.push("first", false);
        logs.push("second \x1b[31m", true);
        assert_eq!(logs.release(), ["first", "second \\x1b[31m"]);
        assert!(logs.release().is_empty());
    }

    #[test]
    fn the_oldest_lines_give_way_and_are_counted() {
        let mut logs = Logs::new();
        (0..HELD_MAX + 7).for_each(|n| logs.push(&n.to_string(), false));
        let lines = logs.release();
        assert_eq!(lines.len(), HELD_MAX + 1);
        assert_eq!(lines[0], "(7 older log lines were dropped)");
        assert_eq!(lines[1], "7");
    }
}
