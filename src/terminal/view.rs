//! The live view, drawn from what was seen and from nothing else. Three layouts: columns with lists, fewer columns,
//! and single lines for a terminal in which there is hardly room.

mod panels;
#[cfg(test)]
mod tests;

use super::WatchOptions;
use super::rates::Rates;
use super::stopping::Stopping;
use legwork_actors::board::Snapshot;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::{Block, BorderType, Gauge, Padding, Paragraph};

/// Log lines in the view at most.
pub(crate) const LOG_LINES_MAX: usize = 5;
/// From this width and height on there is room for columns.
const COLUMNS_FROM: (u16, u16) = (72, 18);
/// From this width on intervals of tiers and longer lists fit.
const WIDE_FROM: u16 = 110;
/// Rows of the upper panels, borders included.
const UPPER_ROWS: u16 = 7;
/// Rows of the middle panels, borders included.
const MIDDLE_ROWS: u16 = 6;
/// Rows that the lists must keep before anything else is given room.
const LISTS_ROWS_MIN: u16 = 5;

/// Everything that the view shows.
pub(crate) struct View<'a> {
    /// How the run stands.
    pub(crate) snapshot: &'a Snapshot,
    /// How fast it goes.
    pub(crate) rates: &'a Rates,
    /// What is watched.
    pub(crate) options: &'a WatchOptions,
    /// What was asked of it.
    pub(crate) stopping: Stopping,
    /// Since the board last answered, in milliseconds.
    pub(crate) silent_ms: u64,
    /// The last log lines, oldest first.
    pub(crate) logs: Vec<String>,
}

/// Draws the view over the whole frame.
pub(crate) fn draw(frame: &mut Frame<'_>, view: &View<'_>) {
    let area = frame.area();
    let [top, rest, bottom] =
        Layout::vertical([Constraint::Length(head_rows(view)), Constraint::Fill(1), Constraint::Length(1)]).areas(area);
    draw_head(frame, top, view);
    if area.width >= COLUMNS_FROM.0 && area.height >= COLUMNS_FROM.1 {
        draw_columns(frame, rest, view);
    } else {
        frame.render_widget(Paragraph::new(panels::single_lines(view)), rest);
    }
    frame.render_widget(Paragraph::new(panels::foot(view, bottom.width)), bottom);
}

fn head_rows(view: &View<'_>) -> u16 {
    2 + u16::from(view.options.mock)
}

/// The banner of a mock run, the title, the gauge.
fn draw_head(frame: &mut Frame<'_>, area: Rect, view: &View<'_>) {
    let [banner, title, gauge] =
        Layout::vertical([Constraint::Length(head_rows(view) - 2), Constraint::Length(1), Constraint::Length(1)])
            .areas(area);
    if view.options.mock {
        let style = Style::new().fg(Color::Black).bg(Color::Magenta).add_modifier(Modifier::BOLD);
        let words = if banner.width >= 60 {
            " MOCK: models are scripted or random, no figure here is a result "
        } else {
            " MOCK: no figure is a result "
        };
        frame.render_widget(Paragraph::new(words).style(style).centered(), banner);
    }
    frame.render_widget(Paragraph::new(panels::title(view)), title);
    let (ratio, label) = panels::progress(view, gauge.width);
    let style = Style::new().fg(Color::Cyan).bg(Color::DarkGray);
    frame.render_widget(Gauge::default().ratio(ratio).label(label).gauge_style(style), gauge);
}

fn draw_columns(frame: &mut Frame<'_>, area: Rect, view: &View<'_>) {
    let is_wide = area.width >= WIDE_FROM;
    let more_tiers = (view.snapshot.tiers.len() as u16).saturating_sub(UPPER_ROWS - 4);
    let room = area.height.saturating_sub(UPPER_ROWS + MIDDLE_ROWS + LISTS_ROWS_MIN);
    let upper_rows = UPPER_ROWS + more_tiers.min(room);
    let log_rows = match view.logs.len().min(room.saturating_sub(upper_rows - UPPER_ROWS + 2) as usize) {
        0 => 0,
        lines => lines as u16 + 2,
    };
    let rows = [
        Constraint::Length(upper_rows),
        Constraint::Length(MIDDLE_ROWS),
        Constraint::Fill(1),
        Constraint::Length(log_rows),
    ];
    let [upper, middle, lists, logs] = Layout::vertical(rows).areas(area);
    let [episodes, accuracy, speed] =
        Layout::horizontal([Constraint::Fill(4), Constraint::Fill(6), Constraint::Fill(4)]).areas(upper);
    panel(frame, episodes, "episodes", panels::episodes(view));
    panel(frame, accuracy, "accuracy so far", panels::accuracy(view, is_wide));
    panel(frame, speed, "speed", panels::speed(view));
    let [outcomes, tokens, trouble] =
        Layout::horizontal([Constraint::Fill(4), Constraint::Fill(4), Constraint::Fill(6)]).areas(middle);
    panel(frame, outcomes, "outcomes", panels::outcomes(view));
    panel(frame, tokens, "new tokens", panels::tokens(view));
    panel(frame, trouble, "errors and restarts", panels::trouble(view));
    let [running, recent] = Layout::horizontal([Constraint::Fill(1), Constraint::Fill(1)]).areas(lists);
    panel(frame, running, "running: turns, episode", panels::running(view));
    panel(frame, recent, "last ends", panels::recent(view));
    if log_rows > 0 {
        let last = view.logs.iter().skip(view.logs.len() + 2 - log_rows as usize);
        panel(frame, logs, "log", last.map(|line| Line::raw(line.as_str())).collect());
    }
}

/// A framed list of lines; the last row tells how many more there are if not all fit.
fn panel(frame: &mut Frame<'_>, area: Rect, title: &str, mut lines: Vec<Line<'_>>) {
    let quiet = Style::new().fg(Color::DarkGray);
    let block = Block::bordered()
        .border_type(BorderType::Rounded)
        .border_style(quiet)
        .title(format!(" {title} "))
        .padding(Padding::left(1));
    let rows = block.inner(area).height as usize;
    if lines.len() > rows && rows > 0 {
        let left_out = lines.len() - (rows - 1);
        lines.truncate(rows - 1);
        lines.push(Line::styled(format!("… {left_out} more"), quiet));
    }
    frame.render_widget(Paragraph::new(lines).block(block), area);
}
