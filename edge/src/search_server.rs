//! FoldAgent's search server over any library: `POST /search`, `POST /open`, `GET /health`, `GET /stats`. Its protocol
//! is kept (status 200 and a sentence for an unknown page, 503 for a full queue, 408 for too long), so that other
//! harnesses can use our index.
//!
//! A request takes a slot only once its body is whole and gives it back before the answer is written: a slow client
//! holds a connection and nothing else.

mod config;
mod door;
mod guard;
mod routes;
mod wire;

pub use crate::caller::Token;
pub use config::{SearchServerConfig, SearchServerError};
pub use wire::{OpenRequest, SearchRequest};

use actix_web::dev::{Server, ServerHandle};
use actix_web::middleware::from_fn;
use actix_web::{App, HttpServer, web};
use door::Door;
use legwork_actors::retriever::Library;
use routes::State;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// How long the head of a request may take to arrive.
pub const HEAD_TIMEOUT: Duration = Duration::from_secs(10);
/// How long the body of a request may take to arrive.
pub const BODY_TIMEOUT: Duration = Duration::from_secs(30);
/// How long an idle connection is kept.
pub const KEEP_ALIVE: Duration = Duration::from_secs(75);
/// How long requests under way may still take once the server is told to stop.
pub const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(5);
/// Connections at most, for each of the server's threads.
pub const CONNECTIONS_MAX: usize = 8192;

/// A server that listens and has not begun to answer.
pub struct SearchServer {
    server: Server,
    address: SocketAddr,
}

impl SearchServer {
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
pub async fn serve(config: SearchServerConfig, library: Arc<dyn Library>) -> io::Result<()> {
    let server = build(&config, library, true)?;
    tracing::info!(address = %server.address, "the search server listens");
    server.run().await
}

/// Binds the port and leaves signals alone; must be called within a tokio runtime.
///
/// # Errors
/// As [`serve`].
pub fn bind(config: &SearchServerConfig, library: Arc<dyn Library>) -> io::Result<SearchServer> {
    build(config, library, false)
}

fn build(config: &SearchServerConfig, library: Arc<dyn Library>, signals: bool) -> io::Result<SearchServer> {
    config.check().map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
    let listener = std::net::TcpListener::bind(config.listen).map_err(|source| {
        let said =
            format!("cannot listen on {}: {source}; stop what listens there or choose another port", config.listen);
        io::Error::new(source.kind(), said)
    })?;
    let address = listener.local_addr()?;
    let door = Door::new(config.concurrency, config.queue_max, Duration::from_millis(config.timeout_ms));
    // Lookups run on the caller's runtime: the server's own threads only read and write.
    let runtime = tokio::runtime::Handle::current();
    let state = web::Data::new(State { config: config.clone(), address, library, door, runtime });
    let mut server = HttpServer::new(move || {
        App::new().app_data(state.clone()).wrap(from_fn(guard::guard)).configure(routes::configure)
    })
    .workers(config.threads)
    .max_connections(CONNECTIONS_MAX)
    .client_request_timeout(HEAD_TIMEOUT)
    .keep_alive(KEEP_ALIVE)
    .shutdown_timeout(SHUTDOWN_TIMEOUT.as_secs());
    if !signals {
        server = server.disable_signals();
    }
    Ok(SearchServer { server: server.listen(listener)?.run(), address })
}
