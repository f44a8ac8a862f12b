//! Who asks what of a card, by seeded dice: canaries, turns of sessions, and all sorts, in ids that mean nothing. It refuses to
//! know what comes back, but for the sessions' next turns.

use super::desk::{Desk, Ended};
use crate::traffic::{Cancel, Dice};
use legwork_engine::{Reason, Request, RequestId, Sampling, SessionId};

/// Tokens of a prompt at least.
const PROMPT_MIN: usize = 10;
/// Tokens to come at most.
pub(super) const MAX_NEW: usize = 96;
/// Conversations at once.
const CONVERSATIONS: usize = 28;
/// Tokens of the openings that prompts share, as parts of the longest prompt.
const OPENINGS: [f64; 4] = [0.008, 0.05, 0.1, 0.3];
/// Canaries: tokens of their prompts, as parts of the longest, and which opening they begin with.
const CANARIES: [(f64, Option<usize>); 12] = [
    (0.002, None),
    (0.008, None),
    (0.02, Some(0)),
    (0.04, None),
    (0.07, Some(1)),
    (0.1, None),
    (0.12, Some(1)),
    (0.16, Some(2)),
    (0.25, None),
    (0.4, Some(3)),
    (0.6, Some(3)),
    (1.0, None),
];
/// Of a hundred requests: how many are cancelled unless they end before, and how many have a deadline.
const CANCELS: usize = 33;
const DEADLINES: usize = 10;

/// What bounds the load.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    /// Pages of the cache.
    pub(super) pages: usize,
    /// Tokens of a prompt at most.
    pub(super) prompt_max: usize,
}

/// What a request is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Its answer is known.
    Canary(usize),
    /// The next turn of a conversation.
    Turn(usize),
    /// All sorts.
    Plain,
}

/// A request, what it is for, and when it is cancelled.
#[derive(Clone)]
pub(super) struct Ask {
    pub(super) request: Request,
    pub(super) kind: Kind,
    pub(super) cancel: Cancel,
}

struct Conversation {
    session: u128,
    history: Vec<u32>,
    turns_left: usize,
    busy: bool,
}

/// Those who ask.
pub(super) struct Traffic {
    dice: Dice,
    vocabulary: usize,
    prompt_max: usize,
    openings: Vec<Vec<u32>>,
    references: Vec<(Vec<u32>, Sampling)>,
    conversations: Vec<Conversation>,
    ids: u64,
    sessions: u128,
}

fn ids(dice: &mut Dice, count: usize, vocabulary: usize) -> Vec<u32> {
    (0..count).map(|_| dice.below(vocabulary) as u32).collect()
}

fn greedy(max_new: usize) -> Sampling {
    Sampling { max_new, temperature: 0.0, logprobs: Some(0), ..Sampling::default() }
}

impl Traffic {
    pub(super) fn new(seed: u64, vocabulary: usize, bounds: Bounds) -> Self {
        let prompt_max = bounds.prompt_max;
        let tokens = |part: f64| ((part * prompt_max as f64) as usize).max(PROMPT_MIN);
        let mut dice = Dice::new(11);
        let openings: Vec<Vec<u32>> = OPENINGS.map(|part| ids(&mut dice, tokens(part), vocabulary)).to_vec();
        let references = CANARIES.map(|(part, opening)| {
            let opening = opening.map_or(&[][..], |which| &openings[which]);
            let own = tokens(part).saturating_sub(opening.len()).max(1);
            ([opening, &ids(&mut dice, own, vocabulary)].concat(), greedy(MAX_NEW / 2))
        });
        let mut traffic = Self {
            dice: Dice::new(seed),
            vocabulary,
            prompt_max,
            openings,
            references: references.to_vec(),
            conversations: Vec::new(),
            ids: 0,
            sessions: 0,
        };
        for _ in 0..CONVERSATIONS {
            let fresh = traffic.conversation();
            traffic.conversations.push(fresh);
        }
        traffic
    }

    /// The canaries' prompts.
    pub(super) fn references(&self) -> &[(Vec<u32>, Sampling)] {
        &self.references
    }

    /// Sessions that have ever been.
    pub(super) fn sessions(&self) -> u128 {
        self.sessions
    }

    /// The next request.
    pub(super) fn ask(&mut self, now_ms: u64) -> Ask {
        let (kind, prompt, sampling) = match self.dice.below(100) {
            0..30 => self.canary(),
            30..70 => self.turn(),
            _ => self.plain(),
        };
        let cancel = match (self.dice.below(100) < CANCELS, self.dice.below(2)) {
            (false, _) => Cancel::Never,
            (true, 0) => Cancel::AfterSteps(self.dice.below(150) as u64),
            (true, _) => Cancel::AfterTokens(self.dice.below(sampling.max_new)),
        };
        let deadline_ms = (self.dice.below(100) < DEADLINES).then(|| now_ms + self.dice.between(100, 8_000) as u64);
        let session = match kind {
            Kind::Turn(which) => Some(SessionId(self.conversations[which].session)),
            _ => None,
        };
        self.ids += 1;
        Ask { request: Request { id: RequestId(self.ids), prompt, sampling, deadline_ms, session }, kind, cancel }
    }

    /// A request has ended; gives the session to be released, if it was its last turn or is given up.
    pub(super) fn ended(&mut self, ended: Ended) -> Option<SessionId> {
        let Kind::Turn(which) = ended.kind else { return None };
        let conversation = &mut self.conversations[which];
        conversation.busy = false;
        conversation.turns_left -= 1;
        // A turn that was cut short leaves the conversation as it was.
        if ended.reason == Reason::Length {
            conversation.history = ended.prompt;
            conversation.history.extend(ended.tokens);
        }
        if conversation.turns_left > 0 && conversation.history.len() + MAX_NEW + PROMPT_MIN < self.prompt_max {
            return None;
        }
        let session = SessionId(conversation.session);
        self.conversations[which] = self.conversation();
        // Others forget to say that they will not come back.
        (self.dice.below(100) < 70).then_some(session)
    }

    /// The card failed: conversations whose turn does not live any more go on as they were.
    pub(super) fn forget(&mut self, desk: &Desk) {
        let busy = desk.busy();
        self.conversations.iter_mut().enumerate().for_each(|(which, of)| of.busy = busy.contains(&which));
    }

    fn conversation(&mut self) -> Conversation {
        let session = self.sessions;
        self.sessions += 1;
        let history = match self.dice.below(10) {
            0..6 => self.opening(),
            _ => Vec::new(),
        };
        Conversation { session, history, turns_left: self.dice.between(2, 10), busy: false }
    }

    fn opening(&mut self) -> Vec<u32> {
        self.openings[self.dice.below(self.openings.len())].clone()
    }

    fn canary(&mut self) -> (Kind, Vec<u32>, Sampling) {
        let which = self.dice.below(self.references.len());
        let (prompt, sampling) = self.references[which].clone();
        (Kind::Canary(which), prompt, sampling)
    }

    fn turn(&mut self) -> (Kind, Vec<u32>, Sampling) {
        let free: Vec<usize> = (0..CONVERSATIONS).filter(|which| !self.conversations[*which].busy).collect();
        let Some(which) = free.get(self.dice.below(free.len().max(1))).copied() else { return self.plain() };
        let length = self.conversations[which].history.len();
        let more = self.dice.between(PROMPT_MIN, (self.prompt_max / 20).min(self.prompt_max - length).max(PROMPT_MIN));
        let said = ids(&mut self.dice, more, self.vocabulary);
        self.conversations[which].busy = true;
        let prompt = [self.conversations[which].history.as_slice(), &said].concat();
        let sampling = self.any_sampling();
        (Kind::Turn(which), prompt, sampling)
    }

    /// Prompts of all lengths, each power of two as often as the next.
    fn plain(&mut self) -> (Kind, Vec<u32>, Sampling) {
        let before = if self.dice.below(2) == 0 { self.opening() } else { Vec::new() };
        let room = self.prompt_max - before.len();
        let doublings = (room / PROMPT_MIN).max(1).ilog2() as usize;
        let most = (PROMPT_MIN << self.dice.below(doublings + 1)).min(room);
        let more = self.dice.between(PROMPT_MIN.min(most), (2 * most).min(room));
        let prompt = [before, ids(&mut self.dice, more, self.vocabulary)].concat();
        let sampling = self.any_sampling();
        (Kind::Plain, prompt, sampling)
    }

    /// Half of them greedy, the others by chance in all the ways there are; some of these are drawn on the host.
    fn any_sampling(&mut self) -> Sampling {
        let max_new = self.dice.between(1, MAX_NEW);
        let base = Sampling { max_new, seed: self.ids, ..Sampling::default() };
        match self.dice.below(12) {
            0..6 => greedy(max_new),
            6 => base,
            7..10 => Sampling { temperature: 0.6, top_p: 0.95, ..base },
            10 => Sampling { temperature: 1.3, min_p: 0.05, logprobs: Some(0), ..base },
            _ => Sampling { top_k: Some(40), repetition_penalty: 1.2, logprobs: Some(2), ..base },
        }
    }
}
