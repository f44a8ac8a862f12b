//! Plain text: aligned columns for a terminal, with small plots where a line of characters tells
//! something. Refuses to know the terminal's width or colours.

use super::Charset;
use super::visible::{columns, for_terminal};
use crate::document::plot::{Plot, WhiskerRow};
use crate::document::{Block, Document, Figure, Section, Table};
use crate::provenance::MOCK_NOTICE;
use crate::statistics::proportion::Rate;

/// Characters of a plot's axis.
const AXIS: usize = 50;

pub(super) fn render(document: &Document, charset: Charset) -> String {
    let mut page = Page { text: String::new(), charset };
    if document.mock() {
        page.line(&format!("*** {MOCK_NOTICE} ***"));
        page.line("");
    }
    page.underlined(&document.title, '=');
    page.line(&document.subtitle);
    for run in &document.provenance {
        page.line(&format!("run {} · profile {}", run.run_id, run.profile));
    }
    page.line("");
    let label = document.facts.iter().map(|fact| columns(&fact.label)).max().unwrap_or(0);
    for fact in &document.facts {
        let blanks = " ".repeat(label - columns(&fact.label));
        page.line(&format!("{}{blanks}  {}  ({})", fact.label, fact.value, fact.detail));
    }
    for section in &document.sections {
        page.section(section);
    }
    page.text
}

struct Page {
    text: String,
    charset: Charset,
}

impl Page {
    /// The only door to the page: nothing reaches it without being made harmless.
    fn line(&mut self, text: &str) {
        self.text.push_str(for_terminal(text, self.charset).trim_end());
        self.text.push('\n');
    }

    fn underlined(&mut self, text: &str, with: char) {
        self.line(text);
        let width = columns(&for_terminal(text, self.charset));
        self.line(&with.to_string().repeat(width));
    }

    fn section(&mut self, section: &Section) {
        self.line("");
        self.underlined(&section.heading, '-');
        for figure in &section.figures {
            self.figure(figure);
        }
        for (index, block) in section.blocks.iter().enumerate() {
            if index > 0 {
                self.line("");
            }
            match block {
                Block::Table(table) => self.table(table),
                Block::Note(note) => self.wrapped(note),
            }
        }
    }

    fn table(&mut self, table: &Table) {
        let show = |cell: &str| for_terminal(cell, self.charset);
        let headings: Vec<String> = table.columns.iter().map(|column| show(&column.heading)).collect();
        let rows: Vec<Vec<String>> =
            table.rows.iter().map(|row| row.cells.iter().map(|cell| show(cell)).collect()).collect();
        let widths: Vec<usize> = (0..headings.len())
            .map(|at| rows.iter().chain([&headings]).map(|row| columns(&row[at])).max().unwrap_or(0))
            .collect();
        let aligned = |cells: &[String]| {
            let cells = cells.iter().zip(&table.columns).zip(&widths).map(|((cell, column), width)| {
                let blanks = " ".repeat(width - columns(cell));
                if column.numeric { format!("{blanks}{cell}") } else { format!("{cell}{blanks}") }
            });
            cells.collect::<Vec<_>>().join("  ")
        };
        let rule = widths.iter().map(|width| "-".repeat(*width)).collect::<Vec<_>>().join("  ");
        let mut lines = vec![aligned(&headings), rule.clone()];
        for (row, cells) in table.rows.iter().zip(&rows) {
            if row.total {
                lines.push(rule.clone());
            }
            lines.push(aligned(cells));
        }
        for line in lines {
            self.line(&line);
        }
    }

    /// Breaks a note at blanks; a word longer than the line stays whole.
    fn wrapped(&mut self, note: &str) {
        let mut line = String::new();
        for word in for_terminal(note, self.charset).split(' ') {
            if !line.is_empty() && columns(&line) + 1 + columns(word) > 100 {
                let full = std::mem::take(&mut line);
                self.line(&full);
            }
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
        self.line(&line);
    }

    fn figure(&mut self, figure: &Figure) {
        let lines = match &figure.plot {
            Plot::Whiskers(whiskers) => self.whiskers(&whiskers.rows, &whiskers.series),
            Plot::Histogram(histogram) => bars(&histogram.counts),
            Plot::Stacked(_) | Plot::Calibration(_) | Plot::Diverging(_) => return,
        };
        for line in lines {
            self.line(&line);
        }
        self.line("");
    }

    fn whiskers(&self, rows: &[WhiskerRow], series: &[String]) -> Vec<String> {
        let mut named = Vec::new();
        for row in rows {
            for (rate, name) in row.rates.iter().zip(series) {
                let label = if series.len() > 1 { format!("{}, {name}", row.label) } else { row.label.clone() };
                named.push((for_terminal(&label, self.charset), whisker(rate)));
            }
        }
        let width = named.iter().map(|(label, _)| columns(label)).max().unwrap_or(0);
        let mut lines: Vec<String> = named
            .into_iter()
            .map(|(label, plot)| format!("{label}{}  |{plot}|", " ".repeat(width - columns(&label))))
            .collect();
        lines.push(format!("{}  0 %{}100 %", " ".repeat(width), " ".repeat(AXIS - 6)));
        lines
    }
}

/// `   [----o---]   ` over the axis.
fn whisker(rate: &Rate) -> String {
    let mut axis = vec![b' '; AXIS];
    let (Some(share), Some(wilson)) = (rate.rate, rate.wilson) else { return " ".repeat(AXIS) };
    let at = |share: f64| ((share * (AXIS - 1) as f64).round() as usize).min(AXIS - 1);
    let (low, high) = (at(wilson.low.get()), at(wilson.high.get()));
    axis[low..=high].fill(b'-');
    axis[low] = b'[';
    axis[high] = b']';
    axis[at(share.get())] = b'o';
    axis.into_iter().map(char::from).collect()
}

fn bars(counts: &[u64]) -> Vec<String> {
    let most = counts.iter().copied().max().unwrap_or(0).max(1);
    let last = counts.len().saturating_sub(1);
    counts
        .iter()
        .enumerate()
        .map(|(at, count)| {
            let label = if at == last { format!("above {}0 %", at) } else { format!("to {:3} %", (at + 1) * 10) };
            // In whole numbers, and never nothing for something.
            let length = (u128::from(*count) * AXIS as u128).div_ceil(u128::from(most)) as usize;
            format!("{label:>11}  {}{}{count}", "#".repeat(length), if length > 0 { " " } else { "" })
        })
        .collect()
}
