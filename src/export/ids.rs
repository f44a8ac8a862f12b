//! Token rows: the ids that the server used and made. A turn whose prompt goes on exactly where the last one ended
//! joins its row; any other begins a new row, and that is counted, so that no drift is trained on in silence.

use super::lineage::{self, Source};
use super::walk::{EpisodeView, Talk, Turn, Walk};
use super::{ExportError, Options, Summary};
use legwork_protocol::generation::TokenIds;
use legwork_training::JsonlWriter;
use legwork_training::trajectory::{IdRow, Span, SpanKind, Why};
use serde_json::json;
use std::path::Path;

/// Who puts in what a model did not draw.
const ENVIRONMENT: &str = "environment";

pub(super) fn write(walk: &Walk<'_>, out: &Path, options: &Options, summary: &mut Summary) -> Result<(), ExportError> {
    let mut written = JsonlWriter::create(out)?;
    walk.each(summary, |episode, summary| rows(walk, episode, options, summary, &mut |row| Ok(written.write(&row)?)))?;
    written.finish()?;
    Ok(())
}

/// The rows of an episode, one after the other.
pub(super) fn rows(
    walk: &Walk<'_>,
    episode: &EpisodeView,
    options: &Options,
    summary: &mut Summary,
    take: &mut dyn FnMut(IdRow) -> Result<(), ExportError>,
) -> Result<(), ExportError> {
    if let Some(why) = lineage::why_no_episode(episode, options) {
        summary.left_out(why);
        return Ok(());
    }
    for talk in lineage::talks(walk, episode) {
        let source = match lineage::source(walk, episode, &talk, options) {
            Ok(source) => source,
            Err(why) => {
                summary.left_out(why);
                continue;
            }
        };
        let Some(parts) = parts(&talk, source, summary) else {
            summary.left_out("conversations with a turn whose server gave no ids");
            continue;
        };
        let count = parts.len();
        for (place, mut row) in parts.into_iter().enumerate() {
            row.metadata = lineage::metadata(walk, episode, &talk, source, options);
            if count > 1 {
                row.metadata.other.insert("part".into(), json!([place, count]));
            }
            if row.supervised() == 0 {
                summary.left_out("rows with nothing in the loss");
                continue;
            }
            take(row)?;
            summary.written += 1;
        }
    }
    Ok(())
}

/// The rows of a conversation, or none if a turn has no ids.
fn parts(talk: &Talk<'_>, source: Source, summary: &mut Summary) -> Option<Vec<IdRow>> {
    let turns: Vec<&TokenIds> = talk.turns.iter().map(ids_of).collect::<Option<_>>()?;
    let mut rows: Vec<IdRow> = Vec::new();
    let mut so_far: Vec<u32> = Vec::new();
    for (turn, ids) in turns.iter().enumerate() {
        let number = u32::try_from(turn).unwrap_or(u32::MAX);
        match rows.last_mut() {
            Some(row) if ids.prompt.starts_with(&so_far) => {
                let injected = &ids.prompt[so_far.len()..];
                if !injected.is_empty() {
                    row.spans.push(injected_span(number, injected));
                }
            }
            other => {
                if other.is_some() {
                    summary.left_out("joins of turns whose prompt is no continuation: a new row begins there");
                }
                rows.push(IdRow { prompt_ids: ids.prompt.clone(), ..IdRow::default() });
            }
        }
        let last = turn + 1 == turns.len();
        let why = if last && source == Source::Process { Why::WrongConclusion } else { Why::Sampled };
        if let Some(row) = rows.last_mut() {
            row.spans.push(sampled_span(talk, number, ids, why));
        }
        so_far.clear();
        so_far.extend(ids.prompt.iter().chain(&ids.completion));
    }
    Some(rows)
}

fn ids_of<'a>(turn: &Turn<'a>) -> Option<&'a TokenIds> {
    turn.completion.ids.as_ref().filter(|ids| !ids.prompt.is_empty() && !ids.completion.is_empty())
}

fn injected_span(turn: u32, ids: &[u32]) -> Span {
    Span {
        actor: ENVIRONMENT.to_owned(),
        turn,
        kind: SpanKind::Injected,
        ids: ids.to_vec(),
        logprobs: Vec::new(),
        masked: true,
        why: Why::Injected,
    }
}

fn sampled_span(talk: &Talk<'_>, turn: u32, ids: &TokenIds, why: Why) -> Span {
    let usable = ids.logprobs.len() == ids.completion.len() && ids.logprobs.iter().all(|logprob| logprob.is_finite());
    Span {
        actor: talk.scope.to_string(),
        turn,
        kind: SpanKind::Sampled,
        ids: ids.completion.clone(),
        logprobs: if usable { ids.logprobs.clone() } else { Vec::new() },
        masked: why != Why::Sampled,
        why,
    }
}
