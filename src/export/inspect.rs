//! An Inspect eval log (schema version 2, as of inspect_ai 0.3): header, results over all planned episodes, one sample an
//! ended episode with every conversation in it. Inspect has one list of messages a sample: the coordinator's come
//! first, then each worker's, and every message says in its metadata whose it is.

mod message;
mod time;

use super::file::WholeFile;
use super::walk::{EpisodeView, Talk, Walk};
use super::{ExportError, Summary};
use legwork_protocol::generation::Usage;
use legwork_protocol::outcome::Outcome;
use legwork_protocol::record::EpisodeRecord;
use legwork_protocol::untrusted::Untrusted;
use serde_json::{Map, Value, json};
use std::path::Path;
use time::iso;

/// The scorer's name in the log.
const SCORER: &str = "legwork";
/// The log's schema.
const SCHEMA_VERSION: u32 = 2;

/// What the header says and only the samples tell.
#[derive(Default)]
struct Totals {
    ended: u64,
    correct: u64,
    last_ms: u64,
}

pub(super) fn write(walk: &Walk<'_>, out: &Path, summary: &mut Summary) -> Result<(), ExportError> {
    // Readers of the header alone expect results before samples, which tell them: samples are written to a file of
    // their own and poured behind.
    let mut samples = WholeFile::aside(out)?;
    let mut totals = Totals::default();
    walk.each(summary, |episode, summary| {
        let Some(record) = &episode.record else {
            summary.left_out("episodes that have not ended");
            return Ok(());
        };
        totals.ended += 1;
        totals.correct += u64::from(record.outcome.is_correct());
        totals.last_ms = totals.last_ms.max(episode.times_ms.map_or(0, |(_, ended)| ended));
        samples.put_text(if summary.written == 0 { "\n" } else { ",\n" })?;
        samples.put_json(&sample(walk, episode, record))?;
        summary.written += 1;
        Ok(())
    })?;
    let mut file = WholeFile::create(out)?;
    let header = header(walk, &totals).to_string();
    // The header is an object that is left open for the samples.
    file.put_text(header.strip_suffix('}').unwrap_or(&header))?;
    file.put_text(",\"samples\":[")?;
    samples.pour_into(&mut file)?;
    file.put_text("\n]}\n")?;
    file.finish()
}

/// A name of the form that Inspect lists: moment, task and id between underscores.
pub(super) fn file_name(walk: &Walk<'_>) -> String {
    let part = |text: &str| Untrusted::from(text).for_file_name().replace('_', "-");
    let moment = iso(walk.manifest.began_epoch_ms).replace([':', '.', '+'], "-");
    format!("{moment}_{}_{}.json", part(&walk.manifest.world), part(&walk.manifest.run))
}

fn header(walk: &Walk<'_>, totals: &Totals) -> Value {
    let (manifest, planned) = (&walk.manifest, walk.planned());
    let whole = totals.ended == planned;
    let accuracy = if planned == 0 { 0.0 } else { totals.correct as f64 / planned as f64 };
    let began = iso(manifest.began_epoch_ms);
    let ids: Vec<_> = walk.question_ids().collect();
    let worker = &manifest.profile.worker;
    json!({
        "version": SCHEMA_VERSION,
        "status": if whole { "success" } else { "cancelled" },
        "eval": {
            "eval_id": manifest.run,
            "run_id": manifest.run,
            "created": began,
            "task": manifest.world,
            "task_id": manifest.world,
            "task_version": 0,
            "task_args": {},
            "tags": if manifest.mock { vec!["mock"] } else { vec![] },
            "dataset": { "name": manifest.world, "samples": ids.len(), "sample_ids": ids, "shuffled": false },
            "model": walk.model("worker"),
            "model_generate_config": {
                "max_tokens": worker.turn_tokens_max,
                "temperature": worker.temperature,
                "top_p": worker.top_p,
                "top_k": worker.top_k,
            },
            "model_args": {},
            "config": { "epochs": if walk.several_rounds { manifest.rounds } else { 1 } },
            "packages": { "legwork": manifest.legwork },
            "metadata": { "profile": manifest.profile.name, "seed": manifest.seed, "inputs": manifest.inputs },
            "scorers": [{ "name": SCORER, "metrics": [{ "name": "accuracy" }] }],
        },
        "plan": {
            "name": manifest.profile.name,
            "steps": [{ "solver": "legwork", "params": {} }],
            "config": {},
        },
        "results": {
            "total_samples": planned,
            "completed_samples": totals.ended,
            "scores": [{
                "name": SCORER,
                "scorer": SCORER,
                "scored_samples": totals.ended,
                "unscored_samples": 0,
                "params": {},
                // Over all planned episodes: what has not ended counts against.
                "metrics": { "accuracy": { "name": "accuracy", "value": accuracy, "params": {} } },
            }],
        },
        "stats": { "started_at": began, "completed_at": if totals.ended > 0 { iso(totals.last_ms) } else { String::new() } },
    })
}

fn sample(walk: &Walk<'_>, episode: &EpisodeView, record: &EpisodeRecord) -> Value {
    let talks: Vec<Talk<'_>> = walk.coordinator(episode).into_iter().chain(walk.workers(episode)).collect();
    let messages: Vec<Value> = talks.iter().flat_map(|talk| message::messages(talk)).collect();
    let text = episode.answer.as_ref().map(|answer| answer.text.as_str()).unwrap_or_default();
    let model = walk.model("worker");
    let mut sample = json!({
        "id": episode.key.question,
        "epoch": u64::from(episode.key.round) + 1,
        "input": episode.question.text,
        "target": episode.question.answers,
        "messages": messages,
        "output": {
            "model": model,
            "choices": [{ "message": { "role": "assistant", "content": text }, "stop_reason": "stop" }],
            "completion": text,
        },
        "scores": { SCORER: score(record) },
        "metadata": about(record),
        "store": {},
        "events": [],
        "model_usage": usage(walk, &talks),
        "attachments": {},
        "turn_count": talks.iter().map(|talk| talk.turns.len()).sum::<usize>(),
    });
    if let Some((began, ended)) = episode.times_ms {
        sample["started_at"] = json!(iso(began));
        sample["completed_at"] = json!(iso(ended));
        sample["total_time"] = json!(ended.saturating_sub(began) as f64 / 1000.0);
    }
    if let Some(failure) = &record.failure {
        sample["error"] = json!({ "message": failure.to_string(), "traceback": "", "traceback_ansi": "" });
    }
    if record.outcome == Outcome::Exhausted {
        sample["limit"] = json!({ "type": "custom", "limit": walk.manifest.profile.worker.budget_tokens });
    }
    sample
}

/// The verdict as Inspect's letters: whatever is not correct counts against, and no answer has its own letter.
fn score(record: &EpisodeRecord) -> Value {
    let verdict = record.verdict.as_ref();
    let value = match record.outcome {
        Outcome::Correct => "C",
        Outcome::NoAnswer => "N",
        Outcome::Wrong
        | Outcome::Exhausted
        | Outcome::Malformed
        | Outcome::Failed(_)
        | Outcome::Cancelled
        | Outcome::Ungraded => "I",
    };
    json!({
        "value": value,
        "answer": record.answer,
        "explanation": verdict.and_then(|verdict| verdict.judge_text.as_deref()),
        "metadata": {
            "outcome": record.outcome.name(),
            "graded_by": verdict.map(|verdict| verdict.how),
            "extracted": verdict.and_then(|verdict| verdict.extracted.as_deref()),
            "confidence": verdict.and_then(|verdict| verdict.confidence),
        },
    })
}

fn about(record: &EpisodeRecord) -> Value {
    json!({
        "tier": record.tier,
        "outcome": record.outcome.name(),
        "workers": record.workers,
        "searches": record.searches,
        "opens": record.opens,
        "retrieved": record.retrieved,
        "gold": record.gold,
        "evidence": record.evidence,
    })
}

/// Tokens by model, as the servers counted them.
fn usage(walk: &Walk<'_>, talks: &[Talk<'_>]) -> Value {
    let mut by_model = Map::new();
    for route in ["coordinator", "worker"] {
        let of_route = talks.iter().filter(|talk| talk.scope.to_string().starts_with(route));
        let usages = of_route.flat_map(|talk| &talk.turns).map(|turn| turn.completion.usage);
        let sum = usages.fold((0_u64, 0_u64, 0_u64), |(prompt, cached, new), usage: Usage| {
            let Usage { prompt_tokens, cached_tokens, completion_tokens } = usage;
            (prompt + u64::from(prompt_tokens), cached + u64::from(cached_tokens), new + u64::from(completion_tokens))
        });
        let (prompt, cached, new) = sum;
        if prompt + new == 0 {
            continue;
        }
        let own = json!({
            "input_tokens": prompt.saturating_sub(cached),
            "input_tokens_cache_read": cached,
            "output_tokens": new,
            "total_tokens": prompt + new,
        });
        by_model.insert(format!("{route}: {}", walk.model(route)), own);
    }
    Value::Object(by_model)
}
