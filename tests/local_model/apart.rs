//! A model in a process of its own, killed in the middle: the server stays, another process is started, and the next answers are
//! those of before. It refuses to know why a process would end.

use super::wire::{Answer, Server, comes_about};
use serde_json::{Value, json};
use std::process::Command;

/// The processes that one has started, and that live.
fn children(of: u32) -> Vec<u32> {
    let tasks = std::fs::read_dir(format!("/proc/{of}/task")).unwrap().flatten();
    let lists = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("children")).ok());
    lists.flat_map(|list| list.split_whitespace().map(|id| id.parse().unwrap()).collect::<Vec<_>>()).collect()
}

fn question() -> Value {
    json!({"messages": [{"role": "user", "content": "Tell me about the sea."}], "max_tokens": 12, "temperature": 0})
}

fn text(answer: &Value) -> String {
    answer["choices"][0]["message"]["content"].as_str().unwrap().to_owned()
}

#[test]
#[cfg(target_os = "linux")]
fn a_models_process_that_is_killed_is_started_anew_and_ends_with_its_server() {
    let Some(server) = Server::start_with(&["--apart"]) else { return };
    let path = "/v1/chat/completions";
    let before = text(&server.ok(path, question()));
    let [process] = children(server.running.id())[..] else { panic!("a process for the model") };

    let long = json!({"messages": [{"role": "user", "content": "Count."}], "max_tokens": 400});
    let under_way = server.begin(path, &long);
    server.until("legwork_model_requests_running", |running| running > 0.0);
    assert!(Command::new("kill").args(["-9", &process.to_string()]).status().unwrap().success());
    let lost = Answer::read(under_way);
    assert_eq!(lost.status, 503, "whoever was served hears of it: {lost:?}");
    assert!(lost.body.contains("process of the model has ended"), "{lost:?}");

    // The next one waits for the new process.
    assert_eq!(text(&server.ok(path, question())), before);
    let [anew] = children(server.running.id())[..] else { panic!("one process anew") };
    assert_ne!(anew, process);
    server.running.signal("INT");
    assert_eq!(server.end().code, Some(0));
    let place = format!("/proc/{anew}");
    assert!(comes_about(|| !std::path::Path::new(&place).exists()), "it ends with its server");
}
