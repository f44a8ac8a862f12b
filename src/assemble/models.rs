//! Models behind routes, token counters and the embedder, by their settings.

use super::{AssembleError, LoadedWorld, for_machine, placed};
use crate::config::{EmbedderSettings, LocalModelSettings, MockSettings, ModelSettings, Settings, TokenizerSettings};
use legwork_actors::clock::Clock;
use legwork_actors::inference::Routes;
use legwork_actors::local::{LocalEmbedder, LocalModel};
use legwork_endpoints::{Embedder, Endpoint, EndpointConfig, Kind, PromptEncoder, Shared};
use legwork_model::{ChatMl, EmbedSettings, Tokenizer, Turn};
use legwork_protocol::failure::{Failure, FailureKind};
use legwork_protocol::generation::Route;
use legwork_protocol::message::Message;
use legwork_protocol::tokens::{QuarterBytes, TokenCounter};
use legwork_protocol::untrusted::ControlTokens;
use legwork_scenarios::mocks::{
    InstantModel, MockCoordinatorModel, MockJudge, OracleModel, Skill, TeacherModel, TrailModel,
};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// The models of a run.
pub struct ModelParts {
    /// Which endpoint plays which part.
    pub routes: Routes,
    /// A mock plays the worker.
    pub mock: bool,
    /// What the manifest says of each.
    pub inputs: Vec<(String, String)>,
    /// The models in this process, by part.
    pub local: BTreeMap<Route, Arc<LocalModel>>,
}

/// The token counters of a run.
pub struct Counters {
    /// The worker's.
    pub worker: Arc<dyn TokenCounter>,
    /// The coordinator's.
    pub coordinator: Arc<dyn TokenCounter>,
    /// What may not stand in a page's text: what public models use, and what these tokenizers add.
    pub control: ControlTokens,
}

/// Builds the models.
///
/// # Errors
/// A model that cannot be built, with the field and the cure.
pub fn assemble_models(settings: &Settings, world: &LoadedWorld) -> Result<ModelParts, AssembleError> {
    let shared = Shared::default();
    let (mut routes, mut inputs): (Routes, Vec<(String, String)>) = Default::default();
    let mut mock = false;
    let mut local: BTreeMap<Route, Arc<LocalModel>> = BTreeMap::new();
    let mut opened: Vec<(LocalModelSettings, Arc<LocalModel>)> = Vec::new();
    for (route, model) in &settings.models {
        let name = format!("models.{route}");
        let (endpoint, described) = match model {
            ModelSettings::Mock(of) => {
                mock |= *route == Route::Worker;
                let endpoint = mock_model(&name, of, settings, world)?;
                let described = format!("{} {}", endpoint.name(), serde_json::to_string(of).unwrap_or_default());
                (endpoint, described)
            }
            ModelSettings::Local(of) => {
                // Parts that the same model plays share its engine.
                let known = opened.iter().find(|(settings, _)| settings == &**of).map(|(_, model)| Arc::clone(model));
                let model = match known {
                    Some(model) => model,
                    None => LocalModel::open(
                        &placed(&of.local, &settings.index.cache)?,
                        for_machine(of.engine.clone()),
                        Clock::system(),
                    )?,
                };
                opened.push(((**of).clone(), Arc::clone(&model)));
                local.insert(*route, Arc::clone(&model));
                let described = describe_local(&model);
                (model as Arc<dyn Endpoint>, described)
            }
            ModelSettings::Endpoint(config) => {
                let tokenizer = match route {
                    Route::Coordinator => &settings.tokenizers.coordinator,
                    Route::Worker | Route::Judge | Route::Gate => &settings.tokenizers.worker,
                };
                let encoder = match (config.kind, tokenizer) {
                    (Kind::Sglang, None) => {
                        let detail = format!(
                            "{name} is of kind sglang, which sends token ids: name the model's tokenizer.json under [tokenizers]"
                        );
                        return Err(AssembleError::Setting(detail));
                    }
                    (_, Some(path)) => prompt_encoder(path).ok(),
                    (_, None) => None,
                };
                let endpoint = legwork_endpoints::build(&name, config, &shared, encoder)?;
                (endpoint, describe(config))
            }
        };
        inputs.push((name, described));
        routes.insert(*route, endpoint);
    }
    Ok(ModelParts { routes, mock, inputs, local })
}

/// An embedder, and what the model wants before queries and documents.
pub struct Embedding {
    /// The embedder.
    pub embedder: Arc<dyn Embedder>,
    /// Its name for manifests.
    pub source: String,
    /// What its files say goes before a query.
    pub query_prompt: String,
    /// What its files say goes before a document.
    pub document_prompt: String,
}

/// Builds the embedder, if one is configured.
///
/// # Errors
/// As [`assemble_models`].
pub fn embedder(settings: &Settings) -> Result<Option<Embedding>, AssembleError> {
    Ok(match &settings.embedder {
        None => None,
        Some(EmbedderSettings::Endpoint(config)) => Some(Embedding {
            embedder: legwork_endpoints::build_embedder("embedder", config, &Shared::default())?,
            source: config.model.clone(),
            query_prompt: String::new(),
            document_prompt: String::new(),
        }),
        Some(EmbedderSettings::Local(of)) => Some(local(&placed(&of.local, &settings.index.cache)?, of.tokens_max)?),
    })
}

/// A sentence encoder in this process, with texts as long as it takes.
///
/// # Errors
/// Files that are no sentence encoder.
pub fn local_embedding(path: &Path) -> Result<Embedding, AssembleError> {
    local(path, EmbedSettings::default().tokens_max)
}

fn local(path: &Path, tokens_max: usize) -> Result<Embedding, AssembleError> {
    let embedder = LocalEmbedder::open(path, EmbedSettings { tokens_max, ..EmbedSettings::default() })?;
    Ok(Embedding {
        source: format!("{} {}", embedder.name(), &embedder.digest()[..16]),
        query_prompt: embedder.query_prompt().to_owned(),
        document_prompt: embedder.document_prompt().to_owned(),
        embedder: Arc::new(embedder),
    })
}

/// Opens the tokenizers that count.
///
/// # Errors
/// A tokenizer that cannot be read.
pub fn counters(
    settings: &TokenizerSettings,
    local: &BTreeMap<Route, Arc<LocalModel>>,
) -> Result<Counters, AssembleError> {
    let mut control = ControlTokens::default();
    let mut open = |path: &Option<std::path::PathBuf>, route| -> Result<Arc<dyn TokenCounter>, AssembleError> {
        let tokenizer = match (path, local.get(&route)) {
            (Some(path), _) => Tokenizer::open(path)?,
            (None, Some(model)) => model.tokenizer().clone(),
            (None, None) => return Ok(Arc::new(QuarterBytes)),
        };
        let name = tokenizer.name().to_owned();
        // One character cannot be broken and is no marker; a token with a backslash cannot be kept apart from text.
        let marks = tokenizer
            .added_tokens()
            .into_iter()
            .filter(|token| token.chars().nth(1).is_some() && !token.contains('\\'));
        control = control.with(marks).map_err(|error| AssembleError::Setting(format!("{name}: {error}")))?;
        Ok(Arc::new(FileCounter(tokenizer)))
    };
    let worker = open(&settings.worker, Route::Worker)?;
    let coordinator = open(&settings.coordinator, Route::Coordinator)?;
    Ok(Counters { worker, coordinator, control })
}

/// Renders conversations to ids with a tokenizer's ChatML markers.
///
/// # Errors
/// A tokenizer that cannot be read or has no ChatML markers.
pub fn prompt_encoder(path: &Path) -> Result<Arc<dyn PromptEncoder>, AssembleError> {
    let tokenizer = Tokenizer::open(path)?;
    let chat = ChatMl::new(&tokenizer)?;
    Ok(Arc::new(ChatEncoder { tokenizer, chat }))
}

fn mock_model(
    name: &str,
    of: &MockSettings,
    settings: &Settings,
    world: &LoadedWorld,
) -> Result<Arc<dyn Endpoint>, AssembleError> {
    let latency = Duration::from_millis(of.latency_ms);
    Ok(match of.mock.as_str() {
        "oracle" => {
            let named = of.skill.as_deref().unwrap_or("trained");
            let skill = match named {
                "novice" => Skill::NOVICE,
                "trained" => Skill::TRAINED,
                "perfect" => Skill::PERFECT,
                other => {
                    return Err(AssembleError::Setting(format!(
                        "{name}.skill is `{other}`, expected novice, trained or perfect"
                    )));
                }
            };
            let grammar = settings.profile.grammar;
            Arc::new(OracleModel::new(&format!("oracle, {named}"), grammar, skill, latency, &world.all_questions))
        }
        "teacher" => Arc::new(TeacherModel::new(settings.profile.grammar, &world.all_questions, world.told.clone())),
        "trail" => {
            let titles = world.documents.iter().map(|document| (document.docid.clone(), document.title.clone()));
            Arc::new(TrailModel::new(settings.profile.grammar, &world.all_questions, titles))
        }
        "instant" => Arc::new(InstantModel::new(of.turns.unwrap_or(6), latency)),
        "believing" => Arc::new(MockCoordinatorModel),
        "comparing" => Arc::new(MockJudge),
        other => {
            return Err(AssembleError::Setting(format!(
                "{name}.mock is `{other}`, expected oracle, teacher, trail, instant, believing or comparing"
            )));
        }
    })
}

/// An endpoint as the manifest has it: everything that is sent with a request. Keys are not part of it, and a URL prints
/// without the secrets in it.
fn describe(config: &EndpointConfig) -> String {
    let shown = serde_json::to_value(config).unwrap_or_default();
    let of = |name: &str| shown.get(name).map(ToString::to_string).unwrap_or_default();
    let sent = ["api", "stream", "reasoning", "extra", "omit"].map(|name| format!("{name} {}", of(name)));
    format!("{} {} at {}, {}", config.kind.name(), config.model, config.url, sent.join(", "))
}

/// A model in this process as the manifest has it: its weights and whatever changes its answers. How much it may hold at once
/// does not, nor how many replicas there are; that cards round to bf16 does, and over how many it is cut.
fn describe_local(model: &LocalModel) -> String {
    let settings = model.settings();
    let template = serde_json::to_string(&settings.template).unwrap_or_default();
    let rounded = if settings.device.is_cards() { ", bf16 on cards" } else { "" };
    // Sums over ranks are rounded as well.
    let cut = match settings.device.ranks() {
        1 => String::new(),
        ranks => format!(", cut over {ranks}"),
    };
    format!(
        "local {} {}, context {}, template {template}{rounded}{cut}",
        model.name(),
        model.digest(),
        settings.context
    )
}

struct FileCounter(Tokenizer);

impl TokenCounter for FileCounter {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn count(&self, text: &str) -> u64 {
        self.0.count(text)
    }
}

struct ChatEncoder {
    tokenizer: Tokenizer,
    chat: ChatMl,
}

impl PromptEncoder for ChatEncoder {
    fn encode(&self, messages: &[Arc<Message>]) -> Result<Vec<u32>, Failure> {
        let turns: Vec<Turn<'_>> =
            messages.iter().map(|message| Turn { role: message.role.name(), content: &message.content }).collect();
        self.chat
            .encode(&self.tokenizer, &turns)
            .map_err(|error| Failure::new(FailureKind::Misconfigured, error.to_string()))
    }

    fn decode(&self, ids: &[u32]) -> Result<String, Failure> {
        // `<think>` and the like are added tokens but part of the text; only the end-of-turn marker is not.
        let end = self.chat.end();
        let ids = match ids.split_last() {
            Some((last, rest)) if *last == end => rest,
            _ => ids,
        };
        self.tokenizer.decode(ids, false).map_err(|error| Failure::new(FailureKind::BadResponse, error.to_string()))
    }
}
