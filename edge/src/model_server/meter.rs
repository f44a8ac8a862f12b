//! What has happened, as numbers for `/metrics` in Prometheus' text form, and the models' own numbers after them.

use super::model::{Gauge, TextModel};
use legwork_protocol::generation::Usage;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Upper bounds of the times that are told, in milliseconds.
const TIMES_MS: [u64; 14] = [5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000, 10_000, 30_000, 60_000, 300_000];

/// Counts of a server.
#[derive(Default)]
pub(super) struct Meter {
    /// By route and status; both have few values, since unknown routes count as one.
    requests: Mutex<BTreeMap<(String, u16), u64>>,
    prompt_tokens: AtomicU64,
    cached_tokens: AtomicU64,
    completion_tokens: AtomicU64,
    aborted: AtomicU64,
    disconnected: AtomicU64,
    first_piece: Times,
    whole_answer: Times,
}

#[derive(Default)]
struct Times {
    counts: [AtomicU64; TIMES_MS.len()],
    count: AtomicU64,
    sum_us: AtomicU64,
}

impl Meter {
    pub(super) fn answered(&self, route: &str, status: u16) {
        let mut requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        match requests.get_mut(&(route.to_owned(), status)) {
            Some(count) => *count += 1,
            None => drop(requests.insert((route.to_owned(), status), 1)),
        }
    }

    pub(super) fn used(&self, usage: &Usage) {
        self.prompt_tokens.fetch_add(usage.prompt_tokens.into(), Ordering::Relaxed);
        self.cached_tokens.fetch_add(usage.cached_tokens.into(), Ordering::Relaxed);
        self.completion_tokens.fetch_add(usage.completion_tokens.into(), Ordering::Relaxed);
    }

    pub(super) fn embedded(&self, prompt_tokens: u64) {
        self.prompt_tokens.fetch_add(prompt_tokens, Ordering::Relaxed);
    }

    pub(super) fn aborted(&self) {
        self.aborted.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn disconnected(&self) {
        self.disconnected.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn first_piece(&self, after: Duration) {
        self.first_piece.add(after);
    }

    pub(super) fn whole_answer(&self, after: Duration) {
        self.whole_answer.add(after);
    }

    /// The page.
    pub(super) fn page(&self, in_flight: usize, waiting: usize, models: &[Arc<dyn TextModel>]) -> String {
        let mut page = String::new();
        head(&mut page, "legwork_server_requests_total", "counter", "Requests answered, by route and status.");
        for ((route, status), count) in &*self.requests.lock().unwrap_or_else(PoisonError::into_inner) {
            line(
                &mut page,
                "legwork_server_requests_total",
                &[("route", route), ("status", &status.to_string())],
                *count as f64,
            );
        }
        let tokens = "Tokens of ended answers and of embedded texts.";
        for (name, help, count) in [
            ("legwork_server_prompt_tokens_total", tokens, &self.prompt_tokens),
            ("legwork_server_cached_tokens_total", "Prompt tokens that a cache held.", &self.cached_tokens),
            ("legwork_server_completion_tokens_total", "New tokens of ended answers.", &self.completion_tokens),
            ("legwork_server_aborted_total", "Answers given up by /abort_request.", &self.aborted),
            ("legwork_server_disconnected_total", "Requests whose client left before the end.", &self.disconnected),
        ] {
            head(&mut page, name, "counter", help);
            line(&mut page, name, &[], count.load(Ordering::Relaxed) as f64);
        }
        for (name, help, value) in [
            ("legwork_server_in_flight", "Answers that hold a place.", in_flight),
            ("legwork_server_waiting", "Requests that wait for a place.", waiting),
        ] {
            head(&mut page, name, "gauge", help);
            line(&mut page, name, &[], value as f64);
        }
        self.first_piece.write(&mut page, "legwork_server_first_piece_seconds", "From the request to its first piece.");
        self.whole_answer.write(&mut page, "legwork_server_answer_seconds", "From the request to its end.");
        write_models(&mut page, models);
        page
    }
}

impl Times {
    fn add(&self, took: Duration) {
        let took_ms = took.as_millis();
        if let Some(place) = TIMES_MS.iter().position(|bound| took_ms <= u128::from(*bound)) {
            self.counts[place].fetch_add(1, Ordering::Relaxed);
        }
        self.count.fetch_add(1, Ordering::Relaxed);
        self.sum_us.fetch_add(u64::try_from(took.as_micros()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    fn write(&self, page: &mut String, name: &str, help: &str) {
        head(page, name, "histogram", help);
        let mut so_far = 0;
        let bucket = format!("{name}_bucket");
        for (bound_ms, count) in TIMES_MS.iter().zip(&self.counts) {
            so_far += count.load(Ordering::Relaxed);
            line(page, &bucket, &[("le", &(*bound_ms as f64 / 1000.0).to_string())], so_far as f64);
        }
        let count = self.count.load(Ordering::Relaxed) as f64;
        line(page, &bucket, &[("le", "+Inf")], count);
        line(page, &format!("{name}_sum"), &[], self.sum_us.load(Ordering::Relaxed) as f64 / 1e6);
        line(page, &format!("{name}_count"), &[], count);
    }
}

/// A metric's lines must stand together: the models' numbers are sorted by name first.
fn write_models(page: &mut String, models: &[Arc<dyn TextModel>]) {
    let mut all: BTreeMap<&'static str, Vec<(String, Gauge)>> = BTreeMap::new();
    for model in models {
        let id = model.card().id;
        for gauge in model.gauges() {
            all.entry(gauge.name).or_default().push((id.clone(), gauge));
        }
    }
    for (name, gauges) in all {
        let whole = format!("legwork_model_{name}");
        let kind = if name.ends_with("_total") { "counter" } else { "gauge" };
        head(page, &whole, kind, gauges.first().map_or("", |(_, gauge)| gauge.help));
        for (id, gauge) in gauges {
            let mut labels = vec![("model", id.as_str())];
            labels.extend(gauge.device.as_deref().map(|device| ("device", device)));
            line(page, &whole, &labels, gauge.value);
        }
    }
}

fn head(page: &mut String, name: &str, kind: &str, help: &str) {
    let help = help.replace('\\', "\\\\").replace('\n', "\\n");
    // Writing to a string cannot fail.
    let _ = write!(page, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
}

fn line(page: &mut String, name: &str, labels: &[(&str, &str)], value: f64) {
    page.push_str(name);
    for (place, (label, text)) in labels.iter().enumerate() {
        let escaped = text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
        let _ = write!(page, "{}{label}=\"{escaped}\"", if place == 0 { "{" } else { "," });
    }
    page.push_str(if labels.is_empty() { "" } else { "}" });
    let _ = match value {
        _ if value.is_nan() => writeln!(page, " NaN"),
        _ if value.is_infinite() => writeln!(page, " {}Inf", if value > 0.0 { "+" } else { "-" }),
        _ => writeln!(page, " {value}"),
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_counts_requests_and_times_in_prometheus_form() {
        let meter = Meter::default();
        meter.answered("/v1/chat/completions", 200);
        meter.answered("/v1/chat/completions", 200);
        meter.answered("/a\"b", 404);
        meter.first_piece(Duration::from_millis(7));
        meter.first_piece(Duration::from_secs(4000));
        let page = meter.page(3, 1, &[]);
        for expected in [
            "# TYPE legwork_server_requests_total counter\n",
            "legwork_server_requests_total{route=\"/v1/chat/completions\",status=\"200\"} 2\n",
            "legwork_server_requests_total{route=\"/a\\\"b\",status=\"404\"} 1\n",
            "legwork_server_in_flight 3\n",
            "legwork_server_first_piece_seconds_bucket{le=\"0.005\"} 0\n",
            "legwork_server_first_piece_seconds_bucket{le=\"0.01\"} 1\n",
            "legwork_server_first_piece_seconds_bucket{le=\"300\"} 1\n",
            "legwork_server_first_piece_seconds_bucket{le=\"+Inf\"} 2\n",
            "legwork_server_first_piece_seconds_sum 4000.007\n",
        ] {
            assert!(page.contains(expected), "{expected}\n{page}");
        }
    }
}
