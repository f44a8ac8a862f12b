use super::*;
use legwork_protocol::id::QuestionId;
use legwork_protocol::message::Role;
use legwork_protocol::question::{Stated, Step};
use legwork_worlds::telling::Told;

fn step(question: &str, answer: &str, gold: &str) -> Step {
    Step {
        question: question.to_owned(),
        answer: answer.to_owned(),
        gold: Some(DocId::new(gold)),
        stated: Vec::new(),
        topics: Vec::new(),
    }
}

fn question() -> Arc<Question> {
    Arc::new(Question {
        id: QuestionId::new("q"),
        text: "Where is the author of The Harp buried?".to_owned(),
        answers: vec!["Grey Abbey".to_owned()],
        tier: "easy".to_owned(),
        gold: vec![DocId::new("a2")],
        evidence: vec![DocId::new("a1"), DocId::new("a2")],
        decomposition: vec![
            step("Who wrote The Harp?", "Ana Bel", "a1"),
            step("Where is the grave of #1?", "Grey Abbey", "a2"),
        ],
    })
}

/// A conversation of the teacher with these observations, up to its last turn.
fn turns(observations: &[&str]) -> Vec<String> {
    turns_over(question(), observations)
}

fn turns_over(question: Arc<Question>, observations: &[&str]) -> Vec<String> {
    let teacher = TeacherModel::new(Grammar::Strict, &[Arc::clone(&question)], told());
    let brief = format!("Brief:\n{}", question.text);
    let mut messages: Vec<Arc<Message>> = vec![message(Role::System, "Work."), message(Role::User, &brief)];
    let mut said = Vec::new();
    for observation in observations.iter().copied().map(Some).chain([None]) {
        let turn = teacher.turn(&messages);
        messages.push(message(Role::Assistant, &turn));
        said.push(turn);
        messages.extend(observation.map(|text| message(Role::User, text)));
    }
    said
}

fn message(role: Role, text: &str) -> Arc<Message> {
    Arc::new(Message::new(role, text))
}

const HARP: &str = "[Search Results for \"x\"]\n\n--- #1: a9---\ndocid: a9\ntitle: The Lute\ncontent: A\n\n--- #2: a1---\ndocid: a1\ntitle: The Harp\ncontent: B\n";
const HARP_PAGE: &str = "[Opened Page Content]\ndocid: a1\ntitle: The Harp\ncontent: It is by Ana Bel.\n";
const ANA: &str = "[Search Results for \"x\"]\n\n--- #1: a2---\ndocid: a2\ntitle: Grey Abbey\ncontent: A\n";

fn told() -> BTreeMap<DocId, Telling> {
    let sentence = "Ana Bel never read it.".to_owned();
    let told = vec![Told { topic: "reading".to_owned(), sentence }];
    BTreeMap::from([(DocId::new("a1"), Telling { sort: "opera".to_owned(), told })])
}

#[test]
fn it_plans_opens_the_page_that_is_named_and_says_what_it_read_before_it_goes_on() {
    let said = turns(&[
        HARP,
        HARP_PAGE,
        ANA,
        "[Opened Page Content]\ndocid: a2\ntitle: Grey Abbey\ncontent: Ana Bel lies here.\n",
    ]);
    assert!(said[0].contains("1. Who wrote The Harp? 2. Where is the grave of #1? #1?"), "{}", said[0]);
    assert!(said[1].contains("<parameter=docid>a1</parameter>"), "{}", said[1]);
    assert!(
        said[2].contains("Who wrote The Harp? The Harp, opera: #1 = Ana Bel [a1]. #2?")
            && said[2].contains("Where is the grave of Ana Bel?"),
        "{}",
        said[2]
    );
    assert!(
        said[4].contains("Where is the grave of Ana Bel? Grey Abbey: #2 = Grey Abbey [a2]. Done.")
            && said[4].contains("Ana Bel [a1]; Grey Abbey [a2]"),
        "{}",
        said[4]
    );
}

#[test]
fn the_sentences_that_say_it_are_quoted_with_the_title_of_their_page() {
    let mut question = Question::clone(&question());
    question.decomposition[0].stated =
        vec![Stated { docid: DocId::new("a1"), sentences: vec!["It is by Ana Bel.".to_owned()] }];
    let said = turns_over(Arc::new(question), &[HARP, HARP_PAGE]);
    assert!(said[2].contains("The Harp, opera: \"It is by Ana Bel.\" #1 = Ana Bel [a1]. #2?"), "{}", said[2]);
}

#[test]
fn a_page_that_has_the_names_and_does_not_state_the_step_is_not_taken_for_one_that_does() {
    let mut question = Question::clone(&question());
    question.decomposition[0].stated =
        vec![Stated { docid: DocId::new("a9"), sentences: vec!["Ana Bel wrote The Harp.".to_owned()] }];
    let confusing = "[Opened Page Content]\ndocid: a1\ntitle: The Harp\ncontent: Ana Bel never read it.\n";
    let said = turns_over(Arc::new(question.clone()), &[HARP, confusing]);
    assert!(said[2].contains("Who wrote The Harp? The Harp, opera: nothing. #1?"), "{}", said[2]);
    question.decomposition[0].topics = vec!["reading".to_owned()];
    let said = turns_over(Arc::new(question), &[HARP, confusing]);
    assert!(said[2].contains("opera: \"Ana Bel never read it.\" No. #1?"), "{}", said[2]);
}

#[test]
fn what_is_not_on_a_page_is_not_taken_from_it() {
    let said = turns(&[HARP, "[Opened Page Content]\ndocid: a1\ntitle: The Harp\ncontent: It has no known author.\n"]);
    assert!(
        said[2].contains("The Harp, opera: nothing. #1?") && said[2].contains("<parameter=docid>a9</parameter>"),
        "{}",
        said[2]
    );
}

#[test]
fn a_search_that_lists_nothing_is_put_in_other_words_and_given_up_in_the_end() {
    let nothing = "[Search Results for \"x\"]\nNothing was found.\n";
    let said = turns(&[nothing; 2]);
    let queries: Vec<bool> = said.iter().map(|turn| turn.contains("<function=search>")).collect();
    assert_eq!(queries, [true, true, false]);
    assert!(said[1].contains("<parameter=query>The Harp</parameter>"), "{}", said[1]);
    assert!(said[2].contains("<parameter=answer>unknown</parameter>"), "{}", said[2]);
}
