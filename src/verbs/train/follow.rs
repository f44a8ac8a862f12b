//! `legwork train --follow`: the rows of a run that goes on, or of one that is over, as its episodes end. A thread looks at the
//! ledger now and then, makes of each new episode the rows that an export would write, encodes them and hands them to the
//! trainer one by one, each when the one before is taken. Between two looks it has nothing open, so it holds up no writer.
//! It refuses to know what the trainer makes of them.

mod list;

pub(super) use list::FOLLOWED;

use crate::export::{Episodes, ExportError, ExportedRow, Format, Options, Summary, rows_of};
use legwork_actors::address::reply;
use legwork_actors::ledger::{LedgerError, LedgerReader};
use legwork_actors::trainer::TrainerMsg;
use legwork_protocol::failure::{Failure, FailureKind};
use legwork_protocol::id::EpisodeKey;
use legwork_training::mask::Encoder;
use legwork_training::rows::{BadReport, Rows, Sieve};
use legwork_training::{Place, Sample, TrainingError};
use list::{Followed, List};
use ractor::ActorRef;
use std::collections::{BTreeMap, VecDeque};
use std::convert::Infallible;
use std::io::Cursor;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::Duration;

/// Between two looks at a run of which nothing new was there.
pub(super) const LOOK_EVERY: Duration = Duration::from_millis(500);
/// Looks at most until a run has begun: one minute of them.
const LOOKS_FOR_A_RUN_MAX: u32 = 120;
/// Looks one after the other that may fail, as when a disk is slow and the ledger stays locked, until that is the end.
const LOOKS_FAILED_MAX: u32 = 10;
/// Episodes that are read and encoded at once.
const EPISODES_AT_ONCE: usize = 64;
/// News that may wait to be heard.
pub(super) const NEWS_MAX: usize = 16;

/// What can go wrong.
#[derive(Debug, thiserror::Error)]
pub(super) enum FollowError {
    /// The run, or its export.
    #[error(transparent)]
    Export(#[from] ExportError),
    /// A bad row that is refused.
    #[error(transparent)]
    Row(#[from] TrainingError),
    /// The list of rows.
    #[error("cannot read or write {}: {source}; check that its folder may be written and has room", path.display())]
    List {
        /// The list.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// The run is not what was trained on.
    #[error(
        "{}:{line}: expected the run to have the row that was trained on, {found}, got {expected}; follow the run of then, or \
         begin another training", path.display()
    )]
    Differs {
        /// The list.
        path: PathBuf,
        /// The line.
        line: u64,
        /// What stands there.
        found: String,
        /// What the run has now.
        expected: String,
    },
    /// The trainer does not take a row.
    #[error("the trainer took no more rows: {0}")]
    Untaken(Failure),
    /// There is no thread.
    #[error("the system gives no thread to follow the run: {0}; end other processes and go on with --resume")]
    NoThread(std::io::Error),
    /// The thread has panicked.
    #[error("what follows the run has died; see the log for why, and go on with --resume")]
    Died,
}

impl From<LedgerError> for FollowError {
    fn from(error: LedgerError) -> Self {
        Self::Export(error.into())
    }
}

/// What is heard of a run that is followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum News {
    /// All that there is was taken; more may come.
    CaughtUp {
        /// Episodes that have ended.
        ended: u64,
        /// Episodes of the whole run.
        planned: u64,
    },
    /// All episodes have ended, and all of their rows were taken.
    All,
    /// It cannot go on; whoever joins the thread hears why.
    Failed,
}

/// What came of a run.
#[derive(Clone, Debug)]
pub(super) struct Came {
    /// What was exported of it, and what was left out by why.
    pub(super) summary: Summary,
    /// Rows that were given to the trainer by this process or by those before it.
    pub(super) samples: u64,
    /// The rows of each source.
    pub(super) sources: BTreeMap<String, u64>,
    /// What was skipped.
    pub(super) bad: BadReport,
}

impl Came {
    /// Whether every episode of the run has ended.
    pub(super) fn is_all(&self) -> bool {
        self.summary.ended == self.summary.planned
    }
}

/// A run to be followed.
pub(super) struct Follow {
    run: PathBuf,
    options: Options,
    encoder: Encoder,
    sieve: Sieve,
    came: Came,
}

/// A thread that follows a run. Dropping it lets go of the thread, which ends at the next row.
pub(super) struct Following {
    _dropped_to_end: Sender<Infallible>,
    thread: JoinHandle<(Came, Option<FollowError>)>,
}

/// How rows are made of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct RowChoice {
    /// Rows of token ids, and not of messages.
    pub(super) token_ids: bool,
    /// All episodes that have ended, not only correct ones.
    pub(super) all_episodes: bool,
    /// Also of workers that concluded wrongly in an episode that was right.
    pub(super) process_rows: bool,
    /// The part of the question set, for the rows' lineage.
    pub(super) split: Option<String>,
}

impl RowChoice {
    /// The export's format.
    pub(super) fn format(&self) -> Format {
        if self.token_ids { Format::TokenIds } else { Format::Trajectories }
    }

    fn options(&self) -> Options {
        Options {
            episodes: if self.all_episodes { Episodes::All } else { Episodes::Correct },
            process_rows: self.process_rows,
            split: self.split.clone(),
            ..Options::default()
        }
    }
}

impl Follow {
    /// A run in a folder, to be encoded by this encoder; one that has not begun is waited for. Returns the digest of its
    /// manifest with it.
    ///
    /// # Errors
    /// No run within a minute, or one that cannot be read.
    pub(super) fn open(
        run: &Path,
        choice: &RowChoice,
        encoder: Encoder,
        sieve: Sieve,
    ) -> Result<(Self, String), FollowError> {
        let reader = begun(run)?;
        let digest = blake3::hash(reader.manifest()?.to_json().as_bytes()).to_hex().to_string();
        let planned = reader.planned()?.len() as u64;
        let came = Came {
            summary: Summary::new(choice.format(), run, planned),
            samples: 0,
            sources: BTreeMap::new(),
            bad: BadReport::default(),
        };
        Ok((Self { run: run.to_path_buf(), options: choice.options(), encoder, sieve, came }, digest))
    }

    /// The run's folder.
    pub(super) fn run(&self) -> &Path {
        &self.run
    }

    /// Episodes of the whole run.
    pub(super) fn planned(&self) -> u64 {
        self.came.summary.planned
    }

    /// Begins: the first `taken` samples are in a checkpoint and stay out. `folder` is the training's.
    ///
    /// # Errors
    /// A list of rows that cannot be opened, or no thread.
    pub(super) fn start(
        self,
        folder: &Path,
        taken: u64,
        trainer: ActorRef<TrainerMsg>,
        news: tokio::sync::mpsc::Sender<News>,
    ) -> Result<Following, FollowError> {
        let list = List::open(folder)?;
        let (held, ends) = std::sync::mpsc::channel();
        let follower = Follower { follow: self, list, taken, trainer, after: 0, ended: VecDeque::new(), ends };
        let run = move || follower.run(&news);
        let thread = std::thread::Builder::new().name("follow".into()).spawn(run).map_err(FollowError::NoThread)?;
        Ok(Following { _dropped_to_end: held, thread })
    }
}

impl Following {
    /// Ends it, if it has not ended by itself. Blocks until the row at hand is encoded.
    pub(super) fn end(self) -> Result<(Came, Option<FollowError>), FollowError> {
        let Self { _dropped_to_end: held, thread } = self;
        drop(held);
        thread.join().map_err(|_| FollowError::Died)
    }
}

/// The run, once it has begun.
fn begun(run: &Path) -> Result<LedgerReader, FollowError> {
    let mut looks = 0;
    loop {
        looks += 1;
        match LedgerReader::open(run) {
            Err(LedgerError::NoRun { .. }) if looks < LOOKS_FOR_A_RUN_MAX => std::thread::sleep(LOOK_EVERY),
            other => return Ok(other?),
        }
    }
}

/// Whether to go on.
enum Go {
    On,
    /// Nobody takes rows any more, or somebody wants it to end.
    NoFurther,
}

/// A run as the thread has it.
struct Follower {
    follow: Follow,
    list: List,
    /// Samples that are in a checkpoint.
    taken: u64,
    trainer: ActorRef<TrainerMsg>,
    /// The place of the last episode that was seen to have ended.
    after: u64,
    /// Those that wait to be read.
    ended: VecDeque<EpisodeKey>,
    ends: Receiver<Infallible>,
}

impl Follower {
    fn run(mut self, news: &tokio::sync::mpsc::Sender<News>) -> (Came, Option<FollowError>) {
        let failed = self.follow_all(news).err();
        if failed.is_some() {
            let _nobody_listens = news.blocking_send(News::Failed);
        }
        let Follow { mut came, sieve, .. } = self.follow;
        came.bad = sieve.report().clone();
        (came, failed)
    }

    fn follow_all(&mut self, news: &tokio::sync::mpsc::Sender<News>) -> Result<(), FollowError> {
        let (mut failed, mut told) = (0, None);
        loop {
            let rows = match self.look() {
                Err(FollowError::Export(ExportError::Ledger(LedgerError::Sqlite { .. })))
                    if failed < LOOKS_FAILED_MAX =>
                {
                    failed += 1;
                    match self.wait() {
                        Go::On => continue,
                        Go::NoFurther => return Ok(()),
                    }
                }
                looked => looked?,
            };
            failed = 0;
            let is_news = !rows.is_empty() || !self.ended.is_empty();
            for row in rows {
                if let Go::NoFurther = self.take(&row)? {
                    return Ok(());
                }
            }
            if is_news {
                continue;
            }
            if self.follow.came.is_all() {
                let _nobody_listens = news.blocking_send(News::All);
                return Ok(());
            }
            let (ended, planned) = (self.follow.came.summary.ended, self.follow.planned());
            if told != Some(ended) {
                told = Some(ended);
                let _nobody_listens = news.blocking_send(News::CaughtUp { ended, planned });
            }
            if let Go::NoFurther = self.wait() {
                return Ok(());
            }
        }
    }

    /// The rows of the next episodes that have ended.
    fn look(&mut self) -> Result<Vec<ExportedRow>, FollowError> {
        let reader = LedgerReader::open(&self.follow.run)?;
        if self.ended.is_empty() {
            for (key, place) in reader.ended_after(self.after)? {
                self.after = place;
                self.ended.push_back(key);
            }
        }
        let count = self.ended.len().min(EPISODES_AT_ONCE);
        let episodes: Vec<EpisodeKey> = self.ended.iter().take(count).cloned().collect();
        if episodes.is_empty() {
            return Ok(Vec::new());
        }
        // Counted only when all of them could be read.
        let mut summary = self.follow.came.summary.clone();
        let rows = rows_of(&reader, &episodes, &self.follow.options, &mut summary)?;
        self.follow.came.summary = summary;
        self.ended.drain(..count);
        Ok(rows)
    }

    /// Waits until it is time to look again.
    fn wait(&self) -> Go {
        match self.ends.recv_timeout(LOOK_EVERY) {
            Err(RecvTimeoutError::Timeout) => Go::On,
            Err(RecvTimeoutError::Disconnected) => Go::NoFurther,
            Ok(never) => match never {},
        }
    }

    /// Encodes a row, writes down what it is, and hands it to the trainer.
    fn take(&mut self, row: &ExportedRow) -> Result<Go, FollowError> {
        if let Err(std::sync::mpsc::TryRecvError::Disconnected) = self.ends.try_recv() {
            return Ok(Go::NoFurther);
        }
        let place = Place { file: FOLLOWED.to_owned(), line: self.list.next_line() };
        let line = serde_json::to_vec(row).expect("rows hold only what JSON can write");
        let digest = blake3::hash(&line).to_hex().to_string();
        let sample = self.encode(line, &place)?;
        let metadata = row.metadata();
        self.list.put(&Followed {
            episode: metadata.episode.as_deref().unwrap_or_default(),
            round: metadata.round.unwrap_or_default(),
            scope: metadata.scope.as_deref().unwrap_or_default(),
            source: metadata.source.as_deref().unwrap_or_default(),
            row: digest,
            tokens: sample.as_ref().map_or(0, |sample| sample.ids.len()),
            supervised: sample.as_ref().map_or(0, Sample::supervised),
            skipped: sample.is_none(),
        })?;
        let Some(sample) = sample else { return Ok(Go::On) };
        let came = &mut self.follow.came;
        came.samples += 1;
        *came.sources.entry(sample.source.clone()).or_default() += 1;
        if came.samples <= self.taken { Ok(Go::On) } else { self.send(sample) }
    }

    /// The sample of an export's line, read and encoded as it would be out of a file.
    fn encode(&mut self, mut line: Vec<u8>, place: &Place) -> Result<Option<Sample>, FollowError> {
        line.push(b'\n');
        let name = format!("{} (row {})", place.file, place.line);
        let Some(read) = Rows::over(&name, Cursor::new(line)).next() else { return Ok(None) };
        let encoder = &self.follow.encoder;
        Ok(self.follow.sieve.pass(read.and_then(|read| encoder.encode(&read.row, place)))?)
    }

    /// Waits until the trainer has taken a sample.
    fn send(&self, sample: Sample) -> Result<Go, FollowError> {
        let (taken, waits) = reply();
        if self.trainer.cast(TrainerMsg::Trajectory(Box::new(sample), taken)).is_err() {
            return Ok(Go::NoFurther);
        }
        match waits.blocking_recv() {
            Ok(Ok(())) => Ok(Go::On),
            Ok(Err(failure)) if failure.kind != FailureKind::Cancelled => Err(FollowError::Untaken(failure)),
            // It takes no more, or is no more: whoever started it hears of that.
            Ok(Err(_)) | Err(_) => Ok(Go::NoFurther),
        }
    }
}
