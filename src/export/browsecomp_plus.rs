//! BrowseComp-Plus run files: one a planned question, ended or not, since its evaluation divides by the files that it
//! finds. A run of several rounds has a folder for each.

use super::file::WholeFolder;
use super::walk::{EpisodeView, Talk, Walk};
use super::{ExportError, Summary};
use legwork_protocol::call::Call;
use legwork_protocol::coordinator::AnswerEnd;
use legwork_protocol::untrusted::Untrusted;
use serde_json::{Map, Value, json};
use std::path::{Path, PathBuf};

pub(super) fn write(walk: &Walk<'_>, out: &Path, summary: &mut Summary) -> Result<(), ExportError> {
    let folder = WholeFolder::create(out)?;
    walk.each(summary, |episode, summary| {
        let id = Untrusted::from(episode.key.question.as_str());
        let name = PathBuf::from(format!("{}.json", id.for_file_name()));
        let place =
            if walk.several_rounds { Path::new(&format!("round-{}", episode.key.round)).join(name) } else { name };
        let mut file = folder.file(&place)?;
        file.put_json(&run_file(walk, episode))?;
        file.put_text("\n")?;
        file.finish()?;
        summary.written += 1;
        Ok(())
    })?;
    folder.finish()
}

fn run_file(walk: &Walk<'_>, episode: &EpisodeView) -> Value {
    let mut result: Vec<Value> = Vec::new();
    let talks = walk.coordinator(episode).into_iter().chain(walk.workers(episode));
    result.extend(talks.flat_map(|talk| calls(&talk)));
    let answered = episode.answer.as_ref().filter(|answer| answer.end == AnswerEnd::Answered);
    if let Some(answer) = answered {
        result.push(json!({"type": "output_text", "tool_name": null, "arguments": null, "output": answer.text}));
    }
    let record = episode.record.as_ref();
    let status = match (record, answered) {
        (Some(_), Some(_)) => "completed".to_owned(),
        _ => episode.outcome().replace(' ', "_"),
    };
    json!({
        "metadata": {
            "model": walk.model("worker"),
            "coordinator": walk.model("coordinator"),
            "run": walk.manifest.run,
            "round": episode.key.round,
        },
        "query_id": episode.key.question,
        "tool_call_counts": {
            "search": record.map_or(0, |record| record.searches),
            "open_page": record.map_or(0, |record| record.opens),
        },
        "status": status,
        "retrieved_docids": record.map(|record| record.retrieved.as_slice()).unwrap_or_default(),
        "result": result,
    })
}

/// The calls of a conversation, without what they brought: pages belong to the corpus.
fn calls(talk: &Talk<'_>) -> Vec<Value> {
    let calls = talk.turns.iter().flat_map(|turn| &turn.calls).filter(|call| call.name != "finish");
    let written = calls.map(|call| {
        json!({"type": "tool_call", "tool_name": call.name, "arguments": arguments(call).to_string(), "output": null})
    });
    written.collect()
}

fn arguments(call: &Call) -> Value {
    Value::Object(call.arguments.iter().map(|(name, value)| (name.clone(), json!(value))).collect::<Map<_, _>>())
}
