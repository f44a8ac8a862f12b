//! `compare --tokens` through the program, over runs of a new small model in this process; and a mock worker that makes rows over a
//! corpus of somebody's own. They refuse to know what a model of random weights says.

use crate::program::{Place, err, json, out};
use std::process::Output;

const ROW: &str = r#"{"messages": [{"role": "user", "content": "Which of the gates was there first?"}, {"role": "assistant", "content": "The northern gate."}]}"#;

fn model(place: &Place, name: &str, seed: &str) {
    place.write("rows.jsonl", &format!("{ROW}\n"));
    let (out, init) = (format!("models/{name}"), ["init", "--texts", "rows.jsonl", "--vocabulary", "270"]);
    let shape = ["--hidden", "32", "--ffn", "48", "--context", "4096", "--seed", seed, "--out", &out];
    let output = place.run(&[&init[..], &shape].concat());
    assert!(output.status.success(), "{}", err(&output));
}

/// Two turns of eight tokens each for two questions.
fn eval(place: &Place, run: &str, temperature: &str) {
    let set = [
        &format!("worker.temperature={temperature}")[..],
        "worker.turns_max=2",
        "worker.turn_tokens_max=8",
        "worker.turn_tokens_min=4",
        "worker.wrap_up_tokens=0",
    ];
    let mut args = vec!["eval", "--quiet", "--run", run, "--questions", "2", "--model", "models/a"];
    set.iter().for_each(|set| args.extend(["--set", set]));
    let output = place.run(&args);
    assert!(output.status.success(), "{}", err(&output));
}

fn compare(place: &Place, more: &[&str]) -> Output {
    place.run(&[&["compare", "runs/greedy", "runs/other", "--tokens"], more].concat())
}

#[test]
fn the_same_draws_part_nowhere() {
    let place = Place::new();
    model(&place, "a", "1");
    eval(&place, "runs/greedy", "0.0");
    eval(&place, "runs/other", "0.0");
    let output = compare(&place, &["--model", "models/a"]);
    assert!(output.status.success(), "{}", err(&output));
    assert!(out(&output).contains("over 32 tokens"), "{}", out(&output));
    assert!(out(&output).contains("No conversation parts."), "{}", out(&output));
}

#[test]
fn where_draws_part_the_runs_own_model_says_how_far_they_are_behind_its_likeliest() {
    let place = Place::new();
    ["a", "b"].into_iter().zip(["1", "2"]).for_each(|(name, seed)| model(&place, name, seed));
    eval(&place, "runs/greedy", "0.0");
    eval(&place, "runs/other", "1.0");
    let report = json(&compare(&place, &["--model", "models/a", "--json", "--tie", "0.000001"]));
    let partings = report["report"]["partings"].as_array().unwrap();
    assert_eq!(partings.len(), 2, "{report}");
    for parting in partings {
        assert_eq!(parting["margin"]["before"], 0.0, "what was drawn greedily is the likeliest: {parting}");
        assert_eq!(parting["parting"]["token"]["before"]["id"], parting["margin"]["likeliest"]["id"]);
    }
    let output = compare(&place, &["--model", "models/b"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(err(&output).contains("name the model that the run was made with"), "{}", err(&output));
    assert_eq!(place.run(&["compare", "runs/greedy", "runs/other", "--tie", "1"]).status.code(), Some(2));
}

#[test]
fn runs_whose_models_gave_no_ids_are_told_so() {
    let place = Place::new();
    for run in ["runs/greedy", "runs/other"] {
        assert!(
            place.run(&["eval", "-p", "archive-mock", "--quiet", "--questions", "1", "--run", run]).status.success()
        );
    }
    let output = compare(&place, &[]);
    assert!(output.status.success() && out(&output).contains("no ids"), "{}", out(&output));
}

#[test]
fn a_trail_through_a_corpus_of_ones_own_becomes_rows() {
    let place = Place::new();
    let question = |id: &str, steps: &str| {
        format!(
            "{{\"id\": \"{id}\", \"question\": \"Who is married to the singer of Green, asks {id}?\", \"answers\": [\"Miquette Giraudy\"], \"tier\": \"easy\", \"gold_docids\": [\"w1\", \"w2\"], \"decomposition\": {steps}}}\n"
        )
    };
    let steps = r##"[{"question": "Green >> performer", "answer": "Steve Hillage", "gold_docid": "w1"}, {"question": "#1 >> spouse", "answer": "Miquette Giraudy", "gold_docid": "w2"}]"##;
    std::fs::create_dir(place.path("world")).unwrap();
    let page = |id: &str, title: &str, text: &str| {
        format!("{{\"docid\": \"{id}\", \"title\": \"{title}\", \"url\": \"\", \"text\": \"{text}\"}}\n")
    };
    let green = page("w1", "Green (album)", "Green is a record whose performer is Steve Hillage.");
    let hillage = page("w2", "Steve Hillage", "Steve Hillage is a guitarist; his spouse is Miquette Giraudy.");
    place.write("world/corpus.jsonl", &(green + &hillage + &page("w3", "Blue", "A colour.")));
    place.write("world/train.jsonl", &(question("one", steps) + &question("two", "null")));
    place.write("world/test.jsonl", &question("three", "null"));
    let output = place.run(&[
        "eval",
        "-p",
        "archive-mock",
        "--quiet",
        "--run",
        "runs/trail",
        "--set",
        "world={kind=\"multihop\",path=\"world\"}",
        "--set",
        "run.split=train",
        "--set",
        "models.worker={mock=\"trail\"}",
        "--coordinator",
        "direct",
    ]);
    assert!(output.status.success(), "{}", err(&output));
    let exported = place.run(&["ledger", "export", "trajectories", "runs/trail", "--out", "core.jsonl", "--json"]);
    assert_eq!(json(&exported)["written"], 2, "{} {}", out(&output), out(&exported));
    let rows = std::fs::read_to_string(place.path("core.jsonl")).unwrap();
    assert!(rows.contains("<parameter=query>Steve Hillage spouse</parameter>"), "{rows}");
}
