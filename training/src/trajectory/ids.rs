//! A token row: the ids of the first prompt, then spans in order, each sampled by the model or injected by the
//! harness, each in the loss or not and why. Nothing was encoded again, so nothing can have drifted.

use super::Metadata;
use crate::jsonl::{Fault, Row};
use serde::{Deserialize, Serialize};

/// Ids of a row at most.
pub const IDS_MAX: usize = 1 << 22;

/// A row of token ids.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IdRow {
    /// The prompt of the first turn, never in the loss.
    pub prompt_ids: Vec<u32>,
    /// What follows, in order.
    pub spans: Vec<Span>,
    /// Where the row comes from.
    #[serde(default)]
    pub metadata: Metadata,
}

/// A stretch of ids with one origin.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Span {
    /// Who made it: a scope such as `worker/0`, or `environment`.
    pub actor: String,
    /// The turn that it belongs to, from 0; an injected span belongs to the turn that it leads to.
    pub turn: u32,
    /// Drawn by the model, or put in.
    pub kind: SpanKind,
    /// The ids.
    pub ids: Vec<u32>,
    /// Natural-log probabilities of sampled ids, or empty where the server gave none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub logprobs: Vec<f32>,
    /// Out of the loss.
    pub masked: bool,
    /// Why it is in the loss or out of it.
    pub why: Why,
}

/// How a span came about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SpanKind {
    /// Drawn by the model.
    Sampled,
    /// Put in by the harness: observations, the template's own tokens.
    Injected,
}

/// Why a span is in the loss or out of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Why {
    /// The model drew it: in the loss.
    Sampled,
    /// The harness put it in: out.
    Injected,
    /// The last report of an episode that was right although this worker was not: out.
    WrongConclusion,
}

impl IdRow {
    /// Ids of all spans and the prompt.
    pub fn ids(&self) -> usize {
        self.prompt_ids.len() + self.spans.iter().map(|span| span.ids.len()).sum::<usize>()
    }

    /// Ids in the loss.
    pub fn supervised(&self) -> usize {
        self.spans.iter().filter(|span| !span.masked).map(|span| span.ids.len()).sum()
    }
}

impl Row for IdRow {
    const WHAT: &'static str = "a token row {prompt_ids, spans: [{actor, turn, kind, ids, masked, why}], metadata?}";

    fn check(&self) -> Result<(), Fault> {
        if self.prompt_ids.is_empty() {
            return Err(Fault::new("prompt_ids", "is empty: a row begins with the ids of its first prompt"));
        }
        if self.ids() > IDS_MAX {
            return Err(Fault::new("spans", format!("hold {} ids, more than {IDS_MAX}: split the row", self.ids())));
        }
        for (place, span) in self.spans.iter().enumerate() {
            span.check().map_err(|(field, problem)| Fault::new(format!("spans[{place}].{field}"), problem))?;
        }
        if self.supervised() == 0 {
            return Err(Fault::new("spans", "hold no id in the loss: remove the row, nothing can be learned from it"));
        }
        Ok(())
    }
}

impl Span {
    fn check(&self) -> Result<(), (&'static str, String)> {
        if self.ids.is_empty() {
            return Err(("ids", "is empty: leave the span out".to_owned()));
        }
        let masked = self.why != Why::Sampled;
        if masked != self.masked {
            return Err(("masked", format!("is {} and `why` says otherwise: make them agree", self.masked)));
        }
        if (self.kind == SpanKind::Injected) != (self.why == Why::Injected) {
            return Err(("why", "does not fit `kind`: injected spans are `injected`, sampled ones are not".to_owned()));
        }
        if !self.logprobs.is_empty() && self.logprobs.len() != self.ids.len() {
            let (got, expected) = (self.logprobs.len(), self.ids.len());
            return Err(("logprobs", format!("must be one for each of {expected} ids, got {got}")));
        }
        if !self.logprobs.iter().all(|logprob| logprob.is_finite()) {
            return Err(("logprobs", "must be finite: leave them out where the server gives none".to_owned()));
        }
        Ok(())
    }
}
