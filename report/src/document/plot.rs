//! What the plots show, as numbers; how they are drawn is the renderers' affair.

use crate::number::Finite;
use crate::statistics::calibration::CalibrationBin;
use crate::statistics::proportion::Rate;

/// One plot.
#[derive(Clone, Debug, PartialEq)]
pub enum Plot {
    /// Rates with their intervals.
    Whiskers(Whiskers),
    /// Shares of a whole.
    Stacked(Stacked),
    /// Counts over an axis.
    Histogram(Histogram),
    /// Accuracy against stated confidence.
    Calibration(Vec<CalibrationBin>),
    /// Gains to the right, losses to the left.
    Diverging(Vec<DivergingRow>),
}

/// Rates by row, one or two for each.
#[derive(Clone, Debug, PartialEq)]
pub struct Whiskers {
    /// What the rates of a row are; a legend is drawn if there is more than one.
    pub series: Vec<String>,
    /// Rows.
    pub rows: Vec<WhiskerRow>,
}

/// One row of rates.
#[derive(Clone, Debug, PartialEq)]
pub struct WhiskerRow {
    /// Its name.
    pub label: String,
    /// A total.
    pub total: bool,
    /// A rate for each series.
    pub rates: Vec<Rate>,
}

/// Shares of a whole by row.
#[derive(Clone, Debug, PartialEq)]
pub struct Stacked {
    /// The parts' names.
    pub kinds: Vec<String>,
    /// Name and count of each part, row by row.
    pub rows: Vec<(String, Vec<u64>)>,
}

/// Counts over equal steps of an axis.
#[derive(Clone, Debug, PartialEq)]
pub struct Histogram {
    /// Counts of the bins, each a tenth of the budget; the last holds what lies above.
    pub counts: Vec<u64>,
    /// The mean, in budgets.
    pub mean: Option<Finite>,
    /// What the axis measures.
    pub axis: String,
}

/// One row of gains and losses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DivergingRow {
    /// Its name.
    pub label: String,
    /// A total.
    pub total: bool,
    /// Losses.
    pub regressed: u64,
    /// Gains.
    pub improved: u64,
}
