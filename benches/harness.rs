//! Harness throughput: an instant mock model, episodes of so many turns, observations of about 2 KB, the SQLite ledger
//! on. Prints episodes a second, CPU seconds an episode and peak memory. Each size runs in a process of its own, so
//! that its peak is its own.
#![allow(clippy::print_stdout, reason = "a bench prints its table")]

use legwork_actors::cast::real_cast;
use legwork_actors::clock::Clock;
use legwork_actors::ledger::{LedgerReader, Manifest, Store, WriterHandle};
use legwork_actors::run::{RunEnd, RunPlan, start};
use legwork_actors::stage::{RunLimits, Stage, StageParts};
use legwork_endpoints::Endpoint;
use legwork_protocol::generation::Route;
use legwork_protocol::id::EpisodeKey;
use legwork_protocol::profile::Profile;
use legwork_protocol::question::Question;
use legwork_protocol::tokens::QuarterBytes;
use legwork_protocol::untrusted::ControlTokens;
use legwork_scenarios::mocks::{FixedLibrary, InstantModel};
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

struct Setting {
    episodes: usize,
    concurrent: usize,
    turns: u32,
    latency: Duration,
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).filter(|arg| arg != "--bench").collect();
    if let [episodes, concurrent, turns, latency_ms] = args.as_slice() {
        let number = |text: &String| text.parse().expect("a number");
        let latency = Duration::from_millis(number(latency_ms));
        let turns = u32::try_from(number(turns)).expect("few turns");
        let usize_of = |text: &String| usize::try_from(number(text)).expect("fits");
        let setting = Setting { episodes: usize_of(episodes), concurrent: usize_of(concurrent), turns, latency };
        return println!("{}", measure(&setting));
    }
    println!(
        "| episodes | concurrent | turns | model latency | wall s | episodes/s | turns/s | CPU s/episode | peak MB | ended |"
    );
    println!("| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |");
    let settings = [
        ("5000", "100", "6", "0"),
        ("20000", "2000", "6", "0"),
        ("20000", "10000", "6", "0"),
        ("150", "150", "40", "500"),
    ];
    for (episodes, concurrent, turns, latency) in settings {
        let program = std::env::current_exe().expect("this program");
        let output =
            std::process::Command::new(program).args([episodes, concurrent, turns, latency]).output().expect("runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        print!("{}", String::from_utf8_lossy(&output.stdout));
    }
}

fn measure(setting: &Setting) -> String {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    let cpu_before = cpu_seconds();
    let began = Instant::now();
    runtime.block_on(run(setting, folder.path()));
    let (wall, cpu) = (began.elapsed().as_secs_f64(), cpu_seconds() - cpu_before);
    let ended = LedgerReader::open(folder.path()).and_then(|reader| reader.ended()).expect("the ledger reads").len();
    assert_eq!(ended, setting.episodes, "nothing is lost");
    let (episodes, turns) = (setting.episodes as f64, f64::from(setting.turns));
    format!(
        "| {} | {} | {} | {} ms | {wall:.2} | {:.0} | {:.0} | {:.5} | {:.0} | {ended} |",
        setting.episodes,
        setting.concurrent,
        setting.turns,
        setting.latency.as_millis(),
        episodes / wall,
        episodes * turns / wall,
        cpu / episodes,
        peak_megabytes(),
    )
}

async fn run(setting: &Setting, folder: &std::path::Path) {
    let mut profile: Profile =
        toml::from_str(include_str!("../src/profiles/archive-mock.toml")).expect("the profile reads");
    profile.tools.snippet_words_new = 512;
    profile.tools.snippet_words_seen = 512;
    profile.worker.turns_max = setting.turns + 1;
    profile.worker.budget_tokens = 1_000_000;
    profile.coordinator.workers_tokens_max = 1_000_000;
    let questions: Vec<Question> = (0..setting.episodes).map(question).collect();
    let manifest = Manifest {
        run: "bench".into(),
        began_epoch_ms: 0,
        legwork: env!("CARGO_PKG_VERSION").into(),
        world: "bench".into(),
        profile: profile.clone(),
        seed: 0,
        rounds: 1,
        questions: u32::try_from(questions.len()).expect("few"),
        mock: true,
        inputs: BTreeMap::new(),
        script: None,
        forked_from: None,
    };
    let store = Store::create(folder, &manifest, &questions).expect("a store");
    let writer = Arc::new(WriterHandle::start(store).expect("a thread"));
    let model: Arc<dyn Endpoint> = Arc::new(InstantModel::new(setting.turns, setting.latency));
    let cast = real_cast(BTreeMap::from([(Route::Worker, model)]), Arc::new(FixedLibrary::of_size(5, 2048)), writer);
    let stage = Stage::new(StageParts {
        profile: Arc::new(profile),
        limits: RunLimits { concurrency: setting.concurrent, ..RunLimits::default() },
        script: None,
        seed: 0,
        clock: Clock::system(),
        worker_tokens: Arc::new(QuarterBytes),
        coordinator_tokens: Arc::new(QuarterBytes),
        control_tokens: ControlTokens::default(),
        cast,
    });
    let waiting = questions.iter().map(|question| EpisodeKey { round: 0, question: question.id.clone() }).collect();
    let questions = questions.into_iter().map(Arc::new).collect();
    let plan = RunPlan { stage, questions, waiting, begun: HashSet::new(), ended: Vec::new() };
    let running = start(plan).await.expect("starts");
    assert_eq!(running.over.await.expect("ends"), RunEnd::Complete);
}

fn question(index: usize) -> Question {
    Question {
        id: format!("q{index}").into(),
        text: format!("question {index}?"),
        answers: vec!["mock".into()],
        tier: "all".into(),
        gold: Vec::new(),
        evidence: Vec::new(),
        decomposition: Vec::new(),
    }
}

/// User and system time of this process, in seconds.
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = |place: usize| fields.get(place).and_then(|field| field.parse::<f64>().ok()).unwrap_or(0.0);
    (ticks(11) + ticks(12)) / 100.0
}

/// The largest resident size of this process so far, in megabytes.
fn peak_megabytes() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kilobytes = line.and_then(|rest| rest.split_whitespace().next()?.parse::<f64>().ok());
    kilobytes.unwrap_or(0.0) / 1024.0
}
