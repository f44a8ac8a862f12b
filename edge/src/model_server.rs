//! An OpenAI-compatible server over any model: chat, completions and embeddings in OpenAI's form, `/generate` in SGLang's,
//! whole or streamed, with Prometheus metrics. It refuses to know how anything is computed: a [`TextModel`] does that.
//!
//! Answers are made on the caller's runtime and cancelled when their client leaves; the server's own threads only read
//! and write.

mod body;
mod calls;
mod chat;
mod completions;
mod config;
mod door;
mod embeddings;
mod fields;
mod generate;
mod guard;
mod meter;
mod model;
mod moment;
mod pump;
mod refused;
mod routes;
mod running;
mod sampling;
mod stamp;
mod thoughts;

pub use crate::caller::Token;
pub use config::{GenerateEvents, ModelServerConfig, ModelServerError, Reasoning};
pub use model::{
    Candidate, ChatAsk, Embedded, Finish, Gauge, Matched, ModelCard, Prompt, Said, Sampling, Speaking, Spoken, TextAsk,
    TextModel, Tokenizable,
};
pub use refused::Refused;

use actix_web::dev::{Server, ServerHandle};
use actix_web::middleware::from_fn;
use actix_web::{App, HttpServer, web};
use door::Door;
use meter::Meter;
use routes::State;
use running::Running;
use std::collections::BTreeSet;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

/// How long an idle connection is kept.
pub const KEEP_ALIVE: Duration = Duration::from_secs(75);
/// How long requests under way may still take once the server is told to stop.
pub const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(5);
/// Connections at most, for each of the server's threads.
pub const CONNECTIONS_MAX: usize = 8192;

/// A server that listens and has not begun to answer.
pub struct ModelServer {
    server: Server,
    address: SocketAddr,
}

impl ModelServer {
    /// Where it listens; the port is the real one where 0 was configured.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What stops it.
    pub fn handle(&self) -> ServerHandle {
        self.server.handle()
    }

    /// Answers until it is stopped.
    ///
    /// # Errors
    /// If a thread of the server cannot be started.
    pub async fn run(self) -> io::Result<()> {
        self.server.await
    }
}

/// Answers until the process is told to stop (SIGINT or SIGTERM); then requests under way get
/// [`SHUTDOWN_TIMEOUT`] to end.
///
/// # Errors
/// If the configuration cannot be or the address is taken; the error names the cure.
pub async fn serve(config: ModelServerConfig, models: Vec<Arc<dyn TextModel>>) -> io::Result<()> {
    let server = build(&config, models, true)?;
    tracing::info!(address = %server.address, "the model server listens");
    server.run().await
}

/// Binds the port and leaves signals alone; must be called within the tokio runtime on which the models are polled.
/// A request that names no model means the first that can do what it asks.
///
/// # Errors
/// As [`serve`].
pub fn bind(config: &ModelServerConfig, models: Vec<Arc<dyn TextModel>>) -> io::Result<ModelServer> {
    build(config, models, false)
}

fn build(config: &ModelServerConfig, models: Vec<Arc<dyn TextModel>>, signals: bool) -> io::Result<ModelServer> {
    let cards: Vec<ModelCard> = models.iter().map(|model| model.card()).collect();
    config
        .check()
        .and_then(|()| check_names(&cards))
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
    let listener = std::net::TcpListener::bind(config.listen).map_err(|source| {
        let said =
            format!("cannot listen on {}: {source}; stop what listens there or choose another port", config.listen);
        io::Error::new(source.kind(), said)
    })?;
    let address = listener.local_addr()?;
    let state = web::Data::new(State {
        config: config.clone(),
        models,
        cards,
        door: Door::new(config.concurrency, config.queue_max),
        running: Arc::new(Running::default()),
        meter: Meter::default(),
        runtime: tokio::runtime::Handle::current(),
        salt: moment::unix_ns(),
        serial: AtomicU64::new(0),
    });
    let mut server = HttpServer::new(move || {
        App::new().app_data(state.clone()).wrap(from_fn(guard::guard)).configure(routes::configure)
    })
    .workers(config.threads)
    .max_connections(CONNECTIONS_MAX)
    .client_request_timeout(Duration::from_millis(config.head_timeout_ms))
    .keep_alive(KEEP_ALIVE)
    // Whoever closes the connection is taken to have left, so that nothing is computed for nobody.
    .h1_allow_half_closed(false)
    .shutdown_timeout(SHUTDOWN_TIMEOUT.as_secs());
    if !signals {
        server = server.disable_signals();
    }
    Ok(ModelServer { server: server.listen(listener)?.run(), address })
}

fn check_names(cards: &[ModelCard]) -> Result<(), ModelServerError> {
    if cards.is_empty() {
        return Err(ModelServerError::NoModel);
    }
    let mut seen = BTreeSet::new();
    for card in cards {
        if card.id.is_empty() {
            return Err(ModelServerError::NoName);
        }
        // A model may have its own name among its aliases.
        let aliases = card.aliases.iter().filter(|alias| **alias != card.id);
        for name in std::iter::once(&card.id).chain(aliases) {
            if !seen.insert(name) {
                return Err(ModelServerError::SameName { name: name.clone() });
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
