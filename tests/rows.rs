//! Rows through the program: what a mask teaches, token by token; a mixture of two sources that says what is in it; an audit that
//! finds test questions and says what it cannot prove.

use crate::program::{Place, err, out};
use serde_json::{Value, json};
use std::process::Output;

fn row(source: &str, asked: &str, answer: &str) -> String {
    json!({"messages": [{"role": "user", "content": asked}, {"role": "assistant", "content": answer}],
        "metadata": {"source": source}})
    .to_string()
}

/// A place with a new model, core rows and gate rows.
fn furnished() -> Place {
    let place = Place::new();
    let core: Vec<String> =
        (0..6).map(|at| row("core", &format!("Who is {at}?"), &"a long report ".repeat(20))).collect();
    let gate: Vec<String> = (0..30).map(|at| row("gate", &format!("Stop at {at}?"), "CONTINUE")).collect();
    place.write("core.jsonl", &core.join("\n"));
    place.write("gate.jsonl", &(gate.join("\n") + "\n"));
    let made = place.run(&["init", "--out", "model", "--texts", "core.jsonl", "--vocabulary", "288", "--hidden", "32"]);
    assert!(made.status.success(), "{}", err(&made));
    place
}

fn read(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}{}", out(output), err(output)))
}

#[test]
fn a_mask_is_shown_with_what_is_learned_set_off_and_hostile_text_written_out() {
    let place = furnished();
    let hostile = row("core\u{1b}[2J", "q\u{1b}[31m⟦<|im_end|>", "learned");
    place.write("rows.jsonl", &format!("{hostile}\n{}\n{{\n", row("gate", "x", "y")));
    let shown = place.run(&["mask", "show", "rows.jsonl", "--model", "model", "--bad-rows", "skip"]);
    let text = out(&shown);
    assert!(shown.status.success(), "{}", err(&shown));
    assert!(!text.contains('\u{1b}') && text.contains(r"q\x1b[31m\u{27e6}<|im_end|>"), "{text}");
    assert!(text.contains("assistant\n⟦<think>\n\n</think>\n\nlearned<|im_end|>\n⟧"), "{text}");
    assert!(text.contains("── row 2 · rows.jsonl:2 · gate · ") && text.contains("total: 2 rows, "), "{text}");
    assert!(err(&shown).contains("skipped 1 bad rows: 1 malformed json\n  rows.jsonl:3: "), "{}", err(&shown));

    let one = ["mask", "show", "rows.jsonl", "--model", "model", "--row", "2", "--json"];
    let one = read(&place.run(&one));
    let tokens = one["rows"][0]["shown"].as_array().unwrap();
    let learned: String =
        tokens.iter().filter(|token| token[2] == true).map(|token| token[1].as_str().unwrap()).collect();
    assert_eq!(learned, "<think>\n\n</think>\n\ny<|im_end|>\n");
    assert_eq!(one["rows"][0]["supervised"], tokens.iter().filter(|token| token[2] == true).count());

    let refused = place.run(&["mask", "show", "rows.jsonl", "--model", "model"]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(err(&refused).contains("rows.jsonl:3: expected a chat row"), "{}", err(&refused));
    let beyond = place.run(&["mask", "show", "core.jsonl@[1:3]", "--model", "model", "--row", "3"]);
    assert!(err(&beyond).contains("there is no row 3: core.jsonl@[1:3] has 2 good rows"), "{}", err(&beyond));
}

#[test]
fn a_mixture_balances_its_sources_and_can_be_made_again() {
    let place = furnished();
    let mix = |folder: &str, more: &[&str]| {
        let args = [
            "mix",
            "--core",
            "core.jsonl",
            "--repeat",
            "3",
            "--gate",
            "gate.jsonl",
            "--model",
            "model",
            "--out",
            folder,
        ];
        place.run(&[&args[..], more].concat())
    };
    let made = mix("mixed", &["--json"]);
    assert!(made.status.success(), "{}", err(&made));
    let manifest = read(&made);
    assert_eq!(manifest["core"]["rows"], 18);
    let total = |part: &str, what: &str| manifest[part][what].as_u64().unwrap();
    let gap = manifest["gap_tokens"].as_u64().unwrap();
    assert_eq!(total("core", "supervised_tokens"), total("gate", "supervised_tokens") + gap);
    let written = std::fs::read_to_string(place.path("mixed/mix.jsonl")).unwrap();
    assert_eq!(written.lines().count() as u64, 18 + total("gate", "rows"));
    let page: Value = serde_json::from_slice(&std::fs::read(place.path("mixed/mix.json")).unwrap()).unwrap();
    assert_eq!(page, manifest);
    let again = mix("again", &[]);
    assert!(out(&again).contains(page["output"]["sha256"].as_str().unwrap()), "{}", out(&again));
    let over = mix("mixed", &[]);
    assert_eq!(over.status.code(), Some(1));
    assert!(err(&over).contains("expected a folder without a mixture"), "{}", err(&over));
}

#[test]
fn an_audit_finds_a_test_question_and_says_what_it_cannot_prove() {
    let place = furnished();
    let world = place.run(&["world", "--out", "world", "--split", "test"]);
    assert!(world.status.success(), "{}", err(&world));
    let clean = place.run(&["audit", "--train", "core.jsonl", "gate.jsonl", "--test", "world/questions.jsonl"]);
    assert_eq!(clean.status.code(), Some(0), "{}{}", out(&clean), err(&clean));
    let text = out(&clean);
    for expected in ["36 rows against 150 test questions", "36 of 36 rows carry no usable question hash", "base model"]
    {
        assert!(text.contains(expected), "{expected} in {text}");
    }
    let questions = std::fs::read_to_string(place.path("world/questions.jsonl")).unwrap();
    let question: Value = serde_json::from_str(questions.lines().nth(7).unwrap()).unwrap();
    let asked = question["question"].as_str().unwrap();
    let by_hash = json!({"messages": [{"role": "assistant", "content": "x"}],
        "metadata": {"question_hash": legwork_worlds::contamination::question_hash(asked), "source": "core"}});
    place.write("leaky.jsonl", &format!("{by_hash}\n{}\n", row("core", &asked.to_uppercase(), "x")));
    let leaky = place.run(&["audit", "--train", "leaky.jsonl", "--split", "test", "-p", "archive", "--json"]);
    assert_eq!(leaky.status.code(), Some(1));
    let report = read(&leaky);
    assert_eq!(
        (&report["by_hash"], &report["by_quote"], &report["questions_found"]),
        (&json!(1), &json!(1), &json!(1))
    );
    let quoted =
        |overlap: &Value| overlap["kind"] == "quote" && overlap["line"] == 2 && overlap["question"] == question["id"];
    assert!(report["listed"].as_array().unwrap().iter().any(quoted), "{report}");
    // Rows of a test say its questions by their hashes alone.
    let rows = place.run(&["audit", "--train", "leaky.jsonl@[0:1]", "--test", "leaky.jsonl@[0:1]"]);
    assert_eq!(rows.status.code(), Some(1), "{}", err(&rows));
}
