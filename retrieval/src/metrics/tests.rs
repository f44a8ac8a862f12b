use super::*;
use crate::RetrievalError;
use proptest::prelude::*;
use std::path::Path;

fn file(text: &str) -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), text).unwrap();
    file
}

fn qrels(text: &str) -> Result<Qrels, String> {
    read_qrels(file(text).path()).map_err(|e| e.to_string())
}

fn run(text: &str) -> Result<Run, String> {
    read_run(file(text).path()).map_err(|e| e.to_string())
}

#[test]
fn judgements_come_by_tabs_or_spaces() {
    let got = qrels("\u{feff}1\t0\tA\t2\r\n1 0  B -1\n\n2 0 A 0\n").unwrap();
    assert_eq!(got["1"], BTreeMap::from([("A".into(), 2), ("B".into(), -1)]));
    assert_eq!(got["2"]["A"], 0);
}

#[test]
fn bad_judgements_are_refused_by_line() {
    assert!(qrels("1 0 A 1\n1 A 1").unwrap_err().contains("line 2: expected four columns, got 3"));
    assert!(qrels("1 0 A x").unwrap_err().contains("line 1: expected a whole number"));
    assert!(qrels("1 0 A 1\n1 0 A 0").unwrap_err().contains("line 2: topic \"1\" judges docid \"A\" twice"));
    assert!(qrels("\n").unwrap_err().contains("got none"));
}

#[test]
fn bad_runs_are_refused_by_line() {
    assert!(run("1 Q0 A 1 0.5").unwrap_err().contains("line 1: expected six columns"));
    assert!(run("1 Q0 A 1 nan t").unwrap_err().contains("finite score"));
    assert!(run("1 Q0 A 1 1 t\n1 Q0 A 2 0 t").unwrap_err().contains("line 2: topic \"1\" has docid \"A\" twice"));
}

#[test]
fn a_byte_order_mark_before_a_topic_is_no_part_of_it() {
    let got = run("\u{feff}1 Q0 A 1 2 t\n \u{feff}1 Q0 B 2 1 t\n\u{feff} \u{feff}2 Q0 A 1 1 t\n").unwrap();
    assert_eq!(got.keys().collect::<Vec<_>>(), ["1", "2"]);
    assert_eq!(got["1"], [("A".to_owned(), 2.0), ("B".to_owned(), 1.0)]);
    assert_eq!(qrels("1 0 A 1\n \u{feff}1 0 B 1").unwrap()["1"].len(), 2);
    assert_eq!(run("1 Q0 \u{feff}A 1 2 t").unwrap()["1"][0].0, "\u{feff}A", "elsewhere it is text");
}

#[test]
fn names_that_the_format_cannot_hold_are_refused() {
    for (topic, docid, score) in [("1", "a b", 1.0), ("", "a", 1.0), ("\u{feff}1", "a", 1.0), ("1", "a", f64::NAN)] {
        let run = Run::from([(topic.to_owned(), vec![(docid.to_owned(), score)])]);
        let error = write_run(Path::new("f"), &run, "t", &mut Vec::new()).unwrap_err();
        assert!(matches!(error, RetrievalError::Topic { .. }));
    }
}

#[test]
fn measures_are_named_as_trec_eval_names_them() {
    for name in ["ndcg_cut_10", "ndcg", "recall_100", "P_10", "map", "recip_rank"] {
        assert_eq!(name.parse::<Measure>().unwrap().to_string(), name);
    }
    assert_eq!("nDCG@10".parse(), Ok(Measure::NdcgCut(10)));
    assert_eq!("MRR".parse(), Ok(Measure::ReciprocalRank));
    for bad in ["ndcg@0", "ndcg@", "recall", "p@x", ""] {
        assert!(bad.parse::<Measure>().is_err(), "{bad:?}");
    }
}

#[test]
fn a_topic_that_the_run_lacks_counts_only_when_asked() {
    let qrels = qrels("1 0 A 1\n2 0 B 1").unwrap();
    let run = run("1 Q0 A 1 1 t\n3 Q0 A 1 1 t").unwrap();
    let measures = [Measure::Map];
    assert_eq!(evaluate(&qrels, &run, &measures, Averaging::Answered).means, [1.0]);
    assert_eq!(evaluate(&qrels, &run, &measures, Averaging::AllJudged).means, [0.5]);
    assert_eq!(evaluate(&qrels, &Run::new(), &measures, Averaging::Answered).means, [0.0]);
}

/// Values of pytrec_eval over random judgements and runs; see `tests/goldens/metrics.py`.
#[test]
fn values_are_those_of_trec_eval() {
    #[derive(serde::Deserialize)]
    struct Golden {
        qrels: Qrels,
        run: BTreeMap<String, BTreeMap<String, f64>>,
        values: BTreeMap<String, BTreeMap<String, f64>>,
    }
    let golden: Golden = serde_json::from_str(include_str!("../../tests/goldens/metrics.json")).unwrap();
    let run: Run = golden.run.into_iter().map(|(topic, found)| (topic, found.into_iter().collect())).collect();
    let names: Vec<&String> = golden.values.values().next().unwrap().keys().collect();
    let measures: Vec<Measure> = names.iter().map(|name| name.parse().unwrap()).collect();
    let got = evaluate(&golden.qrels, &run, &measures, Averaging::Answered);
    assert_eq!(got.topics.len(), golden.values.len());
    for (topic, truth) in &golden.values {
        for (name, got) in names.iter().zip(&got.topics[topic]) {
            assert!((got - truth[*name]).abs() < 1e-9, "topic {topic}, {name}: {got}, trec_eval {}", truth[*name]);
        }
    }
}

proptest! {
    #[test]
    fn a_run_survives_its_file(scores in proptest::collection::btree_map("[a-z0-9]{1,5}", -1e6..1e6_f64, 1..20)) {
        let found: Vec<(String, f64)> = scores.into_iter().collect();
        let written = Run::from([("q1".to_owned(), found)]);
        let mut bytes = Vec::new();
        write_run(Path::new("f"), &written, "t", &mut bytes).unwrap();
        prop_assert_eq!(run(std::str::from_utf8(&bytes).unwrap()).unwrap(), written);
    }

    #[test]
    fn arbitrary_text_never_panics(text in "[0-9a-z \\t\\n.\\-]{0,80}") {
        let _ = (qrels(&text), run(&text));
    }
}
