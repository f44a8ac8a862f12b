//! The trainer's state, and how each effect of the course is carried out: by the clerk, by the ranks, or by both one after the
//! other. Nothing here waits: an order is given, and its answers are gathered as they come.
//! It refuses to know what is due next.

use super::clerk::{self, Desk, Done, FormedSlot, Job};
use super::feed::{SlotSamples, Store, Wanted};
use super::ranks::{Answer, MakeGroup, Order, Ranks, Trouble};
use super::record::{Record, StepRecord, finite};
use super::{GONE_WITHIN, RankNews, Rate, TrainerArgs, TrainerMsg, UpdateSettings, course_settings};
use crate::address::Reply;
use crate::clock::Clock;
use crate::supervision::RestartBudget;
use legwork_protocol::failure::{Failure, FailureKind};
use legwork_training::Sample;
use legwork_training::course::{Course, CourseEffect, CourseEnd, CourseEvent, Progress};
use legwork_training::pack::Pack;
use legwork_training::rank::{StepDone, Update};
use ractor::ActorRef;
use std::path::PathBuf;
use std::sync::Arc;
use tokio::sync::mpsc;

/// What a trainer has.
pub struct TrainerState {
    course: Course,
    feed: Store,
    batch: u64,
    held_out: Arc<Vec<Pack>>,
    update: UpdateSettings,
    rate: Rate,
    budget: RestartBudget,
    make: MakeGroup,
    jobs: mpsc::Sender<Job>,
    peak_flops: Option<f64>,
    clock: Clock,
    over: Option<Reply<CourseEnd>>,
    /// The job that is waited for, by its number.
    ticket: u64,
    waits_for_slot: Option<u64>,
    slot: Option<FormedSlot>,
    ranks: Option<Ranks>,
    generation: u64,
    /// Ranks of the last generation whose threads have not ended.
    alive: usize,
    /// What each rank answered to the order under way.
    gathered: Option<Gathered>,
    /// When what is under way began.
    since_ms: u64,
    /// Where the course stood and why, when ranks died.
    lost: Option<(Progress, String)>,
    /// What ranks that are being made go on from.
    going_on: Option<(Progress, bool)>,
    /// Where a checkpoint is being written.
    saving: Option<PathBuf>,
    dropping: bool,
}

/// Answers to an order, rank by rank.
struct Gathered {
    order: Doing,
    answers: Vec<Option<Result<Answer, Trouble>>>,
}

/// What all ranks are at.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Doing {
    Making,
    Stepping { rate: f64, update: u64 },
    Evaluating,
    Saving,
}

impl TrainerState {
    pub(super) fn new(args: TrainerArgs, myself: &ActorRef<TrainerMsg>) -> Result<Self, Failure> {
        let settings = course_settings(&args);
        let desk = Desk { folder: args.folder, shelf: args.shelf, packing: args.packing, show: args.show };
        let jobs = clerk::start(desk, myself.clone())
            .map_err(|error| Failure::new(FailureKind::ActorDied, format!("the system gives no thread: {error}")))?;
        Ok(Self {
            course: Course::new(settings, args.saved),
            feed: Store::new(args.feed),
            batch: args.batch,
            held_out: args.held_out,
            update: args.update,
            rate: args.rate,
            budget: RestartBudget::new(args.restarts),
            make: args.make,
            jobs,
            peak_flops: args.peak_flops,
            clock: args.clock,
            over: Some(args.over),
            ticket: 0,
            waits_for_slot: None,
            slot: None,
            ranks: None,
            generation: 0,
            alive: 0,
            gathered: None,
            since_ms: 0,
            lost: None,
            going_on: None,
            saving: None,
            dropping: false,
        })
    }

    /// Tells the course what happened, and carries out what follows.
    pub(super) async fn advance(&mut self, myself: &ActorRef<TrainerMsg>, event: CourseEvent) {
        let mut next = Some(event);
        while let Some(event) = next.take() {
            if let CourseEvent::RankDied(why) = &event {
                self.lost.get_or_insert((self.course.at(), why.clone()));
            }
            if let Some(effect) = self.course.apply(event) {
                next = self.carry_out(myself, effect).await;
            }
        }
    }

    /// Carries an effect out; what is known at once comes back.
    async fn carry_out(&mut self, myself: &ActorRef<TrainerMsg>, effect: CourseEffect) -> Option<CourseEvent> {
        (self.waits_for_slot, self.gathered) = (None, None);
        match effect {
            CourseEffect::MakeRanks => {
                let (ticket, at_ms) = (self.next_ticket(), self.clock.epoch_ms());
                self.ask_clerk(Job::Rewind { ticket, at_ms }).await
            }
            CourseEffect::FormSlot(slot) => self.form(slot).await,
            CourseEffect::Step { update, .. } => {
                let Some(slot) = &self.slot else { return Some(bug("a step without a slot")) };
                let packs = Arc::clone(&slot.packs);
                let rate = (self.rate)((update - 1).saturating_mul(self.batch));
                let UpdateSettings { clip, beta1, beta2, eps, decay } = self.update;
                let told = Update { step: update, rate, clip, beta1, beta2, eps, decay };
                self.order(Doing::Stepping { rate, update }, &Order::Step(packs, told))
            }
            CourseEffect::Evaluate(_) => {
                let packs = Arc::clone(&self.held_out);
                self.order(Doing::Evaluating, &Order::Evaluate(packs))
            }
            CourseEffect::Save(at) => {
                self.since_ms = self.clock.elapsed_ms();
                let ticket = self.next_ticket();
                self.ask_clerk(Job::Begin { ticket, step: at.slots }).await
            }
            CourseEffect::DropRanks { .. } => {
                self.dropping = true;
                self.ranks = None;
                if self.alive == 0 {
                    return Some(self.ranks_are_gone());
                }
                let generation = self.generation;
                myself.send_after(GONE_WITHIN, move || TrainerMsg::GoneOverdue(generation));
                None
            }
            CourseEffect::End(end) => {
                self.end(myself, end).await;
                None
            }
        }
    }

    async fn end(&mut self, myself: &ActorRef<TrainerMsg>, end: CourseEnd) {
        let (reply, closed) = crate::address::reply();
        if self.jobs.send(Job::Close(reply)).await.is_ok() {
            let _clerk_has_ended = closed.await;
        }
        if let Some(over) = self.over.take() {
            over.send(end);
        }
        myself.stop(None);
    }

    async fn form(&mut self, slot: u64) -> Option<CourseEvent> {
        match self.feed.slot(slot) {
            Wanted::NoMore => Some(CourseEvent::NoMoreSlots),
            Wanted::NotYet => {
                self.waits_for_slot = Some(slot);
                None
            }
            Wanted::There(samples) => self.pack(samples).await,
        }
    }

    async fn pack(&mut self, samples: SlotSamples) -> Option<CourseEvent> {
        self.slot = None;
        let ticket = self.next_ticket();
        self.ask_clerk(Job::Form { ticket, samples }).await
    }

    /// Whether the slot that is waited for is there now.
    pub(super) async fn look_for_slot(&mut self, myself: &ActorRef<TrainerMsg>) {
        if let Some(slot) = self.waits_for_slot.take()
            && let Some(event) = self.form(slot).await
        {
            self.advance(myself, event).await;
        }
    }

    pub(super) fn offered(&mut self, sample: Box<Sample>, taken: Reply<Result<(), Failure>>) {
        match &mut self.feed {
            Store::Live(stream) => stream.offer(sample, taken),
            Store::List { .. } => {
                let why = "this trainer has a list to train on and takes no more samples";
                taken.send(Err(Failure::new(FailureKind::Misconfigured, why)));
            }
        }
    }

    pub(super) fn close_feed(&mut self) {
        if let Store::Live(stream) = &mut self.feed {
            stream.close();
        }
    }

    pub(super) fn doom(&self, rank: usize) {
        if let Some(ranks) = &self.ranks {
            ranks.doom(rank);
        }
    }

    fn order(&mut self, doing: Doing, order: &Order) -> Option<CourseEvent> {
        self.since_ms = self.clock.elapsed_ms();
        let Some(ranks) = &self.ranks else { return Some(bug("an order without ranks")) };
        let mut answers = vec![None; ranks.count()];
        for rank in ranks.tell(order) {
            answers[rank] = Some(Err(Trouble::Died("it takes no orders any more".to_owned())));
        }
        self.gathered = Some(Gathered { order: doing, answers });
        None
    }

    /// Starts the threads of a new group.
    fn make_ranks(&mut self, myself: &ActorRef<TrainerMsg>, checkpoint: Option<PathBuf>) -> Option<CourseEvent> {
        let makers = match (self.make)() {
            Ok(makers) if makers.is_empty() => return Some(CourseEvent::Failed("a group without ranks".to_owned())),
            Ok(makers) => makers,
            Err(error) => return Some(CourseEvent::Failed(error.to_string())),
        };
        self.generation += 1;
        let count = makers.len();
        match Ranks::start(self.generation, makers, checkpoint, myself) {
            Ok(ranks) => {
                self.alive = count;
                self.gathered = Some(Gathered { order: Doing::Making, answers: vec![None; count] });
                self.ranks = Some(ranks);
                None
            }
            Err(error) => Some(CourseEvent::Failed(format!("the system gives no thread for a rank: {error}"))),
        }
    }

    /// A rank says something.
    pub(super) async fn heard(&mut self, myself: &ActorRef<TrainerMsg>, generation: u64, rank: usize, news: RankNews) {
        if generation != self.generation {
            return;
        }
        match news {
            RankNews::Gone => {
                self.alive = self.alive.saturating_sub(1);
                if self.dropping && self.alive == 0 {
                    let event = self.ranks_are_gone();
                    self.advance(myself, event).await;
                }
            }
            RankNews::Answered(answer) => {
                let Some(gathered) = &mut self.gathered else { return };
                if let Some(place) = gathered.answers.get_mut(rank) {
                    *place = Some(answer);
                }
                if gathered.answers.iter().all(Option::is_some)
                    && let Some(event) = self.gathered().await
                {
                    self.advance(myself, event).await;
                }
            }
        }
    }

    /// All ranks have answered.
    async fn gathered(&mut self) -> Option<CourseEvent> {
        let Gathered { order, answers } = self.gathered.take()?;
        let mut done = Vec::with_capacity(answers.len());
        let (mut died, mut refused) = (Vec::new(), Vec::new());
        for (rank, answer) in answers.into_iter().flatten().enumerate() {
            match answer {
                Ok(answer) => done.push(answer),
                Err(Trouble::Died(why)) => died.push(format!("rank {rank}: {why}")),
                Err(Trouble::Refused(why)) => refused.push(format!("rank {rank}: {why}")),
            }
        }
        if !died.is_empty() {
            died.append(&mut refused);
            return Some(CourseEvent::RankDied(died.join("; ")));
        }
        if !refused.is_empty() {
            return Some(CourseEvent::Failed(refused.join("; ")));
        }
        match (order, done.as_slice()) {
            (Doing::Making, [Answer::Made, ..]) => {
                let Some((at, is_evaluated)) = self.going_on.take() else {
                    return Some(bug("ranks from nowhere"));
                };
                let begun = self.begun(at);
                self.keep(begun).await;
                Some(CourseEvent::RanksReady { at, is_evaluated })
            }
            (Doing::Stepping { rate, update }, [Answer::Stepped(first), others @ ..]) => {
                let agree = others.iter().all(|other| matches!(other, Answer::Stepped(other) if is_same(first, other)));
                if !agree {
                    return Some(CourseEvent::RankDied(format!("the ranks disagree about a step: {done:?}")));
                }
                let Some(record) = self.step_record(first, rate, update) else {
                    return Some(bug("a step without a slot"));
                };
                self.keep(Record::Step(record)).await;
                Some(CourseEvent::Stepped { updated: first.updated })
            }
            (Doing::Evaluating, [Answer::Evaluated(loss), ..]) => {
                let (at, took_ms, at_ms) = (self.course.at(), self.took_ms(), self.clock.epoch_ms());
                self.keep(Record::Evaluation { at, loss: finite(*loss), took_ms, at_ms }).await;
                Some(CourseEvent::Evaluated)
            }
            (Doing::Saving, [Answer::Saved, ..]) => {
                let Some(begun) = self.saving.take() else { return Some(bug("a checkpoint from nowhere")) };
                let (ticket, at) = (self.next_ticket(), self.course.at());
                self.ask_clerk(Job::Commit { ticket, at, begun }).await
            }
            (order, answers) => Some(CourseEvent::RankDied(format!("{order:?} was answered by {answers:?}"))),
        }
    }

    fn begun(&mut self, at: Progress) -> Record {
        let at_ms = self.clock.epoch_ms();
        match self.lost.take() {
            Some((lost_at, why)) => Record::Recovered { at, lost_at, why, at_ms },
            None => Record::Begun { at, at_ms },
        }
    }

    fn step_record(&self, done: &StepDone, rate: f64, update: u64) -> Option<StepRecord> {
        let slot = self.slot.as_ref()?;
        let took_ms = self.took_ms();
        let available =
            self.peak_flops.map(|peak| peak * took_ms as f64 / 1_000.0).filter(|available| *available > 0.0);
        Some(StepRecord {
            step: self.course.at().slots + 1,
            updates: update - 1 + u64::from(done.updated),
            loss: finite(done.loss),
            rate,
            grad_norm: finite(done.grad_norm),
            updated: done.updated,
            tokens: slot.tokens,
            supervised: slot.supervised,
            padding: slot.padding,
            took_ms,
            flops: slot.flops,
            mfu: slot.flops.zip(available).map(|(flops, available)| flops / available),
            at_ms: self.clock.epoch_ms(),
        })
    }

    /// The clerk has done something, or could not.
    pub(super) async fn clerk_done(
        &mut self,
        myself: &ActorRef<TrainerMsg>,
        ticket: Option<u64>,
        done: Result<Done, String>,
    ) {
        // Records are owed to nobody in particular; a job that was given up is of no interest.
        if ticket.is_some_and(|ticket| ticket != self.ticket) {
            return;
        }
        let event = match done {
            Err(why) => Some(CourseEvent::Failed(why)),
            Ok(Done::Formed(slot)) => {
                self.slot = Some(slot);
                Some(CourseEvent::SlotFormed)
            }
            Ok(Done::Begun(folder)) => {
                let since_ms = self.since_ms;
                self.saving = Some(folder.clone());
                let event = self.order(Doing::Saving, &Order::Save(folder));
                self.since_ms = since_ms;
                event
            }
            Ok(Done::Committed) => {
                let (at, took_ms, at_ms) = (self.course.at(), self.took_ms(), self.clock.epoch_ms());
                self.keep(Record::Checkpoint { at, took_ms, at_ms }).await;
                if let Store::Live(stream) = &mut self.feed {
                    stream.forget_before(at.slots);
                }
                Some(CourseEvent::Saved)
            }
            Ok(Done::Rewound { checkpoint, at, is_evaluated }) => {
                self.going_on = Some((at, is_evaluated));
                self.make_ranks(myself, checkpoint)
            }
        };
        if let Some(event) = event {
            self.advance(myself, event).await;
        }
    }

    /// Threads that do not end keep what they have: nothing can be made beside them.
    pub(super) async fn overdue(&mut self, myself: &ActorRef<TrainerMsg>, generation: u64) {
        if self.dropping && generation == self.generation {
            self.generation += 1;
            let (alive, within) = (std::mem::take(&mut self.alive), GONE_WITHIN.as_secs());
            let why = format!("{alive} ranks did not end within {within} s; end this process and go on with --resume");
            self.advance(myself, CourseEvent::Failed(why)).await;
            let event = self.ranks_are_gone();
            self.advance(myself, event).await;
        }
    }

    fn ranks_are_gone(&mut self) -> CourseEvent {
        self.dropping = false;
        let may_retry = self.lost.is_some() && self.budget.take(self.clock.elapsed_ms());
        CourseEvent::RanksGone { may_retry }
    }

    async fn ask_clerk(&mut self, job: Job) -> Option<CourseEvent> {
        let is_lost = self.jobs.send(job).await.is_err();
        is_lost.then(|| CourseEvent::Failed("the trainer's clerk has ended; see the log for why".to_owned()))
    }

    async fn keep(&mut self, record: Record) {
        // A clerk that has ended is found by the next job that owes an answer.
        let _clerk_has_ended = self.jobs.send(Job::Keep(record)).await;
    }

    fn next_ticket(&mut self) -> u64 {
        self.ticket += 1;
        self.ticket
    }

    fn took_ms(&self) -> u64 {
        self.clock.elapsed_ms().saturating_sub(self.since_ms)
    }
}

/// Ranks of a group meet in every sum, so they agree to the bit, also about what is no number.
fn is_same(one: &StepDone, other: &StepDone) -> bool {
    one.loss.to_bits() == other.loss.to_bits()
        && one.grad_norm.to_bits() == other.grad_norm.to_bits()
        && one.updated == other.updated
}

fn bug(what: &str) -> CourseEvent {
    CourseEvent::Failed(format!("{what}: this is a mistake in legwork, please report it"))
}
