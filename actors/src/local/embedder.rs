//! A sentence embedder in this process, on a thread of its own behind a bounded queue. It refuses to know what is embedded, and
//! puts nothing before a text: whoever knows a query from a document does, with the model's own prompts.

use super::opening::{self, LocalError};
use futures::future::BoxFuture;
use legwork_endpoints::Embedder;
use legwork_model::{EmbedKind, EmbedSettings, Embedded, ModelError, SentenceEmbedder};
use legwork_protocol::failure::{Failure, FailureKind};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use tokio::sync::{mpsc, oneshot};

/// Calls that may wait for the thread.
const QUEUE_MAX: usize = 1_024;

struct Job {
    texts: Vec<String>,
    kind: EmbedKind,
    reply: oneshot::Sender<Result<Embedded, Failure>>,
}

/// A sentence embedder in this process.
pub struct LocalEmbedder {
    name: String,
    digest: String,
    dimension: usize,
    tokens_max: usize,
    query_prompt: String,
    document_prompt: String,
    jobs: mpsc::Sender<Job>,
}

impl LocalEmbedder {
    /// Opens a sentence encoder's folder and starts its thread.
    ///
    /// # Errors
    /// Files that are no sentence embedder, with the cure; a thread that does not start.
    pub fn open(path: &Path, settings: EmbedSettings) -> Result<Self, LocalError> {
        let embedder = SentenceEmbedder::open(path, settings)?;
        let (jobs, queue) = mpsc::channel(QUEUE_MAX);
        let this = Self {
            name: opening::name_of(path),
            digest: opening::digest_of(path)?,
            dimension: embedder.dimension(),
            tokens_max: embedder.tokens_max(),
            query_prompt: embedder.prompt(EmbedKind::Query).to_owned(),
            document_prompt: embedder.prompt(EmbedKind::Document).to_owned(),
            jobs,
        };
        let builder = std::thread::Builder::new().name("embedder".to_owned());
        builder.spawn(move || serve(embedder, queue)).map_err(|error| LocalError::Thread(error.to_string()))?;
        Ok(this)
    }

    /// A digest over its files, in hex.
    pub fn digest(&self) -> &str {
        &self.digest
    }

    /// Numbers of a vector.
    pub fn dimension(&self) -> usize {
        self.dimension
    }

    /// Tokens of a text at most; what is longer is cut.
    pub fn tokens_max(&self) -> usize {
        self.tokens_max
    }

    /// What the model wants before a query.
    pub fn query_prompt(&self) -> &str {
        &self.query_prompt
    }

    /// What the model wants before a document.
    pub fn document_prompt(&self) -> &str {
        &self.document_prompt
    }

    /// Vectors and tokens of texts, with the model's prompt for `kind`.
    ///
    /// # Errors
    /// A queue that is full, a text that cannot be embedded.
    pub async fn embed_counted(&self, texts: Vec<String>, kind: EmbedKind) -> Result<Embedded, Failure> {
        let (reply, answer) = oneshot::channel();
        self.jobs.try_send(Job { texts, kind, reply }).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => {
                Failure::new(FailureKind::RateLimited, format!("{QUEUE_MAX} calls of the embedder wait; ask later"))
            }
            mpsc::error::TrySendError::Closed(_) => gone(),
        })?;
        answer.await.unwrap_or_else(|_| Err(gone()))
    }
}

fn gone() -> Failure {
    Failure::new(FailureKind::ActorDied, "the embedder's thread has ended; start the program anew")
}

/// Until nobody can ask any more.
fn serve(mut embedder: SentenceEmbedder, mut queue: mpsc::Receiver<Job>) {
    while let Some(Job { texts, kind, reply }) = queue.blocking_recv() {
        if reply.is_closed() {
            continue;
        }
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        // All state of a call lies in buffers that the next one fills anew.
        let done = catch_unwind(AssertUnwindSafe(|| embedder.embed_counted(&texts, kind)));
        let answer = match done {
            Ok(answer) => answer.map_err(|error: ModelError| Failure::new(FailureKind::BadResponse, error.to_string())),
            Err(_) => Err(Failure::new(FailureKind::ServerError, "the embedder panicked over these texts")),
        };
        // Whoever has gone away needs no vectors.
        let _ = reply.send(answer);
    }
}

impl Embedder for LocalEmbedder {
    fn name(&self) -> &str {
        &self.name
    }

    fn embed(&self, texts: Vec<String>) -> BoxFuture<'_, Result<Vec<Vec<f32>>, Failure>> {
        Box::pin(async move { Ok(self.embed_counted(texts, EmbedKind::Bare).await?.vectors) })
    }
}
