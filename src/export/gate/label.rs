//! Which decision was due at a moment, and whether a gate is likely to miss it. Facts in, a label out.

use legwork_protocol::gate::Hindsight;
use legwork_protocol::worker::{ReportStatus, WorkerReport};

/// What a worker came to in the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Candidate {
    /// A right answer.
    Right,
    /// A wrong one.
    Wrong,
    /// One that nobody judged.
    Unjudged,
    /// It ended by itself or by its budget, without an answer.
    Missing,
    /// Something outside it failed, or it was stopped.
    Lost,
}

/// What a worker had seen of the documents that support the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sight {
    /// It had opened one.
    Opened,
    /// A search had listed one, and it had opened none.
    Listed,
    /// Neither.
    Unseen,
}

/// The decision that was due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Label {
    /// The worker's answer was right, and a document that supports it had been opened.
    Stop,
    /// Otherwise.
    Continue,
}

/// Why a CONTINUE is easily missed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hard {
    /// The worker is about to report something plausible and wrong.
    WrongCandidate,
    /// The worker is about to report what is right without having read anything that supports it.
    WithoutEvidence,
    /// What supports the answer is listed and has not been opened.
    ListedUnopened,
}

impl Candidate {
    /// What a report says in hindsight.
    pub(super) fn of(report: Option<&WorkerReport>, after: &Hindsight<'_>) -> Self {
        let Some(report) = report else { return Candidate::Lost };
        match (&report.status, report.answer.as_deref().filter(|answer| !answer.trim().is_empty())) {
            (ReportStatus::Failed(_) | ReportStatus::Cancelled, _) => Candidate::Lost,
            (_, None) => Candidate::Missing,
            (_, Some(answer)) => match after.is_right(answer) {
                Some(true) => Candidate::Right,
                Some(false) => Candidate::Wrong,
                None => Candidate::Unjudged,
            },
        }
    }
}

impl Label {
    /// The word that a gate says.
    pub(super) fn word(self) -> &'static str {
        match self {
            Label::Stop => "STOP",
            Label::Continue => "CONTINUE",
        }
    }
}

impl Hard {
    /// The name in a row's metadata.
    pub(super) fn name(self) -> &'static str {
        match self {
            Hard::WrongCandidate => "wrong_candidate",
            Hard::WithoutEvidence => "without_evidence",
            Hard::ListedUnopened => "listed_unopened",
        }
    }

    /// As the summary counts it.
    pub(super) fn kind(self) -> &'static str {
        match self {
            Hard::WrongCandidate => "hard: about to report what is wrong",
            Hard::WithoutEvidence => "hard: about to report what is right, with nothing opened that supports it",
            Hard::ListedUnopened => "hard: what supports the answer is listed, not opened",
        }
    }
}

/// The decision that was due, or why it cannot be told. At the `last` moment the worker reports next. Where nothing that
/// supports the answer has been opened, CONTINUE is due whatever the worker came to.
pub(super) fn judge(candidate: Candidate, sight: Sight, last: bool) -> Result<(Label, Option<Hard>), &'static str> {
    match (candidate, sight) {
        (Candidate::Right, Sight::Opened) => Ok((Label::Stop, None)),
        (Candidate::Right, _) if last => Ok((Label::Continue, Some(Hard::WithoutEvidence))),
        (Candidate::Wrong, _) if last => Ok((Label::Continue, Some(Hard::WrongCandidate))),
        (_, Sight::Listed) => Ok((Label::Continue, Some(Hard::ListedUnopened))),
        (_, Sight::Unseen) | (Candidate::Wrong, Sight::Opened) => Ok((Label::Continue, None)),
        (Candidate::Unjudged, Sight::Opened) => Err(UNJUDGED),
        (Candidate::Missing, Sight::Opened) => Err(MISSING),
        (Candidate::Lost, Sight::Opened) => Err(LOST),
    }
}

const UNJUDGED: &str = "moments after support was opened, of workers whose answer nobody judged";
const MISSING: &str = "moments after support was opened, of workers that ended without an answer";
const LOST: &str = "moments after support was opened, of workers that failed or were stopped";

#[cfg(test)]
mod tests {
    use super::*;

    const CANDIDATES: [Candidate; 5] =
        [Candidate::Right, Candidate::Wrong, Candidate::Unjudged, Candidate::Missing, Candidate::Lost];

    #[test]
    fn stop_is_due_only_with_a_right_answer_and_its_support_opened() {
        for candidate in CANDIDATES {
            for sight in [Sight::Opened, Sight::Listed, Sight::Unseen] {
                for last in [false, true] {
                    let is_stop = matches!(judge(candidate, sight, last), Ok((Label::Stop, None)));
                    assert_eq!(is_stop, candidate == Candidate::Right && sight == Sight::Opened);
                }
            }
        }
    }

    #[test]
    fn what_is_not_known_is_left_out_and_nothing_else_is() {
        let unknown = [Candidate::Unjudged, Candidate::Missing, Candidate::Lost];
        for candidate in CANDIDATES {
            assert_eq!(judge(candidate, Sight::Opened, true).is_err(), unknown.contains(&candidate));
            assert!(judge(candidate, Sight::Listed, false).is_ok() && judge(candidate, Sight::Unseen, true).is_ok());
        }
    }

    #[test]
    fn hard_ones_are_named_by_what_makes_them_so() {
        let hard = |candidate, sight, last| judge(candidate, sight, last).unwrap().1;
        assert_eq!(hard(Candidate::Wrong, Sight::Opened, true), Some(Hard::WrongCandidate));
        assert_eq!(hard(Candidate::Wrong, Sight::Opened, false), None);
        assert_eq!(hard(Candidate::Right, Sight::Listed, true), Some(Hard::WithoutEvidence));
        assert_eq!(hard(Candidate::Right, Sight::Listed, false), Some(Hard::ListedUnopened));
        assert_eq!(hard(Candidate::Lost, Sight::Listed, true), Some(Hard::ListedUnopened));
        assert_eq!(hard(Candidate::Right, Sight::Unseen, false), None);
    }
}
