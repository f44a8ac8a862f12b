//! A model for tests of the threads around engines: it says the next token by a rule, fails when it is told to, and counts how
//! many of it are alive. It refuses to compute anything.

use super::maker::{Local, Make};
use super::opening::LocalError;
use super::thread::{Command, Heard, Speaker};
use legwork_engine::{Engine, EngineLimits, Reason, Request, RequestId, Sampling, SessionId};
use legwork_kernels::{Batch, HostBytes, OpsError};
use legwork_model::{Forward, ModelError, ModelLimits};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc as plain};
use std::time::Duration;
use tokio::sync::mpsc;

/// A test that waits so long hangs.
const HANG: Duration = Duration::from_secs(60);
const VOCABULARY: usize = 8;

/// What a step does.
pub(super) enum Act {
    /// It is computed.
    Answer,
    /// The device fails.
    FailDevice,
    Panic,
    /// It says on the first that it has begun, and waits for a word on the second.
    Wait(plain::Sender<()>, plain::Receiver<()>),
}

/// What making an engine comes to.
#[derive(Clone, Copy)]
pub(super) enum Making {
    Succeeds,
    Fails,
    Panics,
}

/// What all engines of one thread share.
#[derive(Default)]
pub(super) struct Plan {
    /// What the next steps do; beyond them each is computed.
    pub(super) acts: Mutex<VecDeque<Act>>,
    /// What the next makings come to; beyond them each succeeds.
    pub(super) makings: Mutex<VecDeque<Making>>,
    /// Engines made.
    pub(super) made: AtomicUsize,
    alive: AtomicUsize,
}

impl Plan {
    pub(super) fn of(acts: impl IntoIterator<Item = Act>) -> Arc<Self> {
        Arc::new(Self { acts: Mutex::new(acts.into_iter().collect()), ..Self::default() })
    }

    pub(super) fn does(&self, acts: impl IntoIterator<Item = Act>) {
        self.acts.lock().unwrap().extend(acts);
    }

    pub(super) fn made(&self) -> usize {
        self.made.load(Ordering::SeqCst)
    }
}

/// A step that waits: hears when it has begun, and lets it go on.
pub(super) fn waiting() -> (Act, plain::Receiver<()>, plain::Sender<()>) {
    let ((begun, heard), (word, gone_on)) = (plain::channel(), plain::channel());
    (Act::Wait(begun, gone_on), heard, word)
}

/// Makes engines of one request at a time that say `token`.
pub(super) fn maker(token: u32, running_max: usize, plan: &Arc<Plan>) -> Make {
    let plan = Arc::clone(plan);
    Box::new(move || -> Result<Local, LocalError> {
        assert_eq!(plan.alive.load(Ordering::SeqCst), 0, "an engine is made while another holds its memory");
        let making = plan.makings.lock().unwrap().pop_front();
        match making.unwrap_or(Making::Succeeds) {
            Making::Succeeds => {}
            Making::Fails => return Err(LocalError::Thread("told to fail".to_owned())),
            Making::Panics => panic!("told to panic"),
        }
        plan.made.fetch_add(1, Ordering::SeqCst);
        plan.alive.fetch_add(1, Ordering::SeqCst);
        let model: Box<dyn Forward + Send> = Box::new(Double { token, plan: Arc::clone(&plan) });
        Ok(Engine::new(model, None, EngineLimits { running_max, ..EngineLimits::default() })?)
    })
}

struct Double {
    token: u32,
    plan: Arc<Plan>,
}

impl Drop for Double {
    fn drop(&mut self) {
        self.plan.alive.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Forward for Double {
    fn limits(&self) -> ModelLimits {
        ModelLimits { vocabulary: VOCABULARY, context: 4_096, pages: 256, rows_max: 1_024 }
    }

    fn forward(&mut self, batch: &Batch, logits: &mut Vec<f32>) -> Result<(), ModelError> {
        let act = self.plan.acts.lock().unwrap().pop_front();
        match act.unwrap_or(Act::Answer) {
            Act::Answer => {}
            Act::FailDevice => return Err(OpsError::Device("a kernel was told to fail".to_owned()).into()),
            Act::Panic => panic!("told to panic"),
            Act::Wait(begun, gone_on) => {
                begun.send(()).unwrap();
                gone_on.recv_timeout(HANG).unwrap();
            }
        }
        logits.clear();
        for _ in &batch.wanted {
            logits.extend((0..VOCABULARY as u32).map(|id| if id == self.token { 90.0 } else { 0.0 }));
        }
        Ok(())
    }

    fn save_pages(&mut self, _pages: &[u32]) -> Result<HostBytes, ModelError> {
        Ok(Vec::new().into())
    }

    fn load_pages(&mut self, _pages: &[u32], _bytes: &[u8]) -> Result<(), ModelError> {
        Ok(())
    }
}

/// An answer that is listened to.
pub(super) struct Listener(mpsc::UnboundedReceiver<Heard>);

/// A request for `max_new` tokens, and who listens.
pub(super) fn ask(id: u64, session: Option<u128>, max_new: usize) -> (Request, Speaker, Listener) {
    let sampling = Sampling { max_new, ..Sampling::default() };
    let session = session.map(SessionId);
    let (speaker, heard) = mpsc::unbounded_channel();
    (
        Request { id: RequestId(id), prompt: vec![1, 2, 3], sampling, deadline_ms: None, session },
        speaker,
        Listener(heard),
    )
}

pub(super) fn command((request, speaker, listener): (Request, Speaker, Listener)) -> (Command, Listener) {
    (Command { request: Box::new(request), speaker }, listener)
}

impl Listener {
    /// Tokens until the end, and the end; none if nothing is heard any more.
    pub(super) async fn whole(mut self) -> (Vec<u32>, Option<Reason>) {
        let mut ids = Vec::new();
        loop {
            match tokio::time::timeout(HANG, self.0.recv()).await.expect("an answer hangs") {
                Some(Heard::Tokens { tokens, .. }) => ids.extend(tokens.iter().map(|drawn| drawn.id)),
                Some(Heard::Done { reason, .. }) => return (ids, Some(reason)),
                Some(Heard::Refused(refusal)) => panic!("refused: {refusal}"),
                None => return (ids, None),
            }
        }
    }

    /// The first tokens.
    pub(super) async fn first(&mut self) -> Vec<u32> {
        match tokio::time::timeout(HANG, self.0.recv()).await.expect("an answer hangs") {
            Some(Heard::Tokens { tokens, .. }) => tokens.iter().map(|drawn| drawn.id).collect(),
            other => panic!("expected tokens, heard {other:?}"),
        }
    }

    /// Whatever comes, until the end, fails with these words.
    pub(super) async fn fails_with(self, words: &str) {
        match self.whole().await {
            (_, Some(Reason::Failed(why))) => assert!(why.contains(words), "{why}"),
            other => panic!("expected a failure, heard {other:?}"),
        }
    }
}
