//! TREC's files: judgements of four columns and runs of six, separated by tabs or spaces.
//!
//! It refuses to skip: a line of other columns, a judgement or a document given twice is an error with its line.

use super::{Qrels, Run};
use crate::corpus::Lines;
use crate::error::RetrievalError;
use std::collections::{BTreeMap, HashSet};
use std::io::Write;
use std::path::Path;

/// Reads `topic iteration docid relevance` lines.
///
/// # Errors
/// Other columns, a relevance that is no whole number, or a pair judged twice.
pub fn read_qrels(path: &Path) -> Result<Qrels, RetrievalError> {
    let mut qrels = Qrels::new();
    each_line(path, |columns| {
        let [topic, _, docid, relevance] = columns else {
            let what = format!("expected four columns, got {}", columns.len());
            return Err((what, "write topic, 0, docid and relevance on each line"));
        };
        let Ok(relevance) = relevance.parse::<i64>() else {
            return Err((
                format!("expected a whole number, got {relevance:?}"),
                "write the relevance as a whole number",
            ));
        };
        let judged: &mut BTreeMap<String, i64> = qrels.entry((*topic).to_owned()).or_default();
        if judged.insert((*docid).to_owned(), relevance).is_some() {
            return Err((format!("topic {topic:?} judges docid {docid:?} twice"), "keep one of the two lines"));
        }
        Ok(())
    })?;
    if qrels.is_empty() {
        return Err(RetrievalError::file(path, "expected judgements, got none", "give a file with judgements"));
    }
    Ok(qrels)
}

/// Reads `topic Q0 docid rank score tag` lines. Ranks are not looked at, as in trec_eval.
///
/// # Errors
/// Other columns, a score that is no finite number, or a document given twice for a topic.
pub fn read_run(path: &Path) -> Result<Run, RetrievalError> {
    let mut run = Run::new();
    let mut seen = HashSet::new();
    each_line(path, |columns| {
        let [topic, _, docid, _, score, _] = columns else {
            let what = format!("expected six columns, got {}", columns.len());
            return Err((what, "write topic, Q0, docid, rank, score and tag on each line"));
        };
        let Some(score) = score.parse::<f64>().ok().filter(|s| s.is_finite()) else {
            return Err((format!("expected a finite score, got {score:?}"), "write the score as a decimal number"));
        };
        if !seen.insert(((*topic).to_owned(), (*docid).to_owned())) {
            return Err((format!("topic {topic:?} has docid {docid:?} twice"), "keep one of the two lines"));
        }
        run.entry((*topic).to_owned()).or_default().push(((*docid).to_owned(), score));
        Ok(())
    })?;
    Ok(run)
}

/// Writes a run, the documents of each topic in the order given.
///
/// Scores are written in full, so that reading gives the same run. Equal scores are ordered anew by whoever
/// evaluates the file.
///
/// # Errors
/// An id, topic or tag with white space, or a topic behind a byte order mark, which the format cannot hold, a score that is
/// not finite, or a failing disk.
pub fn write_run(path: &Path, run: &Run, tag: &str, output: &mut dyn Write) -> Result<(), RetrievalError> {
    for (topic, found) in run {
        for (rank, (docid, score)) in found.iter().enumerate() {
            let fault = |what| {
                Err(RetrievalError::Topic {
                    topic: topic.clone(),
                    what,
                    cure: "a run's columns are separated by white space, and a mark before a line is no part of it: choose \
                           other names",
                })
            };
            for name in [topic, docid, tag] {
                if name.is_empty() || name.contains(char::is_whitespace) {
                    return fault(format!("expected a name without white space, got {name:?}"));
                }
            }
            if topic.starts_with(MARK) {
                return fault(format!("expected a topic without a byte order mark before it, got {topic:?}"));
            }
            if !score.is_finite() {
                return fault(format!("expected a finite score for {docid:?}, got {score}"));
            }
            writeln!(output, "{topic} Q0 {docid} {} {score} {tag}", rank + 1)
                .map_err(RetrievalError::io("writing", path))?;
        }
    }
    output.flush().map_err(RetrievalError::io("writing", path))
}

/// A byte order mark: before a topic it is left from a file that was joined on, also behind white space.
const MARK: char = '\u{feff}';

type Complaint = (String, &'static str);

/// Calls `take` with the columns of each line that is not blank.
fn each_line(path: &Path, mut take: impl FnMut(&[&str]) -> Result<(), Complaint>) -> Result<(), RetrievalError> {
    let mut lines = Lines::open(path)?;
    loop {
        let taken = match lines.next_line()? {
            None => return Ok(()),
            Some((_, line)) if line.trim().is_empty() => continue,
            Some((number, line)) => {
                let line = line.trim_start_matches(|c: char| c == MARK || c.is_ascii_whitespace());
                let columns: Vec<&str> = line.split_ascii_whitespace().collect();
                take(&columns).map_err(|complaint| (number, complaint))
            }
        };
        if let Err((number, (what, cure))) = taken {
            return Err(lines.fault(number, what, cure));
        }
    }
}
