use super::super::config::ModelServerConfig;
use super::*;
use legwork_protocol::message::Role;
use serde_json::json;

fn request(body: Value) -> Result<ChatRequest, Refused> {
    let config = ModelServerConfig { messages_max: 3, tools_max: 1, ..ModelServerConfig::default() };
    read(Fields::of_body(body)?, Bounds { config: &config, vocabulary: 100 }, "own")
}

fn with(extra: Value) -> Value {
    let mut body = json!({"messages": [{"role": "user", "content": "hi"}]});
    for (name, value) in extra.as_object().unwrap() {
        body[name] = value.clone();
    }
    body
}

#[test]
fn a_conversation_is_read_with_calls_results_and_thoughts() {
    let asks = request(json!({"messages": [
        {"role": "developer", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}], "name": "x"},
        {"role": "assistant", "content": null, "reasoning_content": "hm",
         "tool_calls": [{"id": "c", "type": "function", "function": {"name": "f", "arguments": "{\"q\":1}"}}]},
        {"role": "tool", "tool_call_id": "c", "content": "found"},
    ]}))
    .unwrap()
    .asks;
    let messages = &asks[0].messages;
    assert_eq!((messages[0].role, messages[0].content.as_str()), (Role::System, "a\nb"));
    assert_eq!((messages[1].content.as_str(), messages[1].reasoning.as_deref()), ("", Some("hm")));
    assert_eq!(messages[1].tool_calls[0].arguments, "{\"q\":1}");
    assert_eq!(messages[2].tool_call_id.as_deref(), Some("c"));
}

#[test]
fn template_settings_come_from_both_places() {
    let ask = with(
        json!({"chat_template_kwargs": {"a": 1}, "enable_thinking": false, "reasoning_effort": "low", "rid": "r"}),
    );
    let ask = request(ask).unwrap().asks.remove(0);
    assert_eq!(Value::Object(ask.template), json!({"a": 1, "enable_thinking": false, "reasoning_effort": "low"}));
    assert_eq!(ask.rid, "r");
}

#[test]
fn tools_go_to_the_template_unless_none_is_to_be_called() {
    let tools = json!([{"type": "function", "function": {"name": "f", "parameters": {}}}]);
    let read = request(with(json!({"tools": tools, "parallel_tool_calls": false}))).unwrap();
    assert_eq!((read.asks[0].tools.as_deref(), read.style.tools, read.style.one_call), (Some(&tools), true, true));
    let none = request(with(json!({"tools": tools, "tool_choice": "none"}))).unwrap();
    assert_eq!((none.asks[0].tools.as_deref(), none.style.tools), (None, false));
}

#[test]
fn each_choice_draws_with_its_own_seed() {
    let asks = request(with(json!({"n": 3, "seed": 5}))).unwrap().asks;
    let seeds: std::collections::BTreeSet<_> = asks.iter().map(|ask| ask.sampling.seed).collect();
    assert_eq!((seeds.len(), asks[0].sampling.seed), (3, Some(5)));
}

#[test]
fn what_cannot_be_is_refused_by_name() {
    let image =
        json!([{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "image_url", "image_url": {}}]}]);
    let tool = json!({"type": "function", "function": {"name": "f"}});
    for (body, said) in [
        (json!({}), "`messages` must be a list of at least one message, got null"),
        (json!({"messages": []}), "got a list of 0"),
        (json!({"messages": "hi"}), "`messages` must be a list, got \"hi\""),
        (json!({"messages": [1]}), "`messages[0]` must be an object, got 1"),
        (json!({"messages": [{"role": "king"}]}), "`messages[0].role` must be \"system\""),
        (
            json!({"messages": [{"role": "user", "content": 3}]}),
            "`messages[0].content` must be a string or a list of parts, got 3",
        ),
        (
            json!({ "messages": image }),
            "`messages[0].content[1]` is of type \"image_url\", and this model reads text only",
        ),
        (
            json!({"messages": [{"role": "user"}, {"role": "user"}, {"role": "user"}, {"role": "user"}]}),
            "at most 3 entries, got 4",
        ),
        (with(json!({"tools": [tool, tool]})), "`tools` may have at most 1 entries, got 2"),
        (with(json!({"tools": [{"type": "retrieval"}]})), "`tools[0].type` must be \"function\", got \"retrieval\""),
        (with(json!({"tools": [{"type": "function"}]})), "`tools[0].function.name` must be a function's name"),
        (with(json!({"tool_choice": "required"})), "a call cannot be forced: use \"auto\""),
        (with(json!({"tool_choice": 3})), "`tool_choice` must be \"auto\" or \"none\", got 3"),
        (with(json!({"n": 0})), "`n` must be a whole number from 1"),
        (with(json!({"top_logprobs": 3})), "`top_logprobs` needs `logprobs` to be true"),
        (
            with(json!({"logprobs": true, "top_logprobs": 21})),
            "`top_logprobs` must be a whole number from 0 to 20, got 21",
        ),
        (with(json!({"stream": "yes"})), "`stream` must be true or false, got \"yes\""),
        (with(json!({"stream_options": {"include_usage": 1}})), "`stream_options.include_usage` must be true or false"),
        (with(json!({"functions": [1]})), "`functions` is not offered here: use `tools`"),
        (with(json!({"modalities": ["audio"]})), "`modalities` must be [\"text\"]"),
        (with(json!({"chat_template": "x"})), "`chat_template` is not offered here"),
        (with(json!({"continue_final_message": true, "add_generation_prompt": true})), "exclude one another"),
        (with(json!({"rid": 3})), "`rid` must be a string"),
    ] {
        let told = request(body.clone()).err().unwrap().to_string();
        assert!(told.contains(said), "{body}: {told}");
    }
}

#[test]
fn fields_of_other_servers_are_left_alone() {
    assert!(request(with(json!({"nobody_knows": {"a": 1}, "user": "u", "metadata": {}, "store": false}))).is_ok());
}
