//! The program under way: what it says on standard error is read line by line, so that a test waits for what happens
//! and for no time to pass. Every wait has an end, which is a failure that shows all that was said.

use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

/// How long anything may take that a test waits for; far more than it takes on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// The program under way. Dropping it kills it.
pub(crate) struct Running {
    child: Child,
    said: Arc<Said>,
    reader: Option<JoinHandle<()>>,
}

/// What it has said so far.
#[derive(Default)]
struct Said {
    lines: Mutex<Lines>,
    more: Condvar,
}

#[derive(Default)]
struct Lines {
    all: Vec<String>,
    is_all: bool,
}

/// How it ended.
pub(crate) struct End {
    /// The exit code, or none if a signal ended it.
    pub(crate) code: Option<i32>,
    /// The signal that ended it, or none.
    pub(crate) signal: Option<i32>,
    /// All that it said.
    pub(crate) err: String,
}

impl Running {
    /// Starts it.
    pub(super) fn start(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let said = Arc::new(Said::default());
        let (lines, err) = (Arc::clone(&said), child.stderr.take().unwrap());
        let reader = std::thread::spawn(move || {
            for line in BufReader::new(err).split(b'\n').map_while(Result::ok) {
                lines.lines.lock().unwrap().all.push(String::from_utf8_lossy(&line).into_owned());
                lines.more.notify_all();
            }
            lines.lines.lock().unwrap().is_all = true;
            lines.more.notify_all();
        });
        Self { child, said, reader: Some(reader) }
    }

    /// Waits until it says a line that holds `text`; false if it ends without.
    pub(crate) fn says(&self, text: &str) -> bool {
        let has_said = |lines: &Lines| lines.all.iter().any(|line| line.contains(text));
        let lines = self.said.lines.lock().unwrap();
        let waits = |lines: &mut Lines| !has_said(lines) && !lines.is_all;
        let (lines, waited) = self.said.more.wait_timeout_while(lines, PATIENCE, waits).unwrap();
        assert!(!waited.timed_out(), "{text:?} was not said:\n{}", lines.all.join("\n"));
        has_said(&lines)
    }

    /// Waits until it says a line that holds `text`, which it must.
    #[track_caller]
    pub(crate) fn must_say(&self, text: &str) {
        assert!(self.says(text), "it ended without {text:?}:\n{}", self.said());
    }

    /// Whether it has ended.
    pub(crate) fn is_over(&self) -> bool {
        self.said.lines.lock().unwrap().is_all
    }

    /// Its process.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends it a signal by name, such as `INT`.
    pub(crate) fn signal(&self, name: &str) {
        let sent = Command::new("kill").args([format!("-{name}"), self.id().to_string()]).status().unwrap();
        assert!(sent.success(), "it was gone before {name}:\n{}", self.said());
    }

    /// Waits until it has ended by itself.
    pub(crate) fn end(mut self) -> End {
        let lines = self.said.lines.lock().unwrap();
        let (lines, waited) = self.said.more.wait_timeout_while(lines, PATIENCE, |lines| !lines.is_all).unwrap();
        assert!(!waited.timed_out(), "it did not end:\n{}", lines.all.join("\n"));
        drop(lines);
        let status = self.child.wait().unwrap();
        self.ended(status)
    }

    /// Kills it, or takes its end if it has ended already.
    pub(crate) fn kill(mut self) -> End {
        let _ended_already = self.child.kill();
        let status = self.child.wait().unwrap();
        self.ended(status)
    }

    fn ended(&mut self, status: ExitStatus) -> End {
        self.reader.take().unwrap().join().unwrap();
        End { code: status.code(), signal: status.signal(), err: self.said() }
    }

    /// All that it has said so far.
    pub(crate) fn said(&self) -> String {
        self.said.lines.lock().unwrap().all.join("\n")
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ended_already = self.child.kill();
        let _status = self.child.wait();
    }
}
