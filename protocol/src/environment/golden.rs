//! FoldAgent's own code against ours, over generated inputs. `goldens/foldagent.py` wrote the golden file
//! by running the original at cc09646; fixed sentences stand there as tags.

use super::*;
use crate::call::{Grammar, last_function, last_part};
use crate::grading::{exact_match, read_published, relaxed_match};
use crate::profile::ExactRule;
use crate::retrieval::Hit;
use regex::{Captures, Regex};
use std::collections::BTreeMap;

#[derive(Deserialize)]
struct Golden {
    readings: Vec<GoldenReading>,
    pairs: Vec<Pair>,
    judgements: Vec<GoldenJudgement>,
    pages: BTreeMap<String, String>,
    episodes: Vec<Episode>,
}

type GoldenCall = (String, BTreeMap<String, String>);

#[derive(Deserialize)]
struct GoldenReading {
    text: String,
    calls: Vec<GoldenCall>,
    last: Option<GoldenCall>,
    part: String,
}

#[derive(Deserialize)]
struct Pair {
    gold: String,
    answer: String,
    em: bool,
    relaxed: bool,
}

#[derive(Deserialize)]
struct GoldenJudgement {
    text: String,
    correct: Option<bool>,
    extracted_final_answer: Option<String>,
    reasoning: Option<String>,
    confidence: Option<f64>,
}

#[derive(Deserialize)]
struct Episode {
    label: String,
    must_search: bool,
    turns: Vec<Turn>,
}

#[derive(Deserialize)]
struct Turn {
    response: String,
    lookups: Vec<GoldenLookup>,
    observation: Option<String>,
    answer: Option<String>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum GoldenLookup {
    Search { search: String, docids: Vec<String> },
    Open { open: (Option<String>, Option<String>), docid: Option<String> },
}

fn golden() -> Golden {
    let mut golden: Golden = serde_json::from_str(include_str!("../../goldens/foldagent.json"))
        .expect("the golden file is part of the crate");
    golden.pages.values_mut().for_each(|text| *text = expanded(text));
    golden
}

/// Runs of one word, written `{*w *512}`, in full.
fn expanded(text: &str) -> String {
    let run = Regex::new(r"(?s)\{\*(.*?)\*(\d+)\}").unwrap();
    run.replace_all(text, |run: &Captures<'_>| run[1].repeat(run[2].parse().unwrap())).into_owned()
}

fn comparable(call: &Call) -> GoldenCall {
    (call.name.clone(), call.arguments.iter().cloned().collect())
}

#[test]
fn texts_are_read_as_the_original_reads_them() {
    for case in golden().readings {
        let calls: Vec<_> = Grammar::Foldagent.read(&case.text, &[]).calls.iter().map(comparable).collect();
        assert_eq!(calls, case.calls, "{:?}", case.text);
        assert_eq!(last_function(&case.text).as_ref().map(comparable), case.last, "{:?}", case.text);
        assert_eq!(last_part(&case.text), case.part, "{:?}", case.text);
    }
}

#[test]
fn answers_match_as_in_the_original() {
    for case in golden().pairs {
        // A blank answer is decided before it is compared, here and there.
        if !case.answer.trim().is_empty() {
            let is_same = exact_match(ExactRule::Foldagent, &case.answer, std::slice::from_ref(&case.gold));
            assert_eq!(is_same, case.em, "{:?} / {:?}", case.gold, case.answer);
        }
        assert_eq!(relaxed_match(&case.answer, &case.gold), case.relaxed, "{:?} / {:?}", case.gold, case.answer);
    }
}

#[test]
fn judgements_are_read_as_the_original_reads_them() {
    for case in golden().judgements {
        let read = read_published(&case.text);
        assert_eq!(read.correct, case.correct, "{:?}", case.text);
        assert_eq!(read.extracted, case.extracted_final_answer, "{:?}", case.text);
        assert_eq!(read.reasoning, case.reasoning, "{:?}", case.text);
        assert_eq!(read.confidence, case.confidence, "{:?}", case.text);
    }
}

#[test]
fn episodes_are_observed_as_in_the_original() {
    let Golden { pages, episodes, .. } = golden();
    for episode in episodes {
        let settings = ToolSettings { must_search: episode.must_search, ..super::tests::foldagent() };
        let mut environment = Environment::new(settings).with_label(episode.label);
        for turn in episode.turns {
            let reading = Grammar::Foldagent.read(&turn.response, &[]);
            let lookups: Vec<Lookup> = turn.lookups.iter().map(lookup).collect();
            assert_eq!(environment.plan(&reading), lookups, "{}", turn.response);
            let answers: Vec<LookupAnswer> = turn.lookups.iter().map(|lookup| answer(lookup, &pages)).collect();
            let observed = environment.observe(&reading, &answers);
            environment.absorb(&reading, &observed);
            let text = turn.observation.as_deref().map(untagged).unwrap_or_default();
            assert_eq!(observed.text, text, "{}", turn.response);
            assert_eq!(observed.finish.map(|finish| finish.answer), turn.answer, "{}", turn.response);
        }
    }
}

fn lookup(golden: &GoldenLookup) -> Lookup {
    match golden {
        GoldenLookup::Search { search, .. } => Lookup::Search { query: search.clone(), k: 50 },
        GoldenLookup::Open { open: (docid, url), .. } => match docid.as_deref().filter(|docid| !docid.is_empty()) {
            Some(docid) => Lookup::Open(PageRef::DocId(docid.into())),
            None => Lookup::Open(PageRef::Url(url.clone().unwrap_or_default())),
        },
    }
}

fn answer(golden: &GoldenLookup, pages: &BTreeMap<String, String>) -> LookupAnswer {
    let url = |docid: &str| Some(format!("u/{docid}"));
    match golden {
        GoldenLookup::Search { docids, .. } => {
            let hit = |docid: &String| Hit {
                docid: docid.as_str().into(),
                url: url(docid),
                title: None,
                text: pages[docid].as_str().into(),
                score: 0.0,
            };
            LookupAnswer::Found(SearchAnswer { hits: docids.iter().map(hit).collect(), ..SearchAnswer::default() })
        }
        GoldenLookup::Open { docid, .. } => LookupAnswer::Page(docid.as_ref().map(|docid| Page {
            docid: docid.as_str().into(),
            url: url(docid),
            title: None,
            text: pages[docid].as_str().into(),
        })),
    }
}

/// Our own sentences in place of the tags.
fn untagged(text: &str) -> String {
    let mut text = expanded(text);
    for (tag, sentence) in [
        ("{REMINDER}", notice::REMINDER),
        ("{NO_CALL}", notice::NO_CALL),
        ("{NO_QUERY}", notice::NO_QUERY),
        ("{NO_PAGE}", notice::NO_PAGE),
        ("{BLANK_ANSWER}", notice::BLANK_ANSWER),
        ("{SEARCH_FIRST}", notice::SEARCH_FIRST),
        ("{SEEN}", notice::SEEN),
        ("{NO_SUCH_PAGE}", notice::NO_SUCH_PAGE),
    ] {
        text = text.replace(tag, sentence);
    }
    let unsupported = Regex::new(r"\{UNSUPPORTED (.*?)\}").unwrap();
    let text = unsupported.replace_all(&text, |found: &Captures<'_>| notice::unsupported(&found[1])).into_owned();
    let missing = Regex::new(r"\{MISSING (.*?)\}").unwrap();
    let names = |found: &Captures<'_>| found[1].split(", ").map(str::to_owned).collect::<Vec<_>>();
    missing.replace_all(&text, |found: &Captures<'_>| notice::questions_missing(&names(found))).into_owned()
}
