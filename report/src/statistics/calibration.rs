//! Calibration error two ways: as BrowseComp-Plus publishes it, bug included, for comparison with
//! published figures; and corrected. Confidences are percentages, 0 to 100.

use crate::number::Finite;
use serde::{Deserialize, Serialize};

/// The published formula's bin size.
pub const PUBLISHED_BIN: usize = 100;
/// Bins of the corrected formula unless told otherwise.
pub const BINS: usize = 10;

/// One graded answer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Confident {
    /// The stated confidence in percent, if one was stated.
    pub confidence: Option<f64>,
    /// Whether it was right.
    pub correct: bool,
}

/// Calibration of all graded answers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Calibration {
    /// Graded answers.
    pub answers: u64,
    /// Of these, with a confidence in 0 to 100: only they are used.
    pub used: u64,
    /// Without a confidence.
    pub missing: u64,
    /// With a confidence below 0, above 100, or not a number.
    pub out_of_range: u64,
    /// The published figure in percent.
    pub published: Finite,
    /// How many answers the published sum leaves out: the last bin is never added.
    pub published_left_out: u64,
    /// Root mean square of confidence minus accuracy over equal-count bins, all summed, in percent.
    pub corrected: Option<Finite>,
    /// Mean confidence minus accuracy, in percent: above 0 is overconfident.
    pub overconfidence: Option<Finite>,
    /// The corrected formula's bins, by ascending confidence.
    pub bins: Vec<CalibrationBin>,
}

/// One bin.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct CalibrationBin {
    /// Answers in it.
    pub answers: u64,
    /// Mean confidence, 0 to 1.
    pub confidence: Finite,
    /// Accuracy, 0 to 1.
    pub accuracy: Finite,
}

/// Sorts out what can be used and computes both figures; at most `bins` bins, never more than answers.
pub fn calibration(answers: &[Confident], bins: usize) -> Calibration {
    let stated: Vec<(f64, bool)> =
        answers.iter().filter_map(|answer| Some((answer.confidence?, answer.correct))).collect();
    let mut used: Vec<(f64, f64)> = stated
        .iter()
        .filter(|(confidence, _)| (0.0..=100.0).contains(confidence))
        .map(|(confidence, correct)| (confidence / 100.0, f64::from(u8::from(*correct))))
        .collect();
    used.sort_by(|one, other| one.0.total_cmp(&other.0));
    let (published, left_out) = published(&used);
    let bins = equal_count_bins(&used, bins);
    let squares: f64 =
        bins.iter().map(|bin| bin.answers as f64 * (bin.confidence.get() - bin.accuracy.get()).powi(2)).sum();
    let n = used.len() as f64;
    let gap: f64 = used.iter().map(|(confidence, correct)| confidence - correct).sum();
    Calibration {
        answers: answers.len() as u64,
        used: used.len() as u64,
        missing: (answers.len() - stated.len()) as u64,
        out_of_range: (stated.len() - used.len()) as u64,
        published,
        published_left_out: left_out,
        corrected: Finite::new((squares / n).sqrt() * 100.0),
        overconfidence: Finite::new(gap / n * 100.0),
        bins,
    }
}

/// BrowseComp-Plus' formula: bins of 100 by ascending confidence, the last one extended to the end, and
/// then `sqrt(Σ size/n (confidence − accuracy)²)` over all bins but the last. So 0 below 200 answers.
/// Equal confidences keep the order they came in; the original leaves it open.
fn published(ascending: &[(f64, f64)]) -> (Finite, u64) {
    let bins = ascending.len() / PUBLISHED_BIN;
    let summed = bins.saturating_sub(1) * PUBLISHED_BIN;
    let squares: f64 = ascending[..summed]
        .chunks(PUBLISHED_BIN)
        .map(|bin| {
            let (confidence, accuracy) = means(bin);
            bin.len() as f64 / ascending.len() as f64 * (confidence - accuracy).powi(2)
        })
        .sum();
    (Finite::new(squares.sqrt() * 100.0).unwrap_or(Finite::ZERO), (ascending.len() - summed) as u64)
}

/// Bins whose sizes differ by at most one. Answers of equal confidence each count with their common
/// accuracy, so that the figure does not depend on the order they came in.
fn equal_count_bins(ascending: &[(f64, f64)], bins: usize) -> Vec<CalibrationBin> {
    let n = ascending.len();
    let bins = bins.clamp(1, n.max(1));
    let mut levelled = Vec::with_capacity(n);
    for tied in ascending.chunk_by(|one, other| one.0 == other.0) {
        let (confidence, accuracy) = means(tied);
        levelled.extend(tied.iter().map(|_| (confidence, accuracy)));
    }
    (0..bins)
        .filter_map(|index| {
            let bin = &levelled[index * n / bins..(index + 1) * n / bins];
            let (confidence, accuracy) = means(bin);
            Some(CalibrationBin {
                answers: bin.len() as u64,
                confidence: Finite::new(confidence)?,
                accuracy: Finite::new(accuracy)?,
            })
        })
        .collect()
}

fn means(bin: &[(f64, f64)]) -> (f64, f64) {
    let n = bin.len() as f64;
    (bin.iter().map(|item| item.0).sum::<f64>() / n, bin.iter().map(|item| item.1).sum::<f64>() / n)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all_wrong_and_sure(n: usize) -> Calibration {
        calibration(&vec![Confident { confidence: Some(100.0), correct: false }; n], BINS)
    }

    #[test]
    fn the_published_formula_hides_the_most_confident() {
        for (n, percent) in
            [(0, "0.0"), (99, "0.0"), (150, "0.0"), (199, "0.0"), (200, "70.7"), (300, "81.6"), (830, "91.8")]
        {
            assert_eq!(format!("{:.1}", all_wrong_and_sure(n).published.get()), percent, "n = {n}");
        }
        assert_eq!(all_wrong_and_sure(830).published_left_out, 130);
    }

    #[test]
    fn the_corrected_formula_hides_nothing() {
        for n in [1, 7, 150, 830] {
            let calibration = all_wrong_and_sure(n);
            assert_eq!(calibration.corrected, Finite::new(100.0), "n = {n}");
            assert_eq!(calibration.bins.len(), n.min(BINS));
            assert_eq!(calibration.bins.iter().map(|bin| bin.answers).sum::<u64>(), n as u64);
        }
        assert_eq!(all_wrong_and_sure(0).corrected, None);
        assert!(all_wrong_and_sure(0).bins.is_empty());
    }

    #[test]
    fn unusable_confidences_are_counted_and_left_out() {
        let stated = [None, Some(101.0), Some(-1.0), Some(f64::NAN), Some(f64::INFINITY), Some(0.0), Some(100.0)];
        let answers: Vec<_> =
            stated.into_iter().map(|confidence| Confident { confidence, correct: confidence == Some(100.0) }).collect();
        let calibration = calibration(&answers, BINS);
        assert_eq!(
            (calibration.answers, calibration.used, calibration.missing, calibration.out_of_range),
            (7, 2, 1, 4)
        );
        assert_eq!(calibration.corrected, Some(Finite::ZERO));
    }

    #[test]
    fn the_order_of_equal_confidences_does_not_matter() {
        let right_first: Vec<_> = (0..40).map(|i| Confident { confidence: Some(90.0), correct: i < 20 }).collect();
        let wrong_first: Vec<_> = right_first.iter().rev().copied().collect();
        assert_eq!(calibration(&right_first, 4).corrected, calibration(&wrong_first, 4).corrected);
    }
}
