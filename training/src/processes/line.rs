//! A connection between two processes of a run. A thread reads what comes, another says every few seconds that this process is
//! alive, so that a process or a machine that is gone is missed by whoever waits for it, and named.
//! It refuses to know what orders and answers mean.

use super::message::{MESSAGE_BYTES_MAX, Message, Over};
use crate::error::TrainingError;
use legwork_kernels::OpsError;
use std::io::{self, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

/// Messages that wait to be taken. Each side waits for the other's answer before it says more.
const INBOX_MAX: usize = 4;
/// Between two signs of life.
const BEAT_EVERY: Duration = Duration::from_secs(5);
/// One who is silent for so long, or reads nothing, is taken to be gone.
pub(super) const SILENT_MAX: Duration = Duration::from_secs(60);
/// Whoever was told that the run is over closes its end within this time.
const CLOSED_WITHIN: Duration = Duration::from_secs(5);

/// What a process hears of another beside answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum News {
    /// It was asked to end the run.
    StopAsked,
    /// It is gone, and why.
    Gone(String),
    /// It said that the run is over.
    Over(Over),
}

/// Hears news; called on the thread that reads.
pub(super) type Hear = Box<dyn Fn(News) + Send>;

/// A connection to another process of the run. Dropping it ends it.
#[derive(Debug)]
pub struct Line {
    /// The other: its rank and address.
    who: String,
    shared: Arc<Shared>,
    inbox: Mutex<Receiver<Message>>,
}

#[derive(Debug)]
struct Shared {
    writer: Mutex<TcpStream>,
    /// Why nothing more will come.
    gone: OnceLock<String>,
    /// Why nothing will come of what is under way.
    left: OnceLock<String>,
    over: OnceLock<Over>,
    stage: Mutex<Stage>,
    changed: Condvar,
}

#[derive(Clone, Copy, Debug, Default)]
struct Stage {
    /// This side has no more to say.
    is_closing: bool,
    /// The thread that reads has ended.
    is_read: bool,
}

impl Line {
    /// Over a connection on which both have greeted each other.
    ///
    /// # Errors
    /// A connection that ended, or no thread.
    pub(super) fn start(stream: TcpStream, who: String, hear: Hear) -> Result<Arc<Self>, TrainingError> {
        let failed = |error: io::Error| peer(&who, format!("cannot be spoken with: {error}"));
        stream.set_read_timeout(Some(SILENT_MAX)).map_err(failed)?;
        stream.set_write_timeout(Some(SILENT_MAX)).map_err(failed)?;
        let reader = stream.try_clone().map_err(failed)?;
        let (sender, inbox) = sync_channel(INBOX_MAX);
        let shared = Arc::new(Shared {
            writer: Mutex::new(stream),
            gone: OnceLock::new(),
            left: OnceLock::new(),
            over: OnceLock::new(),
            stage: Mutex::default(),
            changed: Condvar::new(),
        });
        let (of_reader, of_beats) = (Arc::clone(&shared), Arc::clone(&shared));
        let line = Arc::new(Self { who: who.clone(), shared, inbox: Mutex::new(inbox) });
        let named = |name: &str| std::thread::Builder::new().name(name.to_owned());
        let reads = who.clone();
        named("rank-line").spawn(move || of_reader.read(reader, &reads, &sender, &hear)).map_err(failed)?;
        named("rank-beats").spawn(move || of_beats.beat()).map_err(failed)?;
        Ok(line)
    }

    /// The other: its rank and address.
    pub fn who(&self) -> &str {
        &self.who
    }

    /// Why nothing more comes from the other, if so.
    pub fn gone(&self) -> Option<&str> {
        self.shared.gone.get().map(String::as_str)
    }

    /// Why nothing will come of what is under way, if so; it waits for nothing.
    ///
    /// # Errors
    /// Who is gone: the other, or whoever it said.
    pub(super) fn check(&self) -> Result<(), OpsError> {
        match (self.shared.left.get(), self.gone()) {
            (Some(why), _) => Err(OpsError::Device(why.clone())),
            (None, Some(why)) => Err(OpsError::Device(format!("{}: {why}", self.who))),
            (None, None) => Ok(()),
        }
    }

    /// How the run ended, if the other said so.
    pub fn over(&self) -> Option<&Over> {
        self.shared.over.get()
    }

    /// Asks the first rank to end the run. One who is gone hears nothing.
    pub fn ask_to_stop(&self) {
        let _has_gone = self.send(&Message::StopAsked);
    }

    pub(super) fn send(&self, message: &Message) -> Result<(), TrainingError> {
        self.shared.send(message).map_err(|error| match self.gone() {
            Some(_) => self.lost(),
            None => peer(&self.who, said(&error)),
        })
    }

    /// Waits for a message, for a while.
    pub(super) fn heard_within(&self, limit: Duration) -> Result<Option<Message>, TrainingError> {
        match self.lock_inbox().recv_timeout(limit) {
            Ok(message) => Ok(Some(message)),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => Err(self.lost()),
        }
    }

    /// Waits for a message.
    pub(super) fn heard(&self) -> Result<Message, TrainingError> {
        self.lock_inbox().recv().map_err(|_| self.lost())
    }

    /// Says something and waits for what comes of it, while nobody else does.
    pub(super) fn ask(&self, message: &Message) -> Result<Message, TrainingError> {
        let inbox = self.lock_inbox();
        self.send(message)?;
        inbox.recv().map_err(|_| self.lost())
    }

    /// Says that the run is over, and waits a moment until the other has heard it.
    pub(super) fn close(&self, over: &Over) {
        self.shared.lock().is_closing = true;
        let _has_gone = self.send(&Message::Over(over.clone()));
        let _has_gone = self.shared.lock_writer().shutdown(Shutdown::Write);
        let stage = self.shared.lock();
        let waits = |stage: &mut Stage| !stage.is_read;
        drop(self.shared.changed.wait_timeout_while(stage, CLOSED_WITHIN, waits));
    }

    fn lost(&self) -> TrainingError {
        peer(&self.who, self.gone().unwrap_or("its connection is closed").to_owned())
    }

    fn lock_inbox(&self) -> MutexGuard<'_, Receiver<Message>> {
        self.inbox.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        self.shared.lock().is_closing = true;
        self.shared.changed.notify_all();
        let _has_gone = self.shared.lock_writer().shutdown(Shutdown::Both);
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Stage> {
        self.stage.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock_writer(&self) -> MutexGuard<'_, TcpStream> {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn send(&self, message: &Message) -> io::Result<()> {
        let bytes = message.to_bytes()?;
        self.lock_writer().write_all(&bytes)
    }

    /// Takes in what comes until nothing more does.
    fn read(&self, stream: TcpStream, who: &str, inbox: &SyncSender<Message>, hear: &Hear) {
        let mut from = io::BufReader::new(&stream);
        let gone = loop {
            let message = match Message::read(&mut from, MESSAGE_BYTES_MAX) {
                Ok(message) => message,
                Err(error) => break said(&error),
            };
            match message {
                Message::Beat => {}
                Message::StopAsked => hear(News::StopAsked),
                Message::Left(why) => {
                    let _first_reason_stays = self.left.set(why);
                }
                Message::Over(over) => {
                    let _said_before = self.over.set(over);
                    break "the run is over".to_owned();
                }
                message => match inbox.try_send(message) {
                    Ok(()) => {}
                    Err(TrySendError::Full(_)) => break format!("it said more than {INBOX_MAX} things unasked"),
                    Err(TrySendError::Disconnected(_)) => break "nobody listens any more".to_owned(),
                },
            }
        };
        let _first_reason_stays = self.gone.set(gone.clone());
        let is_closing = {
            let mut stage = self.lock();
            stage.is_read = true;
            stage.is_closing
        };
        self.changed.notify_all();
        let _is_shut = stream.shutdown(Shutdown::Both);
        match self.over.get() {
            Some(over) => hear(News::Over(over.clone())),
            None if !is_closing => hear(News::Gone(format!("{who}: {gone}"))),
            None => {}
        }
    }

    /// Says every few seconds that this process is alive, until either side has no more to say.
    fn beat(&self) {
        let goes_on = |stage: &mut Stage| !stage.is_closing && !stage.is_read;
        loop {
            let stage = self.lock();
            let Ok((stage, waited)) = self.changed.wait_timeout_while(stage, BEAT_EVERY, goes_on) else { return };
            drop(stage);
            if !waited.timed_out() || self.send(&Message::Beat).is_err() {
                return;
            }
        }
    }
}

/// Why a connection is of no more use, in words.
fn said(error: &io::Error) -> String {
    use io::ErrorKind::{
        BrokenPipe, ConnectionAborted, ConnectionReset, NotConnected, TimedOut, UnexpectedEof, WouldBlock,
    };
    match error.kind() {
        UnexpectedEof | ConnectionReset | ConnectionAborted | BrokenPipe | NotConnected => {
            "its process has ended; its own output says why".to_owned()
        }
        TimedOut | WouldBlock => {
            format!("nothing was heard of it for {} s; look whether it or its network hangs", SILENT_MAX.as_secs())
        }
        _ => error.to_string(),
    }
}

pub(super) fn peer(who: &str, problem: String) -> TrainingError {
    TrainingError::Process { who: who.to_owned(), problem }
}

/// As the backend says it.
pub(super) fn of_device(error: &TrainingError) -> OpsError {
    OpsError::Device(error.to_string())
}
