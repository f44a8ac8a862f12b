//! `legwork scenario`: faults on purpose. Lists and plays named scenarios, plays drawn ones for as long as asked, and
//! makes a failing one small. What it prints is enough to see the same again.

mod hostile;

use super::{Ended, VerbError, output};
use clap::{Args, Subcommand};
use indicatif::HumanCount;
use legwork_scenarios::soak::{SoakReport, play_in, soak};
use legwork_scenarios::{Played, Scenario, catalogue, draw, shrink, trace};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Injects faults into whole runs.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  legwork scenario list
  legwork scenario run lost-report
  legwork scenario run --all
  legwork scenario run mine.toml
  legwork scenario run --seed 4711
  legwork scenario soak --minutes 10
  legwork scenario shrink traces/seed-4711.toml")]
pub struct ScenarioArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// The named scenarios, each with what it shows.
    List,
    /// Play one: a name, a file, a seed, or all named ones.
    Run(RunArgs),
    /// Play drawn scenarios, one seed after another.
    Soak(SoakArgs),
    /// Make a failing scenario as small as it can be and still fail.
    Shrink(ShrinkArgs),
    /// Measure how often documents with orders in them are obeyed.
    Hostile(hostile::HostileArgs),
}

#[derive(Debug, Args)]
struct RunArgs {
    /// Names of the catalogue, or TOML files.
    #[arg(required_unless_present_any = ["all", "seed"])]
    scenarios: Vec<String>,
    /// Every named scenario.
    #[arg(long)]
    all: bool,
    /// The scenario that is drawn from this seed; may be given often.
    #[arg(long)]
    seed: Vec<u64>,
    /// Write the scenario and all its events to this folder.
    #[arg(long, value_name = "FOLDER")]
    trace: Option<PathBuf>,
    /// Only the hash of the events, a line each.
    #[arg(long)]
    hash: bool,
}

#[derive(Debug, Args)]
struct SoakArgs {
    /// For so long.
    #[arg(long, default_value_t = 1.0)]
    minutes: f64,
    /// Stop after so many scenarios, if that is sooner.
    #[arg(long)]
    scenarios: Option<u64>,
    /// The first seed.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Threads; all processors if absent.
    #[arg(long)]
    threads: Option<usize>,
    /// Where failing scenarios are written, shrunk.
    #[arg(long, value_name = "FOLDER", default_value = "traces")]
    traces: PathBuf,
}

#[derive(Debug, Args)]
struct ShrinkArgs {
    /// A name of the catalogue or a TOML file; a trace is one.
    #[arg(required_unless_present = "seed")]
    scenario: Option<String>,
    /// The scenario that is drawn from this seed.
    #[arg(long)]
    seed: Option<u64>,
    /// Where the small one is written.
    #[arg(long, value_name = "FOLDER", default_value = "traces")]
    traces: PathBuf,
}

pub(super) fn run(args: &ScenarioArgs) -> Result<Ended, VerbError> {
    match &args.what {
        What::List => list(),
        What::Run(args) => play_some(args),
        What::Soak(args) => soak_for(args),
        What::Shrink(args) => shrink_one(args),
        What::Hostile(args) => hostile::run(args),
    }
}

fn list() -> Result<Ended, VerbError> {
    let all = catalogue::all();
    let width = all.iter().map(|scenario| scenario.name.len()).max().unwrap_or(0);
    let lines: Vec<String> = all.iter().map(|s| format!("{:width$}  {}", s.name, s.shows)).collect();
    output::print(&format!("{}\n", lines.join("\n")));
    Ok(Ended::Done)
}

fn play_some(args: &RunArgs) -> Result<Ended, VerbError> {
    let mut scenarios: Vec<(Scenario, bool)> = Vec::new();
    for name in &args.scenarios {
        scenarios.push(find(name)?);
    }
    if args.all {
        scenarios.extend(catalogue::all().into_iter().map(|scenario| (scenario, true)));
    }
    scenarios.extend(args.seed.iter().map(|seed| (draw::scenario(*seed), false)));
    let place = room()?;
    let mut unsound = 0;
    for (scenario, named) in &scenarios {
        let folder = place.path().join("universe");
        let played = play_here(scenario, *named, &folder)?;
        unsound += usize::from(!played.is_sound());
        if args.hash {
            output::print(&format!("{} {}\n", played.hash, scenario.name));
        } else {
            output::print(&told(scenario, &played));
        }
        if let Some(traces) = &args.trace {
            write_trace(traces, scenario, &played, &folder)?;
        }
    }
    if unsound > 0 {
        output::note(&format!("{unsound} of {} scenarios failed", scenarios.len()));
        return Ok(Ended::Refused);
    }
    Ok(Ended::Done)
}

fn soak_for(args: &SoakArgs) -> Result<Ended, VerbError> {
    let began = Instant::now();
    let most = Duration::try_from_secs_f64(args.minutes * 60.0)?;
    let threads = args.threads.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from));
    let place = room()?;
    let report = soak(place.path(), args.seed, threads, |report| {
        began.elapsed() < most && args.scenarios.is_none_or(|scenarios| report.scenarios < scenarios)
    })?;
    let seconds = began.elapsed().as_secs_f64();
    output::print(&soaked(&report, seconds, args.seed, threads));
    for failing in &report.failing {
        let fails = |scenario: &Scenario| fails_alike(scenario, failing.findings[0].checker, place.path());
        let (small, tries) = shrink::shrink(&failing.scenario, fails);
        let folder = place.path().join("shrunk");
        let played = play_here(&small, false, &folder)?;
        let path = write_trace(&args.traces, &small, &played, &folder)?;
        output::note(&format!("{} shrunk in {tries} tries: {}", failing.scenario.name, path.display()));
    }
    Ok(if report.failed == 0 { Ended::Done } else { Ended::Refused })
}

fn shrink_one(args: &ShrinkArgs) -> Result<Ended, VerbError> {
    let (scenario, named) = match (&args.scenario, args.seed) {
        (Some(name), _) => find(name)?,
        (None, Some(seed)) => (draw::scenario(seed), false),
        (None, None) => return Err("name a scenario, or give a --seed".into()),
    };
    let place = room()?;
    let folder = place.path().join("universe");
    let played = play_here(&scenario, named, &folder)?;
    let Some(first) = played.findings.first() else {
        output::print(&told(&scenario, &played));
        output::note("it does not fail: there is nothing to shrink");
        return Ok(Ended::Done);
    };
    let (small, tries) = shrink::shrink(&scenario, |scenario| fails_alike(scenario, first.checker, place.path()));
    let played = play_here(&small, false, &folder)?;
    let path = write_trace(&args.traces, &small, &played, &folder)?;
    output::print(&small.to_toml());
    output::note(&format!("shrunk in {tries} tries; with its events: {}", path.display()));
    Ok(Ended::Refused)
}

/// A name of the catalogue, or a file. True if it is of the catalogue, where every fault must strike.
fn find(name: &str) -> Result<(Scenario, bool), VerbError> {
    if let Some(scenario) = catalogue::named(name) {
        return Ok((scenario, true));
    }
    let path = Path::new(name);
    if path.extension().is_some_and(|extension| extension == "toml") {
        let text = std::fs::read_to_string(path).map_err(|error| format!("{name} cannot be read: {error}"))?;
        let scenario = Scenario::from_toml(&text).map_err(|error| format!("{name}: {error}"))?;
        return Ok((scenario, false));
    }
    let nearest =
        catalogue::names().max_by(|a, b| strsim::jaro_winkler(a, name).total_cmp(&strsim::jaro_winkler(b, name)));
    let hint = nearest.map(|near| format!("; the nearest is `{near}`")).unwrap_or_default();
    Err(format!("there is no scenario `{name}`{hint}; see `legwork scenario list`, or give a .toml file").into())
}

fn play_here(scenario: &Scenario, named: bool, folder: &Path) -> Result<Played, VerbError> {
    if folder.exists() {
        std::fs::remove_dir_all(folder)?;
    }
    std::fs::create_dir_all(folder)?;
    let play = if named { catalogue::play_named } else { legwork_scenarios::play };
    Ok(play(scenario, folder)?)
}

fn fails_alike(scenario: &Scenario, checker: &str, place: &Path) -> bool {
    play_in(scenario, &place.join("shrinking"))
        .is_ok_and(|played| played.findings.iter().any(|finding| finding.checker == checker))
}

fn write_trace(traces: &Path, scenario: &Scenario, played: &Played, folder: &Path) -> Result<PathBuf, VerbError> {
    std::fs::create_dir_all(traces)?;
    let path = traces.join(format!("{}.toml", scenario.name));
    let program = super::eval::binary_digest().unwrap_or_else(|| "unknown".to_owned());
    std::fs::write(&path, trace::trace(scenario, played, folder, &program)?)?;
    Ok(path)
}

/// A folder for universes, in memory where the system has such a place: thousands of small databases need no disk.
fn room() -> std::io::Result<Room> {
    let memory = Path::new("/dev/shm");
    let within = if memory.is_dir() { memory.to_path_buf() } else { std::env::temp_dir() };
    let path = within.join(format!("legwork-scenario-{}", std::process::id()));
    std::fs::create_dir_all(&path)?;
    Ok(Room(path))
}

/// A folder that is removed when it is left.
struct Room(PathBuf);

impl Room {
    fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        let _left_behind = std::fs::remove_dir_all(&self.0);
    }
}

fn told(scenario: &Scenario, played: &Played) -> String {
    let verdict = if played.is_sound() { "sound" } else { "FAILED" };
    let mut text = format!("{verdict}  {}", scenario.name);
    if !scenario.shows.is_empty() {
        text.push_str(&format!("\n        {}", scenario.shows));
    }
    let struck: Vec<String> = played.marks.iter().map(|(mark, times)| format!("{mark} ×{times}")).collect();
    text.push_str(&format!(
        "\n        {} episodes, {} correct, {} lives, {} events, {} model calls; struck: {}\n        {}\n",
        played.records.len(),
        played.correct(),
        played.lives.len(),
        played.events,
        played.calls,
        if struck.is_empty() { "nothing".to_owned() } else { struck.join(", ") },
        played.hash
    ));
    for finding in &played.findings {
        text.push_str(&format!("        found by {finding}\n"));
    }
    text
}

fn soaked(report: &SoakReport, seconds: f64, first_seed: u64, threads: usize) -> String {
    let rate = report.scenarios as f64 / seconds.max(f64::MIN_POSITIVE);
    let count = |number: u64| HumanCount(number).to_string();
    let mut text = format!(
        "{} scenarios from seed {first_seed} in {seconds:.0} s on {threads} threads ({rate:.0} a second): {} failed\n\
         {} lives, {} episodes, {} events; {} scenarios were played twice\n\nstruck\n",
        count(report.scenarios),
        report.failed,
        count(report.lives),
        count(report.episodes),
        count(report.events),
        count(report.twice),
    );
    let width = report.marks.keys().map(String::len).max().unwrap_or(0);
    for (mark, times) in &report.marks {
        text.push_str(&format!("  {mark:width$}  {:>9}\n", count(*times)));
    }
    let never = report.never_struck();
    text.push_str(&match never.as_slice() {
        [] => "every fault struck\n".to_owned(),
        never => format!("never struck: {}\n", never.join(", ")),
    });
    for failing in &report.failing {
        for finding in &failing.findings {
            text.push_str(&format!("{}: found by {finding}\n", failing.scenario.name));
        }
    }
    text
}
