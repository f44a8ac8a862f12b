//! Numbers of several engines as those of one: of replicas that work side by side, and of engines that lived one after the
//! other. It refuses to know what a number means, but for whether it counts or stands.

use legwork_engine::Gauges;

/// Both together.
pub(super) fn sum(one: &Gauges, other: &Gauges) -> Gauges {
    // Every field is named, so that a new one cannot be left out.
    let Gauges {
        waiting,
        running,
        pages,
        pages_free,
        pages_held,
        pages_pinned,
        pages_cached,
        sessions,
        host_bytes,
        accepted,
        refused,
        finished,
        cancelled,
        expired,
        failed,
        steps,
        failed_steps,
        rows,
        prompt_tokens,
        prefix_hit_tokens,
        restored_tokens,
        generated_tokens,
        preemptions,
        evictions,
        offloaded_pages,
        host_evictions,
        failed_copies,
    } = *one;
    Gauges {
        waiting: waiting + other.waiting,
        running: running + other.running,
        pages: pages + other.pages,
        pages_free: pages_free + other.pages_free,
        pages_held: pages_held + other.pages_held,
        pages_pinned: pages_pinned + other.pages_pinned,
        pages_cached: pages_cached + other.pages_cached,
        sessions: sessions + other.sessions,
        host_bytes: host_bytes + other.host_bytes,
        accepted: accepted + other.accepted,
        refused: refused + other.refused,
        finished: finished + other.finished,
        cancelled: cancelled + other.cancelled,
        expired: expired + other.expired,
        failed: failed + other.failed,
        steps: steps + other.steps,
        failed_steps: failed_steps + other.failed_steps,
        rows: rows + other.rows,
        prompt_tokens: prompt_tokens + other.prompt_tokens,
        prefix_hit_tokens: prefix_hit_tokens + other.prefix_hit_tokens,
        restored_tokens: restored_tokens + other.restored_tokens,
        generated_tokens: generated_tokens + other.generated_tokens,
        preemptions: preemptions + other.preemptions,
        evictions: evictions + other.evictions,
        offloaded_pages: offloaded_pages + other.offloaded_pages,
        host_evictions: host_evictions + other.host_evictions,
        failed_copies: failed_copies + other.failed_copies,
    }
}

/// What is left of an engine that is gone: what it has counted, and nothing that it holds.
pub(super) fn counted(gone: &Gauges) -> Gauges {
    Gauges {
        waiting: 0,
        running: 0,
        pages: 0,
        pages_free: 0,
        pages_held: 0,
        pages_pinned: 0,
        pages_cached: 0,
        sessions: 0,
        host_bytes: 0,
        ..*gone
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_gone_leaves_counts_and_holds_nothing() {
        let gone = Gauges { running: 2, pages: 7, sessions: 1, steps: 5, generated_tokens: 9, ..Gauges::default() };
        let lives = Gauges { running: 1, pages: 7, steps: 1, generated_tokens: 1, ..Gauges::default() };
        let both = sum(&counted(&gone), &lives);
        assert_eq!((both.running, both.pages, both.sessions), (1, 7, 0));
        assert_eq!((both.steps, both.generated_tokens), (6, 10));
    }
}
