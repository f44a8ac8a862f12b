//! `legwork serve model` as clients meet it: chat, completions and `/generate`, whole and streamed; what is refused; what a
//! later turn saves; and how it ends.

use super::wire::{Answer, CONTEXT, Server};
use serde_json::{Value, json};
use std::io::Read;

const CHAT: &str = "/v1/chat/completions";

/// A chat about the sea.
fn chat(more: Value) -> Value {
    with(json!({"messages": [{"role": "user", "content": "Tell me about the sea."}], "max_tokens": 16}), more)
}

fn with(mut body: Value, more: Value) -> Value {
    for (name, value) in more.as_object().unwrap() {
        body[name] = value.clone();
    }
    body
}

fn content(answer: &Value) -> &str {
    answer["choices"][0]["message"]["content"].as_str().unwrap()
}

fn text(answer: &Value) -> &str {
    answer["choices"][0]["text"].as_str().unwrap()
}

fn ids(value: &Value) -> Vec<u64> {
    value.as_array().unwrap().iter().map(|id| id.as_u64().unwrap()).collect()
}

#[test]
fn it_is_alive_and_lists_its_model() {
    let Some(server) = Server::shared() else { return };
    assert_eq!(server.get("/health").status, 200);
    let models = server.get("/v1/models").json();
    let [model] = &models["data"].as_array().unwrap()[..] else { panic!("{models}") };
    assert!(model["id"].as_str().unwrap().ends_with(".gguf"), "{model}");
    assert_eq!((&model["max_model_len"], &model["aliases"][0]), (&json!(CONTEXT), &json!("small")));
    assert!(server.metric("legwork_model_cache_pages") > 0.0);
}

#[test]
fn a_chat_is_the_same_whole_and_streamed_and_for_the_same_seed() {
    let Some(server) = Server::shared() else { return };
    let drawn = json!({"temperature": 1.0, "seed": 11, "model": "small"});
    let whole = server.ok(CHAT, chat(drawn.clone()));
    let usage = &whole["usage"];
    assert_eq!(whole["choices"][0]["finish_reason"], "length");
    assert_eq!(usage["completion_tokens"], 16);
    let count = |name: &str| usage[name].as_u64().unwrap();
    assert_eq!(count("total_tokens"), count("prompt_tokens") + count("completion_tokens"));

    let options = json!({"stream_options": {"include_usage": true}});
    let events = server.stream(CHAT, with(chat(drawn), options));
    let deltas = events.iter().filter_map(|event| event["choices"][0]["delta"]["content"].as_str());
    assert_eq!(deltas.collect::<String>(), content(&whole));
    assert!(events.len() > 5, "it came in pieces: {events:?}");
    assert_eq!(events.last().unwrap()["usage"]["completion_tokens"], 16);
    let other = server.ok(CHAT, chat(json!({"temperature": 1.0, "seed": 12})));
    assert_ne!(content(&other), content(&whole));

    let greedy = [1, 2].map(|seed| server.ok(CHAT, chat(json!({"temperature": 0, "seed": seed}))));
    assert_eq!(content(&greedy[0]), content(&greedy[1]), "without dice a seed changes nothing");
}

#[test]
fn token_ids_are_completed_as_the_text_is_that_they_spell() {
    let Some(server) = Server::shared() else { return };
    let prompt = "The capital of France is";
    let tokens = server.ok("/tokenize", json!({"prompt": prompt}))["tokens"].clone();
    let ask = |prompt: &Value, more: Value| {
        server.ok("/v1/completions", with(json!({"prompt": prompt, "max_tokens": 12, "temperature": 0}), more))
    };
    let of_text = ask(&json!(prompt), json!({}));
    let of_ids = ask(&tokens, json!({"logprobs": 2, "return_token_ids": true}));
    assert_eq!(text(&of_text), text(&of_ids));
    assert!(text(&of_text).contains("Paris"), "{of_text}");
    assert_eq!(of_ids["usage"]["prompt_tokens"], ids(&tokens).len());
    let told = &of_ids["choices"][0]["logprobs"]["token_logprobs"];
    assert!(told.as_array().unwrap().iter().all(|logprob| logprob.as_f64().unwrap() <= 0.0), "{told}");

    let stopped = ask(&tokens, json!({"stop": ["zebra", "aris"]}));
    assert_eq!(stopped["choices"][0]["finish_reason"], "stop");
    assert_eq!(text(&stopped), text(&of_text).split_once("aris").unwrap().0, "nothing of the stop string is told");
    let two = ask(&tokens, json!({"n": 2, "temperature": 1.0, "seed": 3}));
    let two: Vec<_> = two["choices"].as_array().unwrap().iter().map(|choice| &choice["text"]).collect();
    assert!(two.len() == 2 && two[0] != two[1], "{two:?}");
}

#[test]
fn generate_takes_ids_and_gives_the_very_ids_with_log_probabilities() {
    let Some(server) = Server::shared() else { return };
    let tokens = server.ok("/tokenize", json!({"prompt": "One, two, three, four,"}))["tokens"].clone();
    let body = json!({"input_ids": tokens, "return_logprob": true,
        "sampling_params": {"max_new_tokens": 8, "temperature": 0}});
    let answer = server.ok("/generate", body.clone());
    let (made, about) = (ids(&answer["output_ids"]), &answer["meta_info"]);
    assert_eq!(made.len(), 8);
    assert_eq!((&about["finish_reason"]["type"], &about["completion_tokens"]), (&json!("length"), &json!(8)));
    assert_eq!(about["prompt_tokens"], ids(&tokens).len());
    let pairs = about["output_token_logprobs"].as_array().unwrap();
    assert_eq!(pairs.iter().map(|pair| pair[1].as_u64().unwrap()).collect::<Vec<_>>(), made);
    assert!(pairs.iter().all(|pair| pair[0].as_f64().unwrap() <= 0.0), "{about}");
    assert_eq!(server.ok("/detokenize", json!({"tokens": made}))["prompt"], answer["text"]);
    let streamed = server.stream("/generate", body);
    assert_eq!(streamed.last().unwrap()["output_ids"], answer["output_ids"]);
}

#[test]
fn what_cannot_be_served_is_refused_by_name_and_the_server_lives() {
    let Some(server) = Server::shared() else { return };
    let long = "word ".repeat(2 * CONTEXT as usize);
    for (body, status, code) in [
        (chat(json!({"messages": [{"role": "user", "content": long}]})), 400, "context_length_exceeded"),
        (chat(json!({"max_tokens": CONTEXT})), 400, "context_length_exceeded"),
        (chat(json!({"model": "another"})), 404, "model_not_found"),
    ] {
        let answer = server.post(CHAT, &body);
        let error = answer.json()["error"].clone();
        assert_eq!((answer.status, &error["code"]), (status, &json!(code)), "{error}");
    }
    assert_eq!(server.post(CHAT, &json!("no object")).status, 400);
    let huge = format!("POST {CHAT} HTTP/1.1\r\ncontent-length: {}\r\n", 100 << 20);
    assert_eq!(Answer::read(server.send(&huge, "{")).status, 413);
    let broken = format!("POST {CHAT} HTTP/1.1\r\ncontent-length: 14\r\n");
    assert_eq!(Answer::read(server.send(&broken, "{\"messages\": [")).status, 400);
    assert_eq!(server.ok(CHAT, chat(json!({"max_tokens": 1})))["usage"]["completion_tokens"], 1);
}

#[test]
fn a_second_turn_finds_what_the_first_computed() {
    let Some(server) = Server::shared() else { return };
    let opening = "A keeper of a lighthouse writes down every evening which ships went by, what the weather was, how much oil \
                   was burnt, who came up the stairs and what they wanted. What may be read from such a book a hundred years \
                   later, and by whom? Answer in a few words.";
    let first = json!([{"role": "user", "content": opening}]);
    let answer = server.ok(CHAT, chat(json!({"messages": first, "temperature": 0})));
    let mut second = first;
    let said =
        [json!({"role": "assistant", "content": content(&answer)}), json!({"role": "user", "content": "Go on."})];
    second.as_array_mut().unwrap().extend(said);
    let before = server.metric("legwork_model_prefix_hit_tokens_total");
    let answer = server.ok(CHAT, chat(json!({"messages": second, "temperature": 0})));
    let cached = answer["usage"]["prompt_tokens_details"]["cached_tokens"].as_u64().unwrap();
    assert!(cached >= 64, "{answer}");
    assert!(server.metric("legwork_model_prefix_hit_tokens_total") >= before + cached as f64);
}

#[test]
fn nothing_is_computed_for_a_client_that_has_left() {
    let Some(server) = Server::shared() else { return };
    let before = server.metric("legwork_model_cancelled_total");
    let more = json!({"max_tokens": CONTEXT / 2, "stream": true, "ignore_eos": true});
    let mut socket = server.begin(CHAT, &chat(more));
    socket.read_exact(&mut [0; 64]).unwrap();
    drop(socket);
    server.until("legwork_model_cancelled_total", |cancelled| cancelled > before);
}

#[test]
fn told_to_end_it_gives_the_answers_under_way_their_rest() {
    for signal in ["INT", "TERM"] {
        let Some(server) = Server::start() else { return };
        let more = json!({"stream": true, "ignore_eos": true, "temperature": 0});
        let mut socket = server.begin(CHAT, &chat(more));
        let mut bytes = vec![0; 64];
        socket.read_exact(&mut bytes).unwrap();
        server.running.signal(signal);
        server.running.must_say("ending: ");
        socket.read_to_end(&mut bytes).unwrap();
        let events = Answer::of(&bytes).events();
        let reasons = events.iter().filter_map(|event| event["choices"][0]["finish_reason"].as_str());
        assert_eq!(reasons.collect::<Vec<_>>(), ["length"], "{signal}");
        assert_eq!(server.end().code, Some(0), "{signal}");
    }
}

#[test]
fn told_twice_it_ends_at_once() {
    let Some(server) = Server::start() else { return };
    let more = json!({"max_tokens": CONTEXT / 2, "stream": true, "ignore_eos": true});
    let mut socket = server.begin(CHAT, &chat(more));
    socket.read_exact(&mut [0; 64]).unwrap();
    server.running.signal("INT");
    server.running.must_say("ending: ");
    server.running.signal("INT");
    let end = server.end();
    assert_eq!((end.code, end.signal), (Some(0), None), "{}", end.err);
    let _reset = socket.read_to_end(&mut Vec::new());
}
