//! The lines of each panel, as pure functions of the view. Colours underline what the words say already: without
//! them nothing is lost.

use super::View;
use crate::terminal::fields;
use crate::terminal::plain::waiting;
use crate::terminal::stopping::Stopping;
use legwork_protocol::outcome::Outcome;
use legwork_report::number;
use legwork_report::statistics::proportion::Rate;
use ratatui::style::{Color, Modifier, Style, Stylize};
use ratatui::text::{Line, Span};

/// A board that says nothing for longer is worth a word, in milliseconds.
const SILENCE_TOLD_FROM_MS: u64 = 3_000;
/// From this width on the gauge tells all.
const LONG_GAUGE_FROM: u16 = 60;
/// Columns of a figure with its name: the inside of a narrow panel on a usual terminal.
const FIGURE_COLUMNS: usize = 19;
/// The same in a broader panel, for longer names.
const BROAD_FIGURE_COLUMNS: usize = 29;

/// The title line, what must not be cut off first: the profile, for how long, which run.
pub(super) fn title(view: &View<'_>) -> Line<'static> {
    let (profile, run) = (fields::name(&view.options.profile), fields::name(&view.options.title));
    let elapsed = fields::duration(Some(view.snapshot.elapsed_ms));
    Line::from(vec![Span::raw(" "), profile.bold(), Span::raw(format!(" · {elapsed} · {run}"))])
}

/// The gauge: its share, and its label.
pub(super) fn progress(view: &View<'_>, width: u16) -> (f64, String) {
    let (ended, planned) = (view.snapshot.ended, view.snapshot.planned);
    let share = if planned == 0 { 0.0 } else { (ended as f64 / planned as f64).clamp(0.0, 1.0) };
    let eta = fields::duration(view.rates.eta_ms);
    let of = format!("{} / {}", number::count(ended), number::count(planned));
    let label = if width >= LONG_GAUGE_FROM {
        format!("{of} ended · {:.1} % · ETA {eta}", share * 100.0)
    } else {
        format!("{of} · ETA {eta}")
    };
    (share, label)
}

/// The last line: what a key would do, or that the board is silent.
pub(super) fn foot(view: &View<'_>, width: u16) -> Line<'static> {
    if view.silent_ms >= SILENCE_TOLD_FROM_MS && view.stopping != Stopping::AtOnce {
        let text = format!(" no news from the board for {}", fields::duration(Some(view.silent_ms)));
        return Line::styled(text, Style::new().fg(Color::Yellow));
    }
    let says = match (view.stopping, width < view.stopping.says().len() as u16 + 2) {
        (Stopping::No, true) => "q: drain, q q: stop",
        (Stopping::Draining, true) => "draining · q: stop at once",
        (Stopping::AtOnce, true) => "stopping · q: do not wait",
        (stopping, _) => stopping.says(),
    };
    let colour = if view.stopping == Stopping::No { Color::DarkGray } else { Color::Yellow };
    Line::styled(format!(" {says}"), Style::new().fg(colour))
}

/// Episodes by state.
pub(super) fn episodes(view: &View<'_>) -> Vec<Line<'static>> {
    let snapshot = view.snapshot;
    let waiting_is = if snapshot.draining { "not entered" } else { "waiting" };
    let mut lines = vec![
        figure(waiting_is, number::count(waiting(snapshot))),
        figure(
            "running",
            format!("{} of {}", number::count(snapshot.running_count), number::count(view.options.concurrency as u64)),
        ),
        figure("ended", number::count(snapshot.ended)),
    ];
    if snapshot.ended_before > 0 {
        lines.push(figure("· before", number::count(snapshot.ended_before)));
    }
    if snapshot.draining {
        lines.push(Line::styled("draining", Style::new().fg(Color::Yellow)));
    }
    lines
}

/// Accuracy so far with its Wilson interval, and by tier.
pub(super) fn accuracy(view: &View<'_>, with_intervals: bool) -> Vec<Line<'static>> {
    let all = Rate::new(view.snapshot.correct, view.snapshot.ended);
    let mut lines = vec![
        Line::from(vec![Span::raw(format!("{:<12}", "all")), share(&all).bold(), Span::raw(format!("  {}", of(&all)))]),
        Line::from(format!(
            "{:<12}{}",
            "Wilson 95 %",
            interval(&all).unwrap_or_else(|| format!(" {}", number::UNDEFINED))
        )),
    ];
    for (tier, correct, ended) in &view.snapshot.tiers {
        let rate = Rate::new(*correct, *ended);
        let mut line = format!("{:<12}{}  {}", short(&fields::name(tier), 11), share(&rate), of(&rate));
        if let (true, Some(interval)) = (with_intervals, interval(&rate)) {
            line = format!("{line:<36}{interval}");
        }
        lines.push(Line::from(line));
    }
    lines
}

/// Rates and the counts behind them.
pub(super) fn speed(view: &View<'_>) -> Vec<Line<'static>> {
    let rates = view.rates;
    vec![
        figure("episodes/min", fields::rate(rates.episodes_per_min)),
        figure("turns/s", fields::rate(rates.turns_per_s)),
        figure("tokens/s", fields::rate(rates.tokens_per_s)),
        figure("turns", number::count(view.snapshot.turns)),
        figure("lookups", number::count(view.snapshot.lookups)),
    ]
}

/// Ends by kind, the most frequent first.
pub(super) fn outcomes(view: &View<'_>) -> Vec<Line<'static>> {
    let correct = Outcome::Correct.name();
    let colour = |name: &str| if name == correct { Color::Green } else { Color::Reset };
    by_count(view.snapshot.outcomes.iter().map(|(name, count)| (*name, *count)))
        .into_iter()
        .map(|(name, count)| figure(name, number::count(count)).fg(colour(name)))
        .collect()
}

/// New tokens by the part a model plays, and cost if anything costs.
pub(super) fn tokens(view: &View<'_>) -> Vec<Line<'static>> {
    let mut lines: Vec<_> =
        view.snapshot.tokens.iter().map(|(route, tokens)| figure(&route.to_string(), number::count(*tokens))).collect();
    if view.snapshot.micros > 0 {
        lines.push(figure("cost", number::money(view.snapshot.micros as f64)).bold());
    }
    lines
}

/// What failed and may have been tried again, and who was restarted.
pub(super) fn trouble(view: &View<'_>) -> Vec<Line<'static>> {
    let (stumbles, restarts) = (&view.snapshot.stumbles, &view.snapshot.restarts);
    if stumbles.is_empty() && restarts.is_empty() {
        return vec![Line::styled("none", Style::new().fg(Color::DarkGray))];
    }
    let stumbles = by_count(stumbles.iter().map(|(kind, count)| (*kind, *count)));
    let restarts = by_count(restarts.iter().map(|(actor, count)| (*actor, *count)));
    let stumbles = stumbles
        .into_iter()
        .map(|(kind, count)| figure_in(BROAD_FIGURE_COLUMNS, kind, number::count(count)).fg(Color::Yellow));
    let restarts = restarts.into_iter().map(|(actor, count)| {
        figure_in(BROAD_FIGURE_COLUMNS, &format!("restarts: {actor}"), number::count(count)).fg(Color::Red)
    });
    stumbles.chain(restarts).collect()
}

/// Running episodes with the turns they have made, the longest first.
pub(super) fn running(view: &View<'_>) -> Vec<Line<'static>> {
    let snapshot = view.snapshot;
    let mut listed: Vec<_> = snapshot.running.iter().collect();
    listed.sort_by_key(|(_, turns)| std::cmp::Reverse(*turns));
    let mut lines: Vec<_> =
        listed.into_iter().map(|(key, turns)| Line::from(format!("{turns:>5}  {}", fields::episode(key)))).collect();
    // The board lists only so many; the panel counts the rest with those that do not fit.
    let unlisted = snapshot.running_count.saturating_sub(lines.len() as u64);
    lines.extend((0..unlisted).take(1).map(|_| Line::from(format!("{:>5}  {unlisted} not listed", "…"))));
    lines
}

/// The last ends, newest first.
pub(super) fn recent(view: &View<'_>) -> Vec<Line<'static>> {
    let line = |(key, outcome): &(_, Outcome)| {
        let (name, colour) = match outcome {
            Outcome::Correct => (outcome.name(), Color::Green),
            Outcome::Failed(kind) => (kind.name(), Color::Red),
            _ => (outcome.name(), Color::Reset),
        };
        Line::from(vec![Span::styled(format!("{name:<17}"), colour), Span::raw(fields::episode(key))])
    };
    view.snapshot.recent.iter().map(line).collect()
}

/// Everything on single lines, the most important first, for a terminal without room.
pub(super) fn single_lines(view: &View<'_>) -> Vec<Line<'static>> {
    let (snapshot, rates) = (view.snapshot, view.rates);
    let all = Rate::new(snapshot.correct, snapshot.ended);
    let interval = interval(&all).map(|interval| format!(" ({interval})")).unwrap_or_default();
    let errors: u64 = snapshot.stumbles.values().sum();
    let restarts: u64 = snapshot.restarts.values().sum();
    let cost =
        if snapshot.micros > 0 { format!(" · cost {}", number::money(snapshot.micros as f64)) } else { String::new() };
    let mut lines = vec![
        Line::from(format!(" accuracy {}{interval}", share(&all).trim_start())).bold(),
        Line::from(format!(
            " waiting {} · running {}",
            number::count(waiting(snapshot)),
            number::count(snapshot.running_count)
        )),
        Line::from(format!(
            " {} ep/min · {} turns/s · {} tok/s",
            fields::rate(rates.episodes_per_min),
            fields::rate(rates.turns_per_s),
            fields::rate(rates.tokens_per_s)
        )),
        Line::from(format!(" errors {} · restarts {}", number::count(errors), number::count(restarts)))
            .fg(if errors + restarts > 0 { Color::Yellow } else { Color::Reset }),
        Line::from(format!(" tokens {}{cost}", number::count(snapshot.tokens.values().sum()))),
    ];
    let outcomes = by_count(snapshot.outcomes.iter().map(|(name, count)| (*name, *count)));
    lines.extend(outcomes.into_iter().map(|(name, count)| Line::from(format!(" {name} {}", number::count(count)))));
    lines
}

/// A named figure, the name at the left and the figure at the right of a narrow panel.
fn figure(name: &str, value: String) -> Line<'static> {
    figure_in(FIGURE_COLUMNS, name, value)
}

fn figure_in(columns: usize, name: &str, value: String) -> Line<'static> {
    let value_columns = columns.saturating_sub(name.chars().count());
    let name = Span::styled(name.to_owned(), Style::new().add_modifier(Modifier::DIM));
    Line::from(vec![name, Span::raw(format!("{value:>value_columns$}"))])
}

fn share(rate: &Rate) -> String {
    format!("{:>8}", number::percent(rate.rate))
}

fn of(rate: &Rate) -> String {
    format!("{}/{}", number::count(rate.correct), number::count(rate.of))
}

fn interval(rate: &Rate) -> Option<String> {
    rate.wilson.map(|interval| number::percent_range(interval.low, interval.high))
}

/// The first characters of a name, with a sign that there were more.
fn short(name: &str, chars: usize) -> String {
    if name.chars().count() <= chars {
        return name.to_owned();
    }
    name.chars().take(chars - 1).chain(['…']).collect()
}

fn by_count<'a>(counts: impl Iterator<Item = (&'a str, u64)>) -> Vec<(&'a str, u64)> {
    let mut counts: Vec<_> = counts.collect();
    counts.sort_by_key(|(name, count)| (std::cmp::Reverse(*count), *name));
    counts
}
