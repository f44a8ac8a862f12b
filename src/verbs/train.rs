//! `legwork train`: trains a model on rows, or on a run as its episodes end. Encodes them, writes the manifest, starts the trainer, shows its steps, and ends with
//! a checkpoint that can be exported or gone on with.

mod data;
mod follow;
mod launch;
mod ranked;
mod rate;
mod settings;
mod watched;

use super::eval::{ViewFlags, name_by_time};
use super::{Ended, VerbError, output};
use crate::terminal::{self, TrainingView, WatchMode};
use clap::Args;
use data::{Source, TrainData};
use follow::{Follow, NEWS_MAX};
use launch::Launch;
use legwork_actors::clock::Clock;
use legwork_actors::local::Device;
use legwork_actors::supervision::RestartLimit;
use legwork_actors::trainer::{
    Checkpoints, Feed, MANIFEST, Packing, RankPlaces, SHOWN_MAX, Shelf, Show, TrainerArgs, TrainerError, TrainerMsg,
    TrainingFolder, TrainingManifest, decoder_group, decoder_group_of_processes, measured_peak, start,
};
use legwork_model::{DecoderConfig, ModelFiles};
use legwork_training::Sample;
use legwork_training::batch::pack;
use legwork_training::course::{CourseEnd, Progress};
use legwork_training::network::{NetworkSettings, step_flops};
use legwork_training::processes::{Listening, Peers};
use legwork_training::rows::BadReport;
use legwork_training::schedule::Schedule;
use ranked::Ranked;
use rate::Pace;
use settings::{TrainFlags, TrainSettings};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::sync::mpsc;
use watched::{Seen, Watched, end_following, tell_end};

/// Ranks are made anew at most so often.
const RESTARTS: RestartLimit = RestartLimit { restarts_max: 3, window_ms: 600_000 };
/// A process that is gone is made anew by whoever started it.
const NO_RESTARTS: RestartLimit = RestartLimit { restarts_max: 0, window_ms: 1 };
/// Where checkpoints are, in a run's folder.
pub(super) const CHECKPOINTS: &str = "checkpoints";
/// Where TensorBoard's files are, in a run's folder.
const TENSORBOARD: &str = "tensorboard";
/// The list of rows that were skipped, in a run's folder.
const BAD_ROWS: &str = "bad-rows.json";

/// Trains a model on rows, or on a run as its episodes end.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  legwork train --rows mix.jsonl --model models/tiny --out runs/sft
  legwork train --rows mix.jsonl --model models/tiny --out runs/sft --resume
  legwork train -c train.toml --eval held.jsonl --eval-every 50
  legwork train --follow runs/mine --split train --model models/tiny --out runs/live --slots 200

One slot of rows is one update. Numbers that are not given are those of the published recipe; where it began with slot 1 and so
made one update less, that is --first-slot 1. Ctrl-C finishes the step, writes a checkpoint and ends; --resume goes on from there
to the same weights.

Where RANK is set, this is one of WORLD_SIZE processes, as torchrun or Kubernetes start them, each with the same flags
and --out in a folder that all see; tp times dp is WORLD_SIZE. Each takes the card of its LOCAL_RANK, of those in --device where
several are named. Rank 0 listens at MASTER_ADDR:MASTER_PORT (torchrun listens there itself: then at the next port), writes and
prints. A process that dies ends the run for all; start all of them again with --resume.
  torchrun --no-python --nproc-per-node 2 legwork train --tp 2 --device cuda --rows mix.jsonl --model models/4b --out runs/sft
  srun sh -c 'RANK=$SLURM_PROCID WORLD_SIZE=$SLURM_NTASKS LOCAL_RANK=$SLURM_LOCALID exec legwork train …'   # with MASTER_* set

--follow takes the run's rows in the order in which its episodes ended, those that `legwork ledger export` writes, while `legwork
eval` goes on with it or afterwards, and ends when all of its episodes have ended; rows that fill no slot any more are left out.
Where no more episodes end, Ctrl-C ends it with what has come.")]
pub struct TrainArgs {
    /// A TOML file with these settings, under the flags' names with `_` for `-`.
    #[arg(long, short = 'c')]
    config: Option<PathBuf>,
    #[command(flatten)]
    flags: TrainFlags,
    /// The run's folder; named by the time if absent.
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
    /// Go on with the run in --out, with the same inputs.
    #[arg(long, requires = "out")]
    resume: bool,
    #[command(flatten)]
    view: ViewFlags,
}

/// What training is made of, before it begins.
struct Plan {
    settings: TrainSettings,
    places: RankPlaces,
    model: PathBuf,
    config: DecoderConfig,
    config_json: serde_json::Map<String, serde_json::Value>,
    data: TrainData,
    manifest: TrainingManifest,
    out: PathBuf,
}

pub(super) fn run(args: &TrainArgs) -> Result<Ended, VerbError> {
    let settings = TrainSettings::resolve(args.config.as_ref(), &args.flags)?;
    let launch = settings.launch()?;
    let out = match (&args.out, &launch) {
        (Some(out), _) => out.clone(),
        (None, None) => Path::new("runs").join(name_by_time("train")),
        (None, Some(_)) => {
            return Err("RANK is set: expected --out, which all processes of a run have in common; give it".into());
        }
    };
    if let Some(launch) = launch.as_ref().filter(|launch| launch.world.rank > 0) {
        return ranked::follow_orders(&settings, launch, &out);
    }
    // Before anything takes time: whether the run can be kept there.
    match (args.resume, out.join(MANIFEST).exists()) {
        (true, false) => return Err(TrainerError::NoRun { path: out }.into()),
        (false, true) => return Err(TrainerError::RunExists { path: out }.into()),
        _ => {}
    }
    let mode = args.view.mode();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let clock = runtime.block_on(async { Clock::system() });
    let listening = launch.as_ref().map(|launch| Listening::bind(launch.world.clone(), ranked::VERSION)).transpose()?;
    let plan = prepare(settings, launch.as_ref(), out, clock, mode)?;
    let ranked = Ranked::gather(listening.as_ref(), &plan.manifest, mode != WatchMode::Silent)?;
    let peers = ranked.peers.clone();
    let ended = runtime.block_on(train(plan, ranked, args, clock, mode));
    if let Some(peers) = &peers {
        ranked::close(peers, &ended);
    }
    // Whoever left at the second request waits for no rank.
    runtime.shutdown_background();
    ended
}

/// Reads model and rows, and describes them.
fn prepare(
    settings: TrainSettings,
    launch: Option<&Launch>,
    out: PathBuf,
    clock: Clock,
    mode: WatchMode,
) -> Result<Plan, VerbError> {
    let is_told = mode == WatchMode::Live;
    // Before anything takes time: whether there is a device for each rank.
    let places = settings.places(launch)?;
    let model = settings.needed("--model", &settings.model)?.clone();
    let files = ModelFiles::open(&model)?;
    let config = files.decoder()?.clone();
    let config_json = config_json(&model)?;
    let length_max = settings.length_of(&config);
    let mut data = data::read(&settings, &model, length_max, is_told)?;
    let bar = terminal::progress::bytes("the model's digest", None, is_told);
    let digest = files.digest(&mut |done, _| bar.set_position(done))?;
    bar.finish_and_clear();
    data.inputs.insert("model".to_owned(), digest.blake3);
    let mut manifest = manifest_of(&settings, &out, clock, length_max, &places, data.inputs.clone());
    manifest.data = data.described(settings.normalisation);
    Ok(Plan { settings, places, model, config, config_json, data, manifest, out })
}

/// What a run is made of, but for what its rows say.
fn manifest_of(
    settings: &TrainSettings,
    out: &Path,
    clock: Clock,
    length_max: usize,
    places: &RankPlaces,
    inputs: BTreeMap<String, String>,
) -> TrainingManifest {
    let name = out.file_name().map_or_else(|| "train".to_owned(), |name| name.to_string_lossy().into_owned());
    let mut manifest = TrainingManifest::new(name, clock.epoch_ms(), env!("CARGO_PKG_VERSION").to_owned());
    manifest.inputs = inputs;
    manifest.settings = settings.manifest(length_max);
    manifest.settings["device"] = places.kind().into();
    manifest
}

fn config_json(model: &Path) -> Result<serde_json::Map<String, serde_json::Value>, VerbError> {
    let path = model.join("config.json");
    let text = std::fs::read_to_string(&path).map_err(|error| {
        format!("cannot read {}: {error}; training needs a model's folder as Hugging Face has it", path.display())
    })?;
    Ok(serde_json::from_str(&text).map_err(|error| format!("{}: {error}", path.display()))?)
}

impl Plan {
    fn checkpoints(&self) -> Checkpoints {
        let run = serde_json::json!({"name": self.manifest.run, "inputs": self.manifest.inputs});
        Checkpoints {
            root: self.out.join(CHECKPOINTS),
            model: self.config_json.clone(),
            ranks: self.settings.tp,
            batch: self.settings.batch,
            keep_last: self.settings.keep_last,
            run: run.as_object().cloned().unwrap_or_default(),
        }
    }

    fn open(&self, resume: bool) -> Result<TrainingFolder, VerbError> {
        let folder = if resume {
            TrainingFolder::resume(&self.out, &self.manifest)?
        } else {
            TrainingFolder::create(&self.out, &self.manifest)?
        };
        write_bad_rows(&self.out, &self.data.bad)?;
        Ok(folder)
    }

    fn tell(&self, peak: &Peak) {
        if let Source::Run { follow, .. } = &self.data.source {
            let (out, run, planned) = (self.out.display(), follow.run().display(), follow.planned());
            let rate = match self.settings.slots {
                Some(slots) => format!("the rate is planned for {slots} slots"),
                None => format!("the rate rises over {} slots and stays", rate::RISING_SLOTS),
            };
            let batch = self.settings.batch;
            output::note(&format!("training {out} on {run} as its {planned} episodes end: slots of {batch}; {rate}"));
            output::note(&peak.says);
            return;
        }
        let data = &self.manifest.data;
        output::note(&format!(
            "training {} on {} rows: {} slots of {}, {} rows used, {} never; each loss by {}",
            self.out.display(),
            data.rows,
            data.slots,
            self.settings.batch,
            data.rows_used,
            data.rows_never_used,
            serde_json::to_value(self.settings.normalisation).unwrap_or_default().as_str().unwrap_or_default()
        ));
        for (source, share) in data.sources.iter().filter(|_| data.sources.len() > 1) {
            let source = legwork_protocol::untrusted::Untrusted::new(if source.is_empty() { "(none)" } else { source });
            output::note(&format!(
                "  source {}: {} rows, {} tokens in the loss, {:.1} % of the gradient's weight",
                source.for_log(64),
                share.rows,
                share.supervised,
                share.gradient_share * 100.0
            ));
        }
        if self.data.bad.total() > 0 {
            let path = self.out.join(BAD_ROWS);
            output::note(&format!("{} bad rows are skipped; {} lists them", self.data.bad.total(), path.display()));
        }
        output::note(&peak.says);
    }
}

/// Lists what was skipped, if anything was.
fn write_bad_rows(out: &Path, bad: &BadReport) -> Result<(), VerbError> {
    if bad.total() == 0 {
        return Ok(());
    }
    let path = out.join(BAD_ROWS);
    let list = serde_json::to_string_pretty(bad)?;
    std::fs::write(&path, list)
        .map_err(|error| format!("cannot write {}: {error}; check that it has room", path.display()).into())
}

/// What the machine could do.
struct Peak {
    flops: Option<f64>,
    says: String,
}

fn peak(settings: &TrainSettings, places: &RankPlaces, clock: Clock) -> Peak {
    if let Some(tflops) = settings.peak_tflops {
        return Peak { flops: Some(tflops * 1e12), says: format!("MFU is of {tflops} TFLOP/s, as stated") };
    }
    let how = match settings.device {
        Device::Processor => "the processor's peak as measured just now in small products",
        _ => "what a product of 8,192 rows and columns reached just now on a card, times the cards",
    };
    match measured_peak(places, clock) {
        Some(flops) => Peak { flops: Some(flops), says: format!("MFU is of {:.4} TFLOP/s, {how}", flops / 1e12) },
        None => Peak { flops: None, says: "no MFU: the machine's peak could not be measured".to_owned() },
    }
}

async fn train(
    plan: Plan,
    ranked: Ranked,
    args: &TrainArgs,
    clock: Clock,
    mode: WatchMode,
) -> Result<Ended, VerbError> {
    // From here on Ctrl-C is a request.
    let signals = terminal::signals();
    let folder = plan.open(args.resume)?;
    let mut shelf = plan.checkpoints();
    let saved = shelf.latest()?.map_or(Progress::default(), |latest| latest.state.at);
    let peak = tokio::task::block_in_place(|| peak(&plan.settings, &plan.places, clock));
    if mode != WatchMode::Silent {
        plan.tell(&peak);
    }
    let (records, shown) = mpsc::channel(SHOWN_MAX);
    let (over, waits) = legwork_actors::address::reply();
    let (out, steps, batch) = (plan.out.clone(), plan.manifest.data.slots, plan.settings.batch);
    let show = Show::new(Some(records), Some(out.join(TENSORBOARD)));
    let Ranked { peers, news: of_ranks } = ranked;
    let (given, follow) = plan.given(peers);
    let trainer = start(trainer_args(given, folder, Box::new(shelf), saved, show, peak.flops, clock, over)).await?;
    trainer.cast(TrainerMsg::Begin)?;
    let (tells, news) = mpsc::channel(NEWS_MAX);
    let taken = saved.slots * batch;
    let following = follow.map(|follow| follow.start(&out, taken, trainer.clone(), tells)).transpose()?;
    let view = TrainingView::new(mode, args.view.json, steps);
    let mut watched = Watched { out, trainer, view, seen: Seen::default(), is_silent: mode == WatchMode::Silent };
    let end = watched.until_over(shown, waits, news, signals, of_ranks).await?;
    let Watched { out, seen, .. } = watched;
    let Some(following) = following else { return tell_end(&out, end, &seen, args.view.json) };
    end_following(following, &out, end, batch, &seen, args.view.json)
}

/// What a trainer is given that depends on the plan.
struct Given {
    settings: TrainSettings,
    places: RankPlaces,
    peers: Option<Peers>,
    model: PathBuf,
    config: DecoderConfig,
    held_out: Vec<Sample>,
    rows_max: usize,
    feed: Feed,
    pace: Pace,
}

impl Plan {
    /// What the trainer is given, and what is to be followed beside it.
    fn given(self, peers: Option<Peers>) -> (Given, Option<Box<Follow>>) {
        let Self { settings, places, model, config, data, .. } = self;
        let TrainData { source, held_out, rows_max, .. } = data;
        let planned = |total_samples| {
            Pace::Planned(Schedule {
                max_rate: settings.lr,
                min_rate: settings.min_lr,
                warmup_share: settings.warmup,
                total_samples,
            })
        };
        let (feed, pace, follow) = match source {
            Source::Rows { samples, slots } => {
                let feed = Feed::List { samples, order: data::order(slots), slots: slots.updates() };
                (feed, planned(slots.total_samples()), None)
            }
            Source::Run { follow, limits } => {
                let batch = usize::try_from(settings.batch).unwrap_or(usize::MAX);
                let pace = match settings.slots {
                    Some(slots) => planned(slots.saturating_mul(settings.batch)),
                    None => Pace::open(settings.lr, settings.batch),
                };
                (Feed::Live { batch, limits }, pace, Some(follow))
            }
        };
        (Given { settings, places, peers, model, config, held_out, rows_max, feed, pace }, follow)
    }
}

#[allow(clippy::too_many_arguments, reason = "all that a trainer is given")]
fn trainer_args(
    given: Given,
    folder: TrainingFolder,
    shelf: Box<dyn Shelf>,
    saved: Progress,
    show: Show,
    peak_flops: Option<f64>,
    clock: Clock,
    over: legwork_actors::address::Reply<CourseEnd>,
) -> TrainerArgs {
    let Given { settings, places, peers, model, config, held_out, rows_max, feed, pace } = given;
    let (tokens_max, multiple, normalisation) = (settings.tokens_max, settings.multiple(), settings.normalisation);
    let TrainSettings { keep_attention, keep_products, softmax_over_padding, .. } = settings;
    let network = NetworkSettings { rows_max, keep_attention, keep_products, softmax_over_padding };
    TrainerArgs {
        feed,
        batch: settings.batch,
        packing: Packing {
            tokens_max,
            multiple,
            normalisation,
            flops: Some(Arc::new(move |lengths, rows| step_flops(&config, lengths, rows))),
        },
        held_out: Arc::new(match held_out.is_empty() {
            true => Vec::new(),
            false => pack(&held_out, tokens_max, multiple, normalisation),
        }),
        update: settings.update(),
        rate: Arc::new(move |samples| pace.rate(samples)),
        save_every: settings.save_every,
        evaluate_every: settings.eval_every,
        restarts: if peers.is_some() { NO_RESTARTS } else { RESTARTS },
        make: match peers {
            Some(peers) => decoder_group_of_processes(&model, places, network, peers),
            None => decoder_group(&model, places, network),
        },
        folder,
        shelf,
        saved,
        show,
        peak_flops,
        clock,
        over,
    }
}
