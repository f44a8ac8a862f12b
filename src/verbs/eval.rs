//! `legwork eval`: the main job. Puts a run together, lets it go, watches it, prints the table and writes the report.

mod place;

pub(super) use place::Place;

use super::{ConfigFlags, Ended, VerbError, output, resolve};
use crate::assemble::{self, LoadedWorld};
use crate::config::Settings;
use crate::runs::{OpenRun, latest};
use crate::terminal::{self, WatchMode, WatchOptions, progress};
use clap::Args;
use legwork_actors::clock::Clock;
use legwork_actors::ledger::{LedgerReader, Manifest, WriterHandle};
use legwork_actors::local::{Device, LocalModel};
use legwork_actors::run::{RunEnd, RunPlan, start};
use legwork_actors::stage::{Stage, StageParts};
use legwork_protocol::coordinator::Script;
use legwork_protocol::failure::FailureKind;
use legwork_protocol::prompt::prompts_digest;
use legwork_protocol::question::Question;
use legwork_report::{Charset, Format, render};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

/// Runs episodes over a world and prints the table.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  legwork eval                                    the embedded archive, with a mock worker
  legwork eval -c run.toml --concurrency 128      a configuration of your own
  legwork eval --model models/SmolLM2-135M.gguf   a model in this process as the worker
  legwork eval --model models/Qwen3-4B --device cuda:all   on every card of NVIDIA here
  legwork eval --resume                           go on with the last run")]
pub struct EvalArgs {
    #[command(flatten)]
    config: ConfigFlags,
    /// Episodes at once.
    #[arg(long)]
    concurrency: Option<u32>,
    /// Passes over the questions.
    #[arg(long)]
    rounds: Option<u32>,
    /// Where every draw comes from.
    #[arg(long)]
    seed: Option<u32>,
    /// Only the first so many questions.
    #[arg(long)]
    questions: Option<u32>,
    /// Only the first so many questions of each tier.
    #[arg(long)]
    questions_per_tier: Option<u32>,
    /// Only these tiers; may be given often.
    #[arg(long = "tier")]
    tiers: Vec<String>,
    /// The coordinator: model, direct, fold or scripted.
    #[arg(long)]
    coordinator: Option<String>,
    /// The worker's model, in this process: a Hugging Face folder, a GGUF file, or a folder with one.
    #[arg(long, value_name = "PATH")]
    model: Option<PathBuf>,
    /// Where the worker's model computes, if it is in this process: cpu, cuda, cuda:1, cuda:0,1 (a replica on each), cuda:0+1 (cut over
    /// both) or cuda:all.
    #[arg(long)]
    device: Option<Device>,
    /// The new run's folder; named by time and profile if absent.
    #[arg(long, value_name = "FOLDER", conflicts_with = "resume")]
    run: Option<PathBuf>,
    /// Go on with the run in this folder, or with the last one.
    #[arg(long, value_name = "FOLDER", num_args = 0..=1, default_missing_value = "")]
    resume: Option<PathBuf>,
    /// A difference from the manifest to accept when resuming, by name; may be given often.
    #[arg(long, value_name = "NAME", requires = "resume")]
    accept: Vec<String>,
    #[command(flatten)]
    view: ViewFlags,
}

/// How a run is shown.
#[derive(Clone, Copy, Debug, Args)]
pub(super) struct ViewFlags {
    /// Plain lines instead of the live view.
    #[arg(long)]
    plain: bool,
    /// Nothing but the result.
    #[arg(long)]
    quiet: bool,
    /// The result as JSON on standard output, and nothing else.
    #[arg(long)]
    pub(super) json: bool,
}

impl ViewFlags {
    pub(super) fn mode(self) -> WatchMode {
        terminal::here(terminal::Flags { plain: self.plain, json: self.json, quiet: self.quiet })
    }
}

impl EvalArgs {
    fn own_flags(&self) -> Vec<(&'static str, &'static str, toml::Value)> {
        let number = |value: u32| toml::Value::Integer(i64::from(value));
        let mut flags = Vec::new();
        let mut numbers = |flag, key, value: Option<u32>| flags.extend(value.map(|value| (flag, key, number(value))));
        numbers("--concurrency", "run.limits.concurrency", self.concurrency);
        numbers("--rounds", "run.rounds", self.rounds);
        numbers("--seed", "run.seed", self.seed);
        numbers("--questions", "run.questions", self.questions);
        numbers("--questions-per-tier", "run.questions_per_tier", self.questions_per_tier);
        if !self.tiers.is_empty() {
            let tiers = self.tiers.iter().cloned().map(toml::Value::String).collect();
            flags.push(("--tier", "run.tiers", toml::Value::Array(tiers)));
        }
        if let Some(kind) = &self.coordinator {
            flags.push(("--coordinator", "coordinator.kind", toml::Value::String(kind.clone())));
        }
        if let Some(path) = &self.model {
            let path = toml::Value::String(path.display().to_string());
            flags.push((
                "--model",
                "models.worker",
                toml::Value::Table([("local".to_owned(), path)].into_iter().collect()),
            ));
        }
        if let Some(device) = &self.device {
            flags.push(("--device", "models.worker.engine.device", toml::Value::String(device.to_string())));
        }
        flags
    }
}

pub(super) fn run(args: EvalArgs) -> Result<Ended, VerbError> {
    let resolved = resolve(&args.config, args.own_flags())?;
    if args.device.is_some() && resolved.value("models.worker.local").is_empty() {
        return Err(
            "--device: the worker's model is not in this process; name one by --model or models.worker.local".into()
        );
    }
    let settings = Settings::read(&resolved)?;
    let place = match (&args.resume, &args.run) {
        (Some(folder), _) if folder.as_os_str().is_empty() => Place::Resume(latest(&settings.run.folder)?),
        (Some(folder), _) => Place::Resume(folder.clone()),
        (None, Some(folder)) => Place::New(folder.clone()),
        (None, None) => Place::New(settings.run.folder.join(name_by_time(&settings.profile.name))),
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let ended = runtime.block_on(evaluate(&settings, place, &args.accept, args.view));
    // Whoever left at the third request does not wait for a disk that hangs.
    runtime.shutdown_background();
    ended
}

/// Runs to the end, prints the table and writes the reports. How the run ended comes first: a report that cannot be
/// written never hides it.
pub(super) async fn evaluate(
    settings: &Settings,
    place: Place,
    accept: &[String],
    view: ViewFlags,
) -> Result<Ended, VerbError> {
    place.check()?;
    let folder = place.folder().to_path_buf();
    let (end, mode) = carry_out(settings, &place, accept, view).await?;
    match end {
        RunEnd::Complete => {
            tell(settings, &folder, view, mode).map_err(|error| {
                let folder = folder.display();
                format!("every episode of {folder} has ended and is kept, its report is not: {error}; when that is mended, `legwork report {folder}` makes it")
            })?;
            Ok(Ended::Done)
        }
        RunEnd::Incomplete { left } => {
            tell(settings, &folder, view, mode).unwrap_or_else(|error| unreported(&error));
            output::note(&format!("{left} episodes have not ended; {}", how_to_go_on(&folder)));
            Ok(Ended::Incomplete)
        }
        // Whoever left at the third request waits for nothing.
        RunEnd::Failed(failure) if failure.kind == FailureKind::Cancelled => Err(failure.into()),
        RunEnd::Failed(failure) => {
            tell(settings, &folder, view, mode).unwrap_or_else(|error| unreported(&error));
            output::note(&format!("the run has failed, what was acknowledged is kept; {}", how_to_go_on(&folder)));
            Err(failure.into())
        }
    }
}

/// Prints the table of what there is and writes the reports, in this order: the table needs no room.
fn tell(settings: &Settings, folder: &Path, view: ViewFlags, mode: WatchMode) -> Result<(), VerbError> {
    let run = OpenRun::open(folder)?;
    let summary = run.summary(settings.run.resamples)?;
    let provenance = [run.provenance(format!("{} on {}", run.manifest.profile.name, run.manifest.world))];
    let format = if view.json { Format::Json } else { Format::Brief(Charset::Unicode) };
    output::print(&render(&summary, &provenance, format)?);
    let written = run.write_reports(&summary)?;
    if mode != WatchMode::Silent {
        written.iter().for_each(|path| output::note(&format!("wrote {}", path.display())));
    }
    Ok(())
}

fn unreported(error: &VerbError) {
    output::note(&format!("there is no whole report: {error}"));
}

fn how_to_go_on(folder: &Path) -> String {
    format!("go on with the same flags and --resume {} in place of --run", folder.display())
}

async fn carry_out(
    settings: &Settings,
    place: &Place,
    accept: &[String],
    view: ViewFlags,
) -> Result<(RunEnd, WatchMode), VerbError> {
    let mode = view.mode();
    let world = assemble::load_world(&settings.world, &settings.run)?;
    if mode != WatchMode::Silent {
        world.notes.iter().for_each(|text| output::note(text));
    }
    let script = assemble::load_script(&settings.cast)?;
    let models = assemble::assemble_models(settings, &world)?;
    let counters = assemble::counters(&settings.tokenizers, &models.local)?;
    let bar = progress::documents("indexing", mode == WatchMode::Live);
    let embedder = assemble::embedder(settings)?;
    let parts =
        assemble::assemble_library(settings, &world, embedder, &mut |step| progress::build_step(&bar, &step)).await?;
    bar.finish_and_clear();
    let mut manifest = manifest(settings, &world, script.clone(), models.mock)?;
    manifest.inputs.extend(models.inputs);
    manifest.inputs.extend(parts.inputs);
    manifest.inputs.extend(assemble::lines_digest(&settings.cast)?.map(|digest| ("coordinator.lines".into(), digest)));
    manifest.inputs.insert("tokenizer.worker".into(), counters.worker.name().to_owned());
    manifest.inputs.insert("tokenizer.coordinator".into(), counters.coordinator.name().to_owned());
    if let Place::Fork(_, cut) = place {
        manifest.forked_from = Some(cut.from.clone());
    }
    manifest.run = place.folder().file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();

    let clock = Clock::system();
    let store = place.open(&manifest, &world, accept, clock.epoch_ms())?;
    let reader = LedgerReader::open(place.folder())?;
    let (planned, begun, ended, records) = (reader.planned()?, reader.begun()?, reader.ended()?, reader.records()?);
    // Questions as they were planned: a resumed run asks what it was begun with.
    let questions: Vec<Arc<Question>> = reader.questions()?.into_iter().map(Arc::new).collect();
    drop(reader);

    let writer = Arc::new(WriterHandle::start(store)?);
    let cast = assemble::assemble_cast(&settings.cast, &world, models.routes, parts.library, writer)?;
    let stage = Stage::new(StageParts {
        profile: Arc::new(settings.profile.clone()),
        limits: settings.run.limits.clone(),
        script: script.map(Arc::new),
        seed: settings.run.seed,
        clock,
        worker_tokens: counters.worker,
        coordinator_tokens: counters.coordinator,
        control_tokens: counters.control,
        cast,
    });
    let waiting = planned.into_iter().filter(|key| !ended.contains(key)).collect();
    let plan = RunPlan { stage: Arc::clone(&stage), questions, waiting, begun, ended: records };
    let running = start(plan).await?;
    let options = WatchOptions {
        mode,
        title: manifest.run.clone(),
        profile: settings.profile.name.clone(),
        mock: models.mock,
        concurrency: settings.run.limits.concurrency,
    };
    let end = terminal::watch(stage.board.clone(), running.run, running.over, options).await;
    if mode != WatchMode::Silent {
        models.local.values().for_each(|model| output::note(&served(model)));
    }
    Ok((end, mode))
}

/// What a model in this process has computed, and what its prefix cache saved.
fn served(model: &LocalModel) -> String {
    let seen = model.gauges();
    let share = 100.0 * seen.prefix_hit_tokens as f64 / (seen.prompt_tokens as f64).max(1.0);
    format!(
        "{} on {}: {} prompt tokens, {share:.1} % of them from the prefix cache, {} tokens made in {} steps",
        model.name(),
        model.settings().device,
        seen.prompt_tokens,
        seen.generated_tokens,
        seen.steps
    )
}

/// Everything that the figures depend on, but for what the models and the library add.
fn manifest(
    settings: &Settings,
    world: &LoadedWorld,
    script: Option<Script>,
    mock_model: bool,
) -> Result<Manifest, VerbError> {
    let mut question_set = blake3::Hasher::new();
    for question in &world.questions {
        question_set.update(&serde_json::to_vec(&**question)?);
        question_set.update(b"\n");
    }
    let cast = serde_json::to_string(&settings.cast)?;
    let mocked_role = cast.contains("mock:");
    let inputs = BTreeMap::from([
        ("question_set".to_owned(), question_set.finalize().to_hex().to_string()),
        ("prompts".to_owned(), prompts_digest()),
        ("cast".to_owned(), cast),
        ("binary".to_owned(), binary_digest().unwrap_or_else(|| "unknown".to_owned())),
    ]);
    let began = SystemTime::now().duration_since(UNIX_EPOCH)?;
    Ok(Manifest {
        run: String::new(),
        began_epoch_ms: u64::try_from(began.as_millis())?,
        legwork: env!("CARGO_PKG_VERSION").to_owned(),
        world: world.name.clone(),
        profile: settings.profile.clone(),
        seed: settings.run.seed,
        rounds: settings.run.rounds,
        questions: u32::try_from(world.questions.len())?,
        mock: mock_model || mocked_role,
        inputs,
        script,
        forked_from: None,
    })
}

pub(super) fn binary_digest() -> Option<String> {
    let mut hasher = blake3::Hasher::new();
    hasher.update_reader(std::fs::File::open(std::env::current_exe().ok()?).ok()?).ok()?;
    Some(hasher.finalize().to_hex().to_string())
}

/// A folder's name that sorts by time: `20260102-030405-123-profile`, in UTC.
pub(super) fn name_by_time(profile: &str) -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let (days, second) = (since.as_secs() / 86_400, since.as_secs() % 86_400);
    let (year, month, day) = civil(days);
    format!(
        "{year:04}{month:02}{day:02}-{:02}{:02}{:02}-{:03}-{profile}",
        second / 3600,
        second / 60 % 60,
        second % 60,
        since.subsec_millis()
    )
}

/// The Gregorian date of a day since 1970 (Howard Hinnant, "chrono-compatible low-level date algorithms").
fn civil(days: u64) -> (u64, u64, u64) {
    let shifted = days + 719_468;
    let era = shifted / 146_097;
    let day_of_era = shifted % 146_097;
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_shifted + 2) / 5 + 1;
    let month = if month_shifted < 10 { month_shifted + 3 } else { month_shifted - 9 };
    (year_of_era + era * 400 + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_become_dates() {
        assert_eq!(civil(0), (1970, 1, 1));
        assert_eq!(civil(19_782), (2024, 2, 29));
        assert_eq!(civil(20_787), (2026, 11, 30));
    }
}
