//! The small world of scenarios: questions in two steps, a page for each step, and pages that lead nowhere. Made from
//! numbers alone, so that it is the same everywhere.

use legwork_protocol::id::DocId;
use legwork_protocol::question::{Question, Step};
use legwork_protocol::retrieval::Page;
use std::sync::Arc;

/// The first `count` questions.
pub fn questions(count: u32) -> Vec<Question> {
    (0..count).map(question).collect()
}

/// The pages that these questions need, and one that none of them needs.
pub fn pages(count: u32) -> Vec<Page> {
    let page = |docid: String, title: String, text: String| Page {
        docid: DocId::new(docid),
        url: None,
        title: Some(title),
        text: Arc::from(text),
    };
    let mut pages = vec![page("w0".into(), "Weather".into(), "It rained on the archive all week.".into())];
    for number in 0..count {
        pages.push(page(
            format!("k{number}"),
            format!("Keeper of box {number}"),
            format!("Box {number} has been in the care of keeper {} since it was filed.", keeper(number)),
        ));
        pages.push(page(
            format!("t{number}"),
            format!("Keeper {}", keeper(number)),
            format!("Keeper {} was born in {} and never left it.", keeper(number), town(number)),
        ));
    }
    pages
}

fn question(number: u32) -> Question {
    let (first, second) = (DocId::new(format!("k{number}")), DocId::new(format!("t{number}")));
    let step = |question: String, answer: String, gold: &DocId| Step {
        question,
        answer,
        gold: Some(gold.clone()),
        stated: Vec::new(),
        topics: Vec::new(),
    };
    Question {
        id: format!("s{number}").into(),
        text: format!("In which town was the keeper of box {number} born?"),
        answers: vec![town(number)],
        tier: if number.is_multiple_of(2) { "even" } else { "odd" }.to_owned(),
        gold: vec![second.clone()],
        evidence: vec![first.clone(), second.clone()],
        decomposition: vec![
            step(format!("Who keeps box {number}?"), keeper(number), &first),
            step(format!("Where was keeper {} born?", keeper(number)), town(number), &second),
        ],
    }
}

fn keeper(number: u32) -> String {
    format!("Ada-{}", 100 + number)
}

fn town(number: u32) -> String {
    format!("Northwell-{}", 500 + number)
}
