//! The soak on a card: `soak --card MODEL [MINUTES [SEED [CARD [whole]]]]`, a folder of `benches/peers/make_qwen3_4b.py`, ids for texts,
//! prompts of 10 to 8,000 tokens. Sessions come back, a third of the requests is cancelled, some have a deadline, pages are few. After a
//! third of the time the card fails under the model's process: another one opens it anew, and whoever was not answered is answered by the
//! new engine. With `whole` it does not fail; several soaks may share a card, and the failure of one is none of the others'.
//!
//! Canaries are greedy answers known from the start. Rounding depends on what else is in a step, so a canary may leave its known answer
//! for a token that was at most [`GAP_MAX`] less probable; up to there its tokens' log-probabilities may be [`SHIFT_MAX`] from the known
//! ones, and [`SHIFT_MEAN_MAX`] in the mean.

#[path = "card/desk.rs"]
mod desk;
#[path = "card/machine.rs"]
mod machine;
#[path = "card/traffic.rs"]
mod traffic;

use crate::alone::{Answered, ask};
use crate::room::{LOOKS_MIN, Room};
use desk::Desk;
use legwork_engine::{Engine, EngineLimits, Gauges, RequestId, SessionId};
use legwork_kernels::cuda::Nvidia;
use legwork_model::Forward;
pub(crate) use machine::{CHILD, child};
use machine::{Machine, Model};
use std::cell::Cell;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use traffic::{Bounds, Traffic};

/// Natural logarithms of probabilities. On a model of Qwen3-4B's shape with random weights the bench `gpu` saw two ways of
/// computing one context up to 1.0 apart (of 64 positions and all tokens) and, by their divergence, 0.13 in the mean; its logits
/// have a deviation of 4, which is what keys of another's page would move them by, and near 20 come in bf16's steps of 1/8.
pub(crate) const GAP_MAX: f32 = 1.25;
pub(crate) const SHIFT_MAX: f32 = 1.25;
/// In the mean of all tokens that are equal.
pub(crate) const SHIFT_MEAN_MAX: f64 = 0.25;
/// Requests alive at all times, and of these how many run at once at most.
const ALIVE: usize = 64;
const RUNNING_MAX: usize = 40;
/// Rows of a step.
const STEP_ROWS: usize = 2_048;
/// Paused sessions that keep pages.
const SESSIONS_MAX: usize = 16;
/// Pages in host memory at most.
const HOST_PAGES: usize = 300;
/// Steps within which all that live must end when no more come.
const DRAIN_STEPS_MAX: usize = 20_000;
/// Room is looked at so often.
const LOOK: Duration = Duration::from_secs(2);
/// In the second half of a life, when all numbers of rows have been met and recorded, memory of the model's process and of the card
/// may rise by so many MB a minute.
const SLOPE_MAX: f64 = 20.0;
/// In the last quarter of the time, this process may hold so many MB beside its pages more than at the start, at some moment.
const HOST_LEFT_MAX_MB: f64 = 200.0;
/// Memory of the card that may be missing at the end, in MB: what steps recorded as graphs and kernels loaded since the start hold.
const RECORDED_MAX_MB: f64 = 664.0;

/// Runs it on card 0 or the one given last, or with `--card-cpu` on the processor, which only shows that the program works.
pub(crate) fn main(mut arguments: impl Iterator<Item = String>, is_cpu: bool) -> ExitCode {
    let Some(model) = arguments.next() else {
        println!("skipped: name a folder made by benches/peers/make_qwen3_4b.py");
        return ExitCode::SUCCESS;
    };
    let minutes: f64 = arguments.next().map_or(5.0, |text| text.parse().unwrap());
    let seed: u64 = arguments.next().map_or(64, |text| text.parse().unwrap());
    let time = Duration::from_secs_f64(60.0 * minutes);
    let process = Cell::new(None);
    if is_cpu {
        let machine = Machine { folder: model.into(), card: None, gauge: None, process };
        return Soak::new(machine, seed, Bounds { pages: 40, prompt_max: 400 }, Some(time / 2)).run(time);
    }
    let card: usize = arguments.next().map_or(0, |text| text.parse().unwrap());
    if Nvidia::count() <= card {
        println!("skipped: there is no card {card} here");
        return ExitCode::SUCCESS;
    }
    let gauge = Some(Nvidia::open(card, None).unwrap());
    let machine = Machine { folder: model.into(), card: Some(card), gauge, process };
    let fails_after = (arguments.next().as_deref() != Some("whole")).then_some(time / 3);
    Soak::new(machine, seed, Bounds { pages: 900, prompt_max: 8_000 }, fails_after).run(time)
}

/// An engine on a machine, those who ask, those who check.
struct Soak {
    machine: Machine,
    bounds: Bounds,
    engine: Engine<Model>,
    desk: Desk,
    traffic: Traffic,
    began: Instant,
    room: Room,
    /// Minutes, and MB of the card in use.
    card: Vec<(f64, f64)>,
    /// Minutes, and MB that the process of the model holds.
    child: Vec<(f64, f64)>,
    slowest: Duration,
    /// Gauges of engines that are no more.
    before: Vec<Gauges>,
    is_to_fail: bool,
    recovered: Option<Duration>,
    /// Looks at memory before the card failed.
    looks_before: Option<usize>,
}

impl Soak {
    fn new(machine: Machine, seed: u64, bounds: Bounds, fails_after: Option<Duration>) -> Self {
        let model = machine.model(bounds.pages, STEP_ROWS, None);
        let traffic = Traffic::new(seed, machine.vocabulary(), bounds);
        // Alone: nothing is shared, one request at a time.
        let limits = EngineLimits { running_max: 1, step_rows: STEP_ROWS, prefix_cache: false, ..limits(0) };
        let mut alone = Engine::new(model, None, limits).unwrap();
        let known: Vec<Answered> =
            traffic.references().iter().cloned().map(|(prompt, sampling)| ask(&mut alone, prompt, sampling)).collect();
        drop(alone);
        let engine = engine(&machine, bounds, fails_after);
        println!(
            "{}, seed {seed}: {ALIVE} requests alive, prompts of 10 to {} tokens, {} pages, steps of {STEP_ROWS} rows, {} canaries",
            machine.folder.display(),
            bounds.prompt_max,
            bounds.pages,
            known.len()
        );
        Self {
            machine,
            bounds,
            engine,
            desk: Desk::new(known),
            traffic,
            began: Instant::now(),
            room: Room::default(),
            card: Vec::new(),
            slowest: Duration::ZERO,
            before: Vec::new(),
            child: Vec::new(),
            is_to_fail: fails_after.is_some(),
            recovered: None,
            looks_before: None,
        }
    }

    fn run(mut self, time: Duration) -> ExitCode {
        self.began = Instant::now();
        let (at_start, held_first) = (self.free_mb(), own_mb());
        self.load(time);
        if self.is_to_fail != self.recovered.is_some() {
            self.desk.breach(format!(
                "the card was to fail: {}; it did: {}",
                self.is_to_fail,
                self.recovered.is_some()
            ));
        }
        self.drain();
        let at_end = self.free_mb();
        self.check_room(held_first);
        self.compare_with_alone();
        self.print(at_start, at_end)
    }

    fn load(&mut self, until: Duration) {
        let mut look = self.began.elapsed();
        while self.began.elapsed() < until {
            self.fill();
            if self.step() {
                self.recover();
            }
            self.cancel();
            if self.began.elapsed() >= look {
                self.look();
                look += LOOK;
            }
        }
    }

    fn fill(&mut self) {
        while self.desk.alive() < ALIVE {
            let now_ms = self.now_ms();
            let ask = self.traffic.ask(now_ms);
            match self.engine.submit(ask.request.clone(), now_ms) {
                Ok(()) => self.desk.take_in(ask),
                Err(refusal) => return self.desk.breach(format!("a good request was refused: {refusal}")),
            }
        }
    }

    /// One step; whether the device failed in it.
    fn step(&mut self) -> bool {
        let (now_ms, began) = (self.now_ms(), Instant::now());
        let mut out = Vec::new();
        let report = self.engine.step(now_ms, &mut out);
        self.slowest = self.slowest.max(began.elapsed());
        self.desk.steps += 1;
        if let Some(failure) = report.failure.filter(|_| !report.device_failed) {
            self.desk.breach(format!("a step of the model failed: {failure}"));
        }
        for ended in self.desk.hear(out, report.device_failed) {
            if let Some(session) = self.traffic.ended(ended) {
                self.engine.release_session(session);
            }
        }
        self.desk.look_at_deadlines(now_ms);
        if let Err(fault) = self.engine.audit() {
            self.desk.breach(format!("the audit after step {}: {fault}", self.desk.steps));
        }
        report.device_failed
    }

    fn cancel(&mut self) {
        for id in self.desk.due_to_cancel() {
            self.engine.cancel(id);
        }
        self.engine.cancel(RequestId(u64::MAX));
    }

    /// The card has failed; all that is on it goes, and whoever lives is asked for again of a new engine.
    fn recover(&mut self) {
        let began = Instant::now();
        if self.recovered.is_some() {
            self.desk.breach("the card failed a second time".to_owned());
        }
        self.before.push(self.engine.gauges());
        let again = self.desk.all_again();
        // What is on the card must be gone before it can be opened anew.
        drop(std::mem::replace(&mut self.engine, none()));
        self.engine = engine(&self.machine, self.bounds, None);
        let now_ms = self.now_ms();
        for request in again {
            let late = request.deadline_ms.is_some_and(|deadline| deadline <= now_ms);
            let id = request.id;
            match self.engine.submit(request, now_ms) {
                Ok(()) => {}
                Err(_) if late => self.desk.too_late(id),
                Err(refusal) => self.desk.breach(format!("a request was refused after the failure: {refusal}")),
            }
        }
        self.traffic.forget(&self.desk);
        self.looks_before = Some(self.child.len());
        self.recovered = Some(began.elapsed());
    }

    fn drain(&mut self) {
        let mut steps = 0;
        while self.desk.alive() > 0 && steps < DRAIN_STEPS_MAX {
            self.step();
            steps += 1;
        }
        (0..self.traffic.sessions()).for_each(|session| self.engine.release_session(SessionId(session)));
        self.engine.forget_computed();
        let gauges = self.engine.gauges();
        let left = (gauges.waiting, gauges.running, gauges.pages_held, gauges.pages_pinned, gauges.host_bytes);
        if left != (0, 0, 0, 0, 0) || gauges.pages_free != self.bounds.pages || self.engine.audit().is_err() {
            self.desk.breach(format!("after the end not all was free: {gauges:?}"));
        }
        if (gauges.failed, gauges.failed_steps, gauges.failed_copies) != (0, 0, 0) {
            self.desk.breach(format!("something failed on the new card: {gauges:?}"));
        }
    }

    fn compare_with_alone(&mut self) {
        let limits = EngineLimits { running_max: 1, step_rows: STEP_ROWS, prefix_cache: false, ..limits(0) };
        drop(std::mem::replace(&mut self.engine, none()));
        let mut alone = Engine::new(self.machine.model(self.bounds.pages, STEP_ROWS, None), None, limits).unwrap();
        self.desk.compare_with_alone(|prompt, sampling| ask(&mut alone, prompt, sampling));
    }

    fn look(&mut self) {
        let after = self.began.elapsed();
        self.room.look(after, self.engine.gauges().host_bytes);
        let minutes = after.as_secs_f64() / 60.0;
        self.card.extend(self.free_mb().map(|free| (minutes, -free)));
        self.child.extend(self.machine.process.get().and_then(crate::room::held_mb).map(|held| (minutes, held)));
    }

    /// Both lives of the model, or the one there was.
    fn check_room(&mut self, held_first: f64) {
        let late = &self.room.looks[self.room.looks.len() / 4 * 3..];
        let held_last = late.iter().map(|(_, held, host)| held - host).fold(f64::INFINITY, f64::min);
        println!("MB held by this process beside pages: {held_first:.0} at the start, {held_last:.0} late");
        if late.len() >= LOOKS_MIN && held_last - held_first > HOST_LEFT_MAX_MB {
            self.desk.breach(format!("{:.0} MB of the host are missing at the end", held_last - held_first));
        }
        for (what, points) in [("the model's process", self.child.clone()), ("the card", self.card.clone())] {
            let (first, second) = points.split_at(self.looks_before.unwrap_or(points.len()).min(points.len()));
            for (life, points) in [("at first", first), ("after the failure", second)] {
                let late = &points[points.len() / 2..];
                if late.len() < LOOKS_MIN {
                    println!("memory of {what} {life}: fewer than {LOOKS_MIN} looks");
                    continue;
                }
                let course = crate::room::course(late);
                let (swing, slope) = (course.most - course.least, course.a_minute);
                println!(
                    "memory of {what} {life}, second half: within {swing:.1} MB, {slope:+.2} MB a minute (bound {SLOPE_MAX})"
                );
                if slope > SLOPE_MAX {
                    self.desk.breach(format!("memory of {what} rises by {slope:.2} MB a minute"));
                }
            }
        }
    }

    fn print(self, at_start: Option<f64>, at_end: Option<f64>) -> ExitCode {
        let Self { mut desk, engine, before, recovered, slowest, began, room, .. } = self;
        drop(engine);
        println!(
            "\n{} steps in {:.0} s, slowest {:.0} ms",
            desk.steps,
            began.elapsed().as_secs_f64(),
            1e3 * slowest.as_secs_f64()
        );
        if let Some(recovered) = recovered {
            println!(
                "the card failed once; another process opened it, loaded the model and was asked again within {:.1} s",
                recovered.as_secs_f64()
            );
        }
        for gauges in before {
            println!("gauges of the engine before: {gauges:?}");
        }
        if let (Some(start), Some(end)) = (at_start, at_end) {
            println!("MB free of the card: {start:.0} at the start, {end:.0} at the end");
            if start - end > RECORDED_MAX_MB {
                desk.breach(format!("{:.0} MB of the card are missing at the end", start - end));
            }
        }
        if let (Some(first), Some(last)) = (room.looks.first(), room.looks.last()) {
            println!(
                "MB held by the process (of these pages): {:.0} ({:.0}) first, {:.0} ({:.0}) last",
                first.1, first.2, last.1, last.2
            );
        }
        desk.print();
        match desk.breaches {
            0 => {
                println!("all checks held");
                ExitCode::SUCCESS
            }
            breaches => {
                println!("{breaches} breaches");
                ExitCode::FAILURE
            }
        }
    }

    fn free_mb(&self) -> Option<f64> {
        self.machine.free_mb()
    }

    fn now_ms(&self) -> u64 {
        self.began.elapsed().as_millis() as u64
    }
}

fn own_mb() -> f64 {
    crate::room::held_mb(std::process::id()).unwrap_or_default()
}

/// With so many bytes of host memory.
fn limits(host_bytes_max: usize) -> EngineLimits {
    EngineLimits {
        running_max: RUNNING_MAX,
        waiting_max: ALIVE,
        step_rows: STEP_ROWS,
        reserve_tokens: 0,
        host_bytes_max,
        sessions_max: SESSIONS_MAX,
        ..EngineLimits::default()
    }
}

/// Holds the place of an engine while there is none.
fn none() -> Engine<Model> {
    Engine::new(Model::none(), None, EngineLimits { running_max: 1, ..limits(0) }).unwrap()
}

fn engine(machine: &Machine, bounds: Bounds, fails_after: Option<Duration>) -> Engine<Model> {
    let mut model = machine.model(bounds.pages, STEP_ROWS, fails_after);
    let page_bytes = model.save_pages(&[0]).unwrap().len();
    Engine::new(model, None, limits(HOST_PAGES.min(bounds.pages / 3) * page_bytes)).unwrap()
}
