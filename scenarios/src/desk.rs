//! The desk that all faults of one scenario are struck from: it counts occasions, says which fault strikes, and keeps
//! a mark of each that did. It outlives the run's restarts, as the plan does; once healed, nothing strikes any more.

use crate::fault::{DiskTrouble, Fault, Harm, LibraryTrouble, Link, ModelTrouble, Player};
use legwork_actors::episode::EpisodeMsg;
use legwork_protocol::id::{EpisodeKey, Scope};
use ractor::{ActorCell, ActorRef};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{Notify, mpsc};

/// Something that happens again and again, at which a fault may strike.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Occasion {
    /// A reply passes a link.
    Reply(Link),
    /// A shared actor is told something.
    Message(Player),
    /// A coordinator or worker counts tokens.
    Count(Player),
    /// An event of an episode, coordinator or worker is durable.
    Durable(Player),
    /// Any event is durable.
    AnyDurable,
    /// A model of a coordinator, worker or gate is asked.
    Model,
    /// The judge is asked.
    Judge,
    /// The library is asked.
    Library,
    /// The ledger writes a batch.
    Batch,
}

impl Occasion {
    /// Where a harm waits for its turn.
    pub fn of(harm: Harm) -> Self {
        match harm {
            Harm::Lose(link) | Harm::Delay(link) | Harm::Duplicate(link) | Harm::Reorder(link) => Self::Reply(link),
            Harm::Panic(player @ (Player::Coordinator | Player::Worker | Player::Episode)) => Self::Count(player),
            Harm::Kill(player @ (Player::Coordinator | Player::Worker | Player::Episode)) => Self::Durable(player),
            Harm::Cancel => Self::Durable(Player::Worker),
            Harm::Panic(player) | Harm::Kill(player) | Harm::Hang(player) => Self::Message(player),
            Harm::Model(_) => Self::Model,
            Harm::JudgeMute => Self::Judge,
            Harm::Library(_) => Self::Library,
            Harm::Disk(_) => Self::Batch,
            Harm::ClockJump | Harm::PowerCut | Harm::Drain | Harm::Stop => Self::AnyDurable,
        }
    }
}

/// What a fault asks of whoever carries the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// All clocks are so much further.
    Jump(Duration),
    /// The process is gone.
    PowerCut,
    /// Ctrl-C, once.
    Drain,
    /// Ctrl-C, twice.
    Stop,
}

struct Plan {
    faults: Vec<Fault>,
    occasions: BTreeMap<Occasion, u32>,
    marks: BTreeMap<String, u32>,
    struck: u32,
    armed: bool,
    healed: bool,
    cells: BTreeMap<(EpisodeKey, Scope), ActorCell>,
    /// Who is struck as soon as it is on the stage.
    doomed: BTreeMap<(EpisodeKey, Scope), Harm>,
    carrier: Option<mpsc::UnboundedSender<Signal>>,
    times: ChaCha8Rng,
}

/// The desk.
pub struct Desk {
    plan: Mutex<Plan>,
    passed: BTreeMap<Link, Notify>,
    watched: Vec<Occasion>,
}

impl Desk {
    /// A desk over a plan of faults; `seed` draws what takes how long.
    pub fn new(faults: Vec<Fault>, seed: u64) -> Arc<Self> {
        let watched = faults.iter().map(|fault| Occasion::of(fault.harm)).collect();
        let links = faults.iter().filter_map(|fault| match fault.harm {
            Harm::Reorder(link) => Some((link, Notify::new())),
            _ => None,
        });
        Arc::new(Self {
            passed: links.collect(),
            watched,
            plan: Mutex::new(Plan {
                faults,
                occasions: BTreeMap::new(),
                marks: BTreeMap::new(),
                struck: 0,
                armed: false,
                healed: false,
                cells: BTreeMap::new(),
                doomed: BTreeMap::new(),
                carrier: None,
                times: ChaCha8Rng::seed_from_u64(seed),
            }),
        })
    }

    /// Whether any fault waits for such an occasion: where none does, nothing need be put in the way.
    pub fn watches(&self, occasion: Occasion) -> bool {
        self.watched.contains(&occasion)
    }

    /// A life begins: from now on faults strike, and `carrier` hears of those that it must carry out.
    pub fn arm(&self, carrier: mpsc::UnboundedSender<Signal>) {
        let mut plan = self.plan();
        plan.armed = true;
        plan.carrier = Some(carrier);
        plan.cells.clear();
        plan.doomed.clear();
    }

    /// A life is over.
    pub fn disarm(&self) {
        let mut plan = self.plan();
        plan.armed = false;
        plan.carrier = None;
        plan.cells.clear();
    }

    /// Nothing strikes from now on.
    pub fn heal(&self) {
        self.plan().healed = true;
    }

    /// How long something takes that takes at most so long: drawn, so that other seeds see other orders of events.
    pub fn takes(&self, at_most: Duration) -> Duration {
        let most = u64::try_from(at_most.as_millis()).unwrap_or(u64::MAX);
        Duration::from_millis(self.plan().times.random_range(0..=most))
    }

    /// Counts an occasion; returns the faults that strike at it and marks them.
    pub fn strike(&self, occasion: Occasion) -> Vec<Fault> {
        if !self.watches(occasion) {
            return Vec::new();
        }
        let mut plan = self.plan();
        if !plan.armed || plan.healed {
            return Vec::new();
        }
        let count = plan.occasions.entry(occasion).or_default();
        let now = *count;
        *count += 1;
        let striking: Vec<Fault> = plan
            .faults
            .iter()
            .filter(|fault| Occasion::of(fault.harm) == occasion && fault.strikes(now))
            .cloned()
            .collect();
        for fault in &striking {
            *plan.marks.entry(fault.harm.mark()).or_default() += 1;
            plan.struck += 1;
        }
        striking
    }

    /// How often each harm has struck.
    pub fn marks(&self) -> BTreeMap<String, u32> {
        self.plan().marks.clone()
    }

    /// Strikes so far.
    pub fn struck(&self) -> u32 {
        self.plan().struck
    }

    /// An actor of an episode is on the stage.
    pub fn enters(&self, episode: EpisodeKey, scope: Scope, cell: ActorCell) {
        let who = (episode, scope);
        let doom = {
            let mut plan = self.plan();
            plan.cells.insert(who.clone(), cell.clone());
            plan.doomed.remove(&who)
        };
        if let Some(harm) = doom {
            strike_down(cell, harm);
        }
    }

    /// An event is durable: those whose turn it is are killed, and the carrier hears what it must do.
    pub fn durable(&self, episode: &EpisodeKey, scope: Scope) {
        let player = match scope {
            Scope::Episode => Player::Episode,
            Scope::Coordinator => Player::Coordinator,
            Scope::Worker(_) => Player::Worker,
        };
        for fault in self.strike(Occasion::Durable(player)) {
            let whom = if fault.harm == Harm::Cancel { Scope::Episode } else { scope };
            let who = (episode.clone(), whom);
            let cell = self.plan().cells.get(&who).cloned();
            match cell {
                Some(cell) => strike_down(cell, fault.harm),
                None => drop(self.plan().doomed.insert(who, fault.harm)),
            }
        }
        for fault in self.strike(Occasion::AnyDurable) {
            let signal = match fault.harm {
                Harm::ClockJump => Signal::Jump(Duration::from_millis(fault.ms)),
                Harm::PowerCut => Signal::PowerCut,
                Harm::Drain => Signal::Drain,
                _ => Signal::Stop,
            };
            if let Some(carrier) = &self.plan().carrier {
                let _life_is_over = carrier.send(signal);
            }
        }
    }

    /// A model's trouble at this call, if there is one.
    pub fn model_trouble(&self) -> Option<(ModelTrouble, Duration)> {
        self.strike(Occasion::Model).into_iter().find_map(|fault| match fault.harm {
            Harm::Model(trouble) => Some((trouble, Duration::from_millis(fault.ms))),
            _ => None,
        })
    }

    /// A library's trouble at this call, if there is one.
    pub fn library_trouble(&self) -> Option<(LibraryTrouble, Duration)> {
        self.strike(Occasion::Library).into_iter().find_map(|fault| match fault.harm {
            Harm::Library(trouble) => Some((trouble, Duration::from_millis(fault.ms))),
            _ => None,
        })
    }

    /// The disk's trouble at this batch, if there is one.
    pub fn disk_trouble(&self) -> Option<(DiskTrouble, Duration)> {
        self.strike(Occasion::Batch).into_iter().find_map(|fault| match fault.harm {
            Harm::Disk(trouble) => Some((trouble, Duration::from_millis(fault.ms))),
            _ => None,
        })
    }

    /// A reply has passed: one that was to be overtaken goes on.
    pub fn passes(&self, link: Link) {
        if let Some(notify) = self.passed.get(&link) {
            notify.notify_waiters();
        }
    }

    /// Waits until the next reply has passed this link, at most so long.
    pub async fn until_overtaken(&self, link: Link, at_most: Duration) {
        if let Some(notify) = self.passed.get(&link) {
            let _nobody_came = tokio::time::timeout(at_most, notify.notified()).await;
        }
    }

    fn plan(&self) -> MutexGuard<'_, Plan> {
        // A planned panic may strike while the lock is held by nobody: poison says nothing here.
        self.plan.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Kills an actor, or tells an episode that it is cancelled.
fn strike_down(cell: ActorCell, harm: Harm) {
    if harm == Harm::Cancel {
        let _episode_has_gone = ActorRef::<EpisodeMsg>::from(cell).cast(EpisodeMsg::Cancel);
    } else {
        cell.kill();
    }
}
