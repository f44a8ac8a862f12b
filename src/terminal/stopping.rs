//! How a person ends a run: each request asks for more than the one before. The signals of the system arrive here
//! as messages; keys are the screen's business.

use tokio::sync::mpsc;

/// Requests that may wait to be heard; more than three ask for nothing new.
const REQUESTS_MAX: usize = 4;

/// The exit code of a process that a signal ended, as shells write it for Ctrl-C.
const EXIT_INTERRUPTED: i32 = 130;

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
}

/// Ctrl-C and SIGTERM, each as one message. They no longer end the process by themselves.
pub(crate) fn signals() -> mpsc::Receiver<()> {
    let (requests, heard) = mpsc::channel(REQUESTS_MAX);
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        for kind in [SignalKind::interrupt(), SignalKind::terminate()] {
            match signal(kind) {
                Ok(mut signal) => {
                    let requests = requests.clone();
                    tokio::spawn(async move {
                        while signal.recv().await.is_some() {
                            pass_on(&requests);
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
            pass_on(&requests);
        }
    });
    heard
}

fn pass_on(requests: &mpsc::Sender<()>) {
    // A full queue holds more requests than there are answers to. When nobody listens any more, the run is over and
    // the signal means what it always means.
    if let Err(mpsc::error::TrySendError::Closed(())) = requests.try_send(()) {
        std::process::exit(EXIT_INTERRUPTED);
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
            assert!(stage.says().chars().count() <= 76, "{}", stage.says());
        }
    }
}
