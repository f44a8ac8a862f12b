//! Retrieval measures as trec_eval defines them, over judgements and runs.
//!
//! A run is ordered as trec_eval orders it: by score as `f32`, downwards, and equal scores by docid, downwards; its
//! ranks are ignored. It refuses to know where a run comes from.

mod files;

pub use files::{read_qrels, read_run, write_run};

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

/// For each topic, the relevance of each judged document; above zero is relevant.
pub type Qrels = BTreeMap<String, BTreeMap<String, i64>>;

/// For each topic, the documents found with their scores; each once, in any order.
pub type Run = BTreeMap<String, Vec<(String, f64)>>;

/// A measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Measure {
    /// Normalised discounted cumulative gain of the first n: gain is the relevance, discount log2(rank + 1), the
    /// ideal from all judgements. `ndcg_cut_10`.
    NdcgCut(usize),
    /// The same over the whole list. `ndcg`.
    Ndcg,
    /// Share of the relevant documents among the first n. `recall_100`.
    Recall(usize),
    /// Share of relevant documents among the first n, also where fewer were found. `P_10`.
    Precision(usize),
    /// Mean over relevant documents of the precision at their places, zero for those not found. `map`.
    Map,
    /// One over the rank of the first relevant document. `recip_rank`.
    ReciprocalRank,
}

/// Which topics a mean is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Averaging {
    /// Topics that are in both, as trec_eval does without `-c`.
    Answered,
    /// All judged topics; one that the run lacks counts as zero, as with `-c`.
    AllJudged,
}

/// Measures of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Evaluation {
    /// The measures, in the order asked for.
    pub measures: Vec<Measure>,
    /// For each topic the value of each measure.
    pub topics: BTreeMap<String, Vec<f64>>,
    /// The mean of each measure over the topics; zero without topics.
    pub means: Vec<f64>,
}

/// Evaluates a run.
pub fn evaluate(qrels: &Qrels, run: &Run, measures: &[Measure], averaging: Averaging) -> Evaluation {
    let mut topics = BTreeMap::new();
    for (topic, judged) in qrels {
        let values = match (run.get(topic), averaging) {
            (Some(found), _) => {
                let gains = gains(judged, found);
                measures.iter().map(|m| m.of(judged, &gains)).collect()
            }
            (None, Averaging::AllJudged) => vec![0.0; measures.len()],
            (None, Averaging::Answered) => continue,
        };
        topics.insert(topic.clone(), values);
    }
    let mean = |i: usize| topics.values().map(|v: &Vec<f64>| v[i]).sum::<f64>() / topics.len().max(1) as f64;
    let means = (0..measures.len()).map(mean).collect();
    Evaluation { measures: measures.to_vec(), topics, means }
}

/// The relevance of the documents found, in trec_eval's order; zero for one not judged.
fn gains(judged: &BTreeMap<String, i64>, found: &[(String, f64)]) -> Vec<i64> {
    let mut ordered: Vec<(&str, f32)> = found.iter().map(|(docid, score)| (docid.as_str(), *score as f32)).collect();
    ordered.sort_by(|a, b| b.1.total_cmp(&a.1).then_with(|| b.0.cmp(a.0)));
    ordered.iter().map(|(docid, _)| judged.get(*docid).copied().unwrap_or(0)).collect()
}

impl Measure {
    fn of(self, judged: &BTreeMap<String, i64>, gains: &[i64]) -> f64 {
        let relevant = judged.values().filter(|&&rel| rel > 0).count();
        let hits = |n: usize| gains.iter().take(n).filter(|&&rel| rel > 0).count() as f64;
        if relevant == 0 {
            return 0.0;
        }
        match self {
            Measure::Recall(n) => hits(n) / relevant as f64,
            Measure::Precision(n) => hits(n) / n.max(1) as f64,
            Measure::ReciprocalRank => gains.iter().position(|&rel| rel > 0).map_or(0.0, |i| 1.0 / (i + 1) as f64),
            Measure::Map => {
                let ranks = gains.iter().enumerate().filter(|(_, rel)| **rel > 0);
                let precisions = ranks.enumerate().map(|(before, (i, _))| (before + 1) as f64 / (i + 1) as f64);
                precisions.sum::<f64>() / relevant as f64
            }
            Measure::Ndcg => ndcg(judged, gains, usize::MAX),
            Measure::NdcgCut(n) => ndcg(judged, gains, n),
        }
    }
}

fn ndcg(judged: &BTreeMap<String, i64>, gains: &[i64], cut: usize) -> f64 {
    let dcg = |gains: &mut dyn Iterator<Item = i64>| {
        let discounted = gains.take(cut).enumerate().map(|(i, rel)| rel.max(0) as f64 / ((i + 2) as f64).log2());
        discounted.sum::<f64>()
    };
    let mut ideal: Vec<i64> = judged.values().copied().collect();
    ideal.sort_unstable_by(|a, b| b.cmp(a));
    dcg(&mut gains.iter().copied()) / dcg(&mut ideal.into_iter())
}

impl fmt::Display for Measure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Measure::NdcgCut(n) => write!(f, "ndcg_cut_{n}"),
            Measure::Ndcg => f.write_str("ndcg"),
            Measure::Recall(n) => write!(f, "recall_{n}"),
            Measure::Precision(n) => write!(f, "P_{n}"),
            Measure::Map => f.write_str("map"),
            Measure::ReciprocalRank => f.write_str("recip_rank"),
        }
    }
}

impl FromStr for Measure {
    type Err = String;

    /// Reads trec_eval's names, and the forms `ndcg@10`, `recall@100`, `p@10` and `mrr`.
    fn from_str(text: &str) -> Result<Self, String> {
        let lower = text.to_ascii_lowercase();
        let cut = |prefixes: [&str; 2]| {
            let n = prefixes.iter().find_map(|prefix| lower.strip_prefix(prefix))?;
            n.parse::<usize>().ok().filter(|n| *n > 0)
        };
        match lower.as_str() {
            "map" => return Ok(Measure::Map),
            "ndcg" => return Ok(Measure::Ndcg),
            "mrr" | "recip_rank" => return Ok(Measure::ReciprocalRank),
            _ => {}
        }
        (cut(["ndcg_cut_", "ndcg@"]).map(Measure::NdcgCut))
            .or(cut(["recall_", "recall@"]).map(Measure::Recall))
            .or(cut(["p_", "p@"]).map(Measure::Precision))
            .ok_or(format!("expected a measure such as ndcg@10, recall@100, p@10, map or mrr, got {text:?}"))
    }
}

#[cfg(test)]
mod tests;
