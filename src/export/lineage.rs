//! What a row to train on is worth and where it comes from: whether its worker concluded rightly, and its metadata.

use super::walk::{EpisodeView, Talk, Walk};
use super::{Episodes, Options};
use legwork_protocol::coordinator::AnswerEnd;
use legwork_protocol::gate::Hindsight;
use legwork_protocol::id::Scope;
use legwork_protocol::profile::CoordinatorKind;
use legwork_protocol::worker::{ReportStatus, WorkerReport};
use legwork_training::trajectory::Metadata;
use legwork_worlds::contamination::question_hash;

/// What a row is worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// The episode was right, and so was the worker.
    Core,
    /// The episode was right, the worker's conclusion was not: its last report is out of the loss.
    Process,
    /// The episode was not right.
    Unsuccessful,
}

impl Source {
    fn name(self) -> &'static str {
        match self {
            Source::Core => "core",
            Source::Process => "process",
            Source::Unsuccessful => "unsuccessful",
        }
    }
}

/// Why an episode gives no row.
pub(super) fn why_no_episode(episode: &EpisodeView, options: &Options) -> Option<&'static str> {
    match &episode.record {
        None => Some("episodes that have not ended"),
        Some(_) if options.episodes == Episodes::Correct && !episode.is_correct() => {
            Some("episodes not graded correct")
        }
        Some(_) => None,
    }
}

/// The conversations that are trained on: those of the workers, or the main line of a mind that searches itself (its
/// branches go the way of FoldAgent's, which returns the main line alone).
pub(super) fn talks<'e>(walk: &Walk<'_>, episode: &'e EpisodeView) -> Vec<Talk<'e>> {
    match walk.manifest.profile.coordinator.kind {
        CoordinatorKind::Fold => walk.coordinator(episode).into_iter().collect(),
        CoordinatorKind::Model | CoordinatorKind::Direct | CoordinatorKind::Scripted => walk.workers(episode).collect(),
    }
}

/// What a conversation's row is worth, or why it gives none.
pub(super) fn source(
    walk: &Walk<'_>,
    episode: &EpisodeView,
    talk: &Talk<'_>,
    options: &Options,
) -> Result<Source, &'static str> {
    if talk.scope == Scope::Coordinator {
        return match &episode.answer {
            Some(answer) if answer.end == AnswerEnd::Answered && episode.is_correct() => Ok(Source::Core),
            Some(answer) if answer.end == AnswerEnd::Answered => Ok(Source::Unsuccessful),
            _ => Err("episodes without an answer"),
        };
    }
    let Some(report) = talk.report.as_ref().filter(|report| report.status == ReportStatus::Finished) else {
        return Err("workers that did not finish");
    };
    match () {
        () if !episode.is_correct() => Ok(Source::Unsuccessful),
        () if concluded_rightly(walk, episode, report) => Ok(Source::Core),
        () if options.process_rows => Ok(Source::Process),
        () => Err("workers that concluded wrongly"),
    }
}

/// A worker of an episode that was right concluded rightly if its answer is the one that was judged: it is the
/// only one, equals it, or equals a gold answer.
fn concluded_rightly(walk: &Walk<'_>, episode: &EpisodeView, report: &WorkerReport) -> bool {
    if walk.manifest.profile.coordinator.kind == CoordinatorKind::Direct {
        return true;
    }
    let said = report.answer.as_deref().unwrap_or_default();
    hindsight(episode).is_some_and(|after| after.is_right(said) == Some(true))
}

/// What an episode that has ended says of the candidates in it.
pub(super) fn hindsight(episode: &EpisodeView) -> Option<Hindsight<'_>> {
    let record = episode.record.as_ref()?;
    Some(Hindsight::new(&episode.question, record.outcome, record.answer.as_deref()))
}

/// Where a row comes from that is a worker's conversation.
pub(super) fn metadata(
    walk: &Walk<'_>,
    episode: &EpisodeView,
    talk: &Talk<'_>,
    source: Source,
    options: &Options,
) -> Metadata {
    of_scope(walk, episode, (talk.scope, talk.turns.len()), source.name(), options)
}

/// Where a row comes from: of which machine of which episode, after so many turns, and what kind of row it is.
pub(super) fn of_scope(
    walk: &Walk<'_>,
    episode: &EpisodeView,
    (scope, turns): (Scope, usize),
    source: &str,
    options: &Options,
) -> Metadata {
    Metadata {
        question_hash: Some(question_hash(&episode.question.text)),
        run: Some(walk.manifest.run.clone()),
        episode: Some(episode.key.question.to_string()),
        round: Some(episode.key.round),
        scope: Some(scope.to_string()),
        turns: Some(u32::try_from(turns).unwrap_or(u32::MAX)),
        outcome: Some(episode.outcome().to_owned()),
        split: options.split.clone(),
        source: Some(source.to_owned()),
        other: serde_json::Map::new(),
    }
}
