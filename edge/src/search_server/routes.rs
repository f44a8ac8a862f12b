//! The routes: a body in, a lookup through the door, an answer out. Every refusal is `{"detail": …}` and says the cure.

use super::BODY_TIMEOUT;
use super::config::SearchServerConfig;
use super::door::{Door, TurnedAway};
use super::wire::{self, OpenRequest, SearchRequest};
use actix_web::http::{StatusCode, header};
use actix_web::{HttpRequest, HttpResponse, web};
use legwork_actors::retriever::Library;
use legwork_protocol::failure::{Failure, FailureKind};
use serde::de::DeserializeOwned;
use serde_json::json;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

/// What all threads of the server share.
pub(super) struct State {
    pub(super) config: SearchServerConfig,
    pub(super) address: SocketAddr,
    pub(super) library: Arc<dyn Library>,
    pub(super) door: Door,
    pub(super) runtime: tokio::runtime::Handle,
}

/// The routes, each with an answer for other methods.
pub(super) fn configure(app: &mut web::ServiceConfig) {
    let post = || web::to(|| other_method("POST"));
    let get = || web::to(|| other_method("GET"));
    app.service(web::resource("/search").route(web::post().to(search)).default_service(post()))
        .service(web::resource("/open").route(web::post().to(open)).default_service(post()))
        .service(web::resource("/health").route(web::get().to(health)).default_service(get()))
        .service(web::resource("/stats").route(web::get().to(stats)).default_service(get()))
        .default_service(web::to(|| async {
            refusal(StatusCode::NOT_FOUND, "there is POST /search, POST /open, GET /health and GET /stats")
        }));
}

/// A refusal with its cure.
pub(super) fn refusal(status: StatusCode, detail: impl AsRef<str>) -> HttpResponse {
    HttpResponse::build(status).json(json!({ "detail": detail.as_ref() }))
}

async fn search(state: web::Data<State>, head: HttpRequest, body: web::Payload) -> HttpResponse {
    let began = Instant::now();
    let request: SearchRequest = match read(&state, &head, body, "{\"query\": text, \"k\": number}").await {
        Ok(request) => request,
        Err(refused) => return refused,
    };
    let (library, k) = (Arc::clone(&state.library), request.k.min(state.config.k_max));
    let lookup = async move { library.search(request.query, k).await };
    match state.door.pass(&state.runtime, lookup).await {
        Ok(Ok(answer)) => HttpResponse::Ok().json(wire::found(&answer, state.config.search_words, ms(began))),
        Ok(Err(failure)) => failed(&failure),
        Err(turned_away) => refused(&state, &turned_away),
    }
}

async fn open(state: web::Data<State>, head: HttpRequest, body: web::Payload) -> HttpResponse {
    let began = Instant::now();
    let request: OpenRequest = match read(&state, &head, body, "{\"docid\": text} or {\"url\": text}").await {
        Ok(request) => request,
        Err(refused) => return refused,
    };
    let words = state.config.open_words;
    let Some(page) = request.page() else {
        return HttpResponse::Ok().json(wire::opened(&request, None, words, ms(began)));
    };
    let library = Arc::clone(&state.library);
    match state.door.pass(&state.runtime, async move { library.open(page).await }).await {
        Ok(Ok(page)) => HttpResponse::Ok().json(wire::opened(&request, page.as_ref(), words, ms(began))),
        Ok(Err(failure)) => failed(&failure),
        Err(turned_away) => refused(&state, &turned_away),
    }
}

async fn health(state: web::Data<State>) -> HttpResponse {
    HttpResponse::Ok().json(json!({ "status": "healthy", "workers": state.config.concurrency }))
}

async fn stats(state: web::Data<State>) -> HttpResponse {
    let counts = state.door.counts();
    HttpResponse::Ok().json(json!({
        "library": state.library.name(),
        "address": state.address,
        "num_workers": state.config.concurrency,
        "queue_sizes": { "requests": counts.waiting },
        "queue_max": state.config.queue_max,
        "pending": counts.waiting + counts.in_flight,
        "counts": counts,
    }))
}

async fn other_method(expected: &'static str) -> HttpResponse {
    let mut refused = refusal(StatusCode::METHOD_NOT_ALLOWED, format!("this route takes {expected} only"));
    refused.headers_mut().insert(header::ALLOW, header::HeaderValue::from_static(expected));
    refused
}

/// Reads a whole body before anything is taken for it. A body that claims to be too large is refused unread; no other
/// claim is believed or allocated.
async fn read<T: DeserializeOwned>(
    state: &State,
    head: &HttpRequest,
    body: web::Payload,
    expected: &str,
) -> Result<T, HttpResponse> {
    let limit = state.config.body_max_bytes;
    let too_large = || {
        let detail = format!("the body is larger than {limit} bytes; a query is far shorter");
        refusal(StatusCode::PAYLOAD_TOO_LARGE, detail)
    };
    let claimed =
        head.headers().get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
    if claimed.is_some_and(|claimed| claimed > limit as u64) {
        return Err(too_large());
    }
    let body = match tokio::time::timeout(BODY_TIMEOUT, body.to_bytes_limited(limit)).await {
        Ok(Ok(Ok(body))) => body,
        Ok(Ok(Err(error))) => {
            return Err(refusal(StatusCode::BAD_REQUEST, format!("the body broke off: {error}; send it whole")));
        }
        Ok(Err(_)) => return Err(too_large()),
        Err(_) => {
            let detail = format!("the body took longer than {} s; send it faster", BODY_TIMEOUT.as_secs());
            return Err(refusal(StatusCode::REQUEST_TIMEOUT, detail));
        }
    };
    serde_json::from_slice(&body).map_err(|error| {
        // serde_json names a lone surrogate by where it noticed.
        let half = if error.to_string().contains("hex escape") { " (half of a surrogate pair is no text)" } else { "" };
        let detail = format!("the body must be json of the form {expected}, got something else: {error}{half}");
        refusal(StatusCode::BAD_REQUEST, detail)
    })
}

/// A failure of the library: 408 if it took too long, else 500.
fn failed(failure: &Failure) -> HttpResponse {
    let status = match failure.kind {
        FailureKind::TimedOut => StatusCode::REQUEST_TIMEOUT,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    };
    refusal(status, failure.to_string())
}

fn refused(state: &State, turned_away: &TurnedAway) -> HttpResponse {
    match turned_away {
        TurnedAway::Full => {
            let detail = format!("queue full: {} lookups wait already; ask again later", state.config.queue_max);
            let mut refused = refusal(StatusCode::SERVICE_UNAVAILABLE, detail);
            refused.headers_mut().insert(header::RETRY_AFTER, header::HeaderValue::from_static("1"));
            refused
        }
        TurnedAway::Late => {
            let detail = format!("no answer within {} ms; ask again with fewer at once", state.config.timeout_ms);
            refusal(StatusCode::REQUEST_TIMEOUT, detail)
        }
        TurnedAway::Panicked => refusal(StatusCode::INTERNAL_SERVER_ERROR, "the lookup panicked; see the server's log"),
    }
}

fn ms(began: Instant) -> f64 {
    began.elapsed().as_secs_f64() * 1000.0
}
