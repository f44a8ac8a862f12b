//! The loss that an embedder learns by: of all documents of a batch each query is to find its own (InfoNCE, van den Oord, Li and
//! Vinyals 2018, with the other pairs' documents as negatives), by the cosine over a temperature. With its gradient, in `f64`.
//! It refuses to know how vectors are made.

/// Squared lengths below this are taken as this, so that a vector of zeros has a gradient.
const SQUARES_MIN: f64 = 1e-24;

/// The loss of a batch and its gradients.
#[derive(Clone, Debug, PartialEq)]
pub struct Contrast {
    /// The mean over all queries of the cross-entropy of their own document among all.
    pub loss: f64,
    /// Queries whose own document is nearer than every other.
    pub first: usize,
    /// By each query's vector, as it was given.
    pub d_queries: Vec<Vec<f32>>,
    /// By each document's.
    pub d_documents: Vec<Vec<f32>>,
}

/// The loss of as many queries as documents, each pair under the same place. Vectors need not have the length 1. Of lists that
/// differ in length the longer one's rest is left out.
pub fn info_nce(queries: &[Vec<f32>], documents: &[Vec<f32>], temperature: f64) -> Contrast {
    let pairs = queries.len().min(documents.len());
    let queries: Vec<Unit> = queries[..pairs].iter().map(|vector| Unit::of(vector)).collect();
    let documents: Vec<Unit> = documents[..pairs].iter().map(|vector| Unit::of(vector)).collect();
    let zeros = |units: &[Unit]| units.iter().map(|unit| vec![0.0; unit.values.len()]).collect::<Vec<Vec<f64>>>();
    let (mut d_queries, mut d_documents) = (zeros(&queries), zeros(&documents));
    let (mut loss, mut first) = (0.0, 0);
    for (own, query) in queries.iter().enumerate() {
        let scores: Vec<f64> = documents.iter().map(|document| query.dot(document) / temperature).collect();
        let most = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let total: f64 = scores.iter().map(|score| (score - most).exp()).sum();
        loss += most + total.ln() - scores[own];
        first += usize::from(scores.iter().enumerate().all(|(at, score)| at == own || *score < scores[own]));
        for (at, document) in documents.iter().enumerate() {
            let share = (scores[at] - most).exp() / total - f64::from(u8::from(at == own));
            let slope = share / (temperature * pairs as f64);
            add(&mut d_queries[own], slope, &document.values);
            add(&mut d_documents[at], slope, &query.values);
        }
    }
    let through = |units: &[Unit], gradients: &[Vec<f64>]| -> Vec<Vec<f32>> {
        units.iter().zip(gradients).map(|(unit, gradient)| unit.back(gradient)).collect()
    };
    Contrast {
        loss: loss / pairs.max(1) as f64,
        first,
        d_queries: through(&queries, &d_queries),
        d_documents: through(&documents, &d_documents),
    }
}

/// A vector of length 1, and the length that it had.
struct Unit {
    values: Vec<f64>,
    length: f64,
}

impl Unit {
    fn of(vector: &[f32]) -> Self {
        let squares: f64 = vector.iter().map(|value| f64::from(*value).powi(2)).sum();
        let length = squares.max(SQUARES_MIN).sqrt();
        Self { values: vector.iter().map(|value| f64::from(*value) / length).collect(), length }
    }

    fn dot(&self, other: &Self) -> f64 {
        self.values.iter().zip(&other.values).map(|(one, other)| one * other).sum()
    }

    /// The gradient by the vector before it had the length 1: without its part along the vector.
    fn back(&self, gradient: &[f64]) -> Vec<f32> {
        let along: f64 = self.values.iter().zip(gradient).map(|(value, slope)| value * slope).sum();
        let each = self.values.iter().zip(gradient);
        each.map(|(value, slope)| ((slope - along * value) / self.length) as f32).collect()
    }
}

fn add(sums: &mut [f64], factor: f64, values: &[f64]) {
    sums.iter_mut().zip(values).for_each(|(sum, value)| *sum += factor * value);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_pair_that_is_far_from_all_others_costs_nothing_and_equal_ones_cost_a_guess() {
        let apart = [vec![1.0, 0.0], vec![0.0, 1.0]];
        let sure = info_nce(&apart, &apart, 0.01);
        assert!(sure.loss < 1e-30 && sure.first == 2, "{sure:?}");
        let same = [vec![2.0, 0.0], vec![5.0, 0.0]];
        let guess = info_nce(&same, &same, 0.01);
        assert!((guess.loss - 2.0_f64.ln()).abs() < 1e-12 && guess.first == 0, "{guess:?}");
        assert_eq!(info_nce(&[], &[], 0.05).loss, 0.0);
    }

    #[test]
    fn the_loss_is_torchs() {
        // torch.nn.functional.cross_entropy(normalize(q) @ normalize(d).T / 0.5, arange(3)) in float64.
        let queries = [vec![1.0, 2.0, 0.5], vec![-1.0, 0.25, 3.0], vec![0.0, 1.0, -1.0]];
        let documents = [vec![0.5, 1.0, 1.0], vec![2.0, -1.0, 1.5], vec![1.0, 1.0, -2.0]];
        let made = info_nce(&queries, &documents, 0.5);
        assert!((made.loss - TORCH_LOSS).abs() < 1e-12, "{}", made.loss);
        for (got, expected) in made.d_queries.iter().flatten().zip(TORCH_D_QUERIES) {
            assert!((f64::from(*got) - expected).abs() < 1e-7, "{got}, expected {expected}");
        }
    }

    const TORCH_LOSS: f64 = 0.5836086709989319;
    const TORCH_D_QUERIES: [f64; 9] = [
        0.049951900462648455,
        -0.003055950153677413,
        -0.08768000031058722,
        -0.04612048911617936,
        0.14042620860175614,
        -0.027075680422206126,
        0.0010265939450606173,
        0.06475040147763882,
        0.06475040147763883,
    ];

    proptest! {
        #[test]
        fn the_gradient_is_how_the_loss_changes(values in proptest::collection::vec(-2.0_f32..2.0, 24), at in 0_usize..24) {
            let batch = |values: &[f32]| {
                let vectors: Vec<Vec<f32>> = values.chunks(3).map(<[f32]>::to_vec).collect();
                info_nce(&vectors[..4], &vectors[4..], 0.3)
            };
            let short = values.chunks(3).any(|vector| vector.iter().map(|value| value * value).sum::<f32>() < 0.1);
            prop_assume!(!short);
            let made = batch(&values);
            let gradient = [made.d_queries.concat(), made.d_documents.concat()].concat()[at];
            let moved = |change: f32| {
                let mut values = values.clone();
                values[at] += change;
                batch(&values).loss
            };
            let step = 1.0 / 512.0;
            let slope = (moved(step) - moved(-step)) / f64::from(2.0 * step);
            prop_assert!((slope - f64::from(gradient)).abs() < 1e-2 * (1.0 + slope.abs()), "{slope} against {gradient}");
        }
    }
}
