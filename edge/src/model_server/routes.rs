//! The routes: a body in, a request read, an answer carried out. Every refusal has OpenAI's shape and says the cure.

use super::body::{read, rid};
use super::chat::answer::ChatForm;
use super::completions::answer::TextForm;
use super::config::ModelServerConfig;
use super::door::Door;
use super::fields::{ids, wrong};
use super::generate::answer::GenerateForm;
use super::meter::Meter;
use super::model::{ModelCard, Prompt, Sampling, TextAsk, TextModel, Tokenizable};
use super::pump::{self, Ask, Job};
use super::refused::Refused;
use super::running::Running;
use super::sampling::Bounds;
use super::stamp::Stamp;
use super::{chat, completions, embeddings, generate, moment};
use actix_web::http::{Method, StatusCode};
use actix_web::{HttpRequest, HttpResponse, web};
use futures::StreamExt;
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Token ids of one `/detokenize` at most.
const DETOKENIZE_MAX: usize = 1 << 20;

/// What all threads of the server share.
pub(super) struct State {
    pub(super) config: ModelServerConfig,
    pub(super) models: Vec<Arc<dyn TextModel>>,
    pub(super) cards: Vec<ModelCard>,
    pub(super) door: Door,
    pub(super) running: Arc<Running>,
    pub(super) meter: Meter,
    pub(super) runtime: tokio::runtime::Handle,
    /// Distinguishes this server's ids from those of an earlier one.
    pub(super) salt: u64,
    pub(super) serial: AtomicU64,
}

/// The routes, each with an answer for other methods.
pub(super) fn configure(app: &mut web::ServiceConfig) {
    let post = || web::to(|| async { Refused::method(&Method::POST) });
    let get = || web::to(|| async { Refused::method(&Method::GET) });
    for (path, route) in [
        ("/v1/chat/completions", web::post().to(chat_completions)),
        ("/v1/completions", web::post().to(text_completions)),
        ("/v1/embeddings", web::post().to(embed)),
        ("/generate", web::post().to(generate_route)),
        ("/abort_request", web::post().to(abort)),
        ("/tokenize", web::post().to(tokenize)),
        ("/detokenize", web::post().to(detokenize)),
    ] {
        app.service(web::resource(path).route(route).default_service(post()));
    }
    for (path, route) in [
        ("/v1/models", web::get().to(models)),
        ("/v1/models/{id:.*}", web::get().to(model)),
        ("/get_model_info", web::get().to(model_info)),
        ("/health", web::get().to(health)),
        ("/health_generate", web::get().to(health_generate)),
        ("/metrics", web::get().to(metrics)),
    ] {
        app.service(web::resource(path).route(route).default_service(get()));
    }
    app.default_service(web::to(|| async {
        let there = "there is POST /v1/chat/completions, /v1/completions, /v1/embeddings, /generate, /abort_request, /tokenize and \
                     /detokenize, and GET /v1/models, /health, /health_generate, /get_model_info and /metrics";
        Refused::http(StatusCode::NOT_FOUND, there).response()
    }));
}

impl State {
    /// The model that a request means: the one it names, or the first that can.
    fn pick(&self, name: Option<&str>, can: fn(&ModelCard) -> bool, what: &str) -> Result<usize, Refused> {
        match name {
            Some(name) => {
                let place = self.cards.iter().position(|card| card.is_called(name));
                let place = place.ok_or_else(|| chat::no_model(name, &self.cards))?;
                if can(&self.cards[place]) {
                    return Ok(place);
                }
                let detail =
                    format!("the model {:?} does not {what}: ask another one of /v1/models", self.cards[place].id);
                Err(Refused::Unsupported { param: Some("model".to_owned()), detail })
            }
            None => self
                .cards
                .iter()
                .position(can)
                .ok_or_else(|| Refused::unsupported(format!("no model here does {what}: ask another server"))),
        }
    }

    fn bounds(&self, place: usize) -> Bounds<'_> {
        Bounds { config: &self.config, vocabulary: self.cards[place].vocabulary }
    }

    fn stamp(&self, prefix: &str, place: usize) -> Stamp {
        let serial = self.serial.fetch_add(1, Ordering::Relaxed);
        let id = format!("{prefix}{:016x}{serial:08x}", self.salt);
        Stamp { id: id.into(), created_s: moment::unix_s(), model: self.cards[place].id.as_str().into() }
    }
}

fn speaks(card: &ModelCard) -> bool {
    card.speaks
}

fn embeds(card: &ModelCard) -> bool {
    card.embedding_dimensions.is_some()
}

async fn chat_completions(state: web::Data<State>, head: HttpRequest, body: web::Payload) -> HttpResponse {
    let job = async {
        let mut fields = read(&state, &head, body).await?;
        let name = chat::model_name(&mut fields)?;
        let place = state.pick(name.as_deref(), speaks, "speak")?;
        let stamp = state.stamp("chatcmpl-", place);
        let read = chat::read(fields, state.bounds(place), &stamp.id)?;
        let form = Box::new(ChatForm::new(stamp, read.style, read.asks.len()));
        let asks = read.asks.into_iter().map(Ask::Chat).collect();
        Ok(Job { model: Arc::clone(&state.models[place]), asks, form, streams: read.streams })
    };
    carry(&state, job.await).await
}

async fn text_completions(state: web::Data<State>, head: HttpRequest, body: web::Payload) -> HttpResponse {
    let job = async {
        let mut fields = read(&state, &head, body).await?;
        let name = chat::model_name(&mut fields)?;
        let place = state.pick(name.as_deref(), speaks, "speak")?;
        let stamp = state.stamp("cmpl-", place);
        let read = completions::read(fields, state.bounds(place), &stamp.id)?;
        let form = Box::new(TextForm::new(stamp, read.style, read.asks.len()));
        let asks = read.asks.into_iter().map(|ask| Ask::Text { ask, echo: read.echo }).collect();
        Ok(Job { model: Arc::clone(&state.models[place]), asks, form, streams: read.streams })
    };
    carry(&state, job.await).await
}

async fn generate_route(state: web::Data<State>, head: HttpRequest, body: web::Payload) -> HttpResponse {
    let job = async {
        let fields = read(&state, &head, body).await?;
        let place = state.pick(None, speaks, "speak")?;
        let stamp = state.stamp("", place);
        let read = generate::read(fields, state.bounds(place), &stamp.id)?;
        let form = Box::new(GenerateForm::new(read.style, read.items));
        let asks = read.asks.into_iter().map(|ask| Ask::Text { ask, echo: false }).collect();
        Ok(Job { model: Arc::clone(&state.models[place]), asks, form, streams: read.streams })
    };
    carry(&state, job.await).await
}

async fn carry(state: &web::Data<State>, job: Result<Job, Refused>) -> HttpResponse {
    match job {
        Ok(job) => pump::answer(state, job).await,
        Err(refused) => refused.response(),
    }
}

async fn embed(state: web::Data<State>, head: HttpRequest, body: web::Payload) -> HttpResponse {
    let answer = async {
        let mut fields = read(&state, &head, body).await?;
        let name = chat::model_name(&mut fields)?;
        let place = state.pick(name.as_deref(), embeds, "embed")?;
        let (card, model) = (&state.cards[place], Arc::clone(&state.models[place]));
        let mut request = embeddings::read(fields, state.bounds(place), card)?;
        let prompts = std::mem::take(&mut request.prompts);
        let count = prompts.len();
        let embedded = pump::once(&state, async move { model.embed(prompts).await }).await?;
        state.meter.embedded(embedded.prompt_tokens);
        embeddings::write(&request, count, card, &embedded)
    };
    told(answer.await)
}

/// SGLang's: `{"rid": …}` or `{"abort_all": true}`; an id that is not under way is no error, since it may have ended.
async fn abort(state: web::Data<State>, head: HttpRequest, body: web::Payload) -> HttpResponse {
    let answer = async {
        let mut fields = read(&state, &head, body).await?;
        let all = fields.flag("abort_all")?.unwrap_or(false);
        let rid = rid(&mut fields)?;
        fields.ignore_rest(&["abort_message"]);
        let rid = match (all, rid) {
            (true, _) => String::new(),
            (false, Some(rid)) => rid,
            (false, None) => return Err(Refused::asked("rid", "`rid` was expected, or `abort_all`: neither came")),
        };
        Ok(json!({ "aborted": state.running.abort(&rid) }))
    };
    told(answer.await)
}

/// vLLM's form: `prompt`, or `messages` as of the chat route.
async fn tokenize(state: web::Data<State>, head: HttpRequest, body: web::Payload) -> HttpResponse {
    let answer = async {
        let mut fields = read(&state, &head, body).await?;
        let name = chat::model_name(&mut fields)?;
        let place = state.pick(name.as_deref(), |_| true, "tokenize")?;
        let model = Arc::clone(&state.models[place]);
        let add_special_tokens = fields.flag("add_special_tokens")?.unwrap_or(true);
        let what = match fields.text("prompt")? {
            Some(text) => Tokenizable::Text { text, add_special_tokens },
            None => {
                let ask = chat::read_conversation(&mut fields, state.bounds(place), "tokenize")?;
                Tokenizable::Chat(Box::new(ask))
            }
        };
        fields.ignore_rest(&["return_token_strs"]);
        let tokens = pump::once(&state, async move { model.tokenize(what).await }).await?;
        let context = state.cards[place].context_tokens;
        Ok(json!({ "count": tokens.len(), "max_model_len": context, "tokens": tokens }))
    };
    told(answer.await)
}

async fn detokenize(state: web::Data<State>, head: HttpRequest, body: web::Payload) -> HttpResponse {
    let answer = async {
        let mut fields = read(&state, &head, body).await?;
        let name = chat::model_name(&mut fields)?;
        let place = state.pick(name.as_deref(), |_| true, "detokenize")?;
        let model = Arc::clone(&state.models[place]);
        let Some(list) = fields.list("tokens", DETOKENIZE_MAX)? else {
            return Err(wrong("tokens", "a list of token ids", &Value::Null));
        };
        let ids = ids("tokens", &list, state.cards[place].vocabulary)?;
        let text = pump::once(&state, async move { model.detokenize(ids).await }).await?;
        Ok(json!({ "prompt": text }))
    };
    told(answer.await)
}

async fn models(state: web::Data<State>) -> HttpResponse {
    let data: Vec<Value> = state.cards.iter().map(card_json).collect();
    HttpResponse::Ok().json(json!({ "object": "list", "data": data }))
}

async fn model(state: web::Data<State>, name: web::Path<String>) -> HttpResponse {
    match state.cards.iter().find(|card| card.is_called(&name)) {
        Some(card) => HttpResponse::Ok().json(card_json(card)),
        None => chat::no_model(&name, &state.cards).response(),
    }
}

fn card_json(card: &ModelCard) -> Value {
    json!({
        "id": card.id,
        "object": "model",
        "created": card.created_s,
        "owned_by": card.owned_by,
        "root": card.id,
        "parent": null,
        "max_model_len": card.context_tokens,
        "aliases": card.aliases,
        "embedding_dimensions": card.embedding_dimensions,
    })
}

/// What SGLang's clients ask first.
async fn model_info(state: web::Data<State>) -> HttpResponse {
    // A server without a model cannot be bound.
    let card = &state.cards[0];
    HttpResponse::Ok().json(json!({ "model_path": card.id, "tokenizer_path": card.id, "is_generation": card.speaks }))
}

async fn health(state: web::Data<State>) -> HttpResponse {
    for (model, card) in state.models.iter().zip(&state.cards) {
        if let Err(detail) = model.health() {
            let told = json!({ "status": "unhealthy", "model": card.id, "detail": detail });
            return HttpResponse::ServiceUnavailable().json(told);
        }
    }
    HttpResponse::Ok().json(json!({ "status": "healthy" }))
}

/// Healthy is who can make one token.
async fn health_generate(state: web::Data<State>) -> HttpResponse {
    let answer = async {
        let place = state.pick(None, speaks, "speak")?;
        let model = Arc::clone(&state.models[place]);
        let sampling = Sampling { max_tokens: Some(1), temperature: Some(0.0), ..Sampling::default() };
        let ask = TextAsk { prompt: Prompt::Ids(vec![0]), sampling, score_from: None, rid: "health".to_owned() };
        let one = async move {
            let mut said = model.complete(ask).await?.said;
            said.next().await.unwrap_or_else(|| Err(Refused::failed("the model said nothing")))
        };
        pump::once(&state, one).await.map(|_| json!({ "status": "healthy" }))
    };
    told(answer.await)
}

async fn metrics(state: web::Data<State>) -> HttpResponse {
    let page = state.meter.page(state.door.in_flight(), state.door.waiting(), &state.models);
    HttpResponse::Ok().content_type("text/plain; version=0.0.4; charset=utf-8").body(page)
}

fn told(answer: Result<Value, Refused>) -> HttpResponse {
    match answer {
        Ok(body) => HttpResponse::Ok().json(body),
        Err(refused) => refused.response(),
    }
}
