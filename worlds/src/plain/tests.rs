use super::*;
use proptest::prelude::*;

fn message(bytes: &[u8]) -> String {
    parse_questions("set.jsonl", bytes).unwrap_err().to_string()
}

fn corpus_message(bytes: &[u8]) -> String {
    parse_corpus("corpus.jsonl", bytes).unwrap_err().to_string()
}

#[test]
fn the_least_question_has_id_question_and_answers() {
    let read =
        parse_questions("set.jsonl", br#"{"id": "1", "question": "Which?", "answers": ["this", "that"]}"#).unwrap();
    assert_eq!(read[0].tier, UNTIERED);
    assert_eq!(read[0].answers, ["this", "that"]);
    assert!(read[0].gold.is_empty() && read[0].evidence.is_empty() && read[0].decomposition.is_empty());
}

#[test]
fn bad_questions_are_named_with_line_and_cure() {
    let line = |fields: &str| {
        format!("{{\"id\": \"0\", \"question\": \"Which?\", \"answers\": [\"x\"]}}\n{{{fields}}}\n").into_bytes()
    };
    let cases = [
        (r#""id": 1, "question": "Which?", "answers": ["x"]"#, "the id 1 is a number; quote it as \"1\""),
        (r#""id": "0", "question": "Which?", "answers": ["x"]"#, "stands already at set.jsonl:1"),
        (r#""id": " ", "question": "Which?", "answers": ["x"]"#, "expected text in `id`, got no text"),
        (r#""id": "1", "question": " ", "answers": ["x"]"#, "expected text in `question`, got no text"),
        (r#""id": "1", "question": "W\u0000", "answers": ["x"]"#, "got a NUL character; remove it"),
        (r#""id": "1", "question": "Which?", "answers": []"#, "question \"1\" has no answer"),
        (r#""id": "1", "question": "Which?", "answers": [""]"#, "question \"1\" has no answer"),
        (r#""id": "1", "question": "Which?", "answers": ["x", ""]"#, "expected text in `answers`"),
        (r#""id": "1", "question": "Which?""#, "missing field `answers`"),
        (r#""id": "1", "question": "Which?", "answer": "x""#, "unknown field `answer`"),
        (r#""id": "1", "id": "2", "question": "Which?", "answers": ["x"]"#, "duplicate field `id`"),
        (r#""id": "1", "question": "Which?", "answers": ["x"], "gold": [7]"#, "the id 7 is a number"),
        (r#""id": "1", "question": "\ud83d", "answers": ["x"]"#, "half of a surrogate pair"),
    ];
    for (fields, expected) in cases {
        let message = message(&line(fields));
        assert!(message.starts_with("set.jsonl:2: ") && message.contains(expected), "{message}");
    }
    assert!(message(b"").contains("set.jsonl: expected questions, got none"));
}

#[test]
fn bad_documents_are_named() {
    let one = "{\"docid\": \"00012\", \"text\": \"x\"}\n";
    assert_eq!(parse_corpus("c", format!("{one}{}", one.replace("00012", "12")).as_bytes()).unwrap().len(), 2);
    assert!(
        corpus_message(format!("{one}{one}").as_bytes())
            .contains("the document id \"00012\" stands already at corpus.jsonl:1")
    );
    assert!(corpus_message(one.replace("\"00012\"", "12").as_bytes()).contains("the id 12 is a number"));
    assert!(corpus_message(one.replace("\"x\"", "\"\"").as_bytes()).contains("expected text in `text`"));
    assert!(corpus_message(b"\n").contains("expected documents, got none"));
}

#[test]
fn an_absent_file_is_named() {
    let error = read_questions(Path::new("/no/such/set.jsonl")).unwrap_err().to_string();
    assert!(error.contains("cannot read /no/such/set.jsonl") && error.contains("check that it exists"), "{error}");
}

fn a_text() -> impl Strategy<Value = String> {
    "[^\\x00]*[a-z][^\\x00]*"
}

prop_compose! {
    fn a_question()(id in a_text(), text in a_text(), answers in proptest::collection::vec(a_text(), 1..4), tier in a_text(),
                    gold in proptest::collection::vec(a_text(), 0..3), step in proptest::option::of((a_text(), a_text()))) -> Question {
        let docids: Vec<DocId> = gold.into_iter().map(DocId::from).collect();
        let decomposition = step.map(|(question, answer)| Step { question, answer, gold: docids.first().cloned(), stated: Vec::new(), topics: Vec::new() });
        Question { id: id.into(), text, answers, tier, gold: docids.clone(), evidence: docids, decomposition: decomposition.into_iter().collect() }
    }
}

proptest! {
    #[test]
    fn what_is_written_reads_back(question in a_question()) {
        let mut bytes = Vec::new();
        write_questions(std::slice::from_ref(&question), &mut bytes).unwrap();
        prop_assert_eq!(parse_questions("set.jsonl", &bytes).unwrap(), [question]);
    }

    #[test]
    fn a_written_corpus_reads_back(docid in a_text(), title in "[^\\x00]*", text in a_text()) {
        let documents = [WorldDocument { docid: docid.into(), title, url: String::new(), text }];
        let mut bytes = Vec::new();
        write_corpus(&documents, &mut bytes).unwrap();
        prop_assert_eq!(parse_corpus("corpus.jsonl", &bytes).unwrap(), documents);
    }
}
