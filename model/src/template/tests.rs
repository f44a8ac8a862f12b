use super::*;
use crate::conversation::{MESSAGES_MAX, Message};
use serde_json::json;

/// What a template renders of one user message and these options.
fn render_with(source: &str, options: &RenderOptions) -> Result<String, ModelError> {
    let conversation =
        Conversation::new(vec![Message::new("user", " hi\n").with("n", json!({"b": 1.0, "a": [null, true]}))]);
    Template::parse("made up", source)?.render(&conversation?, options)
}

#[track_caller]
fn renders(source: &str, expected: &str) {
    assert_eq!(render_with(source, &RenderOptions::default()).unwrap(), expected, "{source}");
}

/// Expected texts are those of transformers' Jinja.
#[test]
fn python_is_spoken() {
    renders("{{ messages[0].content.strip() }}|{{ messages[0]['content'] | trim }}", "hi|hi");
    renders("{{ '\\n\\na\\n'.lstrip('\\n') + 'b'.rstrip('\\n') }}", "a\nb");
    renders("{{ 'a</think>b</think>c'.split('</think>')[-1] }}{{ 'abc'.startswith('ab') }}", "cTrue");
    renders(
        "{{ 'a b\u{1c} c'.split() }}{{ '\u{1c}x\u{1c}'.strip() }}{{ 'a-b-c'.split('-', 1) }}",
        "['a', 'b', 'c']x['a', 'b-c']",
    );
    renders(
        "{% for k, v in messages[0].n.items() %}{{ k }}={{ v }};{% endfor %}{{ messages[0].get('x', 7) }}",
        "b=1.0;a=[None, True];7",
    );
    renders("{{ messages[0].n | tojson }}", r#"{"b": 1.0, "a": [null, true]}"#);
    renders("{{ messages[0].n | tojson(indent=1) }}", "{\n \"b\": 1.0,\n \"a\": [\n  null,\n  true\n ]\n}");
    renders("{{ {'<': '>&\\''} | tojson(separators=(',', ':')) }}", "{\"<\":\">&'\"}");
    renders(
        "{{ none }}{{ true }}{{ missing }}{{ 1.0 }}{{ messages[0].n }}",
        "NoneTrue1.0{'b': 1.0, 'a': [None, True]}",
    );
    renders(
        "{% set ns = namespace(n=0) %}{% for x in range(5) %}{% if x == 3 %}{% break %}{% endif %}{% set ns.n = ns.n + x %}{% endfor %}{{ ns.n }}",
        "3",
    );
    renders(
        "{{ messages[::-1] | length }}{{ messages is iterable }}{{ 'x' is string }}{{ messages[0] is mapping }}",
        "1TrueTrueTrue",
    );
    renders("{{ none is iterable }}{{ 1 is iterable }}{{ 'x' is sequence }}{{ {} is sequence }}", "FalseFalseTrueTrue");
    renders(
        "{%- if tools is none and documents is none and enable_thinking is not defined %}\n    yes\n{%- endif %}\n",
        "    yes",
    );
    renders("{% generation %}{{ 1 }}{% endgeneration %}<b>&", "1<b>&");
    renders("a\n  {% if true %}\n  b\n  {% endif %}\nc\n", "a\n  b\nc");
}

#[test]
fn options_reach_the_template_and_may_not_replace_the_messages() {
    let mut options = RenderOptions {
        add_generation_prompt: true,
        enable_thinking: Some(false),
        clear_thinking: Some(true),
        tools: Some(json!([{"z": 1, "a": 2}])),
        tokens: vec![("bos_token", "<s>".to_owned())],
        now_unix_s: Some(951_782_400),
        ..RenderOptions::default()
    };
    options.extra = [("custom".to_owned(), json!("x")), ("messages".to_owned(), json!([]))].into_iter().collect();
    let source = "{{ bos_token }}{{ add_generation_prompt }}{{ enable_thinking is false }}{{ clear_thinking }}{{ tools | tojson }}\
                  {{ custom }}{{ messages | length }}{{ strftime_now('%d %b %Y') }}";
    let expected = "<s>TrueTrueTrue[{\"z\": 1, \"a\": 2}]x129 Feb 2000";
    assert_eq!(render_with(source, &options).unwrap(), expected);
}

#[test]
fn errors_name_the_template_its_line_and_what_it_says() {
    for (source, words) in [
        ("a\n{% if %}", "made up, line 2"),
        (
            "\n\n{{ raise_exception('roles must alternate') }}",
            "line 3: it refuses the conversation: roles must alternate",
        ),
        ("{{ messages[0].missing.strip() }}", "line 1"),
        ("{{ 'a' + none }}", "line 1"),
        ("{{ strftime_now('%Y') }}", "asks for the time"),
        ("{{ 'a'.split('') }}", "empty separator"),
        ("{{ missing | tojson }}", "undefined value"),
        ("{% include 'x' %}", "made up"),
    ] {
        let error = render_with(source, &RenderOptions::default()).unwrap_err().to_string();
        assert!(error.contains("made up") && error.contains(words), "{source}: {error}");
    }
}

#[test]
fn a_template_that_would_never_end_or_grow_without_end_runs_out_of_fuel() {
    for source in [
        "{% set ns = namespace(t='aaaaaaaaaaaaaaaa') %}{% for i in range(60) %}{% set ns.t = ns.t + ns.t %}{% endfor %}",
        "{% for a in range(10000) %}{% for b in range(10000) %}{% endfor %}{% endfor %}",
        "{% macro m() %}{{ m() }}{{ m() }}{% endmacro %}{{ m() }}",
    ] {
        let template = Template::with_fuel("made up", source, FUEL / 100).unwrap();
        let error = template.render(&Conversation::default(), &RenderOptions::default()).unwrap_err().to_string();
        assert!(error.contains("took more steps") || error.contains("recursion"), "{source}: {error}");
    }
    let long = "x".repeat(SOURCE_MAX_BYTES + 1);
    assert!(Template::parse("long", &long).unwrap_err().to_string().contains("expected at most"));
}

#[test]
fn the_longest_conversation_and_a_long_text_are_rendered() {
    let calls = json!([{"function": {"name": "f", "arguments": {"x": 1}}}]);
    let message = |index: usize| match index % 3 {
        0 => Message::new("user", "a question"),
        1 => Message::new("assistant", "<think>\na thought\n</think>\n\nan answer").with("tool_calls", calls.clone()),
        _ => Message::new("tool", "an observation"),
    };
    let longest = Conversation::new((0..MESSAGES_MAX).map(message).collect()).unwrap();
    let long =
        Conversation::new(vec![Message::new("user", "q"), Message::new("assistant", &"x".repeat(10 << 20))]).unwrap();
    for house in House::ALL {
        // A third and a quarter of what a rendering may cost, as said there.
        let third = Template::with_fuel(house.name(), &house.source(), FUEL / 3).unwrap();
        third.render(&longest, &RenderOptions::default()).unwrap();
        let quarter = Template::with_fuel(house.name(), &house.source(), FUEL / 4).unwrap();
        quarter.render(&long, &RenderOptions::default()).unwrap();
    }
    assert!(Conversation::new((0..=MESSAGES_MAX).map(message).collect()).is_err());
}
