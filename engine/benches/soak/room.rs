//! How much memory the process holds, over time, on Linux. It refuses to know who holds it.

use std::time::Duration;

/// After the warm-up, memory may go up and down by so much, and rise by so much, in MB.
pub(crate) const SWING_MAX_MB: f64 = 4.0;
pub(crate) const SLOPE_MAX_MB_A_MINUTE: f64 = 0.5;
/// Looks that a slope needs.
pub(crate) const LOOKS_MIN: usize = 6;

/// What was seen: minutes since the beginning, MB held, MB of these in host memory.
#[derive(Default)]
pub(crate) struct Room {
    pub(crate) looks: Vec<(f64, f64, f64)>,
}

/// Lowest, highest, and how they rise.
pub(crate) struct Course {
    pub(crate) least: f64,
    pub(crate) most: f64,
    pub(crate) a_minute: f64,
}

impl Room {
    pub(crate) fn look(&mut self, after: Duration, host_bytes: usize) {
        if let Some(held) = held_mb(std::process::id()) {
            self.looks.push((after.as_secs_f64() / 60.0, held, host_bytes as f64 / 1e6));
        }
    }

    /// The course of what is held; `None` when there were too few looks.
    pub(crate) fn course(&self) -> Option<Course> {
        let points: Vec<(f64, f64)> = self.looks.iter().map(|(at, held, _)| (*at, *held)).collect();
        (points.len() >= LOOKS_MIN).then(|| course(&points))
    }
}

/// The rise is the median of the slopes between any two looks (Theil 1950, Sen 1968), so that what somebody else takes of a card for
/// some moments does not count.
pub(crate) fn course(points: &[(f64, f64)]) -> Course {
    let pairs = points.iter().enumerate().flat_map(|(at, from)| points[at + 1..].iter().map(move |to| (from, to)));
    let mut slopes: Vec<f64> = pairs.map(|(from, to)| (to.1 - from.1) / (to.0 - from.0)).collect();
    slopes.sort_by(f64::total_cmp);
    let values = || points.iter().map(|point| point.1);
    Course {
        least: values().fold(f64::INFINITY, f64::min),
        most: values().fold(f64::NEG_INFINITY, f64::max),
        a_minute: slopes.get(slopes.len() / 2).copied().unwrap_or(0.0),
    }
}

/// Resident memory of a process, in MB.
pub(crate) fn held_mb(process: u32) -> Option<f64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    Some(line.split_whitespace().next()?.parse::<f64>().ok()? * 1024.0 / 1e6)
}
