//! Both readers over the published table of edge cases, and both over anything at all.

use super::*;
use proptest::prelude::*;

fn search(query: &str) -> String {
    format!("<function=search>\n<parameter=query>{query}</parameter>\n</function>")
}

fn call(name: &str, arguments: &[(&str, &str)]) -> Call {
    Call::new(name, arguments.iter().copied())
}

/// Calls in a short form: `search(query=a, topk=5)`.
fn shown(reading: &Reading) -> Vec<String> {
    let one = |call: &Call| {
        let arguments: Vec<_> = call.arguments.iter().map(|(key, value)| format!("{key}={value}")).collect();
        format!("{}({})", call.name, arguments.join(", "))
    };
    reading.calls.iter().map(one).collect()
}

fn native(name: &str, arguments: &str) -> Vec<ToolCall> {
    vec![ToolCall { id: "1".into(), name: name.into(), arguments: arguments.into() }]
}

#[track_caller]
fn reads(grammar: Grammar, cases: &[(&str, String, &[&str])]) {
    for (what, text, expected) in cases {
        assert_eq!(shown(&grammar.read(text, &[])), *expected, "{what}: {text}");
    }
}

#[test]
fn foldagent_reads_the_published_table() {
    let (a, b) = (search("a"), search("b"));
    let cases: &[(&str, String, &[&str])] = &[
        ("text before it on the line", format!("I search: {a}"), &[]),
        ("in a code fence", format!("```\n{a}\n```"), &["search(query=a)"]),
        ("no closing tag", "<function=search>\n<parameter=query>a</parameter>".into(), &[]),
        (
            "an unclosed search, then a closed open_page",
            "<function=search>\n<parameter=query>a</parameter>\n<function=open_page>\n<parameter=docid>1</parameter>\n</function>".into(),
            &["search(query=a, docid=1)"],
        ),
        ("no closing parameter", "<function=search>\n<parameter=query>a\n</function>".into(), &["search()"]),
        (
            "topk swallowed into the query",
            "<function=search>\n<parameter=query>a\n<parameter=topk>5</parameter>\n</function>".into(),
            &["search(query=a\n<parameter=topk>5)"],
        ),
        ("two on one line", format!("{a} {b}"), &["search(query=a)"]),
        ("3 newlines between", format!("{a}\n\n\n{b}"), &["search(query=a)", "search(query=b)"]),
        ("4 newlines between", format!("{a}\n\n\n\n{b}"), &["search(query=b)"]),
        ("near thinking", format!("<think>\n{a}\n</think>\n{b}"), &["search(query=a)", "search(query=b)"]),
        ("distant thinking", format!("<think>\n{a}\n\n</think>\n\n{b}"), &["search(query=b)"]),
        ("only in thinking", format!("<think>\n{a}\n</think>"), &["search(query=a)"]),
        (
            "untrimmed",
            "<function=open_page><parameter=docid>\n12\n</parameter></function>".into(),
            &["open_page(docid=\n12\n)"],
        ),
        ("quoted name", "<function=\"search\"></function>".into(), &["\"search\"()"]),
        ("spaces in the tag", "<function = search></function>".into(), &[]),
        ("upper case", "<FUNCTION=search></FUNCTION>".into(), &[]),
        ("indented", format!(" \t{a}"), &["search(query=a)"]),
        ("windows line ends", a.replace('\n', "\r\n"), &["search(query=a)"]),
        ("a byte order mark before it", format!("\u{feff}{a}"), &[]),
        ("before a marker", format!("{a}\n<[next]>\n{b}"), &["search(query=b)"]),
        ("only before a marker", format!("{a}\n<[next]>"), &[]),
        (
            "the last of duplicates counts, none is lost",
            "<function=search><parameter=query>a</parameter><parameter=query>b</parameter></function>".into(),
            &["search(query=a, query=b)"],
        ),
        (
            "a value with a closing tag is cut",
            search("a</parameter>b"),
            &["search(query=a)"],
        ),
        ("nothing", String::new(), &[]),
    ];
    reads(Grammar::Foldagent, cases);
}

#[test]
fn foldagent_reads_json_tools_first() {
    let tool = |body: &str| format!("<tool_call>\n{body}\n</tool_call>");
    let lists = r#"{"name": "search", "arguments": {"query": ["a", "b"]}}"#;
    let cases: &[(&str, String, &[&str])] = &[
        ("a list of queries shares the entries", tool(lists), &["search(query=a, topk=3)", "search(query=b, topk=3)"]),
        (
            "in a fence",
            tool(&format!("```json\n{lists}\n```")),
            &["search(query=a, topk=3)", "search(query=b, topk=3)"],
        ),
        (
            "a plain string is read by the character",
            tool(r#"{"name": "search", "arguments": {"query": "añc"}}"#),
            &["search(query=a, topk=2)", "search(query=ñ, topk=2)", "search(query=c, topk=2)"],
        ),
        ("a Python literal", tool("{'name': 'search', 'arguments': {'query': ['a']}}"), &["search(query=a, topk=5)"]),
        (
            "words around the braces",
            tool(&format!("Now {lists} please")),
            &["search(query=a, topk=3)", "search(query=b, topk=3)"],
        ),
        (
            "visit opens",
            tool(r#"{"name": "visit", "arguments": {"url": ["u", "v"]}}"#),
            &["open_page(url=u)", "open_page(url=v)"],
        ),
        ("other names pass", tool(r#"{"name": "finish", "arguments": {"answer": 42}}"#), &["finish(answer=42)"]),
        ("arguments that are no object", tool(r#"{"name": "x", "arguments": "y"}"#), &["x()"]),
        ("an answer finishes", "I think <answer> 42 </answer>".into(), &["finish(answer=42)"]),
        ("JSON hides XML", format!("{}\n<answer>x</answer>", search("a")), &["finish(answer=x)"]),
        ("no JSON call, so XML", format!("<tool_call>\n{}\n</tool_call>", search("a")), &["search(query=a)"]),
        ("an unclosed answer, so XML", format!("<answer>\n{}", search("a")), &["search(query=a)"]),
        (
            "each tag up to its own closing tag",
            "<answer>a <tool_call> b</answer> <tool_call>{\"name\": \"x\"}</tool_call>".into(),
            &["finish(answer=a <tool_call> b)", "x()"],
        ),
        ("a tag that is never closed is passed over", "<tool_call> <answer>a</answer>".into(), &["finish(answer=a)"]),
    ];
    reads(Grammar::Foldagent, cases);
}

#[test]
fn foldagent_takes_native_calls_like_json_bodies() {
    let reading = Grammar::Foldagent.read("", &native("search", r#"{"query": ["a"]}"#));
    assert_eq!(shown(&reading), ["search(query=a, topk=5)"]);
    let reading = Grammar::Foldagent.read("", &native("finish", r#"{"answer": "x"}"#));
    assert_eq!(shown(&reading), ["finish(answer=x)"]);
    let reading = Grammar::Foldagent.read("", &native("search", r#"{"query": "a"#));
    assert_eq!(reading.fault, Some(ReadFault::NoCall));
}

#[test]
fn the_main_loop_takes_the_last_function_anywhere() {
    let cases = [
        ("<think><function=branch><parameter=prompt>p</parameter></think>", Some(call("branch", &[("prompt", "p")]))),
        (
            "so <function=branch> or <function=return>\n<parameter=message>m</parameter>",
            Some(call("return", &[("message", "m")])),
        ),
        ("<function=return><parameter=message>open", Some(call("return", &[]))),
        (
            "<function=a><parameter=x>1</parameter> <function=a><parameter=x>2</parameter>",
            Some(call("a", &[("x", "2")])),
        ),
        ("<function=>", None),
        ("", None),
    ];
    for (text, expected) in cases {
        assert_eq!(last_function(text), expected, "{text}");
    }
    assert_eq!(last_part("a<function=return>b<function=return>c"), "c");
    assert_eq!(last_part("a<[x]>b"), "b");
}

#[test]
fn strict_reads_what_was_meant() {
    let (a, b) = (search("a"), search("b"));
    let cases: &[(&str, String, &[&str])] = &[
        ("text before it on the line", format!("I search: {a}"), &["search(query=a)"]),
        ("in thinking, and after", format!("<think>\n{a}\n</think>\n{b}"), &["search(query=b)"]),
        ("the last thinking counts", format!("<think>x</think>{a}<think>y</think>{b}"), &["search(query=b)"]),
        ("the opening tag was in the prompt", format!("hm {a}</think>{b}"), &["search(query=b)"]),
        ("two on one line", format!("{a} {b}"), &["search(query=a)", "search(query=b)"]),
        ("far apart", format!("{a}\n\n\n\n\n\n{b}"), &["search(query=a)", "search(query=b)"]),
        (
            "trimmed",
            "<function=open_page>\n<parameter=docid>\n12\n</parameter>\n</function>".into(),
            &["open_page(docid=12)"],
        ),
        ("quoted names", "<function=\"search\"><parameter='query'>a</parameter></function>".into(), &["search(query=a)"]),
        (
            "a closing parameter forgotten",
            "<function=search>\n<parameter=query>a\n<parameter=topk>5</parameter>\n</function>".into(),
            &["search(query=a, topk=5)"],
        ),
        ("the last one forgotten", "<function=search>\n<parameter=query>a\n</function>".into(), &["search(query=a)"]),
        (
            "stray closers",
            "</parameter></function><function=search></parameter><parameter=query>a</parameter></parameter></function></function>".into(),
            &["search(query=a)"],
        ),
        ("an example in a fence, then a call", format!("```xml\n{a}\n```\n{b}"), &["search(query=b)"]),
        ("fences side by side", format!("```\n{a}\n```\n```\n{a}\n```\n{b}"), &["search(query=b)"]),
        ("a longer fence holds a shorter one", format!("````\n```\n{a}\n```\n````\n{b}"), &["search(query=b)"]),
        ("named in passing", format!("I use `<function=search>` now: {a}"), &["search(query=a)"]),
        ("a fence within a value", search("x\n```\ny\n```\nz"), &["search(query=x\n```\ny\n```\nz)"]),
        ("an odd fence within a value", format!("{}\n{b}", search("x\n```\ny")), &["search(query=x\n```\ny)", "search(query=b)"]),
        ("a tag within a value", search("what is <function=x> here"), &["search(query=what is <function=x> here)"]),
        ("an escaped tag within a value", search("a<\\/parameter>b"), &["search(query=a</parameter>b)"]),
        ("wrapped", format!("<tool_call>\n{a}\n</tool_call>"), &["search(query=a)"]),
        (
            "JSON as text",
            "<tool_call>\n{\"name\": \"search\", \"arguments\": {\"query\": \"abc\", \"topk\": 5}}\n</tool_call>".into(),
            &["search(query=abc, topk=5)"],
        ),
        ("a byte order mark before it", format!("\u{feff}{a}"), &["search(query=a)"]),
        ("windows line ends", a.replace('\n', "\r\n"), &["search(query=a)"]),
        ("an answer tag is text", "<answer>42</answer>".into(), &[]),
        ("a marker is text", format!("{a}\n<[next]>"), &["search(query=a)"]),
    ];
    reads(Grammar::Strict, cases);
}

#[test]
fn strict_names_what_it_could_not_read() {
    let a = search("a");
    let unclosed = |name: &str| Some(ReadFault::Unclosed { name: name.into() });
    let cases: &[(&str, String, &[&str], Option<ReadFault>)] = &[
        ("nothing", "I give up".into(), &[], Some(ReadFault::NoCall)),
        ("empty", String::new(), &[], Some(ReadFault::NoCall)),
        ("open thinking", format!("<think>{a}"), &[], Some(ReadFault::UnclosedThink)),
        ("thinking opened again", format!("<think>x</think>{a}<think>"), &[], Some(ReadFault::UnclosedThink)),
        ("only in a fence", format!("```\n{a}\n```"), &[], Some(ReadFault::InCodeFence { name: "search".into() })),
        ("an open fence", format!("```\n{a}"), &[], Some(ReadFault::InCodeFence { name: "search".into() })),
        ("cut in a value", "<function=search><parameter=query>a".into(), &[], unclosed("search")),
        ("cut in a name", "<function=sea".into(), &[], unclosed("sea")),
        ("cut after a value", "<function=search><parameter=query>a</parameter>".into(), &[], unclosed("search")),
        (
            "a whole one, then a cut one",
            format!("{a}<function=open_page>"),
            &["search(query=a)"],
            unclosed("open_page"),
        ),
        (
            "an open one, then a whole one",
            format!("<function=open_page><parameter=docid>1\n{a}"),
            &["search(query=a)"],
            unclosed("open_page"),
        ),
    ];
    for (what, text, calls, fault) in cases {
        let reading = Grammar::Strict.read(text, &[]);
        assert_eq!(shown(&reading), *calls, "{what}");
        assert_eq!(reading.fault, *fault, "{what}");
    }
}

#[test]
fn strict_reads_native_calls() {
    let cases: &[(&str, &[&str])] = &[
        (r#"{"query": " abc ", "topk": 5}"#, &["search(query=abc, topk=5)"]),
        (r#"{"query": ["a", "b"]}"#, &["search(query=a, query=b)"]),
        (r#""{\"query\": \"a\"}""#, &["search(query=a)"]),
        (r#"{"query": "a", "topk": null}"#, &["search(query=a)"]),
        (r#"{"query": "\ud83d"}"#, &["search(query=\u{fffd})"]),
        ("", &["search()"]),
        (r#"{"query": {"b": [1]}}"#, &[r#"search(query={"b":[1]})"#]),
    ];
    for (arguments, expected) in cases {
        let reading = Grammar::Strict.read(&search("not read"), &native("search", arguments));
        assert_eq!(shown(&reading), *expected, "{arguments}");
        assert_eq!(reading.fault, None, "{arguments}");
    }
    for arguments in [r#"{"q": "a"#, "[1]", "7", "{}{}", &format!(r#"{{"q": [{}0]}}"#, "0,".repeat(300))] {
        let reading = Grammar::Strict.read("", &native("search", arguments));
        assert!(
            matches!(&reading.fault, Some(ReadFault::BadArguments { name, .. }) if name == "search"),
            "{arguments}"
        );
        assert!(reading.calls.is_empty());
    }
}

#[test]
fn a_flood_of_calls_is_cut_and_said() {
    for grammar in [Grammar::Foldagent, Grammar::Strict] {
        let reading = grammar.read(&format!("{}\n", search("a")).repeat(CALLS_MAX + 1), &[]);
        assert_eq!(reading.calls.len(), CALLS_MAX);
        assert_eq!(reading.fault, Some(ReadFault::TooMany { limit: CALLS_MAX }));
    }
    let query = "a".repeat(10 * CALLS_MAX);
    let reading = Grammar::Foldagent.read("", &native("search", &format!(r#"{{"query": "{query}"}}"#)));
    assert_eq!(reading.calls.len(), CALLS_MAX);
    assert_eq!(Grammar::Strict.read(&"<function=a>\n```\n".repeat(50_000), &[]).calls, []);
}

#[test]
fn the_last_of_duplicates_is_the_argument() {
    let call = call("search", &[("query", "a"), ("query", "b")]);
    assert_eq!(call.argument("query"), Some("b"));
    assert_eq!(call.argument("topk"), None);
    assert_eq!(call.values("query").collect::<Vec<_>>(), ["a", "b"]);
}

#[test]
fn a_foldagent_value_with_a_closing_tag_is_cut_when_read_back() {
    let text = Grammar::Foldagent.render(&[call("search", &[("query", "a</parameter>b")])]);
    assert_eq!(shown(&Grammar::Foldagent.read(&text, &[])), ["search(query=a)"]);
}

/// Texts made of the pieces that readers trip over.
fn any_text() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        prop::sample::select(vec![
            "<function=",
            "search>",
            "open_page",
            ">",
            "</function>",
            "<parameter=",
            "query>",
            "</parameter>",
            "<think>",
            "</think>",
            "<tool_call>",
            "</tool_call>",
            "<answer>",
            "</answer>",
            "{\"name\": \"x\", ",
            "\"arguments\": {}}",
            "```",
            "~~~",
            "`",
            "\n",
            "\n\n\n\n",
            "\r\n",
            "<[m]>",
            "<",
            "\\",
            "\"",
            "'",
            "\\ud83d",
            "{",
            "}",
            "\0",
            "\u{feff}",
            "\u{200b}",
            "\u{fffd}",
            "é",
            "(",
            "[",
        ])
        .prop_map(String::from),
        any::<String>(),
        prop::collection::vec(any::<u8>(), 0..8).prop_map(|bytes| String::from_utf8_lossy(&bytes).into_owned()),
    ];
    prop::collection::vec(piece, 0..24).prop_map(|pieces| pieces.concat())
}

fn name() -> impl Strategy<Value = String> {
    "[a-z_]{1,8}"
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_text_makes_a_reader_panic(text in any_text(), arguments in any_text()) {
        for grammar in [Grammar::Foldagent, Grammar::Strict] {
            for native in [vec![], native("search", &arguments)] {
                let reading = grammar.read(&text, &native);
                prop_assert!(reading.calls.len() <= CALLS_MAX);
                prop_assert!(!reading.calls.is_empty() || reading.fault.is_some());
            }
        }
        last_function(&text);
        last_part(&text);
        python::literal(&text);
    }

    #[test]
    fn strict_gives_back_any_trimmed_value(
        calls in prop::collection::vec((name(), prop::collection::vec((name(), any_text()), 0..4)), 1..4),
    ) {
        let calls: Vec<Call> = calls
            .into_iter()
            .map(|(name, arguments)| Call::new(name, arguments.into_iter().map(|(key, value)| (key, value.trim().to_owned()))))
            .collect();
        let text = Grammar::Strict.render(&calls);
        prop_assert_eq!(&Grammar::Strict.read(&text, &[]), &Reading { calls, fault: None }, "{}", text);
    }

    #[test]
    fn foldagent_gives_back_values_without_tags(
        calls in prop::collection::vec((name(), prop::collection::vec((name(), "[^<]{0,40}"), 0..4)), 1..4),
    ) {
        let calls: Vec<Call> = calls.into_iter().map(|(name, arguments)| Call::new(name, arguments)).collect();
        let text = Grammar::Foldagent.render(&calls);
        prop_assert_eq!(&Grammar::Foldagent.read(&text, &[]), &Reading { calls, fault: None }, "{}", text);
    }
}
