//! A fault: what goes wrong, where, and at which occurrence. It is data, drawn from a seed or written in TOML; it
//! refuses to know how it is brought about.

use serde::{Deserialize, Serialize};

/// A link between two actors, named by who waits for what.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Link {
    /// A model's completion, on its way to whoever asked inference.
    Inference,
    /// Hits or a page, on their way to whoever asked the retriever.
    Retriever,
    /// A verdict, on its way to the episode.
    Grader,
    /// A gate's word, on its way to the worker.
    Gate,
    /// "It is durable", on its way to whoever appended.
    Ledger,
    /// A worker's report, on its way to the episode.
    Report,
    /// A coordinator's decision, on its way to the episode.
    Decision,
}

/// An actor that can be harmed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Player {
    /// One episode.
    Episode,
    /// The coordinator of one episode.
    Coordinator,
    /// The worker of one brief.
    Worker,
    /// Shared.
    Inference,
    /// Shared.
    Retriever,
    /// Shared.
    Grader,
    /// Shared.
    Gate,
    /// Shared.
    Board,
}

/// What a model does instead of answering well.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ModelTrouble {
    /// It takes so much longer, in `ms`.
    Slow,
    /// It never answers; the asker's patience must end it.
    Hang,
    /// The device is out of memory.
    OutOfMemory,
    /// Its server is gone.
    Unreachable,
    /// 429 until the retries were used up.
    RateLimited,
    /// 5xx until the retries were used up.
    ServerError,
    /// The request timed out at the server.
    TimedOut,
    /// A stream that ended before it said why.
    TruncatedStream,
    /// A body that is no JSON.
    Garbage,
    /// Success without text.
    EmptyText,
    /// Prose where a call was due.
    Malformed,
    /// A call that is cut off.
    HalfCall,
    /// More tokens than were asked for.
    Overrun,
    /// The task that asks panics.
    Panic,
}

/// What a library does instead of answering well.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LibraryTrouble {
    /// It takes so much longer, in `ms`.
    Slow,
    /// It never answers.
    Hang,
    /// It fails.
    Fails,
    /// A part of it is down.
    Degraded,
    /// It finds nothing.
    Nothing,
    /// The document orders the worker about and closes its tags early.
    Hostile,
    /// A document of a megabyte.
    Huge,
    /// A document of control characters, NUL among them.
    Binary,
    /// A document of overrides of the writing direction.
    Bidi,
    /// The task that asks panics.
    Panic,
}

/// What a ledger's disk does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DiskTrouble {
    /// A synchronisation takes `ms`.
    Slow,
    /// No room is left.
    Full,
    /// Another process holds the database.
    Busy,
}

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Harm {
    /// A reply never comes.
    Lose(Link),
    /// A reply comes `ms` later.
    Delay(Link),
    /// A reply comes twice.
    Duplicate(Link),
    /// A reply comes after the next one on its link (or `ms` later, if there is none).
    Reorder(Link),
    /// An actor's handler panics.
    Panic(Player),
    /// An actor is killed from outside.
    Kill(Player),
    /// An actor's handler does not return for `ms`.
    Hang(Player),
    /// A model of any part answers badly.
    Model(ModelTrouble),
    /// The judge gives no verdict that can be read.
    JudgeMute,
    /// The library answers badly.
    Library(LibraryTrouble),
    /// The ledger's disk misbehaves.
    Disk(DiskTrouble),
    /// Somebody cancels an episode, just after an event of one of its workers.
    Cancel,
    /// The machine sleeps: all clocks are `ms` further at once.
    ClockJump,
    /// The power goes: the process is gone with all that was not durable; the run is resumed.
    PowerCut,
    /// Somebody presses Ctrl-C once; the run is resumed.
    Drain,
    /// Somebody presses Ctrl-C twice; the run is resumed.
    Stop,
}

/// A harm and when it strikes: at the `nth` occasion (from 0) and the `times - 1` after it. Power cuts, clock jumps,
/// drains and stops count durable events as their occasions; everything else counts its own messages or calls.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fault {
    /// What goes wrong.
    pub harm: Harm,
    /// The first occasion that it strikes, from 0.
    #[serde(default)]
    pub nth: u32,
    /// Occasions in a row.
    #[serde(default = "one")]
    pub times: u32,
    /// For harms that take time, in milliseconds of the run's clock.
    #[serde(default)]
    pub ms: u64,
}

fn one() -> u32 {
    1
}

impl Fault {
    /// A harm at the first occasion, once.
    pub fn new(harm: Harm) -> Self {
        Self { harm, nth: 0, times: 1, ms: 0 }
    }

    /// At the `nth` occasion, from 0.
    #[must_use]
    pub fn nth(self, nth: u32) -> Self {
        Self { nth, ..self }
    }

    /// So many occasions in a row.
    #[must_use]
    pub fn times(self, times: u32) -> Self {
        Self { times, ..self }
    }

    /// Taking so long.
    #[must_use]
    pub fn ms(self, ms: u64) -> Self {
        Self { ms, ..self }
    }

    /// Whether it strikes at this occasion.
    pub fn strikes(&self, occasion: u32) -> bool {
        occasion >= self.nth && occasion - self.nth < self.times
    }
}

impl Harm {
    /// The mark that it leaves when it strikes.
    pub fn mark(self) -> String {
        let of = |what: &str, whom: &dyn std::fmt::Debug| format!("{what} {}", snake(&format!("{whom:?}")));
        match self {
            Harm::Lose(link) => of("lose", &link),
            Harm::Delay(link) => of("delay", &link),
            Harm::Duplicate(link) => of("duplicate", &link),
            Harm::Reorder(link) => of("reorder", &link),
            Harm::Panic(player) => of("panic", &player),
            Harm::Kill(player) => of("kill", &player),
            Harm::Hang(player) => of("hang", &player),
            Harm::Model(trouble) => of("model", &trouble),
            Harm::JudgeMute => "judge mute".to_owned(),
            Harm::Library(trouble) => of("library", &trouble),
            Harm::Disk(trouble) => of("disk", &trouble),
            Harm::Cancel => "cancel".to_owned(),
            Harm::ClockJump => "clock jump".to_owned(),
            Harm::PowerCut => "power cut".to_owned(),
            Harm::Drain => "drain".to_owned(),
            Harm::Stop => "stop".to_owned(),
        }
    }

    /// Every harm that can be brought about.
    pub fn all() -> Vec<Harm> {
        use {DiskTrouble as D, LibraryTrouble as L, ModelTrouble as M};
        let asked = [Link::Inference, Link::Retriever, Link::Grader, Link::Gate, Link::Ledger];
        let told = [Link::Report, Link::Decision];
        let both = || asked.into_iter().chain(told);
        let shared = [Player::Inference, Player::Retriever, Player::Grader, Player::Gate, Player::Board];
        let own = [Player::Episode, Player::Coordinator, Player::Worker];
        let models = [
            M::Slow,
            M::Hang,
            M::OutOfMemory,
            M::Unreachable,
            M::RateLimited,
            M::ServerError,
            M::TimedOut,
            M::TruncatedStream,
            M::Garbage,
            M::EmptyText,
            M::Malformed,
            M::HalfCall,
            M::Overrun,
            M::Panic,
        ];
        let libraries =
            [L::Slow, L::Hang, L::Fails, L::Degraded, L::Nothing, L::Hostile, L::Huge, L::Binary, L::Bidi, L::Panic];
        let mut all = Vec::new();
        all.extend(both().map(Harm::Lose));
        all.extend(both().map(Harm::Delay));
        // A reply to a question can be sent once only, by its type; what is told can be told twice.
        all.extend(told.map(Harm::Duplicate));
        all.extend(both().map(Harm::Reorder));
        all.extend(shared.into_iter().chain([Player::Coordinator, Player::Worker]).map(Harm::Panic));
        all.extend(shared.into_iter().chain(own).map(Harm::Kill));
        all.extend(shared.map(Harm::Hang));
        all.extend(models.map(Harm::Model));
        all.push(Harm::JudgeMute);
        all.extend(libraries.map(Harm::Library));
        all.extend([D::Slow, D::Full, D::Busy].map(Harm::Disk));
        all.extend([Harm::Cancel, Harm::ClockJump, Harm::PowerCut, Harm::Drain, Harm::Stop]);
        all
    }
}

/// `RateLimited` as `rate limited`.
fn snake(name: &str) -> String {
    let mut text = String::with_capacity(name.len() + 2);
    for (place, letter) in name.chars().enumerate() {
        if letter.is_uppercase() && place > 0 {
            text.push(' ');
        }
        text.extend(letter.to_lowercase());
    }
    text
}
