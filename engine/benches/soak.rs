//! A soak of the engine over a real decoder: 64 mixed requests alive at all times, random cancels, deadlines, sessions, and
//! a cache of 40 pages; `cargo bench -p legwork-engine --bench soak -- MODEL [MINUTES [SEED]]`. It prints what it checks and
//! its figures, and ends with a code that is not zero when a check fails. With the feature `cuda`, `--card MODEL [MINUTES [SEED [CARD [whole]]]]`
//! runs the soak on a card.

#![allow(clippy::print_stdout, reason = "a bench prints its table")]
#![allow(clippy::unwrap_used, reason = "a bench ends where its machine does")]

#[path = "soak/alone.rs"]
mod alone;
#[cfg(feature = "cuda")]
#[path = "soak/card.rs"]
mod card;
#[path = "soak/desk.rs"]
mod desk;
#[path = "soak/print.rs"]
mod print;
#[path = "soak/room.rs"]
mod room;
#[path = "soak/texts.rs"]
mod texts;
#[path = "soak/traffic.rs"]
mod traffic;

use alone::{Opened, PAGES, STEP_ROWS};
use desk::Desk;
use legwork_engine::{Engine, EngineLimits, RequestId, SessionId};
use legwork_kernels::Cpu;
use legwork_model::Decoder;
use print::Figures;
use room::Room;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use texts::Texts;
use traffic::Traffic;

/// Requests alive at all times.
const ALIVE: usize = 64;
/// Of these, how many run at once at most; what the pages allow is less.
pub(crate) const RUNNING_MAX: usize = 32;
/// Tokens to come that a request has pages reserved for: none, so that some are set back.
const RESERVE_TOKENS: usize = 0;
/// Bytes of host memory: of eight pages of a model of this kind, so that they are given up, too.
const HOST_BYTES: usize = 24 << 20;
/// Paused sessions that keep pages.
const SESSIONS_MAX: usize = 12;
/// All that was computed is forgotten once in so many steps, as when a trainer changes the weights.
const FORGET_STEPS: u64 = 301;
/// Room is looked at from this moment on, and so often.
const WARM: Duration = Duration::from_secs(30);
const LOOK: Duration = Duration::from_secs(10);

/// That of the program `legwork`.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

pub(crate) type Local = Engine<Decoder<Cpu>>;

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1).filter(|argument| argument != "--bench");
    let Some(path) = arguments.next() else {
        println!("skipped: name a model, such as target/fixtures/smollm2/SmolLM2-135M-Instruct.Q4_1.gguf");
        return ExitCode::SUCCESS;
    };
    #[cfg(feature = "cuda")]
    if path == card::CHILD {
        return card::child();
    }
    if path.starts_with("--card") {
        #[cfg(feature = "cuda")]
        return card::main(arguments, path == "--card-cpu");
        #[cfg(not(feature = "cuda"))]
        panic!(
            "{path} needs the feature `cuda`: cargo bench -p legwork-engine --features cuda --bench soak -- --card MODEL"
        );
    }
    let minutes: f64 = arguments.next().map_or(5.0, |text| text.parse().unwrap());
    let seed: u64 = arguments.next().map_or(64, |text| text.parse().unwrap());
    let opened = Opened::at(path.as_ref());
    let texts = Texts::new(&opened.tokenizer);
    let references = alone::references(&opened, &texts);
    let mut soak = Soak {
        engine: opened.engine(EngineLimits {
            running_max: RUNNING_MAX,
            waiting_max: ALIVE,
            step_rows: STEP_ROWS,
            reserve_tokens: RESERVE_TOKENS,
            host_bytes_max: HOST_BYTES,
            sessions_max: SESSIONS_MAX,
            ..EngineLimits::default()
        }),
        desk: Desk::new(opened.tokenizer.clone(), opened.stop_ids.clone(), references),
        traffic: Traffic::new(seed, texts, opened.stop_ids.clone()),
        room: Room::default(),
        figures: Figures::default(),
        began: Instant::now(),
    };
    println!(
        "{path}, seed {seed}: {ALIVE} requests alive for {minutes} minutes, {PAGES} pages, steps of {STEP_ROWS} rows"
    );
    soak.warm();
    soak.load(Duration::from_secs_f64(60.0 * minutes));
    soak.figures.end(&soak.engine, soak.began.elapsed());
    soak.drain();
    let Soak { mut desk, room, figures, .. } = soak;
    desk.compare_with_alone(&opened);
    print::print(&desk, &room, &figures)
}

/// An engine, those who ask, those who check.
struct Soak {
    engine: Local,
    desk: Desk,
    traffic: Traffic,
    room: Room,
    figures: Figures,
    began: Instant,
}

impl Soak {
    /// As many at once as ever may be, and as many rows, so that all buffers have their size before memory is looked at.
    fn warm(&mut self) {
        for request in self.traffic.warmers(RUNNING_MAX) {
            self.engine.submit(request, 0).unwrap();
        }
        let mut out = Vec::new();
        while !self.engine.step(0, &mut out).is_idle() {}
        self.began = Instant::now();
    }

    fn load(&mut self, time: Duration) {
        let mut look = WARM;
        while self.began.elapsed() < time {
            self.fill();
            self.step();
            if self.desk.steps.is_multiple_of(FORGET_STEPS) {
                self.engine.forget_computed();
                self.figures.forgets += 1;
            }
            self.cancel();
            if self.began.elapsed() >= look {
                self.room.look(self.began.elapsed(), self.engine.gauges().host_bytes);
                look += LOOK;
            }
        }
    }

    /// As many as live.
    fn fill(&mut self) {
        while self.desk.alive() < ALIVE {
            let now_ms = self.now_ms();
            if let Some((request, expected)) = self.traffic.impossible(now_ms, self.desk.any_alive()) {
                let told = self.engine.submit(request, now_ms).err().map(|refusal| refusal.to_string());
                self.figures.refusals += 1;
                if !told.as_ref().is_some_and(|told| told.contains(expected)) {
                    self.desk
                        .breach(format!("a request that cannot be taken was told {told:?}, expected `{expected}`"));
                }
            }
            let ask = self.traffic.ask(now_ms);
            match self.engine.submit(ask.request.clone(), now_ms) {
                Ok(()) => self.desk.take_in(ask),
                Err(refusal) => return self.desk.breach(format!("a good request was refused: {refusal}")),
            }
        }
    }

    fn step(&mut self) {
        let (now_ms, began) = (self.now_ms(), Instant::now());
        let mut out = Vec::new();
        let report = self.engine.step(now_ms, &mut out);
        self.figures.count(&report, began.elapsed());
        if let Some(failure) = report.failure {
            self.desk.breach(format!("a step of the model failed: {failure}"));
        }
        self.desk.steps += 1;
        for ended in self.desk.hear(out) {
            if let Some(session) = self.traffic.ended(ended) {
                self.engine.release_session(session);
                self.figures.releases += 1;
            }
        }
        self.desk.look_at_ages(now_ms);
        if let Err(fault) = self.engine.audit() {
            self.desk.breach(format!("the audit after step {}: {fault}", self.desk.steps));
        }
    }

    fn cancel(&mut self) {
        for id in self.desk.due_to_cancel() {
            self.engine.cancel(id);
        }
        if let Some(session) = self.traffic.gone() {
            self.engine.release_session(session);
            self.figures.releases += 1;
        }
        // Cancelling what has ended long ago, or was never there, does nothing.
        self.engine.cancel(RequestId(0));
        self.engine.cancel(RequestId(u64::MAX));
    }

    /// No more come; all must end, and all pages be free or cached.
    fn drain(&mut self) {
        let last = self.desk.last_due();
        while self.desk.alive() > 0 && self.desk.steps < last {
            self.step();
        }
        let sessions = self.engine.gauges().sessions;
        (0..self.traffic.sessions()).for_each(|session| self.engine.release_session(SessionId(session)));
        if let Err(fault) = self.engine.audit() {
            self.desk.breach(format!("the audit at the end: {fault}"));
        }
        let gauges = self.engine.gauges();
        self.figures.drained(sessions, gauges);
        let ended = gauges.finished + gauges.cancelled + gauges.expired + gauges.failed;
        let left = (gauges.waiting, gauges.running, gauges.pages_held, gauges.pages_pinned, gauges.sessions);
        if left != (0, 0, 0, 0, 0) || gauges.pages_free + gauges.pages_cached != PAGES || ended != gauges.accepted {
            self.desk.breach(format!("after the end not all was free: {gauges:?}"));
        }
        if (gauges.failed, gauges.failed_steps, gauges.failed_copies) != (0, 0, 0) {
            self.desk.breach(format!("something failed: {gauges:?}"));
        }
        // What is cached for whoever comes can be given up, too.
        self.engine.forget_computed();
        let gauges = self.engine.gauges();
        if (gauges.pages_free, gauges.host_bytes) != (PAGES, 0) || self.engine.audit().is_err() {
            self.desk.breach(format!("after all was forgotten, not all was free: {gauges:?}"));
        }
    }

    fn now_ms(&self) -> u64 {
        self.began.elapsed().as_millis() as u64
    }
}
