//! A profile: every constant of an experiment in one value, read from TOML and stored whole in a run's
//! manifest. It knows numbers and switches; it refuses to know endpoints, files and keys.

use crate::budget::Prices;
use crate::call::Grammar;
use serde::{Deserialize, Serialize};

/// Every constant of an experiment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// The profile's name.
    pub name: String,
    /// How calls are read from model text, for workers and coordinators alike.
    pub grammar: Grammar,
    /// The worker's limits and sampling.
    pub worker: WorkerSettings,
    /// The coordinator's kind, limits and sampling.
    pub coordinator: CoordinatorSettings,
    /// What search, open_page and finish do.
    pub tools: ToolSettings,
    /// The STOP gate.
    pub gate: GateSettings,
    /// How answers are graded.
    pub grader: GraderSettings,
    /// How documents are found.
    pub retrieval: RetrievalSettings,
}

/// A worker's limits and sampling.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorkerSettings {
    /// Tokens after the brief's prompt, observations included.
    pub budget_tokens: u64,
    /// Calls of the model.
    pub turns_max: u32,
    /// New tokens of one turn.
    pub turn_tokens_max: u32,
    /// With fewer tokens left than this no turn is asked for.
    pub turn_tokens_min: u32,
    /// Time being served, in milliseconds.
    pub served_max_ms: u64,
    /// Tokens kept back for one last turn that must finish; 0 for no such turn.
    pub wrap_up_tokens: u32,
    /// Earlier thinking stays in the context (the keep-think template) or is cut from it.
    pub keep_thinking: bool,
    /// 0 is greedy.
    pub temperature: f32,
    /// Nucleus mass.
    pub top_p: f32,
    /// Only the k likeliest; absent for all.
    #[serde(default)]
    pub top_k: Option<u32>,
    /// The longest wait for one reply being served, in milliseconds.
    pub turn_timeout_ms: u64,
    /// Tries of one turn whose reply failed in a way that may pass.
    pub turn_attempts_max: u32,
    /// What tokens cost; nothing if absent.
    #[serde(default)]
    pub prices: Prices,
    /// Millionths of a currency unit that may be spent; absent for no limit.
    #[serde(default)]
    pub micros_max: Option<u64>,
}

/// Which mind coordinates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CoordinatorKind {
    /// A model that delegates briefs and answers.
    Model,
    /// The question is the only brief and the report's answer the answer.
    Direct,
    /// FoldAgent's single mind that branches into sub-tasks with its own history and returns.
    Fold,
    /// Written out beforehand.
    Scripted,
}

/// A coordinator's kind, limits and sampling.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CoordinatorSettings {
    /// Which mind coordinates.
    pub kind: CoordinatorKind,
    /// Tokens after the question's prompt, reports included.
    pub budget_tokens: u64,
    /// Calls of the model.
    pub turns_max: u32,
    /// New tokens of one turn.
    pub turn_tokens_max: u32,
    /// With fewer tokens left than this no turn is asked for.
    pub turn_tokens_min: u32,
    /// Time being served, in milliseconds, workers not included.
    pub served_max_ms: u64,
    /// Briefs over the whole episode (`fold`: branches).
    pub briefs_max: u32,
    /// Briefs of one delegation.
    pub briefs_at_once_max: u32,
    /// Tokens lent to all workers of the episode together.
    pub workers_tokens_max: u64,
    /// Reasoning goes back to the model in later turns.
    pub keep_reasoning: bool,
    /// 0 is greedy.
    pub temperature: f32,
    /// Nucleus mass.
    pub top_p: f32,
    /// Only the k likeliest; absent for all.
    #[serde(default)]
    pub top_k: Option<u32>,
    /// The longest wait for one reply being served, in milliseconds.
    pub turn_timeout_ms: u64,
    /// Tries of one turn whose reply failed in a way that may pass.
    pub turn_attempts_max: u32,
    /// What tokens cost; nothing if absent.
    #[serde(default)]
    pub prices: Prices,
    /// Millionths of a currency unit that may be spent; absent for no limit.
    #[serde(default)]
    pub micros_max: Option<u64>,
}

/// Which rules the tools follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolStyle {
    /// FoldAgent's, quirks included.
    Foldagent,
    /// Ours: trimmed ids, clear notices, no quirks.
    Plain,
}

/// What search, open_page and finish do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolSettings {
    /// Which rules the tools follow.
    pub style: ToolStyle,
    /// Entries of a search that names no `topk`.
    pub entries_default: u32,
    /// Entries of a search at most; absent for no limit.
    #[serde(default)]
    pub entries_max: Option<u32>,
    /// Hits asked of the retriever for each search.
    pub server_k: u32,
    /// What an already seen page costs of the entries asked for (a new one costs 1).
    pub seen_cost: f64,
    /// Words of a new page's snippet.
    pub snippet_words_new: u32,
    /// Words of an already seen page's snippet.
    pub snippet_words_seen: u32,
    /// Words of an opened page.
    pub page_words: u32,
    /// A paragraph after each observation that asks to reflect and go on.
    pub reminder: bool,
    /// A word-for-word repeated call is pointed out.
    pub repeat_notice: bool,
    /// A finish before any search is refused once.
    pub must_search: bool,
    /// An answer given without any search is blanked.
    pub blank_without_search: bool,
}

/// Whether a gate is asked, and obeyed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GateMode {
    /// Never asked.
    Off,
    /// Asked, never obeyed.
    Shadow,
    /// Asked and obeyed: STOP brings the wrap-up turn.
    On,
}

/// The STOP gate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GateSettings {
    /// Whether a gate is asked, and obeyed.
    pub mode: GateMode,
    /// New tokens of a decision.
    pub tokens_max: u32,
    /// Characters of each observation that the gate is shown.
    pub observation_chars: u32,
    /// The longest wait for a decision, in milliseconds; later is CONTINUE.
    pub timeout_ms: u64,
}

/// When an answer counts as equal to a gold answer without a judge.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExactRule {
    /// Never: every answer goes to the judge.
    None,
    /// FoldAgent's `em_score`, false positives included.
    Foldagent,
    /// Ours: equal after Unicode, case, punctuation and article folding.
    Strict,
}

/// Which judge is spoken to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JudgeKind {
    /// No judge: what does not match exactly is wrong.
    None,
    /// FoldAgent's fields, more lenient.
    Foldagent,
    /// BrowseComp-Plus' fields.
    Browsecomp,
}

/// How answers are graded.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GraderSettings {
    /// The shortcut before the judge.
    pub exact: ExactRule,
    /// FoldAgent's second chance after a `no` where a looser match holds.
    pub relaxed_second_try: bool,
    /// The judge.
    pub judge: JudgeKind,
    /// Verdicts are read as the published code does, or robustly.
    pub published_parser: bool,
    /// Judge calls while the verdict cannot be read.
    pub attempts_max: u32,
    /// New tokens of a judgement.
    pub tokens_max: u32,
    /// 0 is greedy.
    pub temperature: f32,
    /// The longest wait for a judgement, in milliseconds.
    pub timeout_ms: u64,
}

/// Which parts of the index answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RetrievalMode {
    /// BM25 alone.
    Bm25,
    /// Vectors alone.
    Dense,
    /// Both, fused by reciprocal rank.
    Hybrid,
}

/// How documents are found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RetrievalSettings {
    /// Which parts answer.
    pub mode: RetrievalMode,
    /// BM25's term saturation.
    pub bm25_k1: f32,
    /// BM25's length normalisation.
    pub bm25_b: f32,
    /// The constant of reciprocal rank fusion.
    pub rrf_k: f64,
    /// Ranks taken from BM25.
    pub bm25_depth: u32,
    /// Ranks taken from dense search.
    pub dense_depth: u32,
    /// BM25's weight in the fusion.
    pub bm25_weight: f64,
    /// Dense search's weight in the fusion.
    pub dense_weight: f64,
    /// BM25 may answer alone while the vector server is down; the report says how often it did.
    pub allow_degraded: bool,
    /// What is put before a query for its embedding.
    pub query_prefix: String,
}
