//! Who asks what, by seeded dice: prompts of the reference set, secrets, turns of sessions, and all sorts. It refuses to know
//! what comes back, but for the sessions' next turns.

use crate::desk::Ended;
use crate::texts::{Texts, secrets};
use legwork_engine::{Reason, Request, RequestId, Sampling, SessionId, philox};
use std::collections::BTreeSet;

/// Tokens of a prompt at most and at least.
pub(crate) const PROMPT_MAX: usize = 300;
const PROMPT_MIN: usize = 3;
/// Tokens to come at most.
pub(crate) const MAX_NEW: usize = 48;
/// Conversations at once.
const CONVERSATIONS: usize = 24;
/// Of a hundred requests: how many are cancelled unless they end before, and how many have a deadline.
const CANCELS: usize = 40;
const DEADLINES: usize = 10;
/// One in so many requests has one before it that cannot be taken.
const IMPOSSIBLE: usize = 25;

/// Dice: the same seed, the same throws.
pub(crate) struct Dice {
    seed: u64,
    thrown: u64,
}

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self { seed, thrown: 0 }
    }

    /// A number below this.
    pub(crate) fn below(&mut self, sides: usize) -> usize {
        self.thrown += 1;
        (philox::draw(self.seed, self.thrown) % sides as u64) as usize
    }

    pub(crate) fn between(&mut self, least: usize, most: usize) -> usize {
        least + self.below(most - least + 1)
    }

    fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }
}

/// What a request is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Its answer is known.
    Reference(usize),
    /// Its prompt tells a word that nobody else may say.
    Canary(String),
    /// The next turn of a conversation.
    Turn(usize),
    /// All sorts.
    Plain,
}

/// When it is cancelled, if it still lives.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Cancel {
    Never,
    AfterSteps(u64),
    AfterTokens(usize),
}

/// A request, what it is for, and when it is cancelled.
pub(crate) struct Ask {
    pub(crate) request: Request,
    pub(crate) kind: Kind,
    pub(crate) cancel: Cancel,
}

struct Conversation {
    session: u128,
    history: Vec<u32>,
    turns_left: usize,
    busy: bool,
}

/// Those who ask.
pub(crate) struct Traffic {
    dice: Dice,
    texts: Texts,
    references: Vec<(Vec<u32>, Sampling)>,
    stop_ids: Vec<u32>,
    conversations: Vec<Conversation>,
    secrets_in_use: BTreeSet<String>,
    ids: u64,
    sessions: u128,
}

/// The prompts whose answers are computed alone first: short ones, long ones, some with shared openings.
pub(crate) fn references(texts: &Texts, stop_ids: &[u32]) -> Vec<(Vec<u32>, Sampling)> {
    let mut dice = Dice::new(11);
    let lengths = [3, 9, 17, 40, 63, 64, 65, 100, 128, 180, 250, 300];
    let prompt = |(which, length): (usize, usize)| {
        let opening = if which % 2 == 1 && length > 64 { texts.opening(which) } else { &[] };
        let opening = &opening[..opening.len().min(length - 1)];
        [opening, &texts.prose(&mut dice, length - opening.len())].concat()
    };
    let sampling = greedy(MAX_NEW, stop_ids);
    lengths.into_iter().enumerate().map(prompt).map(|prompt| (prompt, sampling.clone())).collect()
}

fn greedy(max_new: usize, stop_ids: &[u32]) -> Sampling {
    let (temperature, logprobs, stop_ids) = (0.0, Some(0), stop_ids.to_vec());
    Sampling { max_new, temperature, logprobs, stop_ids, ..Sampling::default() }
}

impl Traffic {
    pub(crate) fn new(seed: u64, texts: Texts, stop_ids: Vec<u32>) -> Self {
        let references = references(&texts, &stop_ids);
        let secrets_in_use = BTreeSet::new();
        let dice = Dice::new(seed);
        let mut traffic =
            Self { dice, texts, references, stop_ids, conversations: Vec::new(), secrets_in_use, ids: 0, sessions: 0 };
        for _ in 0..CONVERSATIONS {
            let fresh = traffic.conversation();
            traffic.conversations.push(fresh);
        }
        traffic
    }

    /// Requests that run all at once, and that nobody listens to.
    pub(crate) fn warmers(&self, count: usize) -> Vec<Request> {
        let prompt = |index: usize| vec![index as u32 + 100; 20];
        let (deadline_ms, session) = (None, None);
        let id = |index: usize| RequestId(u64::MAX - 1 - index as u64);
        let of =
            |index| Request { id: id(index), prompt: prompt(index), sampling: greedy(12, &[]), deadline_ms, session };
        (0..count).map(of).collect()
    }

    /// Sessions that have ever been.
    pub(crate) fn sessions(&self) -> u128 {
        self.sessions
    }

    /// The next request.
    pub(crate) fn ask(&mut self, now_ms: u64) -> Ask {
        let (kind, prompt, sampling) = match self.dice.below(100) {
            0..20 => self.reference(),
            20..40 => self.canary(),
            40..75 => self.turn(),
            _ => self.plain(),
        };
        let cancel = match (self.dice.chance(CANCELS), self.dice.chance(50)) {
            (false, _) => Cancel::Never,
            (true, true) => Cancel::AfterSteps(self.dice.below(120) as u64),
            (true, false) => Cancel::AfterTokens(self.dice.below(sampling.max_new)),
        };
        let deadline_ms = self.dice.chance(DEADLINES).then(|| now_ms + self.dice.between(200, 40_000) as u64);
        let session = match kind {
            Kind::Turn(which) => Some(SessionId(self.conversations[which].session)),
            _ => None,
        };
        self.ids += 1;
        Ask { request: Request { id: RequestId(self.ids), prompt, sampling, deadline_ms, session }, kind, cancel }
    }

    /// Now and then a request that cannot be taken, and a part of what it must be told.
    pub(crate) fn impossible(&mut self, now_ms: u64, alive: Option<RequestId>) -> Option<(Request, &'static str)> {
        if self.dice.below(IMPOSSIBLE) > 0 {
            return None;
        }
        let (id, sampling) = (RequestId(u64::MAX), greedy(8, &[]));
        let good = Request { id, prompt: vec![1, 2, 3], sampling: sampling.clone(), deadline_ms: None, session: None };
        Some(match (self.dice.below(5), alive) {
            (0, Some(id)) => (Request { id, ..good }, "not done yet"),
            (1, _) => (Request { prompt: Vec::new(), ..good }, "empty"),
            (2, _) => (Request { prompt: vec![5; 10_000], ..good }, "context"),
            (3, _) if now_ms > 0 => (Request { deadline_ms: Some(now_ms - 1), ..good }, "deadline"),
            _ => (Request { sampling: Sampling { top_p: 0.0, ..sampling }, ..good }, "top_p"),
        })
    }

    /// Now and then somebody says of a session that it will not come back, whether it runs, rests or has gone.
    pub(crate) fn gone(&mut self) -> Option<SessionId> {
        let which = self.dice.below(self.sessions as usize) as u128;
        (self.dice.below(100) == 0).then_some(SessionId(which))
    }

    /// A request has ended; gives the session to be released, if it was its last turn or is given up.
    pub(crate) fn ended(&mut self, ended: Ended) -> Option<SessionId> {
        match ended.kind {
            Kind::Canary(word) => drop(self.secrets_in_use.remove(&word)),
            Kind::Turn(which) => return self.turn_ended(which, ended.prompt, &ended.tokens, &ended.reason),
            Kind::Reference(_) | Kind::Plain => {}
        }
        None
    }

    fn turn_ended(&mut self, which: usize, prompt: Vec<u32>, tokens: &[u32], reason: &Reason) -> Option<SessionId> {
        let conversation = &mut self.conversations[which];
        conversation.busy = false;
        conversation.turns_left -= 1;
        // A turn that was cut short leaves the conversation as it was.
        if matches!(reason, Reason::Length | Reason::Stop(_) | Reason::StopString(_)) {
            conversation.history = prompt;
            conversation.history.extend(tokens);
        }
        if conversation.turns_left > 0 && conversation.history.len() + MAX_NEW < PROMPT_MAX {
            return None;
        }
        let session = SessionId(conversation.session);
        self.conversations[which] = self.conversation();
        // Others forget to say that they will not come back.
        self.dice.chance(70).then_some(session)
    }

    fn conversation(&mut self) -> Conversation {
        let session = self.sessions;
        self.sessions += 1;
        let history = match self.dice.chance(60) {
            true => self.texts.opening(self.dice.below(6)).to_vec(),
            false => Vec::new(),
        };
        Conversation { session, history, turns_left: self.dice.between(2, 4), busy: false }
    }

    fn reference(&mut self) -> (Kind, Vec<u32>, Sampling) {
        let which = self.dice.below(self.references.len());
        let (prompt, sampling) = self.references[which].clone();
        (Kind::Reference(which), prompt, sampling)
    }

    fn canary(&mut self) -> (Kind, Vec<u32>, Sampling) {
        let free: Vec<String> = secrets().filter(|word| !self.secrets_in_use.contains(word)).collect();
        let Some(word) = free.get(self.dice.below(free.len().max(1))).cloned() else { return self.plain() };
        self.secrets_in_use.insert(word.clone());
        let secret = self.texts.secret(&word);
        let before = match self.dice.chance(50) {
            true => self.texts.opening(self.dice.below(6)).to_vec(),
            false => Vec::new(),
        };
        let room = PROMPT_MAX - secret.len() - before.len();
        let tokens = self.dice.below(room.min(120) + 1);
        let prompt = [before, self.texts.prose(&mut self.dice, tokens), secret].concat();
        let sampling = greedy(self.dice.between(8, MAX_NEW), &self.stop_ids);
        (Kind::Canary(word), prompt, sampling)
    }

    fn turn(&mut self) -> (Kind, Vec<u32>, Sampling) {
        let free: Vec<usize> = (0..CONVERSATIONS).filter(|which| !self.conversations[*which].busy).collect();
        let Some(which) = free.get(self.dice.below(free.len().max(1))).copied() else { return self.plain() };
        let length = self.conversations[which].history.len();
        let more = self.dice.between(PROMPT_MIN, 40.min(PROMPT_MAX - length));
        let said = self.texts.prose(&mut self.dice, more);
        self.conversations[which].busy = true;
        let prompt = [self.conversations[which].history.as_slice(), &said].concat();
        let max_new = self.dice.between(1, MAX_NEW);
        (
            Kind::Turn(which),
            prompt,
            if self.dice.chance(60) { greedy(max_new, &self.stop_ids) } else { self.drawn(max_new) },
        )
    }

    fn plain(&mut self) -> (Kind, Vec<u32>, Sampling) {
        let before = match self.dice.chance(50) {
            true => self.texts.opening(self.dice.below(6)).to_vec(),
            false => Vec::new(),
        };
        let more = self.dice.between(PROMPT_MIN, PROMPT_MAX - before.len());
        let prompt = [before, self.texts.prose(&mut self.dice, more)].concat();
        let max_new = self.dice.between(1, MAX_NEW);
        (Kind::Plain, prompt, self.drawn(max_new))
    }

    /// Draws by chance, in all the ways there are.
    fn drawn(&mut self, max_new: usize) -> Sampling {
        let seed = self.ids;
        let base = Sampling { max_new, seed, stop_ids: self.stop_ids.clone(), ..Sampling::default() };
        let stop = |stops: &[&str]| stops.iter().map(|stop| (*stop).to_owned()).collect();
        match self.dice.below(6) {
            0 => base,
            1 => Sampling { temperature: 0.7, top_p: 0.9, stop: stop(&[".", "\n\n"]), ..base },
            2 => Sampling { top_k: Some(40), min_p: 0.02, stop: stop(&[" the river", "and", " of the"]), ..base },
            3 => Sampling { repetition_penalty: 1.2, frequency_penalty: 0.5, logprobs: Some(5), ..base },
            4 => Sampling { temperature: 1.6, ignore_stop_ids: true, ..base },
            _ => Sampling { presence_penalty: 0.8, logit_bias: vec![(11, -100.0), (13, 2.0)], ..base },
        }
    }
}
