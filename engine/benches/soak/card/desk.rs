//! What came for each request of the soak on a card, and whether it may have: one end each, in time, the right number of tokens,
//! canaries as they are known. It remembers requests while they live, and a few answers to ask for again.

use super::traffic::{Ask, Kind};
use super::{GAP_MAX, SHIFT_MAX, SHIFT_MEAN_MAX};
use crate::alone::{Answered, Compared, compare};
use crate::traffic::{Cancel, Dice};
use legwork_engine::{Drawn, Output, Reason, Request, RequestId, Sampling, Usage};
use std::collections::{BTreeMap, BTreeSet};

/// Breaches that are kept in words; all are counted.
const TOLD_MAX: usize = 20;
/// Answers that are asked for again, alone, after the load.
const AGAIN: usize = 24;

/// A request that has ended.
pub(super) struct Ended {
    pub(super) kind: Kind,
    pub(super) prompt: Vec<u32>,
    pub(super) tokens: Vec<u32>,
    pub(super) reason: Reason,
}

/// How answers compare with those given alone.
#[derive(Default)]
struct Agreement {
    whole: usize,
    cut: usize,
    tokens: usize,
    shift: f32,
    /// Sum of the distances of the logarithms of equal tokens' probabilities.
    shifts: f64,
    /// Of answers that took another token, how much less probable it was.
    gaps: Vec<f32>,
}

impl Agreement {
    fn mean(&self) -> f64 {
        self.shifts / self.tokens.max(1) as f64
    }
}

/// The distances of the logarithms of equal tokens' probabilities, up to the first other token.
fn shifts(alone: &Answered, got: &[Drawn]) -> f64 {
    let equal = alone.tokens.iter().zip(got).take_while(|(one, other)| one.id == other.id);
    equal
        .filter_map(|(one, other)| one.logprob.zip(other.logprob))
        .map(|(one, other)| f64::from((one - other).abs()))
        .sum()
}

struct Live {
    ask: Ask,
    since: u64,
    tokens: Vec<Drawn>,
    cancelled: bool,
}

/// Those who live, and what was found.
pub(super) struct Desk {
    known: Vec<Answered>,
    live: BTreeMap<RequestId, Live>,
    dice: Dice,
    again: Vec<Answered>,
    candidates: usize,
    pub(super) steps: u64,
    told: Vec<String>,
    pub(super) breaches: usize,
    accepted: usize,
    ended: BTreeMap<&'static str, usize>,
    kinds: BTreeMap<&'static str, usize>,
    asked_again: usize,
    /// Those who failed with the card, and were answered when they were asked for again.
    failed_then_answered: usize,
    second_time: BTreeSet<RequestId>,
    tokens: u64,
    longest: usize,
    oldest: u64,
    canaries: Agreement,
    afterwards: Agreement,
}

impl Desk {
    pub(super) fn new(known: Vec<Answered>) -> Self {
        Self {
            known,
            live: BTreeMap::new(),
            dice: Dice::new(3),
            again: Vec::new(),
            candidates: 0,
            steps: 0,
            told: Vec::new(),
            breaches: 0,
            accepted: 0,
            ended: BTreeMap::new(),
            kinds: BTreeMap::new(),
            asked_again: 0,
            failed_then_answered: 0,
            second_time: BTreeSet::new(),
            tokens: 0,
            longest: 0,
            oldest: 0,
            canaries: Agreement::default(),
            afterwards: Agreement::default(),
        }
    }

    pub(super) fn alive(&self) -> usize {
        self.live.len()
    }

    pub(super) fn breach(&mut self, what: String) {
        self.breaches += 1;
        if self.told.len() < TOLD_MAX {
            self.told.push(what);
        }
    }

    pub(super) fn take_in(&mut self, ask: Ask) {
        let kind = match ask.kind {
            Kind::Canary(_) => "canary",
            Kind::Turn(_) => "turn of a session",
            Kind::Plain => "other",
        };
        *self.kinds.entry(kind).or_default() += 1;
        self.accepted += 1;
        self.longest = self.longest.max(ask.request.prompt.len());
        let live = Live { since: self.steps, tokens: Vec::new(), cancelled: false, ask };
        self.live.insert(live.ask.request.id, live);
    }

    /// Takes in what a step gave out; gives those that ended. Those who fail with the card live on: they are asked for again.
    pub(super) fn hear(&mut self, out: Vec<Output>, device_failed: bool) -> Vec<Ended> {
        let mut ended = Vec::new();
        for output in out {
            match output {
                Output::Tokens { id, tokens, .. } => match self.live.get_mut(&id) {
                    Some(live) if live.cancelled && !tokens.is_empty() => {
                        self.breach(format!("{id:?} drew a token after it was cancelled"));
                    }
                    Some(live) => live.tokens.extend(tokens),
                    None => self.breach(format!("{id:?} does not live and was given tokens")),
                },
                Output::Done { id, reason: Reason::Failed(_), .. } if device_failed && self.live.contains_key(&id) => {
                    if !self.second_time.insert(id) {
                        self.breach(format!("{id:?} failed twice"));
                    }
                }
                Output::Done { id, reason, usage } => match self.live.remove(&id) {
                    Some(live) => ended.push(self.end(live, reason, usage)),
                    None => self.breach(format!("{id:?} does not live and ended by {reason:?}")),
                },
            }
        }
        ended
    }

    /// No one is past its deadline.
    pub(super) fn look_at_deadlines(&mut self, now_ms: u64) {
        let is_late = |live: &&Live| live.ask.request.deadline_ms.is_some_and(|deadline| deadline <= now_ms);
        let late = self.live.values().filter(is_late).count();
        if late > 0 {
            self.breach(format!("step {}: {late} live past their deadlines", self.steps));
        }
    }

    /// Those whose moment to be cancelled has come.
    pub(super) fn due_to_cancel(&mut self) -> Vec<RequestId> {
        let steps = self.steps;
        let due = |live: &Live| match live.ask.cancel {
            Cancel::Never => false,
            Cancel::AfterSteps(after) => steps - live.since > after,
            Cancel::AfterTokens(after) => live.tokens.len() > after,
        };
        let mut ids = Vec::new();
        for (id, live) in self.live.iter_mut().filter(|(_, live)| !live.cancelled && due(live)) {
            live.cancelled = true;
            ids.push(*id);
        }
        ids
    }

    /// All who live, as they asked first; what they were given is void. Who was cancelled and not told so has ended.
    pub(super) fn all_again(&mut self) -> Vec<Request> {
        let cancelled: Vec<RequestId> =
            self.live.iter().filter(|(_, live)| live.cancelled).map(|(id, _)| *id).collect();
        for id in cancelled {
            self.live.remove(&id);
            *self.ended.entry("cancelled, and the card failed before it was told").or_default() += 1;
        }
        self.asked_again += self.live.len();
        self.live.values_mut().for_each(|live| live.tokens.clear());
        self.live.values().map(|live| live.ask.request.clone()).collect()
    }

    /// One that was to be asked for again and whose deadline had passed.
    pub(super) fn too_late(&mut self, id: RequestId) {
        self.live.remove(&id);
        *self.ended.entry("deadline passed while the card was opened anew").or_default() += 1;
    }

    /// Conversations whose turn still lives.
    pub(super) fn busy(&self) -> BTreeSet<usize> {
        let turn = |live: &Live| match live.ask.kind {
            Kind::Turn(which) => Some(which),
            _ => None,
        };
        self.live.values().filter_map(turn).collect()
    }

    fn end(&mut self, live: Live, reason: Reason, usage: Usage) -> Ended {
        let Live { ask, since, tokens, cancelled } = live;
        let Ask { request: Request { id, sampling, prompt, .. }, kind, .. } = ask;
        self.oldest = self.oldest.max(self.steps - since);
        let name = match &reason {
            Reason::Stop(_) | Reason::StopString(_) => "stop",
            Reason::Length => "length",
            Reason::Cancelled => "cancelled",
            Reason::Deadline => "deadline",
            Reason::Failed(_) => "failed",
        };
        *self.ended.entry(name).or_default() += 1;
        self.failed_then_answered += usize::from(self.second_time.contains(&id) && reason == Reason::Length);
        self.tokens += tokens.len() as u64;
        if (usage.prompt, usage.completion) != (prompt.len(), tokens.len()) || usage.cached >= prompt.len() {
            self.breach(format!("{id:?} of {} and {} tokens was told {usage:?}", prompt.len(), tokens.len()));
        }
        let is_fair = match &reason {
            Reason::Length => tokens.len() == sampling.max_new,
            Reason::Cancelled => cancelled,
            Reason::Deadline => true,
            Reason::Stop(_) | Reason::StopString(_) | Reason::Failed(_) => false,
        };
        if !is_fair || cancelled != (reason == Reason::Cancelled) {
            self.breach(format!("{id:?}, cancelled: {cancelled}, ended by {reason:?} after {} tokens", tokens.len()));
        }
        let ids = tokens.iter().map(|drawn| drawn.id).collect();
        let is_whole = reason == Reason::Length;
        let answer = Answered { prompt, sampling, tokens, reason };
        match kind {
            Kind::Canary(which) => {
                let known = &self.known[which];
                let (compared, shifts) = (compare(known, &answer.tokens), shifts(known, &answer.tokens));
                let what = format!("canary {which}, {id:?} of {} tokens,", answer.prompt.len());
                self.agree(&what, compared, shifts, is_whole, false);
            }
            _ if is_whole && answer.sampling.temperature == 0.0 => self.remember(&answer),
            _ => {}
        }
        Ended { kind, prompt: answer.prompt, tokens: ids, reason: answer.reason }
    }

    /// Keeps some of the answers to ask for again, each with the same chance.
    fn remember(&mut self, answer: &Answered) {
        self.candidates += 1;
        let at = self.dice.below(self.candidates);
        if self.again.len() < AGAIN {
            self.again.push(answer.clone());
        } else if at < AGAIN {
            self.again[at] = answer.clone();
        }
    }

    /// Asks alone what was answered under load.
    pub(super) fn compare_with_alone(&mut self, mut ask: impl FnMut(Vec<u32>, Sampling) -> Answered) {
        for (which, under_load) in std::mem::take(&mut self.again).into_iter().enumerate() {
            let alone = ask(under_load.prompt, under_load.sampling);
            let what = format!("answer {which} to {} tokens, asked for again,", alone.prompt.len());
            let shifts = shifts(&alone, &under_load.tokens);
            self.agree(&what, compare(&alone, &under_load.tokens), shifts, true, true);
        }
    }

    fn agree(&mut self, what: &str, compared: Compared, shifts: f64, is_whole: bool, afterwards: bool) {
        let Compared { equal, gap, shift } = compared;
        let agreement = if afterwards { &mut self.afterwards } else { &mut self.canaries };
        agreement.whole += usize::from(is_whole);
        agreement.cut += usize::from(!is_whole);
        agreement.tokens += equal;
        agreement.shift = agreement.shift.max(shift);
        agreement.shifts += shifts;
        agreement.gaps.extend(gap);
        if gap.is_some_and(|gap| gap > GAP_MAX) || shift > SHIFT_MAX {
            self.breach(format!("{what} left that given alone at token {equal}: gap {gap:?}, logprobs {shift} apart"));
        }
    }

    /// Prints what was found.
    pub(super) fn print(&mut self) {
        let all: usize = self.ended.values().sum();
        for (what, mean) in [("canaries", self.canaries.mean()), ("other answers", self.afterwards.mean())] {
            if mean > SHIFT_MEAN_MAX {
                self.breach(format!(
                    "{what} are {mean:.3} from those known in the mean, as logarithms of probabilities"
                ));
            }
        }
        if all != self.accepted {
            self.breach(format!("{} requests were taken in, {all} ended", self.accepted));
        }
        println!("\n| check | found |\n| --- | --- |");
        println!("| audit of all pages after each step | {} steps |", self.steps);
        println!(
            "| each request one end | {} taken in {:?}, {all} ended {:?} |",
            self.accepted, self.kinds, self.ended
        );
        println!(
            "| longest prompt, oldest request, tokens told | {} tokens, {} steps, {} |",
            self.longest, self.oldest, self.tokens
        );
        println!(
            "| the card failed under {}; {} had heard so, and {} of these were answered in full by the new engine | |",
            self.asked_again,
            self.second_time.len(),
            self.failed_then_answered
        );
        self.agreement("canaries as they were known", &self.canaries);
        self.agreement("other greedy answers, asked for again alone", &self.afterwards);
        for told in &self.told {
            println!("BREACH: {told}");
        }
    }

    fn agreement(&self, what: &str, agreement: &Agreement) {
        let Agreement { whole, cut, tokens, shift, gaps, .. } = agreement;
        let mean = agreement.mean();
        let most = gaps.iter().copied().fold(0.0, f32::max);
        println!(
            "| {what} | {whole} whole answers and {cut} cut short; {tokens} tokens equal, logprobs {mean:.4} apart in the mean (bound {SHIFT_MEAN_MAX}), at most {shift:.3} (bound {SHIFT_MAX}); {} took another token, at most {most:.3} less probable (bound {GAP_MAX}) |",
            gaps.len()
        );
    }
}
