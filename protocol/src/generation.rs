//! What is asked of a model and what it answers, whatever serves it.

use crate::id::{EpisodeKey, Scope};
use crate::message::{Message, ToolCall};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// One call of a model.
#[derive(Clone, Debug)]
pub struct GenerateRequest {
    /// Who asks: `worker`, `coordinator`, `judge`, `gate`. The inference actor routes by it.
    pub route: Route,
    /// Whose conversation this is, for sticky routing and prefix reuse; none for a judge.
    pub session: Option<Session>,
    /// The conversation so far. Shared, so a request costs a pointer a message.
    pub messages: Vec<Arc<Message>>,
    /// Native tools offered, as the OpenAI `tools` list; none for the XML-style grammar.
    pub tools: Option<Arc<serde_json::Value>>,
    /// How to draw.
    pub sampling: Sampling,
    /// How long the caller will wait for the reply once it is being served, in milliseconds.
    pub timeout_ms: u64,
}

/// The part that a model plays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Route {
    /// Plans, delegates, answers.
    Coordinator,
    /// Searches, reads, reports.
    Worker,
    /// Grades answers.
    Judge,
    /// Says STOP or CONTINUE.
    Gate,
}

impl std::fmt::Display for Route {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Route::Coordinator => "coordinator",
            Route::Worker => "worker",
            Route::Judge => "judge",
            Route::Gate => "gate",
        })
    }
}

/// A conversation's identity and the turn within it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Session {
    /// The episode.
    pub episode: EpisodeKey,
    /// The machine within it.
    pub scope: Scope,
    /// The turn of that machine, from 0.
    pub turn: u32,
}

/// How to draw the next tokens.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sampling {
    /// The most new tokens of this call.
    pub max_tokens: u32,
    /// 0 is greedy.
    pub temperature: f32,
    /// Nucleus mass, 1 for all.
    pub top_p: f32,
    /// Only the k likeliest; none for all. Said outright, since servers may apply a default of their own.
    #[serde(default)]
    pub top_k: Option<u32>,
    /// Drawn from the run's seed for each turn where the server takes one.
    #[serde(default)]
    pub seed: Option<u64>,
    /// Strings that end the text.
    #[serde(default)]
    pub stop: Vec<String>,
}

/// A model's answer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Completion {
    /// The text. May be empty only if there are tool calls.
    pub text: String,
    /// Reasoning that the server returned apart from the text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<String>,
    /// Native tool calls.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<ToolCall>,
    /// Why it ended.
    pub finish: FinishReason,
    /// Tokens, as the server counted them.
    pub usage: Usage,
    /// The very ids, where the server gives them: never re-encode.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ids: Option<TokenIds>,
    /// Time being served, in milliseconds, retries included, queueing excluded.
    pub served_ms: u64,
    /// Time spent waiting for a permit or a rate limit, in milliseconds.
    pub queued_ms: u64,
    /// Requests sent for it, at least 1.
    pub attempts: u32,
}

/// Why a completion ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FinishReason {
    /// The model's own end, or a stop string.
    #[default]
    Stop,
    /// `max_tokens` was reached.
    Length,
    /// It ended in native tool calls.
    ToolCalls,
    /// The server's filter cut it.
    ContentFilter,
    /// Anything else the server said.
    Other,
}

/// Tokens of one call. All zero where the server reported none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Tokens of the prompt.
    pub prompt_tokens: u32,
    /// Of these, taken from the server's cache.
    #[serde(default)]
    pub cached_tokens: u32,
    /// New tokens, reasoning included.
    pub completion_tokens: u32,
}

/// Token ids as the server used and made them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TokenIds {
    /// The prompt's ids.
    pub prompt: Vec<u32>,
    /// The completion's ids, end-of-turn token included where it was drawn.
    pub completion: Vec<u32>,
    /// Natural-log probabilities of `completion`, or empty.
    #[serde(default)]
    pub logprobs: Vec<f32>,
}
