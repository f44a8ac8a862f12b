//! Every reader of foreign bytes that the house has, as a function of bytes that panics where the reader breaks what it
//! promises. The fuzz targets and `tests/corpora.rs` run the same functions.
//!
//! It knows promises only; the wrong inputs are in `corpora/`, one folder a reader.

#[path = "readers/answers.rs"]
pub mod answers;
#[path = "readers/calls.rs"]
pub mod calls;
#[path = "readers/files.rs"]
mod files;
#[path = "readers/grading.rs"]
pub mod grading;
#[path = "readers/ledger.rs"]
pub mod ledger;
#[path = "readers/machines.rs"]
pub mod machines;
#[path = "readers/model.rs"]
pub mod model;
#[path = "readers/retrieval.rs"]
pub mod retrieval;
#[path = "readers/rows.rs"]
pub mod rows;
#[path = "readers/scenarios.rs"]
pub mod scenarios;
#[path = "readers/secrets.rs"]
pub mod secrets;
#[path = "readers/settings.rs"]
pub mod settings;
#[path = "readers/untrusted.rs"]
pub mod untrusted;
#[path = "readers/weights.rs"]
pub mod weights;
#[path = "readers/worlds.rs"]
pub mod worlds;

use std::borrow::Cow;

/// A reader under test.
pub type Reader = fn(&[u8]);

/// Every reader by the name of its target, its corpus folder and its file in `fuzz_targets/`.
pub const READERS: &[(&str, Reader)] = &[
    ("answer_embeddings", answers::embeddings),
    ("answer_events", answers::events),
    ("answer_gemini", answers::gemini),
    ("answer_openai", answers::openai),
    ("answer_openai_stream", answers::openai_stream),
    ("answer_refusal", answers::refusal),
    ("answer_retry_after", answers::retry_after),
    ("answer_search", answers::search),
    ("answer_sglang", answers::sglang),
    ("asked_search", answers::asked_search),
    ("calls_foldagent", calls::foldagent),
    ("calls_native", calls::native),
    ("calls_strict", calls::strict),
    ("grading_exact", grading::exact),
    ("grading_gate", grading::gate),
    ("grading_judgement", grading::judgement),
    ("index_manifest", retrieval::index_manifest),
    ("index_store", retrieval::index_store),
    ("ledger_event", ledger::event),
    ("ledger_file", ledger::file),
    ("ledger_record", ledger::record),
    ("machines_replay", machines::replay),
    ("model_chat", model::chat),
    ("model_config", weights::config),
    ("model_gguf", weights::gguf),
    ("model_index", weights::index),
    ("model_prompt", model::prompt),
    ("model_safetensors", weights::safetensors),
    ("model_special", model::special),
    ("model_template", model::template),
    ("model_tokenizer", model::tokenizer),
    ("retrieval_jsonl", retrieval::jsonl),
    ("retrieval_npy", retrieval::npy),
    ("retrieval_parquet", retrieval::parquet),
    ("retrieval_passages", retrieval::passages),
    ("retrieval_qrels", retrieval::qrels),
    ("retrieval_run", retrieval::run),
    ("retrieval_safetensors", retrieval::safetensors),
    ("retrieval_trec", retrieval::trec),
    ("rows_any", rows::any),
    ("rows_chat", rows::chat),
    ("rows_ids", rows::ids),
    ("rows_parquet", rows::parquet),
    ("scenario_attack", scenarios::attack),
    ("scenario_lines", scenarios::lines),
    ("scenario_server", scenarios::server),
    ("scenario_whole", scenarios::whole),
    ("secrets_redacted", secrets::redacted),
    ("settings_file", settings::file),
    ("settings_script", settings::script),
    ("settings_set", settings::set),
    ("untrusted_text", untrusted::text),
    ("world_browsecomp_plus", worlds::browsecomp_plus),
    ("world_errata", worlds::errata),
    ("world_foldagent", worlds::foldagent),
    ("world_multihop", worlds::multihop),
    ("world_obfuscated", worlds::obfuscated),
    ("world_plain_corpus", worlds::plain_corpus),
    ("world_plain_questions", worlds::plain_questions),
    ("world_qrels", worlds::qrels),
];

/// Bytes as the text that a reader of text would be given.
fn text(bytes: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(bytes)
}

/// The first line, and everything behind it.
fn first_line(text: &str) -> (&str, &str) {
    text.split_once('\n').unwrap_or((text, ""))
}
