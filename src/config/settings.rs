//! What a resolved configuration says, typed. A key that nothing reads is an error that names the nearest one.

use super::layers::nearest_of;
use super::{ConfigError, Resolved};
use legwork_actors::local::LocalSettings;
use legwork_actors::stage::RunLimits;
use legwork_endpoints::EndpointConfig;
use legwork_endpoints::search::SearchConfig;
use legwork_protocol::generation::Route;
use legwork_protocol::profile::Profile;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// A whole configuration.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The experiment's constants.
    pub profile: Profile,
    /// The world asked of.
    pub world: WorldSettings,
    /// Who plays which model.
    pub models: BTreeMap<Route, ModelSettings>,
    /// What embeds queries and documents.
    pub embedder: Option<EmbedderSettings>,
    /// Tokenizers that count.
    pub tokenizers: TokenizerSettings,
    /// Where documents are found.
    pub index: IndexSettings,
    /// Who plays which role.
    pub cast: CastSettings,
    /// How it is carried out.
    pub run: RunSettings,
}

/// A world: a corpus with its questions.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum WorldSettings {
    /// The generated archive.
    Archive {
        /// The seed it grows from.
        seed: u64,
    },
    /// A folder with corpus.jsonl, train.jsonl and test.jsonl in the multihop form.
    Multihop {
        /// The folder.
        path: PathBuf,
        /// Take corpus_extra.jsonl in as well.
        #[serde(default)]
        extra: bool,
    },
    /// BrowseComp-Plus.
    BrowsecompPlus {
        /// The question file, decrypted or obfuscated.
        questions: PathBuf,
        /// The corpus, JSONL or parquet.
        corpus: PathBuf,
        /// The file that holds the canary, for the obfuscated form.
        #[serde(default)]
        canary_file: Option<PathBuf>,
        /// Qrels of gold documents.
        #[serde(default)]
        gold_qrels: Option<PathBuf>,
        /// Qrels of evidence documents.
        #[serde(default)]
        evidence_qrels: Option<PathBuf>,
    },
    /// FoldAgent's parquet of questions.
    Foldagent {
        /// The parquet file.
        questions: PathBuf,
        /// The corpus; absent where a search server holds it.
        #[serde(default)]
        corpus: Option<PathBuf>,
    },
    /// Questions in legwork's own JSONL.
    Plain {
        /// The questions.
        questions: PathBuf,
        /// The corpus; absent where a search server holds it.
        #[serde(default)]
        corpus: Option<PathBuf>,
    },
}

/// Who plays a model.
#[derive(Clone, Debug, Serialize)]
#[serde(untagged)]
pub enum ModelSettings {
    /// A mock, and said so.
    Mock(MockSettings),
    /// A model in this process.
    Local(Box<LocalModelSettings>),
    /// A served model.
    Endpoint(Box<EndpointConfig>),
}

/// A model in this process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LocalModelSettings {
    /// A Hugging Face folder, a GGUF file, or a folder with one.
    pub local: PathBuf,
    /// Its engine.
    #[serde(default)]
    pub engine: LocalSettings,
}

/// What embeds queries and documents.
#[derive(Clone, Debug, Serialize)]
#[serde(untagged)]
pub enum EmbedderSettings {
    /// A sentence encoder in this process.
    Local(LocalEmbedderSettings),
    /// A served model.
    Endpoint(Box<EndpointConfig>),
}

/// A sentence encoder in this process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LocalEmbedderSettings {
    /// Its folder, as sentence-transformers writes it.
    pub local: PathBuf,
    /// Tokens of a text at most; less where the model says so.
    #[serde(default = "embedded_tokens_max")]
    pub tokens_max: usize,
}

fn embedded_tokens_max() -> usize {
    legwork_model::EmbedSettings::default().tokens_max
}

/// A mock model.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MockSettings {
    /// `oracle`, `teacher`, `trail`, `instant`, `believing` or `comparing`.
    pub mock: String,
    /// The oracle's skill: `novice`, `trained` or `perfect`.
    #[serde(default)]
    pub skill: Option<String>,
    /// Milliseconds that it takes for each answer.
    #[serde(default)]
    pub latency_ms: u64,
    /// Turns of the instant mock.
    #[serde(default)]
    pub turns: Option<u32>,
}

/// Tokenizers that count; without one a stated rule does.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TokenizerSettings {
    /// The worker's tokenizer.json.
    pub worker: Option<PathBuf>,
    /// The coordinator's tokenizer.json.
    pub coordinator: Option<PathBuf>,
}

/// Where documents are found.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IndexSettings {
    /// An index built before; without one it is built from the world's corpus into `cache`.
    #[serde(default)]
    pub folder: Option<PathBuf>,
    /// Where indexes are built by the way.
    pub cache: PathBuf,
    /// Searching threads.
    pub threads: usize,
    /// A search server that speaks FoldAgent's protocol; then no index is used.
    #[serde(default)]
    pub server: Option<SearchConfig>,
    /// A Qdrant server that holds the vectors.
    #[serde(default)]
    pub qdrant: Option<QdrantServer>,
}

/// A Qdrant server.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QdrantServer {
    /// Its gRPC address, such as `http://127.0.0.1:6334`.
    pub url: String,
    /// The collection.
    pub collection: String,
    /// The environment variable that holds the key.
    #[serde(default)]
    pub key_env: Option<String>,
}

/// Who plays which role: the real actor or a mock.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CastSettings {
    /// `mind`, `scripted:FILE.toml`, or `mock:FILE.toml`, an actor of its own that moves as its lines say.
    pub coordinator: String,
    /// `model`, or `mock:oracle`, which reports the gold answer at once.
    pub worker: String,
    /// `library`, `mock:gold`, which finds what a question needs, or `mock:fixed`.
    pub retriever: String,
    /// `grader`, `mock:correct`, `mock:wrong` or `mock:silent`.
    pub grader: String,
    /// `gate`, `mock:stop`, `mock:continue`, or `mock:knowing:RATE`, which is right about when to stop so often.
    pub gate: String,
}

/// How a run is carried out.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunSettings {
    /// Where runs are kept.
    pub folder: PathBuf,
    /// Where every draw comes from.
    pub seed: u64,
    /// Passes over the questions.
    pub rounds: u32,
    /// `test`, `train`, or `lookups`: the single steps of the training questions.
    pub split: String,
    /// The first so many questions of each tier; absent for all.
    #[serde(default)]
    pub questions_per_tier: Option<usize>,
    /// The first so many questions; absent for all.
    #[serde(default)]
    pub questions: Option<usize>,
    /// Only these tiers; absent for all.
    #[serde(default)]
    pub tiers: Option<Vec<String>>,
    /// Resamples of every bootstrap in reports.
    pub resamples: u32,
    /// Limits of carrying it out.
    pub limits: RunLimits,
}

const PROFILE_KEYS: [&str; 8] = ["name", "grammar", "worker", "coordinator", "tools", "gate", "grader", "retrieval"];
const OTHER_KEYS: [&str; 7] = ["world", "models", "embedder", "tokenizers", "index", "cast", "run"];

impl Settings {
    /// Reads the settings.
    ///
    /// # Errors
    /// An unknown key or a value that cannot be, with the layer it came from.
    pub fn read(resolved: &Resolved) -> Result<Self, ConfigError> {
        let known: Vec<&str> = PROFILE_KEYS.iter().chain(&OTHER_KEYS).copied().collect();
        if let Some(key) = resolved.table.keys().find(|key| !known.contains(&key.as_str())) {
            return Err(ConfigError::UnknownKey {
                origin: resolved.origin_of(key),
                near: nearest_of(key, known.iter().copied()),
                key: key.clone(),
                expected: known.join(", "),
            });
        }
        let profile: toml::Table = resolved
            .table
            .iter()
            .filter(|(key, _)| PROFILE_KEYS.contains(&key.as_str()))
            .map(|(k, v)| (k.clone(), v.clone()))
            .collect();
        let section = |name: &str| resolved.table.get(name).cloned();
        let empty = || toml::Value::Table(toml::Table::new());
        Ok(Self {
            profile: read_profile(resolved, profile)?,
            world: read(resolved, "world", section("world").unwrap_or_else(empty))?,
            models: read_models(resolved, section("models").unwrap_or_else(empty))?,
            embedder: section("embedder").map(|value| read_embedder(resolved, value)).transpose()?,
            tokenizers: read(resolved, "tokenizers", section("tokenizers").unwrap_or_else(empty))?,
            index: read(resolved, "index", section("index").unwrap_or_else(empty))?,
            cast: read(resolved, "cast", section("cast").unwrap_or_else(empty))?,
            run: read(resolved, "run", section("run").unwrap_or_else(empty))?,
        })
    }
}

fn read_profile(resolved: &Resolved, table: toml::Table) -> Result<Profile, ConfigError> {
    read(resolved, "", toml::Value::Table(table))
}

fn read_models(resolved: &Resolved, value: toml::Value) -> Result<BTreeMap<Route, ModelSettings>, ConfigError> {
    let table: BTreeMap<Route, toml::Value> = read(resolved, "models", value)?;
    let mut models = BTreeMap::new();
    for (route, value) in table {
        let section = format!("models.{route}");
        let model = if value.get("mock").is_some() {
            ModelSettings::Mock(read(resolved, &section, value)?)
        } else if value.get("local").is_some() {
            ModelSettings::Local(Box::new(read(resolved, &section, value)?))
        } else {
            ModelSettings::Endpoint(Box::new(read(resolved, &section, value)?))
        };
        models.insert(route, model);
    }
    Ok(models)
}

fn read_embedder(resolved: &Resolved, value: toml::Value) -> Result<EmbedderSettings, ConfigError> {
    Ok(match value.get("local") {
        Some(_) => EmbedderSettings::Local(read(resolved, "embedder", value)?),
        None => EmbedderSettings::Endpoint(Box::new(read(resolved, "embedder", value)?)),
    })
}

fn read<T: DeserializeOwned>(resolved: &Resolved, section: &str, value: toml::Value) -> Result<T, ConfigError> {
    value.try_into().map_err(|error: toml::de::Error| explain(resolved, section, error.message()))
}

/// Turns serde's word on an unknown field into ours, with the nearest key.
fn explain(resolved: &Resolved, section: &str, message: &str) -> ConfigError {
    let quoted: Vec<&str> = message.split('`').skip(1).step_by(2).collect();
    if let (Some(key), true) = (quoted.first(), message.starts_with("unknown field")) {
        let expected: Vec<&str> = quoted[1..].to_vec();
        let below = format!("{section}.");
        let within = |known: &str| section.is_empty() || known.starts_with(&below);
        let named = |known: &str| known.split('.').any(|part| part == *key);
        let origin = resolved.origins.iter().find(|(known, _)| within(known) && named(known));
        return ConfigError::UnknownKey {
            origin: origin.map_or_else(|| resolved.origin_of(section), |(_, origin)| origin.to_string()),
            near: nearest_of(key, expected.iter().copied()),
            key: origin.map_or_else(|| (*key).to_owned(), |(full, _)| full.clone()),
            expected: expected.join(", "),
        };
    }
    let section = if section.is_empty() { "profile".to_owned() } else { section.to_owned() };
    ConfigError::Value { section, detail: message.to_owned() }
}
