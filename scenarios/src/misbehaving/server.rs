//! The server itself: a door on loopback that can be shut, connections behind it, and the record of who asked. It ends
//! when it is dropped, and every connection with it.

use super::behaviour::Misbehaviour;
use super::marks::Marks;
use super::plan::{PlanError, ServerPlan};
use super::play::{After, Scene};
use super::reply;
use super::request::{self, Arrived, read_chat};
use legwork_endpoints::Endpoint;
use legwork_protocol::failure::Failure;
use legwork_protocol::generation::{Completion, GenerateRequest};
use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use thiserror::Error;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{Duration, sleep};

/// Connections at once, at most; more wait at the door.
pub const CONNECTIONS_MAX: usize = 4096;
/// Requests that are remembered, at most; the oldest are forgotten first.
pub const SEEN_MAX: usize = 4096;
/// Connections that the system keeps waiting at the door.
const BACKLOG: u32 = 1024;
/// Tries to get the port back after the door was closed.
const REOPEN_TRIES: u32 = 50;
/// Between two of these tries, in milliseconds.
const REOPEN_PAUSE_MS: u64 = 10;

/// Why a server cannot be started.
#[derive(Debug, Error)]
pub enum ServerError {
    /// No port could be had.
    #[error("no port on 127.0.0.1 can be bound ({0}): is loopback up, and are there files left to open?")]
    Bind(#[from] io::Error),
    /// The plan cannot be carried out.
    #[error("the plan cannot be carried out: {0}")]
    Plan(#[from] PlanError),
}

/// Whether anybody is let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Door {
    /// Everybody.
    Open,
    /// Nobody for so many milliseconds: the system refuses whoever knocks.
    ClosedFor { ms: u64 },
    /// Nobody until it is opened.
    Closed,
}

/// One request as it was seen.
#[derive(Clone)]
pub struct Seen {
    /// Its number, from 0 in order of arrival.
    pub number: u64,
    /// The path asked for.
    pub path: String,
    /// The model named.
    pub model: String,
    /// A stream was asked for.
    pub stream: bool,
    /// Messages of the conversation.
    pub messages: usize,
    /// What became of it.
    pub met: &'static str,
    head: Arc<str>,
}

impl Seen {
    /// Whether this text stands in its head, such as a key that ought to have been sent. The head itself, which may hold
    /// a key, is never given out.
    pub fn head_holds(&self, text: &str) -> bool {
        self.head.contains(text)
    }
}

impl fmt::Debug for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { number, path, model, stream, messages, met, .. } = self;
        write!(f, "#{number} {path} {model:?} stream={stream} messages={messages} met={met}")
    }
}

/// A running server.
///
/// ```
/// # use legwork_scenarios::misbehaving::{Misbehaviour, MisbehavingServer, ServerPlan};
/// # use legwork_scenarios::mocks::InstantModel;
/// # use std::{sync::Arc, time::Duration};
/// # async fn test() -> Result<(), Box<dyn std::error::Error>> {
/// let model = Arc::new(InstantModel::new(6, Duration::ZERO));
/// let plan = ServerPlan::then_fine([Misbehaviour::ResetInBody, Misbehaviour::ServerError]);
/// let server = MisbehavingServer::start(model, plan).await?;
/// // Let whatever is tested ask `server.url()`, and then see that it met what was planned:
/// server.arrivals(3).await;
/// assert!(server.marks().missing(["reset_in_body", "server_error"]).is_empty());
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct MisbehavingServer {
    address: SocketAddr,
    shared: Arc<Shared>,
    accepting: JoinHandle<()>,
}

struct Shared {
    model: Arc<dyn Endpoint>,
    plan: ServerPlan,
    marks: Marks,
    record: Mutex<Record>,
    door: watch::Sender<Door>,
    arrived: watch::Sender<u64>,
    left: watch::Sender<u64>,
    /// The door is really shut.
    shut: watch::Sender<bool>,
}

#[derive(Default)]
struct Record {
    number: u64,
    seen: VecDeque<Seen>,
    said: Option<(u64, Completion)>,
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("plan", &self.plan).field("marks", &self.marks).finish_non_exhaustive()
    }
}

impl MisbehavingServer {
    /// Starts a server whose good replies come from `model`.
    ///
    /// # Errors
    /// Where the plan goes beyond its limits, or no port can be had.
    pub async fn start(model: Arc<dyn Endpoint>, plan: ServerPlan) -> Result<Self, ServerError> {
        plan.validate()?;
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            model,
            plan,
            marks: Marks::default(),
            record: Mutex::default(),
            door: watch::Sender::new(Door::Open),
            arrived: watch::Sender::new(0),
            left: watch::Sender::new(0),
            shut: watch::Sender::new(false),
        });
        let accepting = tokio::spawn(accept(listener, address, Arc::clone(&shared)));
        Ok(Self { address, shared, accepting })
    }

    /// The base URL that a client is configured with.
    pub fn url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Which misbehaviours were really done, and how often.
    pub fn marks(&self) -> Marks {
        self.shared.marks.clone()
    }

    /// The requests so far; of very many the last [`SEEN_MAX`].
    pub fn seen(&self) -> Vec<Seen> {
        self.shared.record().seen.iter().cloned().collect()
    }

    /// Waits until so many requests have arrived.
    pub async fn arrivals(&self, count: u64) {
        reached(&self.shared.arrived, count).await;
    }

    /// Waits until so many clients have left while they were kept waiting.
    pub async fn departures(&self, count: u64) {
        reached(&self.shared.left, count).await;
    }

    /// Shuts the door: whoever knocks is refused by the system. Returns when it is shut.
    pub async fn close_door(&self) {
        self.shared.door.send_replace(Door::Closed);
        let mut watching = self.shared.shut.subscribe();
        drop(watching.wait_for(|is_shut| *is_shut).await);
    }

    /// Opens the door.
    pub fn open_door(&self) {
        self.shared.door.send_replace(Door::Open);
    }
}

impl Drop for MisbehavingServer {
    fn drop(&mut self) {
        // The connections are the accepting task's, and end with it.
        self.accepting.abort();
    }
}

async fn reached(counter: &watch::Sender<u64>, count: u64) {
    let mut watching = counter.subscribe();
    // The sender lives as long as the server that is borrowed here, so the wait can only end by the count.
    drop(watching.wait_for(|reached| *reached >= count).await);
}

async fn accept(listener: TcpListener, address: SocketAddr, shared: Arc<Shared>) {
    let mut connections = JoinSet::new();
    let permits = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let mut door = shared.door.subscribe();
    let mut open = Some(listener);
    loop {
        if *door.borrow_and_update() != Door::Open {
            drop(open.take());
            open = stay_closed(address, &mut door, &shared).await;
        }
        let Some(listener) = &open else {
            tracing::error!(%address, "the port could not be had again; this server is at its end");
            return;
        };
        let Ok(permit) = Arc::clone(&permits).acquire_owned().await else { return };
        tokio::select! {
            biased;
            changed = door.changed() => if changed.is_err() { return },
            accepted = listener.accept() => {
                while connections.try_join_next().is_some() {}
                match accepted {
                    Ok((socket, _)) => {
                        let shared = Arc::clone(&shared);
                        connections.spawn(async move {
                            let _held = permit;
                            serve(socket, &shared).await;
                        });
                    }
                    // Such as too many open files: not a reason to spin.
                    Err(_) => sleep(Duration::from_millis(REOPEN_PAUSE_MS)).await,
                }
            }
        }
    }
}

/// Keeps the port without listening on it, so that the system refuses whoever knocks, and listens again in the end.
async fn stay_closed(address: SocketAddr, door: &mut watch::Receiver<Door>, shared: &Shared) -> Option<TcpListener> {
    let mut kept = None;
    for _ in 0..REOPEN_TRIES {
        kept = keep(address).ok();
        if kept.is_some() {
            break;
        }
        sleep(Duration::from_millis(REOPEN_PAUSE_MS)).await;
    }
    shared.shut.send_replace(true);
    loop {
        let now = *door.borrow_and_update();
        let span = match now {
            Door::Open => break,
            Door::ClosedFor { ms } => Duration::from_millis(ms),
            Door::Closed => Duration::MAX,
        };
        // A new order begins a new span.
        if tokio::time::timeout(span, door.changed()).await.is_err() {
            shared.door.send_if_modified(|door| {
                let is_over = *door == now;
                if is_over {
                    *door = Door::Open;
                }
                is_over
            });
        }
    }
    shared.shut.send_replace(false);
    kept?.listen(BACKLOG).ok()
}

fn keep(address: SocketAddr) -> io::Result<TcpSocket> {
    let socket = TcpSocket::new_v4()?;
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    Ok(socket)
}

async fn serve(mut socket: TcpStream, shared: &Shared) {
    let _small_pieces_go_at_once = socket.set_nodelay(true);
    let mut held = Vec::new();
    loop {
        let after = match request::next(&mut socket, &mut held).await {
            Ok(Some(arrived)) => shared.answer(&mut socket, &arrived).await,
            Ok(None) => return,
            Err(refused) => {
                let _gone = socket.write_all(&reply::error(refused.status, &refused.why)).await;
                After::Closed
            }
        };
        match after {
            After::Open => {}
            After::Closed => {
                let _gone = socket.shutdown().await;
                return;
            }
            After::Reset => {
                let _closed_at_least = socket.set_zero_linger();
                return;
            }
        }
    }
}

impl Shared {
    fn record(&self) -> std::sync::MutexGuard<'_, Record> {
        self.record.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn answer(&self, socket: &mut TcpStream, arrived: &Arrived) -> After {
        if arrived.method != "POST" || !arrived.path.split('?').next().is_some_and(is_chat) {
            let told = format!("expected POST /v1/chat/completions, got {} {}", arrived.method, arrived.path);
            return plainly(socket, &reply::error(404, &told), arrived).await;
        }
        let chat = match read_chat(&arrived.body) {
            Ok(chat) => chat,
            Err(why) => return plainly(socket, &reply::error(400, &why), arrived).await,
        };
        let (number, deed) = self.enter(arrived, &chat);
        let mut said = Completion::default();
        if deed.needs_reply() {
            said = match self.ask(socket, chat.ask).await {
                None => return After::Closed,
                Some(Ok(said)) => said,
                Some(Err(failure)) => {
                    return plainly(socket, &reply::error(500, &failure.to_string()), arrived).await;
                }
            };
        }
        let before = self.record().said.clone();
        if deed == Misbehaviour::Fine {
            self.record().said = Some((number, said.clone()));
        }
        let (marks, door, left) = (&self.marks, &self.door, &self.left);
        let scene = Scene { socket, marks, door, left, number, path: &arrived.path, stream: chat.stream, said, before };
        match Box::pin(scene.play(&deed)).await {
            Ok(After::Open) if arrived.last => After::Closed,
            Ok(after) => after,
            Err(_) => After::Closed,
        }
    }

    /// Takes a request into the record; its number, and what becomes of it.
    fn enter(&self, arrived: &Arrived, chat: &request::ChatRequest) -> (u64, Misbehaviour) {
        let mut record = self.record();
        let number = record.number;
        record.number += 1;
        let deed = self.plan.for_request(number);
        if record.seen.len() == SEEN_MAX {
            record.seen.pop_front();
        }
        record.seen.push_back(Seen {
            number,
            path: arrived.path.clone(),
            model: chat.model.clone(),
            stream: chat.stream,
            messages: chat.ask.messages.len(),
            met: deed.name(),
            head: Arc::from(arrived.head.as_str()),
        });
        drop(record);
        self.arrived.send_modify(|arrived| *arrived += 1);
        (number, deed)
    }

    /// Asks the endpoint behind; none if the client leaves before its answer.
    async fn ask(&self, socket: &TcpStream, ask: GenerateRequest) -> Option<Result<Completion, Failure>> {
        tokio::select! {
            biased;
            said = self.model.generate(ask) => Some(said),
            () = gone(socket) => {
                self.left.send_modify(|left| *left += 1);
                None
            }
        }
    }
}

/// Resolves when the client has left.
async fn gone(socket: &TcpStream) {
    let mut byte = [0];
    if matches!(socket.peek(&mut byte).await, Ok(read) if read > 0) {
        // It has sent more, which is read later.
        std::future::pending::<()>().await;
    }
}

fn is_chat(path: &str) -> bool {
    path.ends_with("/chat/completions")
}

async fn plainly(socket: &mut TcpStream, bytes: &[u8], arrived: &Arrived) -> After {
    match socket.write_all(bytes).await {
        Ok(()) if !arrived.last => After::Open,
        _ => After::Closed,
    }
}
