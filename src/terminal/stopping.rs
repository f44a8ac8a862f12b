//! How a person ends a run: each request asks for more than the one before. The signals of the system arrive here
//! as messages; keys are the screen's business.

use std::io::Write;
use std::time::Duration;
use tokio::sync::mpsc;

/// Requests that may wait to be heard; more than three ask for nothing new.
const REQUESTS_MAX: usize = 4;

/// After SIGTERM those inside have so long to end; then the run is stopped. Schedulers send SIGKILL 30 seconds after
/// SIGTERM (Kubernetes and Slurm by default), and by then the ledger is closed and the report written.
pub(crate) const TERMINATED_GRACE: Duration = Duration::from_secs(20);

/// Who asks for the end of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Request {
    /// A person: Ctrl-C, or a key. They ask again when they have waited enough.
    Interrupt,
    /// The system, by SIGTERM: it asks once and does not wait for ever.
    Terminate,
}

impl Request {
    /// The exit code of a process that this ended, as shells write it: 128 and the signal's number.
    fn exit_code(self) -> i32 {
        match self {
            Request::Interrupt => 130,
            Request::Terminate => 143,
        }
    }
}

/// How far the ending of a run has been asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stopping {
    /// Not at all.
    #[default]
    No,
    /// Those inside go on to their end.
    Draining,
    /// At once, with the ledger written.
    AtOnce,
    /// Nobody waits any more.
    GivenUp,
}

impl Stopping {
    /// After one more request.
    pub(crate) fn next(self) -> Self {
        match self {
            Stopping::No => Stopping::Draining,
            Stopping::Draining => Stopping::AtOnce,
            Stopping::AtOnce | Stopping::GivenUp => Stopping::GivenUp,
        }
    }

    /// What a person is told about it, with what one more request would do.
    pub(crate) fn says(self) -> &'static str {
        match self {
            Stopping::No => "q or Ctrl-C: let the running episodes end",
            Stopping::Draining => "draining: no new episodes; once more stops at once",
            Stopping::AtOnce => "stopping: the ledger is being closed; once more leaves without waiting",
            Stopping::GivenUp => "left without waiting; what was acknowledged can be resumed",
        }
    }

    /// What is told when this stage was reached by a request.
    pub(crate) fn says_to(self, request: Request) -> &'static str {
        match (self, request) {
            (Stopping::Draining, Request::Terminate) => {
                "draining: no new episodes; stops in 20 s, or at once when asked again"
            }
            _ => self.says(),
        }
    }
}

/// Ctrl-C and SIGTERM, each as one message. They no longer end the process by themselves.
pub(crate) fn signals() -> mpsc::Receiver<Request> {
    let (requests, heard) = mpsc::channel(REQUESTS_MAX);
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        let kinds = [(SignalKind::interrupt(), Request::Interrupt), (SignalKind::terminate(), Request::Terminate)];
        for (kind, request) in kinds {
            match signal(kind) {
                Ok(mut signal) => {
                    let requests = requests.clone();
                    tokio::spawn(async move {
                        while signal.recv().await.is_some() {
                            pass_on(&requests, request);
                        }
                    });
                }
                Err(error) => tracing::warn!(%error, "a signal cannot be watched and ends the process as usual"),
            }
        }
    }
    #[cfg(not(unix))]
    tokio::spawn(async move {
        while tokio::signal::ctrl_c().await.is_ok() {
            pass_on(&requests, Request::Interrupt);
        }
    });
    heard
}

fn pass_on(requests: &mpsc::Sender<Request>, request: Request) {
    // A full queue holds more requests than there are answers to. When nobody listens any more, the run is over and
    // the signal means what it always means.
    if let Err(mpsc::error::TrySendError::Closed(_)) = requests.try_send(request) {
        let _nobody_reads = writeln!(std::io::stderr(), "left before the report was whole; `legwork report` makes it");
        std::process::exit(request.exit_code());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_request_asks_for_more_and_the_third_gives_up() {
        let stages: Vec<_> = std::iter::successors(Some(Stopping::No), |stage| Some(stage.next())).take(5).collect();
        assert_eq!(stages[..3], [Stopping::No, Stopping::Draining, Stopping::AtOnce]);
        assert_eq!(stages[3..], [Stopping::GivenUp, Stopping::GivenUp]);
    }

    #[test]
    fn what_is_told_fits_a_narrow_terminal_line() {
        for stage in [Stopping::No, Stopping::Draining, Stopping::AtOnce, Stopping::GivenUp] {
            for request in [Request::Interrupt, Request::Terminate] {
                assert!(stage.says_to(request).chars().count() <= 76, "{}", stage.says_to(request));
            }
        }
    }

    #[test]
    fn the_grace_that_is_told_is_the_grace_that_is_given_and_leaves_time_before_sigkill() {
        let told = format!("in {} s", TERMINATED_GRACE.as_secs());
        assert!(Stopping::Draining.says_to(Request::Terminate).contains(&told));
        assert!(TERMINATED_GRACE < Duration::from_secs(30));
    }
}
