//! A report before it has a format: facts, sections, tables and plot data, all of it plain text and
//! numbers. Every string in here is untrusted; each renderer makes all of them harmless.

pub mod of_agreement;
pub mod of_comparison;
pub mod of_divergence;
pub mod of_summary;
pub mod plot;

use crate::number;
use crate::provenance::Provenance;
use crate::statistics::proportion::Rate;
use plot::Plot;

/// A report.
#[derive(Clone, Debug, PartialEq)]
pub struct Document {
    /// Its title.
    pub title: String,
    /// One line under the title.
    pub subtitle: String,
    /// The runs it is about.
    pub provenance: Vec<Provenance>,
    /// The few figures that matter most.
    pub facts: Vec<Fact>,
    /// The rest.
    pub sections: Vec<Section>,
}

impl Document {
    /// Whether any run's worker was a mock.
    pub fn mock(&self) -> bool {
        self.provenance.iter().any(|run| run.mock)
    }
}

/// One figure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fact {
    /// What it is.
    pub label: String,
    /// The figure.
    pub value: String,
    /// What stands behind it.
    pub detail: String,
}

impl Fact {
    /// A figure.
    pub fn new(label: &str, value: impl Into<String>, detail: impl Into<String>) -> Self {
        Self { label: label.to_owned(), value: value.into(), detail: detail.into() }
    }
}

/// A part with a heading.
#[derive(Clone, Debug, PartialEq)]
pub struct Section {
    /// The heading.
    pub heading: String,
    /// Plots.
    pub figures: Vec<Figure>,
    /// Tables and text.
    pub blocks: Vec<Block>,
    /// Shown only when asked for, where the format can.
    pub folded: bool,
}

impl Section {
    /// An open section.
    pub fn new(heading: &str, figures: Vec<Figure>, blocks: Vec<Block>) -> Self {
        Self { heading: heading.to_owned(), figures, blocks, folded: false }
    }

    /// A section that is shown when asked for.
    pub fn folded(heading: &str, blocks: Vec<Block>) -> Self {
        Self { heading: heading.to_owned(), figures: Vec::new(), blocks, folded: true }
    }
}

/// A plot with its caption.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// The caption; also what a screen reader says.
    pub caption: String,
    /// What is drawn.
    pub plot: Plot,
}

/// Something in a section.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Block {
    /// A table.
    Table(Table),
    /// A paragraph.
    Note(String),
}

/// A table; every row has as many cells as there are columns.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Table {
    /// Headings; those of text columns are aligned left, of numbers right.
    pub columns: Vec<Column>,
    /// Rows.
    pub rows: Vec<Row>,
}

/// A table's column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// Its heading.
    pub heading: String,
    /// Whether it holds numbers.
    pub numeric: bool,
}

/// A table's row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// One for each column.
    pub cells: Vec<String>,
    /// A total.
    pub total: bool,
}

impl Table {
    /// A table without rows; a heading that begins with `#` is one of numbers, without the `#`.
    pub fn new<'a>(headings: impl IntoIterator<Item = &'a str>) -> Self {
        let columns = headings
            .into_iter()
            .map(|heading| match heading.strip_prefix('#') {
                Some(heading) => Column { heading: heading.to_owned(), numeric: true },
                None => Column { heading: heading.to_owned(), numeric: false },
            })
            .collect();
        Self { columns, rows: Vec::new() }
    }

    /// One more column of numbers whose heading may hold anything.
    pub fn numbers(mut self, heading: impl Into<String>) -> Self {
        self.columns.push(Column { heading: heading.into(), numeric: true });
        self
    }

    /// One more row, filled up or cut to the columns.
    pub fn row(&mut self, total: bool, cells: impl IntoIterator<Item = String>) {
        let mut cells: Vec<String> = cells.into_iter().collect();
        cells.resize(self.columns.len(), String::new());
        self.rows.push(Row { cells, total });
    }
}

/// `108/150`.
pub(crate) fn of(rate: &Rate) -> String {
    format!("{}/{}", rate.correct, rate.of)
}

/// `64.33–78.57 %`.
pub(crate) fn interval(rate: &Rate) -> String {
    rate.wilson.map_or_else(|| number::UNDEFINED.to_owned(), |wilson| number::percent_range(wilson.low, wilson.high))
}

/// `n noun`, with an `s` unless there is one.
pub(crate) fn plural(n: u64, noun: &str) -> String {
    format!("{} {noun}{}", number::count(n), if n == 1 { "" } else { "s" })
}

/// The folded section that every report ends with.
pub(crate) fn provenance_section(runs: &[Provenance]) -> Section {
    let mut blocks = Vec::new();
    for run in runs {
        let mut table = Table { columns: vec![text_column(&run.title), text_column("digest")], rows: Vec::new() };
        table.row(false, ["run".to_owned(), run.run_id.clone()]);
        table.row(false, ["profile".to_owned(), run.profile.clone()]);
        for digest in &run.digests {
            table.row(false, [digest.name.clone(), digest.digest.clone()]);
        }
        blocks.push(Block::Table(table));
    }
    Section::folded("Provenance", blocks)
}

fn text_column(heading: &str) -> Column {
    Column { heading: heading.to_owned(), numeric: false }
}
