//! `legwork train` as one of several processes: the first waits for the others, has the run, and tells them how it ended; each of
//! the others has its rank do what is ordered, writes its parts of checkpoints, prints nothing, and ends as the run does.
//! It refuses to know the order of a run.

use super::launch::Launch;
use super::settings::TrainSettings;
use super::{CHECKPOINTS, data, manifest_of};
use crate::terminal::{self, Request};
use crate::verbs::{Ended, VerbError, output};
use legwork_actors::clock::Clock;
use legwork_actors::trainer::{TrainingManifest, served_decoder};
use legwork_model::ModelFiles;
use legwork_training::TrainingError;
use legwork_training::processes::{Line, Listening, News, Over, OverKind, Peers, Served, Watch, join, serve};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};

/// Processes of one run are of one version.
pub(super) const VERSION: &str = env!("CARGO_PKG_VERSION");
/// News of processes that wait to be heard.
const NEWS_MAX: usize = 64;
/// When another process is gone, what is under way here may still end in words within this time.
pub(super) const GONE_GRACE: Duration = Duration::from_secs(30);

/// What the first process has of the others; nothing where it is alone.
#[derive(Default)]
pub(super) struct Ranked {
    pub(super) peers: Option<Peers>,
    /// What is heard of them.
    pub(super) news: Option<mpsc::Receiver<(usize, News)>>,
}

impl Ranked {
    /// Waits for the others, who must have been started as this process was.
    pub(super) fn gather(
        listening: Option<&Listening>,
        manifest: &TrainingManifest,
        is_told: bool,
    ) -> Result<Self, VerbError> {
        let Some(listening) = listening else { return Ok(Self::default()) };
        let (watch, news) = watched();
        let agree = |rank: usize, described: &str| manifest.agrees_with(rank, described);
        let peers = listening.gather(&agree, &watch)?;
        if is_told {
            let who: Vec<&str> = peers.lines().iter().map(|line| line.who()).collect();
            output::note(&format!("{} ranks are there: this is rank 0, with {}", who.len() + 1, who.join(", ")));
        }
        Ok(Self { peers: Some(peers), news: Some(news) })
    }
}

fn watched() -> (Watch, mpsc::Receiver<(usize, News)>) {
    let (tells, news) = mpsc::channel(NEWS_MAX);
    (Arc::new(move |rank, what| drop(tells.try_send((rank, what)))), news)
}

/// Tells the others how it ended here.
pub(super) fn close(peers: &Peers, ended: &Result<Ended, VerbError>) {
    let (kind, why) = match ended {
        Ok(Ended::Done) => (OverKind::Done, String::new()),
        Ok(_) => (OverKind::Stopped, String::new()),
        Err(error) => (OverKind::Failed, error.to_string()),
    };
    peers.close(&Over { kind, why });
}

/// A process that is not the first, from its beginning to its end.
pub(super) fn follow_orders(settings: &TrainSettings, launch: &Launch, out: &Path) -> Result<Ended, VerbError> {
    let places = settings.places(Some(launch))?;
    let model = settings.needed("--model", &settings.model)?.clone();
    let files = ModelFiles::open(&model)?;
    let length_max = settings.length_of(files.decoder()?);
    let mut inputs = data::inputs(settings, &model, length_max)?;
    inputs.insert("model".to_owned(), files.digest(&mut |_, _| {})?.blake3);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let clock = runtime.block_on(async { Clock::system() });
    let described = manifest_of(settings, out, clock, length_max, &places, inputs).to_json();
    let (watch, news) = watched();
    let line = join(&launch.world, VERSION, described, watch)?;
    let (rank, tp, dp) = (launch.world.rank, settings.tp, settings.dp);
    let (checkpoints, make) = (out.join(CHECKPOINTS), served_decoder(&model, places));
    let (served, over) = oneshot::channel();
    let of_thread = Arc::clone(&line);
    std::thread::Builder::new().name(format!("rank-{rank}")).spawn(move || {
        let served_to = Served {
            line: &of_thread,
            checkpoints: &checkpoints,
            of_cut: [rank % tp, tp],
            of_replicas: [rank / tp, dp],
        };
        let _nobody_waits = served.send(serve(&served_to, &make));
    })?;
    let over = runtime.block_on(until_over(&line, over, news));
    runtime.shutdown_background();
    ended(&line, over?)
}

/// Waits until the run is over, and passes on to the first process that it should end.
async fn until_over(
    line: &Line,
    mut over: oneshot::Receiver<Result<Over, TrainingError>>,
    mut news: mpsc::Receiver<(usize, News)>,
) -> Result<Over, VerbError> {
    let mut signals = terminal::signals();
    let mut is_stopping = false;
    loop {
        tokio::select! {
            biased;
            over = &mut over => return Ok(over.map_err(|_| "this rank's thread died; see above for why")??),
            Some(request) = signals.recv() => {
                if is_stopping && request == Request::Interrupt {
                    return Err("left without waiting for the other ranks".into());
                }
                is_stopping = true;
                line.ask_to_stop();
            }
            Some((_, what)) = news.recv() => match what {
                News::StopAsked => {}
                News::Over(told) => return in_grace(&mut over).await.unwrap_or(Ok(told)),
                News::Gone(why) => return in_grace(&mut over).await.unwrap_or_else(|| Err(why.into())),
            },
        }
    }
}

/// The rank may be within a sum on its card that nobody else will come to, where nothing wakes it.
async fn in_grace(over: &mut oneshot::Receiver<Result<Over, TrainingError>>) -> Option<Result<Over, VerbError>> {
    let served = tokio::time::timeout(GONE_GRACE, over).await.ok()?.ok()?;
    Some(served.map_err(VerbError::from))
}

fn ended(line: &Line, over: Over) -> Result<Ended, VerbError> {
    match over.kind {
        OverKind::Done => Ok(Ended::Done),
        OverKind::Stopped => Ok(Ended::Incomplete),
        OverKind::Failed => Err(format!("{} ended the run: {}", line.who(), over.why).into()),
    }
}
