//! What came for each request, and whether it may have: one end each, in time, no word of another's, text that is that of its
//! tokens, answers that are those given alone. It remembers requests while they live, and a few answers to ask for again.

use crate::RUNNING_MAX;
use crate::alone::{Answered, Compared, GAP_MAX, Opened, PAGES, SHIFT_MAX, STEP_ROWS, ask, compare};
use crate::texts::secrets;
use crate::traffic::{Ask, Cancel, Dice, Kind, MAX_NEW, PROMPT_MAX};
use legwork_engine::{Drawn, Output, Reason, RequestId, Usage};
use legwork_kernels::PAGE_TOKENS;
use legwork_model::Tokenizer;
use std::collections::BTreeMap;

/// Breaches that are kept in words; all are counted.
const TOLD_MAX: usize = 20;
/// Answers that are asked for again, alone, after the load.
const AGAIN: usize = 24;
/// As many of the largest requests as the pages hold.
const AT_ONCE_MIN: usize = PAGES / (PROMPT_MAX + MAX_NEW).div_ceil(PAGE_TOKENS);

/// A request that has ended.
pub(crate) struct Ended {
    pub(crate) kind: Kind,
    pub(crate) prompt: Vec<u32>,
    pub(crate) tokens: Vec<u32>,
    pub(crate) reason: Reason,
}

/// How answers compare with those given alone.
#[derive(Default)]
pub(crate) struct Agreement {
    pub(crate) whole: usize,
    pub(crate) cut: usize,
    pub(crate) tokens: usize,
    pub(crate) shift: f32,
    /// Of answers that took another token: where, and how close it was.
    pub(crate) others: Vec<(usize, f32)>,
}

struct Live {
    ask: Ask,
    since: u64,
    /// The step in which it has ended at the latest.
    due: u64,
    tokens: Vec<Drawn>,
    text: String,
    cancelled: bool,
}

/// Those who live, and what was found.
pub(crate) struct Desk {
    tokenizer: Tokenizer,
    stop_ids: Vec<u32>,
    references: Vec<Answered>,
    live: BTreeMap<RequestId, Live>,
    dice: Dice,
    again: Vec<Answered>,
    candidates: usize,
    pub(crate) steps: u64,
    pub(crate) told: Vec<String>,
    pub(crate) breaches: usize,
    pub(crate) ended: BTreeMap<&'static str, usize>,
    pub(crate) kinds: BTreeMap<&'static str, usize>,
    pub(crate) oldest: u64,
    /// The greatest part of the steps that it might live that a request has lived.
    pub(crate) closest: f64,
    pub(crate) ages: u64,
    pub(crate) searched: usize,
    pub(crate) said_own: usize,
    pub(crate) cancels_asked: usize,
    pub(crate) under_load: Agreement,
    pub(crate) afterwards: Agreement,
}

impl Desk {
    pub(crate) fn new(tokenizer: Tokenizer, stop_ids: Vec<u32>, references: Vec<Answered>) -> Self {
        Self {
            tokenizer,
            stop_ids,
            references,
            live: BTreeMap::new(),
            dice: Dice::new(3),
            again: Vec::new(),
            candidates: 0,
            steps: 0,
            told: Vec::new(),
            breaches: 0,
            ended: BTreeMap::new(),
            kinds: BTreeMap::new(),
            oldest: 0,
            closest: 0.0,
            ages: 0,
            searched: 0,
            said_own: 0,
            cancels_asked: 0,
            under_load: Agreement::default(),
            afterwards: Agreement::default(),
        }
    }

    pub(crate) fn alive(&self) -> usize {
        self.live.len()
    }

    pub(crate) fn any_alive(&self) -> Option<RequestId> {
        self.live.keys().next().copied()
    }

    /// Prompts whose answers were computed alone first.
    pub(crate) fn references(&self) -> usize {
        self.references.len()
    }

    pub(crate) fn breach(&mut self, what: String) {
        self.breaches += 1;
        if self.told.len() < TOLD_MAX {
            self.told.push(what);
        }
    }

    pub(crate) fn take_in(&mut self, ask: Ask) {
        let kind = match ask.kind {
            Kind::Reference(_) => "reference",
            Kind::Canary(_) => "canary",
            Kind::Turn(_) => "turn of a session",
            Kind::Plain => "other",
        };
        *self.kinds.entry(kind).or_default() += 1;
        let due = self.steps + self.steps_at_most(&ask);
        let live = Live { since: self.steps, due, tokens: Vec::new(), text: String::new(), cancelled: false, ask };
        self.live.insert(live.ask.request.id, live);
    }

    /// Takes in what a step gave out; gives those that ended.
    pub(crate) fn hear(&mut self, out: Vec<Output>) -> Vec<Ended> {
        let mut ended = Vec::new();
        for output in out {
            match output {
                Output::Tokens { id, tokens, text } => match self.live.get_mut(&id) {
                    Some(live) if live.cancelled && !tokens.is_empty() => {
                        self.breach(format!("{id:?} drew a token after it was cancelled"));
                    }
                    Some(live) => {
                        live.tokens.extend(tokens);
                        live.text.push_str(&text);
                    }
                    None => self.breach(format!("{id:?} does not live and was given {text:?}")),
                },
                Output::Done { id, reason, usage } => match self.live.remove(&id) {
                    Some(live) => ended.push(self.end(live, reason, usage)),
                    None => self.breach(format!("{id:?} does not live and ended by {reason:?}")),
                },
            }
        }
        ended
    }

    /// Steps that a request that comes now may live. It and those before it read their prompts with the rows that those who
    /// generate leave, and twice, for what is set back or forgotten; and of those before it at least [`AT_ONCE_MIN`]
    /// generate at once, a token in each step.
    fn steps_at_most(&self, ask: &Ask) -> u64 {
        let sizes = |ask: &Ask| (ask.request.prompt.len(), ask.request.sampling.max_new);
        let (prompt, max_new) = sizes(ask);
        let before = self.live.values().map(|live| sizes(&live.ask));
        let (prompts, to_come) = before.fold((prompt, 0), |sum, next| (sum.0 + next.0 + next.1, sum.1 + next.1));
        ((2 * prompts).div_ceil(STEP_ROWS - RUNNING_MAX) + to_come.div_ceil(AT_ONCE_MIN) + max_new) as u64
    }

    /// The last step in which one of those who live may end.
    pub(crate) fn last_due(&self) -> u64 {
        self.live.values().map(|live| live.due).max().unwrap_or(self.steps)
    }

    /// No one is too old, or past its deadline.
    pub(crate) fn look_at_ages(&mut self, now_ms: u64) {
        let too_old = |live: &&Live| self.steps > live.due;
        let is_late = |live: &&Live| live.ask.request.deadline_ms.is_some_and(|deadline| deadline <= now_ms);
        let (old, late) = (self.live.values().filter(too_old).count(), self.live.values().filter(is_late).count());
        if old + late > 0 {
            self.breach(format!("step {}: {old} beyond their last step, {late} past a deadline", self.steps));
        }
    }

    /// Those whose moment to be cancelled has come.
    pub(crate) fn due_to_cancel(&mut self) -> Vec<RequestId> {
        let steps = self.steps;
        let due = |live: &Live| match live.ask.cancel {
            Cancel::Never => false,
            Cancel::AfterSteps(after) => steps - live.since > after,
            Cancel::AfterTokens(after) => live.tokens.len() > after,
        };
        let mut ids = Vec::new();
        for (id, live) in self.live.iter_mut().filter(|(_, live)| due(live)) {
            live.cancelled = true;
            ids.push(*id);
        }
        self.cancels_asked += ids.len();
        ids
    }

    fn end(&mut self, live: Live, reason: Reason, usage: Usage) -> Ended {
        let Live { ask, since, due, tokens, text, cancelled } = live;
        let age = self.steps - since;
        self.closest = self.closest.max(age as f64 / (due - since) as f64);
        (self.oldest, self.ages) = (self.oldest.max(age), self.ages + age);
        let name = match &reason {
            Reason::Stop(_) => "stop token",
            Reason::StopString(_) => "stop string",
            Reason::Length => "length",
            Reason::Cancelled => "cancelled",
            Reason::Deadline => "deadline",
            Reason::Failed(_) => "failed",
        };
        *self.ended.entry(name).or_default() += 1;
        let (id, sampling, prompt) = (ask.request.id, ask.request.sampling, ask.request.prompt);
        let ids: Vec<u32> = tokens.iter().map(|drawn| drawn.id).collect();
        if (usage.prompt, usage.completion) != (prompt.len(), ids.len()) || usage.cached >= prompt.len() {
            self.breach(format!("{id:?} of {} and {} tokens was told {usage:?}", prompt.len(), ids.len()));
        }
        if cancelled != (reason == Reason::Cancelled) {
            self.breach(format!("{id:?}, cancelled: {cancelled}, ended by {reason:?}"));
        }
        let is_fair = match &reason {
            Reason::Stop(id) => ids.last() == Some(id) && self.stop_ids.contains(id),
            Reason::StopString(stop) => sampling.stop.contains(stop) && !text.contains(stop),
            Reason::Length => ids.len() == sampling.max_new,
            _ => true,
        };
        if !is_fair {
            self.breach(format!("{id:?} ended by {reason:?} after {} tokens and {text:?}", ids.len()));
        }
        self.check_text(id, &ids, &text, sampling.stop.is_empty(), &reason);
        self.check_words(id, &ask.kind, &text);
        let is_whole = matches!(reason, Reason::Stop(_) | Reason::Length);
        let answer = Answered { prompt, sampling, tokens, reason };
        match ask.kind {
            Kind::Reference(which) => {
                let compared = compare(&self.references[which], &answer.tokens);
                let whole = is_whole.then(|| self.references[which].reason == answer.reason);
                self.agree(&format!("reference {which}"), compared, whole, false);
            }
            _ if is_whole && answer.sampling.temperature == 0.0 => self.remember(&answer),
            _ => {}
        }
        Ended { kind: ask.kind, prompt: answer.prompt, tokens: ids, reason: answer.reason }
    }

    /// The text is that of the tokens.
    fn check_text(&mut self, id: RequestId, ids: &[u32], text: &str, is_whole: bool, reason: &Reason) {
        let spoken = if matches!(reason, Reason::Stop(_)) { &ids[..ids.len() - 1] } else { ids };
        let expected = self.tokenizer.decode(spoken, true).unwrap();
        if if is_whole { expected != text } else { !expected.starts_with(text) } {
            self.breach(format!("{id:?} said {text:?}, its tokens {expected:?}"));
        }
    }

    /// Nobody says a secret that is not in its prompt.
    fn check_words(&mut self, id: RequestId, kind: &Kind, text: &str) {
        self.searched += 1;
        let text = text.to_lowercase();
        for word in secrets().filter(|word| text.contains(word)) {
            match kind {
                Kind::Canary(own) if *own == word => self.said_own += 1,
                _ => self.breach(format!("{id:?} ({kind:?}) said `{word}`, a secret of another")),
            }
        }
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

    /// Asks a fresh engine, alone, what was answered under load.
    pub(crate) fn compare_with_alone(&mut self, opened: &Opened) {
        let mut engine = opened.lonely();
        for (which, under_load) in std::mem::take(&mut self.again).into_iter().enumerate() {
            let alone = ask(&mut engine, under_load.prompt, under_load.sampling);
            let compared = compare(&alone, &under_load.tokens);
            self.agree(
                &format!("answer {which}, asked for again,"),
                compared,
                Some(alone.reason == under_load.reason),
                true,
            );
        }
    }

    /// Counts a comparison, of a whole answer with whether its end is the same.
    fn agree(&mut self, what: &str, compared: Compared, whole: Option<bool>, afterwards: bool) {
        let Compared { equal, gap, shift } = compared;
        let agreement = if afterwards { &mut self.afterwards } else { &mut self.under_load };
        agreement.whole += usize::from(whole.is_some());
        agreement.cut += usize::from(whole.is_none());
        agreement.tokens += equal;
        agreement.shift = agreement.shift.max(shift);
        agreement.others.extend(gap.map(|gap| (equal, gap)));
        if gap.is_some_and(|gap| gap > GAP_MAX) || shift > SHIFT_MAX {
            self.breach(format!("{what} left that given alone at token {equal}: gap {gap:?}, logprobs {shift} apart"));
        }
        if gap.is_none() && whole == Some(false) {
            self.breach(format!("{what} ended another way than alone, after {equal} equal tokens"));
        }
    }
}
