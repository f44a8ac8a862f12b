use super::*;
use proptest::prelude::*;

const PLAIN: &str = r#"{"query_id": "7", "query": "Which?", "answer": "this", "gold_docs": [{"docid": "12", "text": "it is this"}], "negative_docs": [{"docid": "00012", "text": "it is that"}], "evidence_docs": [{"docid": "3", "text": "on the way", "url": "https://x.example"}, {"docid": "12", "text": "it is this"}]}"#;

fn canary() -> Canary {
    Canary::new("a canary of the tests")
}

fn closed(set: &BrowseCompPlus) -> Vec<u8> {
    let mut bytes = Vec::new();
    write_obfuscated(set, &canary(), &mut bytes).unwrap();
    bytes
}

#[test]
fn a_record_gives_a_question_its_documents_and_its_negatives() {
    let set = parse("set.jsonl", PLAIN.as_bytes()).unwrap();
    let question = &set.questions[0];
    assert_eq!((question.id.as_str(), question.answers.as_slice()), ("7", &["this".to_owned()][..]));
    assert_eq!(question.gold, ["12".into()]);
    assert_eq!(question.evidence, ["3".into(), "12".into()]);
    assert_eq!(set.negatives[&QuestionId::new("7")], ["00012".into()]);
    let docids: Vec<&str> = set.documents.iter().map(|document| document.docid.as_str()).collect();
    assert_eq!(docids, ["12", "00012", "3"]);
}

#[test]
fn the_obfuscated_form_reads_back_and_shows_nothing_but_the_id() {
    let set = parse("set.jsonl", PLAIN.as_bytes()).unwrap();
    let bytes = closed(&set);
    let text = String::from_utf8(bytes.clone()).unwrap();
    assert!(text.contains("\"query_id\":\"7\""), "{text}");
    for hidden in ["Which?", "it is this", "00012", "x.example", "on the way"] {
        assert!(!text.contains(hidden), "{hidden} shows in {text}");
    }
    assert_eq!(parse_obfuscated("set.jsonl", &bytes, &canary()).unwrap(), set);
}

#[test]
fn what_the_form_cannot_hold_is_refused_and_not_dropped() {
    let message = |set: &BrowseCompPlus| write_obfuscated(set, &canary(), &mut Vec::new()).unwrap_err().to_string();
    let mut set = parse("set.jsonl", PLAIN.as_bytes()).unwrap();
    set.questions[0].answers.push("an alias".to_owned());
    assert!(message(&set).contains("question \"7\" has 2 answers, and the form holds one answer"));
    set.questions[0].answers.pop();
    set.documents.remove(1);
    assert!(message(&set).contains("has \"00012\" without one"), "{}", message(&set));
}

#[test]
fn a_wrong_canary_and_a_plain_file_are_named() {
    let set = parse("set.jsonl", PLAIN.as_bytes()).unwrap();
    let wrong = parse_obfuscated("set.jsonl", &closed(&set), &Canary::new("another")).unwrap_err().to_string();
    assert!(
        wrong.starts_with("set.jsonl:1: `gold_docs.docid` does not open") || wrong.contains("check the canary"),
        "{wrong}"
    );
    let plain = parse_obfuscated("set.jsonl", PLAIN.as_bytes(), &canary()).unwrap_err().to_string();
    assert!(plain.contains("does not open") && plain.contains("check the canary"), "{plain}");
}

#[test]
fn bad_records_are_named() {
    let message = |text: String| parse("set.jsonl", text.as_bytes()).unwrap_err().to_string();
    assert!(
        message(format!("{PLAIN}\n{PLAIN}\n"))
            .contains("set.jsonl:2: the question id \"7\" stands already at set.jsonl:1")
    );
    assert!(message(PLAIN.replace("\"7\"", "7")).contains("quote it as \"7\""));
    assert!(
        message(PLAIN.replace("\"answer\": \"this\"", "\"answer\": \"\"")).contains("question \"7\" has no answer")
    );
    assert!(message(PLAIN.replace("\"negative_docs\"", "\"negatives\"")).contains("missing field `negative_docs`"));
    let two_texts = format!("{PLAIN}\n{}", PLAIN.replace("\"7\"", "\"8\"").replace("it is that", "it is other"));
    assert!(
        message(two_texts).contains("set.jsonl:2: document \"00012\" differs from the one of that id at set.jsonl:1")
    );
}

proptest! {
    #[test]
    fn any_set_survives_the_obfuscated_form(id in "[a-z0-9 ]*[a-z]", text in "[^\\x00]*[a-z][^\\x00]*", answer in "[^\\x00]*[a-z]") {
        let mut set = parse("set.jsonl", PLAIN.as_bytes()).unwrap();
        let negatives = set.negatives.remove(&QuestionId::new("7")).unwrap();
        set.questions[0].id = QuestionId::new(&id);
        set.questions[0].text = text.clone();
        set.questions[0].answers = vec![answer];
        set.documents[0].text = text;
        set.negatives.insert(QuestionId::new(&id), negatives);
        prop_assert_eq!(parse_obfuscated("set.jsonl", &closed(&set), &canary()).unwrap(), set);
    }
}
