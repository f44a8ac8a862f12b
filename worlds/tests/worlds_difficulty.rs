//! Whether the archive's tiers differ for a searcher: a plain BM25 with the whole question, and with each step once
//! the earlier answers are known.

use legwork_protocol::id::DocId;
use legwork_protocol::question::Question;
use legwork_worlds::WorldDocument;
use legwork_worlds::archive::{self, oracle};
use legwork_worlds::contamination::normalised;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Okapi BM25 with k1 = 0.9 and b = 0.4 over normalised words, without stems or stop words.
struct Bm25<'a> {
    documents: &'a [WorldDocument],
    postings: HashMap<String, Vec<(usize, f64)>>,
    lengths: Vec<f64>,
    mean_length: f64,
}

impl<'a> Bm25<'a> {
    fn over(documents: &'a [WorldDocument]) -> Self {
        let mut postings: HashMap<String, Vec<(usize, f64)>> = HashMap::new();
        let mut lengths = Vec::new();
        for (at, document) in documents.iter().enumerate() {
            let text = normalised(&format!("{} {}", document.title, document.text));
            let mut counts: BTreeMap<&str, f64> = BTreeMap::new();
            text.split(' ').for_each(|word| *counts.entry(word).or_default() += 1.0);
            lengths.push(counts.values().sum());
            for (word, count) in counts {
                postings.entry(word.to_owned()).or_default().push((at, count));
            }
        }
        let mean_length = lengths.iter().sum::<f64>() / lengths.len() as f64;
        Bm25 { documents, postings, lengths, mean_length }
    }

    fn search(&self, query: &str, count: usize) -> Vec<&'a DocId> {
        let mut scores = vec![0.0; self.documents.len()];
        let query = normalised(query);
        for word in query.split(' ').collect::<BTreeSet<_>>() {
            let found = self.postings.get(word).map_or(&[][..], Vec::as_slice);
            let (all, with) = (self.documents.len() as f64, found.len() as f64);
            let rarity = (1.0 + (all - with + 0.5) / (with + 0.5)).ln();
            for (at, tf) in found {
                let norm = 0.9 * (0.6 + 0.4 * self.lengths[*at] / self.mean_length);
                scores[*at] += rarity * tf / (tf + norm);
            }
        }
        let mut order: Vec<usize> = (0..scores.len()).collect();
        order.sort_by(|one, other| scores[*other].total_cmp(&scores[*one]).then(one.cmp(other)));
        order.into_iter().take(count).map(|at| &self.documents[at].docid).collect()
    }
}

/// The share of the evidence that the question itself finds among so many documents.
fn recall(index: &Bm25<'_>, questions: &[&Question], count: usize) -> f64 {
    let of_one = |question: &&Question| {
        let found = index.search(&question.text, count);
        let hits = question.evidence.iter().filter(|docid| found.contains(docid)).count();
        hits as f64 / question.evidence.len() as f64
    };
    questions.iter().map(of_one).sum::<f64>() / questions.len() as f64
}

/// The share of steps whose gold document is among the first ten for the step's query, and the share of questions for
/// which that holds of every step.
fn by_steps(index: &Bm25<'_>, questions: &[&Question]) -> (f64, f64) {
    let (mut steps, mut hits, mut whole) = (0, 0, 0);
    for question in questions {
        let of_question = oracle(question);
        let found = |at: usize| {
            let query = question.step_alone(at).expect("the step is of this question");
            index.search(&query, 10).contains(&of_question[at].gold.as_ref().expect("every step has a gold document"))
        };
        let count = (0..of_question.len()).filter(|at| found(*at)).count();
        steps += of_question.len();
        hits += count;
        whole += usize::from(count == of_question.len());
    }
    (hits as f64 / steps as f64, whole as f64 / questions.len() as f64)
}

#[test]
fn harder_tiers_are_harder_for_a_searcher_and_every_tier_yields_to_a_stepwise_one() {
    let archive = archive::generate(archive::DEFAULT_SEED).unwrap();
    let world = &archive.world;
    let index = Bm25::over(&world.documents);
    let mut recalls = Vec::new();
    for tier in ["easy", "medium", "hard"] {
        let questions: Vec<&Question> = world.test.iter().filter(|question| question.tier == tier).collect();
        let at_once = (recall(&index, &questions, 10), recall(&index, &questions, 100));
        let (steps, whole) = by_steps(&index, &questions);
        println!(
            "{tier}: recall@10 {:.3}, recall@100 {:.3}; steps {steps:.3}, all steps {whole:.3}",
            at_once.0, at_once.1
        );
        assert!(steps > 0.75, "{tier}: only {steps:.3} of the steps find their document");
        recalls.push(at_once.0);
    }
    assert!(recalls[0] > recalls[1] + 0.05 && recalls[1] > recalls[2] + 0.05, "{recalls:?}");
}
