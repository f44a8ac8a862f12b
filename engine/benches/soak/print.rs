//! What is printed: each check with what it found, and the figures of the load. It refuses to know how they came about.

use crate::Local;
use crate::alone::{GAP_MAX, PAGES, SHIFT_MAX};
use crate::desk::{Agreement, Desk};
use crate::room::{LOOKS_MIN, Room, SLOPE_MAX_MB_A_MINUTE, SWING_MAX_MB};
use legwork_engine::{Gauges, StepReport};
use std::process::ExitCode;
use std::time::Duration;

/// Figures of the load.
#[derive(Default)]
pub(crate) struct Figures {
    steps: u64,
    decode_rows: usize,
    prefill_rows: usize,
    running: usize,
    waiting: usize,
    slowest: Duration,
    pub(crate) refusals: usize,
    pub(crate) releases: usize,
    pub(crate) forgets: usize,
    load: Option<(Gauges, Duration)>,
    end: Option<(usize, Gauges)>,
}

impl Figures {
    /// One step more, while the load lasts.
    pub(crate) fn count(&mut self, report: &StepReport, took: Duration) {
        if self.load.is_some() {
            return;
        }
        self.steps += 1;
        self.decode_rows += report.decode_rows;
        self.prefill_rows += report.prefill_rows;
        self.running += report.running;
        self.waiting += report.waiting;
        self.slowest = self.slowest.max(took);
    }

    /// The load has ended.
    pub(crate) fn end(&mut self, engine: &Local, took: Duration) {
        self.load = Some((engine.gauges(), took));
    }

    /// All have ended, and this many sessions were left.
    pub(crate) fn drained(&mut self, sessions: usize, gauges: Gauges) {
        self.end = Some((sessions, gauges));
    }
}

/// Prints all; the code that the program ends with.
pub(crate) fn print(desk: &Desk, room: &Room, figures: &Figures) -> ExitCode {
    let breaches = desk.breaches + checks(desk, room, figures);
    load(desk, figures);
    for told in &desk.told {
        println!("BREACH: {told}");
    }
    println!("{}", if breaches == 0 { "all checks held".to_owned() } else { format!("{breaches} breaches") });
    if breaches == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Prints what was checked; how many breaches more were found.
fn checks(desk: &Desk, room: &Room, figures: &Figures) -> usize {
    let Some((sessions, end)) = figures.end else { return 1 };
    println!("\n| check | found |\n| --- | --- |");
    println!("| audit of all pages after each step and at the end | {} steps |", desk.steps);
    let ended: usize = desk.ended.values().sum();
    println!(
        "| each request one end | {} taken in, {ended} ended: {:?} |",
        desk.kinds.values().sum::<usize>(),
        desk.ended
    );
    println!(
        "| none older than twice the steps of all prompts before it and of its own, and those of the answers, six at once | oldest {} steps, mean {:.0}; at most {:.0} % of the bound |",
        desk.oldest,
        desk.ages as f64 / ended.max(1) as f64,
        100.0 * desk.closest
    );
    println!(
        "| all free at the end | {} free and {} cached of {PAGES} pages, {sessions} sessions released, {} bytes in host memory |",
        end.pages_free, end.pages_cached, end.host_bytes
    );
    println!(
        "| no secret of another | {} answers searched for 64 words; {} of {} canaries said their own |",
        desk.searched,
        desk.said_own,
        desk.kinds.get("canary").unwrap_or(&0)
    );
    agreement(&format!("{} reference prompts as alone", desk.references()), &desk.under_load);
    agreement("other greedy answers, asked for again alone", &desk.afterwards);
    let blind = desk.said_own == 0 || desk.under_load.whole == 0 || desk.afterwards.whole == 0;
    if blind {
        println!("| the checks see something | no canary said its word, or no answer was compared |");
    }
    memory(room) + usize::from(blind)
}

/// Prints the figures of the load.
fn load(desk: &Desk, figures: &Figures) {
    let Some((load, took)) = figures.load else { return };
    println!("\n| figure of {:.0} s of load | |\n| --- | ---: |", took.as_secs_f64());
    let (steps, seconds) = (figures.steps as f64, took.as_secs_f64());
    println!("| steps | {} |", load.steps);
    println!(
        "| ms a step, mean and slowest | {:.0}, {} |",
        1e3 * seconds / load.steps as f64,
        figures.slowest.as_millis()
    );
    println!(
        "| rows a step: of those who generate, of prompts | {:.1}, {:.1} |",
        figures.decode_rows as f64 / steps,
        figures.prefill_rows as f64 / steps
    );
    println!(
        "| that run, that wait, mean | {:.1}, {:.1} |",
        figures.running as f64 / steps,
        figures.waiting as f64 / steps
    );
    let taken_in: usize = desk.kinds.values().sum();
    println!("| requests taken in | {taken_in} ({:?}) |", desk.kinds);
    println!(
        "| tokens generated | {} ({:.0} a second) |",
        load.generated_tokens,
        load.generated_tokens as f64 / seconds
    );
    println!("| rows computed | {} ({:.0} a second) |", load.rows, load.rows as f64 / seconds);
    println!(
        "| tokens of prompts | {}, {:.1} % found in the cache, {:.1} % brought back from host memory |",
        load.prompt_tokens,
        percent(load.prefix_hit_tokens, load.prompt_tokens),
        percent(load.restored_tokens, load.prompt_tokens)
    );
    println!("| set back | {} |", load.preemptions);
    println!("| cached pages given up | {} |", load.evictions);
    println!("| pages to host memory, given up there | {}, {} |", load.offloaded_pages, load.host_evictions);
    println!("| cancelled | {} of {taken_in} |", load.cancelled);
    println!("| refused, each one that cannot be taken | {} of {} |", load.refused, figures.refusals);
    println!("| sessions released, all forgotten | {}, {} |", figures.releases, figures.forgets);
}

fn percent(part: u64, whole: u64) -> f64 {
    100.0 * part as f64 / whole.max(1) as f64
}

fn agreement(what: &str, agreement: &Agreement) {
    let Agreement { whole, cut, tokens, shift, others } = agreement;
    let gap = others.iter().fold(0.0_f32, |most, (_, gap)| most.max(*gap));
    println!(
        "| {what} | {whole} whole answers and {cut} cut short; {tokens} tokens equal, logprobs at most {shift:e} apart (bound {SHIFT_MAX}); {} took another token, at most {gap:e} behind (bound {GAP_MAX}) |",
        others.len()
    );
    for (at, gap) in others.iter().take(8) {
        println!("|  | another at token {at}: {gap:e} behind |");
    }
}

/// Prints what memory did; how many bounds it broke.
fn memory(room: &Room) -> usize {
    let Some(course) = room.course() else {
        println!("| memory flat | not measured: fewer than {LOOKS_MIN} looks, or no Linux |");
        return 0;
    };
    let swing = course.most - course.least;
    println!(
        "| memory flat: within {SWING_MAX_MB} MB, rising at most {SLOPE_MAX_MB_A_MINUTE} MB a minute | {:.1} to {:.1} MB ({swing:.1}), {:+.2} MB a minute, {} looks |",
        course.least,
        course.most,
        course.a_minute,
        room.looks.len()
    );
    let each: Vec<String> = room.looks.iter().map(|(_, held, host)| format!("{held:.0} ({host:.0})")).collect();
    println!("| MB at each look (of these in host memory) | {} |", each.join(", "));
    usize::from(swing > SWING_MAX_MB) + usize::from(course.a_minute > SLOPE_MAX_MB_A_MINUTE)
}
