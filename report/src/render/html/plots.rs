//! The plots as drawings. Every colour is a class of the style sheet, so that light and dark are its
//! affair; every mark says its numbers when pointed at.

use super::markup::Html;
use super::svg::{Anchor, Drawing, WIDTH};
use crate::document::plot::{DivergingRow, Histogram, Plot, Stacked, Whiskers};
use crate::number::{count, percent, percent_range};
use crate::statistics::calibration::CalibrationBin;
use crate::statistics::proportion::{Rate, wilson};

/// Room for row names at the left.
const GUTTER: f64 = 84.0;
/// Letters' height above their base line, to centre them on a row.
const RISE: f64 = 4.0;

pub(super) fn plot(plot: &Plot, caption: &str) -> Html {
    match plot {
        Plot::Whiskers(whiskers) => self::whiskers(whiskers, caption),
        Plot::Stacked(stacked) => self::stacked(stacked, caption),
        Plot::Histogram(histogram) => self::histogram(histogram, caption),
        Plot::Calibration(bins) => calibration(bins, caption),
        Plot::Diverging(rows) => diverging(rows, caption),
    }
}

const SERIES: [(&str, &str); 2] = [("whisker s0", "dot s0"), ("whisker s1", "dot s1")];
const OUTCOMES: [&str; 9] = ["k0", "k1", "k2", "k3", "k4", "k5", "k6", "k7", "k8"];
const SWATCHES: [&str; 9] = [
    "<li><i class=\"k0\"></i>",
    "<li><i class=\"k1\"></i>",
    "<li><i class=\"k2\"></i>",
    "<li><i class=\"k3\"></i>",
    "<li><i class=\"k4\"></i>",
    "<li><i class=\"k5\"></i>",
    "<li><i class=\"k6\"></i>",
    "<li><i class=\"k7\"></i>",
    "<li><i class=\"k8\"></i>",
];

fn whiskers(whiskers: &Whiskers, caption: &str) -> Html {
    let series = whiskers.series.len().clamp(1, SERIES.len());
    let (step, top) = (12.0 + 16.0 * series as f64, 8.0);
    let bottom = top + step * whiskers.rows.len() as f64;
    let (left, right) = (GUTTER + 8.0, WIDTH - 66.0);
    let at = |share: f64| left + share * (right - left);
    let mut drawing = Drawing::new(bottom + 24.0);
    for quarter in 0..=4 {
        let x = at(f64::from(quarter) / 4.0);
        drawing.line("grid", [x, top, x, bottom]);
        let label = format!("{}{}", quarter * 25, if quarter == 4 { " %" } else { "" });
        drawing.text("tick", Anchor::Middle, [x, bottom + 16.0, 40.0], &label);
    }
    for (index, row) in whiskers.rows.iter().enumerate() {
        let y = top + step * index as f64;
        if row.total {
            drawing.line("rule", [0.0, y, WIDTH, y]);
        }
        let class = if row.total { "label strong" } else { "label" };
        drawing.text(class, Anchor::Start, [0.0, y + step / 2.0 + RISE, GUTTER], &row.label);
        for (rate, (one, (whisker, dot))) in row.rates.iter().zip(SERIES.into_iter().enumerate()) {
            let y = y + 14.0 + 16.0 * one as f64;
            let (Some(share), Some(interval)) = (rate.rate, rate.wilson) else { continue };
            drawing.line(whisker, [at(interval.low.get()), y, at(interval.high.get()), y]);
            for end in [interval.low, interval.high] {
                drawing.line(whisker, [at(end.get()), y - 3.0, at(end.get()), y + 3.0]);
            }
            let name = format!("{} {}, {}", row.label, said(rate), percent_range(interval.low, interval.high));
            drawing.dot(dot, [at(share.get()), y, 4.0], &name);
            let value = format!("{}/{}", rate.correct, rate.of);
            drawing.text("value", Anchor::End, [WIDTH, y + RISE, 58.0], &value);
        }
    }
    let mut html = drawing.finish(caption);
    if series > 1 {
        html.tag("<ul class=\"legend\">");
        let swatches = ["<li><i class=\"s0\"></i>", "<li><i class=\"s1\"></i>"];
        for (name, swatch) in whiskers.series.iter().zip(swatches) {
            html.tag(swatch).text(name).tag("</li>");
        }
        html.tag("</ul>\n");
    }
    html
}

fn said(rate: &Rate) -> String {
    format!("{}/{} = {}", rate.correct, rate.of, percent(rate.rate))
}

fn stacked(stacked: &Stacked, caption: &str) -> Html {
    let (step, bar, left) = (28.0, 18.0, GUTTER + 8.0);
    let mut drawing = Drawing::new(step * stacked.rows.len() as f64 + 2.0);
    let mut occurring = [0u64; OUTCOMES.len()];
    for (index, (label, counts)) in stacked.rows.iter().enumerate() {
        let y = step * index as f64 + 4.0;
        drawing.text("label", Anchor::Start, [0.0, y + bar / 2.0 + RISE, GUTTER], label);
        let whole: u64 = counts.iter().sum();
        let mut x = left;
        for (part, (class, kind)) in counts.iter().zip(OUTCOMES.into_iter().zip(&stacked.kinds)) {
            if *part == 0 {
                continue;
            }
            let width = (WIDTH - left) * *part as f64 / whole as f64;
            // A hairline between parts, taken from the wide ones only: a thin part stays visible.
            let gap = if width > 3.0 { 1.0 } else { 0.0 };
            drawing.rect(class, [x, y, width - gap, bar], &format!("{label}, {kind}: {part} of {whole}"));
            let text = count(*part);
            if width > 8.0 + 7.0 * text.len() as f64 {
                drawing.text(INSIDE[index_of(class)], Anchor::Middle, [x + width / 2.0, y + 13.0, width], &text);
            }
            x += width;
        }
        occurring.iter_mut().zip(counts).for_each(|(sum, part)| *sum += part);
    }
    let mut html = drawing.finish(caption);
    html.tag("<ul class=\"legend\">");
    for ((kind, swatch), occurs) in stacked.kinds.iter().zip(SWATCHES).zip(occurring) {
        if occurs > 0 {
            html.tag(swatch).text(kind).tag("</li>");
        }
    }
    html.tag("</ul>\n");
    html
}

/// Light letters on the dark fills, dark ones on the light fills.
const INSIDE: [&str; 9] =
    ["on-dark", "on-dark", "on-dark", "on-light", "on-light", "on-dark", "on-dark", "on-light", "on-light"];

fn index_of(class: &str) -> usize {
    OUTCOMES.iter().position(|other| *other == class).unwrap_or(0)
}

fn histogram(histogram: &Histogram, caption: &str) -> Html {
    let (top, base) = (18.0, 132.0);
    let mut drawing = Drawing::new(base + 38.0);
    let most = histogram.counts.iter().copied().max().unwrap_or(0).max(1) as f64;
    let tenths = histogram.counts.len().saturating_sub(1);
    let step = (WIDTH - 16.0) / histogram.counts.len().max(1) as f64;
    // What lies above the budget stands a little apart.
    let left = |index: usize| 4.0 + step * index as f64 + if index == tenths { 8.0 } else { 0.0 };
    for (index, value) in histogram.counts.iter().enumerate() {
        let height = (base - top) * *value as f64 / most;
        let height = if *value > 0 { height.max(1.5) } else { 0.0 };
        let (class, name) = if index == tenths {
            ("bar over", format!("above 100 %: {value}"))
        } else {
            ("bar", format!("{}–{} %: {value}", index * 10, (index + 1) * 10))
        };
        let x = left(index);
        drawing.rect(class, [x + 1.0, base - height, step - 2.0, height], &name);
        if *value > 0 {
            drawing.text("tick", Anchor::Middle, [x + step / 2.0, base - height - 4.0, step + 4.0], &count(*value));
        }
    }
    drawing.line("axis", [4.0, base, WIDTH - 4.0, base]);
    let end = 4.0 + step * tenths as f64;
    drawing.text("tick", Anchor::Start, [4.0, base + 16.0, 30.0], "0");
    drawing.text("tick", Anchor::Middle, [(4.0 + end) / 2.0, base + 16.0, 40.0], "50");
    drawing.text("tick", Anchor::End, [end, base + 16.0, 40.0], "100 %");
    drawing.text("tick", Anchor::Middle, [left(tenths) + step / 2.0, base + 16.0, 40.0], "over");
    if let Some(mean) = histogram.mean.filter(|mean| mean.get() <= 1.0) {
        let x = 4.0 + step * tenths as f64 * mean.get();
        drawing.line("mean", [x, base, x, base + 7.0]);
    }
    let mean = histogram.mean.map(|mean| format!(" · mark: mean {}", percent(Some(mean)))).unwrap_or_default();
    let axis = format!("{}{mean}", histogram.axis);
    drawing.text("tick", Anchor::Middle, [WIDTH / 2.0, base + 32.0, WIDTH], &axis);
    drawing.finish(caption)
}

fn calibration(bins: &[CalibrationBin], caption: &str) -> Html {
    let (left, top, side) = (44.0, 8.0, 220.0);
    let (right, bottom) = (WIDTH - 20.0, top + side);
    let x = |share: f64| left + share * (right - left);
    let y = |share: f64| bottom - share * side;
    let mut drawing = Drawing::new(bottom + 38.0);
    for quarter in 0..=4 {
        let share = f64::from(quarter) / 4.0;
        drawing.line("grid", [x(0.0), y(share), x(1.0), y(share)]);
        drawing.line("grid", [x(share), y(0.0), x(share), y(1.0)]);
        let label = (quarter * 25).to_string();
        drawing.text("tick", Anchor::End, [left - 6.0, y(share) + RISE, 30.0], &label);
        drawing.text("tick", Anchor::Middle, [x(share), bottom + 15.0, 40.0], &label);
    }
    drawing.line("ideal", [x(0.0), y(0.0), x(1.0), y(1.0)]);
    let most = bins.iter().map(|bin| bin.answers).max().unwrap_or(1).max(1) as f64;
    for bin in bins {
        let (confidence, accuracy) = (bin.confidence.get(), bin.accuracy.get());
        let right = (accuracy * bin.answers as f64).round() as u64;
        if let Some(interval) = wilson(right, bin.answers) {
            drawing.line("whisker s0", [x(confidence), y(interval.low.get()), x(confidence), y(interval.high.get())]);
        }
        let name = format!(
            "{} answers: confidence {}, accuracy {}",
            count(bin.answers),
            percent(Some(bin.confidence)),
            percent(Some(bin.accuracy))
        );
        drawing.dot("dot s0", [x(confidence), y(accuracy), 2.5 + 3.0 * (bin.answers as f64 / most).sqrt()], &name);
    }
    drawing.text("tick", Anchor::Middle, [x(0.5), bottom + 32.0, 280.0], "stated confidence, % · upwards: accuracy, %");
    drawing.finish(caption)
}

fn diverging(rows: &[DivergingRow], caption: &str) -> Html {
    let (step, bar, top) = (28.0, 16.0, 22.0);
    let (left, right) = (GUTTER + 8.0, WIDTH);
    let middle = (left + right) / 2.0;
    let room = (right - left) / 2.0 - 30.0;
    let most = rows.iter().flat_map(|row| [row.regressed, row.improved]).max().unwrap_or(0).max(1) as f64;
    let bottom = top + step * rows.len() as f64;
    let mut drawing = Drawing::new(bottom + 4.0);
    drawing.text("tick", Anchor::End, [middle - 8.0, 12.0, 120.0], "← regressed");
    drawing.text("tick", Anchor::Start, [middle + 8.0, 12.0, 120.0], "improved →");
    for (index, row) in rows.iter().enumerate() {
        let y = top + step * index as f64;
        if row.total {
            drawing.line("rule", [0.0, y, WIDTH, y]);
        }
        let base = y + step / 2.0 + RISE;
        let class = if row.total { "label strong" } else { "label" };
        drawing.text(class, Anchor::Start, [0.0, base, GUTTER], &row.label);
        let (lost, won) = (room * row.regressed as f64 / most, room * row.improved as f64 / most);
        let y = y + (step - bar) / 2.0;
        drawing.rect("worse", [middle - lost, y, lost, bar], &format!("{}: {} regressed", row.label, row.regressed));
        drawing.rect("better", [middle, y, won, bar], &format!("{}: {} improved", row.label, row.improved));
        drawing.text("value", Anchor::End, [middle - lost - 5.0, base, 40.0], &count(row.regressed));
        drawing.text("value", Anchor::Start, [middle + won + 5.0, base, 40.0], &count(row.improved));
    }
    drawing.line("axis", [middle, top, middle, bottom]);
    drawing.finish(caption)
}
