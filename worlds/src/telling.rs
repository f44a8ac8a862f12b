//! What documents tell, sentence by sentence, where a world knows it, and how one of them answers a step. Teachers and quizzes
//! are made of it.
//! It refuses to know how a document was found.

use legwork_protocol::id::DocId;
use legwork_protocol::question::{Stated, Step};

/// What one document tells.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Telling {
    /// What sort of thing it is on, such as `epic poem`.
    pub sort: String,
    /// Its sentences that tell something.
    pub told: Vec<Told>,
}

/// A sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    /// What it tells of the thing that the document is on, as [`Step::topics`] has it.
    pub topic: String,
    /// As it stands in the document.
    pub sentence: String,
}

/// How a document answers a step.
#[derive(Clone, Debug, PartialEq)]
pub enum Reading<'a> {
    /// It states the answer.
    States(&'a Stated),
    /// It tells the same of something else: these sentences.
    Near(Vec<&'a str>),
    /// It tells nothing of the kind.
    Nothing,
}

/// How the document answers the step, by what the world knows of both.
pub fn read<'a>(step: &'a Step, docid: &DocId, telling: Option<&'a Telling>) -> Reading<'a> {
    if let Some(stated) = step.stated.iter().find(|stated| stated.docid == *docid) {
        return Reading::States(stated);
    }
    let told = telling.map_or(&[][..], |telling| &telling.told);
    let on = |topic: &String| told.iter().find(|told| told.topic == *topic).map(|told| told.sentence.as_str());
    let near: Vec<&str> = step.topics.iter().filter_map(on).collect();
    if near.is_empty() { Reading::Nothing } else { Reading::Near(near) }
}

/// What is asked of which document, before what was read there: `Who wrote The Harp? The Harp, an opera:`, without the article.
pub fn asked_of(question: &str, title: &str, telling: Option<&Telling>) -> String {
    match telling {
        Some(Telling { sort, .. }) if !sort.is_empty() => format!("{question} {title}, {sort}:"),
        _ => format!("{question} {title}:"),
    }
}

/// A reading, as it is said: the quoted sentences and `#n = answer [docid].`, or that this is not it, or that there is nothing.
pub fn said(reading: &Reading<'_>, step: usize, answer: &str) -> String {
    match reading {
        Reading::States(stated) if stated.sentences.is_empty() => {
            format!("#{} = {answer} [{}].", step + 1, stated.docid)
        }
        Reading::States(stated) => {
            format!("\"{}\" #{} = {answer} [{}].", stated.sentences.join(" "), step + 1, stated.docid)
        }
        Reading::Near(sentences) => format!("\"{}\" No.", sentences.join(" ")),
        Reading::Nothing => "nothing.".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step() -> Step {
        Step {
            question: "Which opera was completed in 1698?".to_owned(),
            answer: "The Harp".to_owned(),
            gold: Some(DocId::new("a1")),
            stated: vec![Stated { docid: DocId::new("a1"), sentences: vec!["It was finished in 1698.".to_owned()] }],
            topics: vec!["Year of it".to_owned()],
        }
    }

    #[test]
    fn a_document_states_a_step_or_tells_the_same_of_another_or_nothing() {
        let told = vec![Told { topic: "Year of it".to_owned(), sentence: "It was finished in 1477.".to_owned() }];
        let lute = Telling { sort: "opera".to_owned(), told };
        let step = step();
        let said = |docid: &str, telling| said(&read(&step, &DocId::new(docid), telling), 0, &step.answer);
        assert_eq!(said("a1", None), "\"It was finished in 1698.\" #1 = The Harp [a1].");
        assert_eq!(said("a2", Some(&lute)), "\"It was finished in 1477.\" No.");
        assert_eq!(said("a2", Some(&Telling::default())), "nothing.");
        assert_eq!(asked_of("Who?", "The Lute", Some(&lute)), "Who? The Lute, opera:");
        assert_eq!(asked_of("Who?", "The Lute", None), "Who? The Lute:");
    }
}
