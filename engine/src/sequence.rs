//! One request on its way: its tokens, how many of them are computed and in which pages, and the text that is certain. It
//! refuses to know other requests.

use crate::chain::{Key, ROOT};
use crate::request::{Reason, Request, RequestId, SessionId, Usage};
use crate::sampler::Seen;
use crate::sampling::Sampling;
use crate::speech::{Decode, Speech};
use crate::stop::{Heard, StopText};
use legwork_kernels::PAGE_TOKENS;

/// One request on its way.
pub(crate) struct Sequence {
    pub(crate) id: RequestId,
    pub(crate) sampling: Sampling,
    pub(crate) deadline_ms: Option<u64>,
    pub(crate) session: Option<SessionId>,
    /// Prompt and drawn tokens.
    pub(crate) tokens: Vec<u32>,
    prompt: usize,
    /// Tokens whose keys and values are in its pages.
    pub(crate) computed: usize,
    /// The most that `computed` has been, so that what is computed again after a setback is not told as cached.
    reached: usize,
    cached: usize,
    pub(crate) pages: Vec<u32>,
    /// Names of its full pages.
    pub(crate) keys: Vec<Key>,
    /// Whether it has ever run.
    pub(crate) has_begun: bool,
    pub(crate) seen: Seen,
    decoder: Option<Box<dyn Decode>>,
    stop: StopText,
}

/// Pages of this many tokens.
pub(crate) fn pages_of(tokens: usize) -> usize {
    tokens.div_ceil(PAGE_TOKENS)
}

impl Sequence {
    pub(crate) fn new(request: Request, speech: Option<&dyn Speech>) -> Self {
        let Request { id, prompt, sampling, deadline_ms, session } = request;
        Self {
            id,
            deadline_ms,
            session,
            prompt: prompt.len(),
            computed: 0,
            reached: 0,
            cached: 0,
            pages: Vec::new(),
            keys: Vec::new(),
            has_begun: false,
            seen: Seen::new(&prompt, &sampling),
            decoder: speech.map(|speech| speech.decoder()),
            stop: StopText::new(&sampling.stop),
            tokens: prompt,
            sampling,
        }
    }

    pub(crate) fn prompt_tokens(&self) -> usize {
        self.prompt
    }

    /// Tokens drawn so far.
    pub(crate) fn drawn(&self) -> usize {
        self.tokens.len() - self.prompt
    }

    /// Tokens that are not computed yet, at least 1.
    pub(crate) fn missing(&self) -> usize {
        self.tokens.len() - self.computed
    }

    /// Whether a step with so many rows of it computes its last token, and so draws the next.
    pub(crate) fn is_wanted(&self, rows: usize) -> bool {
        rows > 0 && self.computed + rows == self.tokens.len()
    }

    /// Pages for what is there and for `reserve` tokens to come, no more than may come. The last one is never computed.
    pub(crate) fn pages_ahead(&self, reserve: usize) -> usize {
        pages_of((self.prompt + self.sampling.max_new - 1).min(self.tokens.len().saturating_add(reserve)))
    }

    /// Pages that may be taken over: full ones before that of the last token.
    pub(crate) fn pages_shareable(&self) -> usize {
        ((self.tokens.len() - 1) / PAGE_TOKENS).min(self.keys.len())
    }

    /// Name, name before and tokens of a page whose name is known.
    pub(crate) fn page(&self, index: usize) -> (Key, Key, &[u32]) {
        let parent = if index == 0 { ROOT } else { self.keys[index - 1] };
        (self.keys[index], parent, &self.tokens[index * PAGE_TOKENS..(index + 1) * PAGE_TOKENS])
    }

    /// Takes over a computed page; gives how many tokens of the prompt that saved, for the first time.
    pub(crate) fn take_over(&mut self, page: u32) -> usize {
        self.pages.push(page);
        let before = self.reached.min(self.prompt);
        self.advance(PAGE_TOKENS);
        let saved = self.reached.min(self.prompt) - before;
        self.cached += saved;
        saved
    }

    /// So many tokens more are computed.
    pub(crate) fn advance(&mut self, rows: usize) {
        self.computed += rows;
        self.reached = self.reached.max(self.computed);
    }

    /// Back to the beginning; what was drawn stays drawn. Gives the pages that it held.
    pub(crate) fn set_back(&mut self) -> Vec<u32> {
        self.computed = 0;
        std::mem::take(&mut self.pages)
    }

    /// Takes in a drawn token; gives the text that became certain and the end, if this is it.
    pub(crate) fn hear(&mut self, id: u32) -> (String, Option<Reason>) {
        self.tokens.push(id);
        self.seen.draw(id, &self.sampling);
        if !self.sampling.ignore_stop_ids && self.sampling.stop_ids.contains(&id) {
            return (String::new(), Some(Reason::Stop(id)));
        }
        let piece = self.decoder.as_mut().map(|decoder| decoder.push(id)).unwrap_or_default();
        match self.stop.push(&piece) {
            Heard::End { text, stop } => {
                self.decoder = None;
                (text, Some(Reason::StopString(stop)))
            }
            Heard::More(text) => (text, (self.drawn() == self.sampling.max_new).then_some(Reason::Length)),
        }
    }

    /// The text that is still owed at an end, and the end: of one by length, this text may still come to a stop string.
    pub(crate) fn finish(&mut self, reason: Reason) -> (String, Reason) {
        let Some(mut decoder) = self.decoder.take() else { return (String::new(), reason) };
        match self.stop.push(&decoder.finish()) {
            Heard::End { text, stop } if reason == Reason::Length => (text, Reason::StopString(stop)),
            Heard::End { text, .. } => (text, reason),
            Heard::More(text) => (text + &self.stop.finish(), reason),
        }
    }

    pub(crate) fn usage(&self) -> Usage {
        Usage { prompt: self.prompt, cached: self.cached, completion: self.drawn() }
    }
}
