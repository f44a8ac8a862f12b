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
    let output = place.run(&[&["eval", "--run", run, "--questions", questions], &RUN[..], more].concat());
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
fn episodes_are_whole_keep_their_ids_and_come_out_the_same_again() {
    let Some(model) = model() else { return };
    let place = Place::new();
    for (run, questions) in [("runs/a", "2"), ("runs/b", "1")] {
        evaluate(&place, run, questions, &["--model", model]);
    }
    let folder = place.path("runs/a");
    let (all, again) = (texts(&folder), texts(&place.path("runs/b")));
    assert_eq!(all[..again.len()], again, "the same seeds draw the same");
    let (all, again) = (verdicts(&folder), verdicts(&place.path("runs/b")));
    assert!(again.iter().all(|(key, verdict)| all.get(key) == Some(verdict)), "{again:?} of {all:?}");

    let mut second_turns = 0;
    for turns in completions(&folder) {
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
            if turn > 0 {
                second_turns += 1;
                assert!(usage.cached_tokens > 0, "{usage:?}");
            }
            so_far = [&ids.prompt[..], &ids.completion].concat();
        }
    }
    assert!(second_turns > 0);

    let verified = place.run(&["verify", "runs/a"]);
    assert!(verified.status.success(), "{}", err(&verified));
    assert!(out(&verified).contains("models.worker: local SmolLM2"), "{}", out(&verified));
    let replayed = place.run(&["replay", "runs/a", "--json"]);
    let replayed: serde_json::Value = serde_json::from_str(&out(&replayed)).unwrap();
    assert_eq!((&replayed["ended"], &replayed["model_calls"]), (&2.into(), &0.into()), "{replayed}");
    assert_eq!(replayed["differences"], serde_json::json!([]));
}

#[test]
fn the_same_model_through_its_server_gives_the_same_answers() {
    let Some(server) = Server::shared() else { return };
    let place = Place::new();
    evaluate(&place, "runs/within", "1", &["--model", model().unwrap()]);
    let worker = format!("models.worker={{kind=\"openai\",url=\"{}\",model=\"small\",stream=false}}", server.url());
    evaluate(&place, "runs/served", "1", &["--set", &worker]);
    assert_eq!(texts(&place.path("runs/within")), texts(&place.path("runs/served")));
    let first = &completions(&place.path("runs/served"))[0][0];
    assert!(first.usage.prompt_tokens > 0 && first.ids.is_none(), "{first:?}");
}
