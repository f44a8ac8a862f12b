//! Requests to and answers of Gemini.

use super::*;
use crate::config::Kind;
use legwork_protocol::generation::{Route, Sampling};

fn whole(body: Value) -> Result<Completion, Fault> {
    GeminiReader::default().whole(body.to_string().as_bytes())
}

fn candidate(parts: Value, reason: &str) -> Value {
    json!({"candidates": [{"content": {"role": "model", "parts": parts}, "finishReason": reason}]})
}

fn request(messages: Vec<Message>) -> GenerateRequest {
    GenerateRequest {
        route: Route::Judge,
        session: None,
        messages: messages.into_iter().map(Arc::new).collect(),
        tools: None,
        sampling: Sampling {
            max_tokens: 5,
            temperature: 0.0,
            top_p: 0.95,
            top_k: Some(40),
            seed: Some(u64::MAX),
            stop: vec!["END".into()],
        },
        timeout_ms: 1,
    }
}

#[test]
fn standing_orders_are_apart_and_each_side_speaks_in_turn() {
    let mut config = EndpointConfig::new(Kind::Gemini, "http://h", "g");
    config.extra =
        serde_json::from_str(r#"{"generationConfig": {"thinkingConfig": {"includeThoughts": true}}}"#).unwrap();
    let thought = Message { reasoning: Some("hm".into()), ..Message::new(Role::Assistant, "a") };
    let ask = request(vec![
        Message::new(Role::System, "s1"),
        Message::new(Role::User, "u1"),
        thought,
        Message::new(Role::User, "u2"),
        Message::new(Role::Tool, "u3"),
        Message::new(Role::System, "s2"),
    ]);
    let sent: Value = serde_json::from_slice(&body(&config, &ask).unwrap()).unwrap();
    assert_eq!(
        sent,
        json!({"systemInstruction": {"parts": [{"text": "s1"}, {"text": "s2"}]},
               "contents": [{"role": "user", "parts": [{"text": "u1"}]}, {"role": "model", "parts": [{"text": "a"}]},
                            {"role": "user", "parts": [{"text": "u2"}, {"text": "u3"}]}],
               "generationConfig": {"maxOutputTokens": 5, "temperature": 0.0, "topP": 0.95, "topK": 40,
                                    "seed": 0x7fff_ffff_u32, "stopSequences": ["END"],
                                    "thinkingConfig": {"includeThoughts": true}}})
    );
    assert!(body(&config, &request(vec![Message::new(Role::System, "s")])).is_err());
}

#[test]
fn thoughts_are_kept_apart_and_counted() {
    let mut answer = candidate(json!([{"text": "hm", "thought": true}, {"text": "fo"}, {"text": "ur"}]), "STOP");
    answer["usageMetadata"] = json!({"promptTokenCount": 9, "cachedContentTokenCount": 4, "candidatesTokenCount": 2,
                                     "thoughtsTokenCount": 7, "totalTokenCount": 18});
    let completion = whole(answer).unwrap();
    assert_eq!((completion.text.as_str(), completion.reasoning.as_deref()), ("four", Some("hm")));
    assert_eq!(completion.usage, Usage { prompt_tokens: 9, cached_tokens: 4, completion_tokens: 9 });
}

#[test]
fn a_blocked_prompt_and_a_filtered_answer_are_refusals_by_name() {
    let blocked = whole(json!({"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}})).unwrap_err();
    assert_eq!((blocked.kind, blocked.again), (FailureKind::Refused, false));
    assert!(blocked.detail.contains("PROHIBITED_CONTENT"));
    for reason in ["SAFETY", "RECITATION", "SPII"] {
        assert_eq!(whole(json!({"candidates": [{"finishReason": reason}]})).unwrap_err().kind, FailureKind::Refused);
        let kept = whole(candidate(json!([{"text": "part"}]), reason)).unwrap();
        assert_eq!(kept.finish, FinishReason::ContentFilter);
    }
}

#[test]
fn odd_answers_are_named() {
    assert_eq!(whole(json!({"candidates": []})).unwrap_err().kind, FailureKind::BadResponse);
    assert_eq!(whole(candidate(json!([]), "MAX_TOKENS")).unwrap_err().kind, FailureKind::EmptyCompletion);
    assert_eq!(whole(candidate(json!([{"text": "x"}]), "MAX_TOKENS")).unwrap().finish, FinishReason::Length);
    let error = whole(json!({"error": {"code": 503, "message": "overloaded", "status": "UNAVAILABLE"}})).unwrap_err();
    assert_eq!((error.kind, error.again), (FailureKind::ServerError, true));
}

#[test]
fn a_stream_is_put_together() {
    let mut reader = GeminiReader::default();
    for (text, reason) in [("fo", None), ("ur", Some("STOP"))] {
        assert!(!reader.complete());
        reader
            .event(
                &json!({"candidates": [{"content": {"parts": [{"text": text}]}, "finishReason": reason}]}).to_string(),
            )
            .unwrap();
    }
    assert!(reader.complete());
    assert_eq!(reader.finish().unwrap().text, "four");
}
