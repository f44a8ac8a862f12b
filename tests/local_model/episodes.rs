//! `legwork eval --model`: episodes over a model in this process are whole, can be verified and replayed, keep the very token
//! ids, save what earlier turns computed, and come out the same again; so they do through `legwork serve model`.

use super::model;
use super::wire::Server;
use crate::crash::verdicts;
use crate::program::{Place, err, out};
use legwork_actors::ledger::LedgerReader;
use legwork_protocol::event::Event;
use legwork_protocol::generation::Completion;
use legwork_protocol::worker::WorkerEvent;
use std::path::Path;

/// Tokens of a page of the cache; only whole ones are kept.
const PAGE: usize = 64;
/// Two turns of few tokens: enough for a second turn to find what the first computed.
const RUN: [&str; 11] = [
    "--coordinator",
    "direct",
    "--concurrency",
    "1",
    "--seed",
    "5",
    "--set",
    "worker.turns_max=2",
    "--set",
    "worker.turn_tokens_max=32",
    "--quiet",
];

/// Runs so many questions to their end.
#[track_caller]
fn evaluate(place: &Place, run: &str, questions: &str, more: &[&str]) {
    let output =
        place.run(&[&["eval", "-p", "archive-mock", "--run", run, "--questions", questions], &RUN[..], more].concat());
    assert!(output.status.success(), "{}", err(&output));
    let reader = LedgerReader::open(&place.path(run)).unwrap();
    assert_eq!(reader.ended().unwrap().len().to_string(), questions, "it is whole");
}

/// The answers of the workers' model, by episode and in order.
fn completions(folder: &Path) -> Vec<Vec<Completion>> {
    let reader = LedgerReader::open(folder).unwrap();
    let of = |event| match event {
        Event::Worker(WorkerEvent::Generated { completion, .. }) => Some(completion),
        _ => None,
    };
    let episodes = reader.planned().unwrap();
    let events = |key| reader.events(key).unwrap().into_iter().filter_map(|event| of(event.recorded.event)).collect();
    episodes.iter().map(events).collect()
}

fn texts(folder: &Path) -> Vec<String> {
    completions(folder).concat().into_iter().map(|completion| completion.text).collect()
}

#[test]
fn episodes_are_whole_and_come_out_the_same_again_here_and_behind_a_server() {
    let Some(model) = model() else { return };
    let server = Server::shared().unwrap();
    let served = format!("models.worker={{kind=\"openai\",url=\"{}\",model=\"small\",stream=false}}", server.url());
    let place = Place::new();
    evaluate(&place, "runs/a", "2", &["--model", model]);
    evaluate(&place, "runs/again", "1", &["--model", model]);
    evaluate(&place, "runs/served", "1", &["--set", &served]);
    let folder = place.path("runs/a");
    for other in ["runs/again", "runs/served"] {
        let other = place.path(other);
        let (all, again) = (texts(&folder), texts(&other));
        assert!(!again.is_empty() && all.starts_with(&again), "the same seeds draw the same: {all:?}, {again:?}");
        let (key, verdict) = verdicts(&other).pop_first().unwrap();
        let (outcome, answer, _) = &verdicts(&folder)[&key];
        // Tokens are those of the worker's tokenizer, which nobody has named for the server.
        assert_eq!((outcome, answer), (&verdict.0, &verdict.1));
    }
    assert!(completions(&place.path("runs/served")).concat().iter().all(|of| of.usage.prompt_tokens > 0));
    the_ids_are_those_that_were_sent_and_drawn(&folder);

    let verified = place.run(&["verify", "runs/a"]);
    assert!(verified.status.success(), "{}", err(&verified));
    assert!(out(&verified).contains("models.worker: local SmolLM2"), "{}", out(&verified));
    let replayed = place.run(&["replay", "runs/a", "--json"]);
    let replayed: serde_json::Value = serde_json::from_str(&out(&replayed)).unwrap();
    assert_eq!((&replayed["ended"], &replayed["model_calls"]), (&2.into(), &0.into()), "{replayed}");
    assert_eq!(replayed["differences"], serde_json::json!([]));
}

fn the_ids_are_those_that_were_sent_and_drawn(folder: &Path) {
    // The last token that was drawn has not been computed.
    let kept = |so_far: &[u32]| (so_far.len() - 1) / PAGE * PAGE;
    let all = completions(folder);
    assert!(all.iter().any(|turns| turns.len() > 1), "nobody came to a second turn");
    for turns in all {
        let mut so_far: Vec<u32> = Vec::new();
        for (turn, completion) in turns.iter().enumerate() {
            let (ids, usage) = (completion.ids.as_ref().unwrap(), completion.usage);
            let counts = (ids.prompt.len(), ids.completion.len());
            assert_eq!(
                counts,
                (usage.prompt_tokens as usize, usage.completion_tokens as usize),
                "as the engine counted"
            );
            assert_eq!(ids.logprobs.len(), ids.completion.len());
            assert!(ids.prompt.starts_with(&so_far), "what was used and drawn is sent again as it was");
            assert!(turn == 0 || usage.cached_tokens as usize >= kept(&so_far), "{usage:?}");
            so_far = [&ids.prompt[..], &ids.completion].concat();
        }
    }
}
