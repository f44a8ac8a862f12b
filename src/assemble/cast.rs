//! The cast by its settings: the real actor for each role, or the mock that is named there.

use super::AssembleError;
use super::LoadedWorld;
use crate::config::CastSettings;
use legwork_actors::cast::{Cast, real_cast, role};
use legwork_actors::inference::Routes;
use legwork_actors::ledger::WriterHandle;
use legwork_actors::retriever::Library;
use legwork_actors::stage::Stage;
use legwork_protocol::coordinator::Script;
use legwork_protocol::gate::GateDecision;
use legwork_protocol::retrieval::Page;
use legwork_scenarios::mocks::{
    ConstantGate, ConstantGrader, FixedLibrary, GoldLibrary, Lines, MockCoordinator, MockGate, OracleWorker,
};
use std::path::Path;
use std::sync::Arc;

/// The largest script, in bytes.
const SCRIPT_MAX_BYTES: usize = 16 * 1024 * 1024;

/// Draws when a gate that knows is wrong.
const KNOWING_SEED: u64 = 42;

/// Casts every role. A role that is a mock makes the whole run a mock's.
///
/// # Errors
/// A role that names nobody.
pub fn assemble_cast(
    settings: &CastSettings,
    world: &LoadedWorld,
    routes: Routes,
    library: Arc<dyn Library>,
    ledger: Arc<WriterHandle>,
) -> Result<Cast, AssembleError> {
    let library = cast_library(&settings.retriever, world, library)?;
    let mut cast = real_cast(routes, library, ledger);
    match settings.worker.as_str() {
        "model" => {}
        "mock:oracle" => {
            let key: Vec<_> = world.all_questions.clone();
            let oracle = OracleWorker::new(move |brief| {
                let asked = key.iter().find(|question| brief.contains(&question.text))?;
                asked.answers.first().cloned()
            });
            cast.worker = role("mock: answer key", move |args| (oracle.clone(), args));
        }
        other => return Err(nobody("cast.worker", other, "model or mock:oracle")),
    }
    let verdict = match settings.grader.as_str() {
        "grader" => None,
        "mock:correct" => Some(Some(true)),
        "mock:wrong" => Some(Some(false)),
        "mock:silent" => Some(None),
        other => return Err(nobody("cast.grader", other, "grader, mock:correct, mock:wrong or mock:silent")),
    };
    if let Some(verdict) = verdict {
        cast.grader = role("mock: constant", move |_stage: Arc<Stage>| (ConstantGrader(verdict), ()));
    }
    match settings.gate.as_str() {
        "gate" => {}
        "mock:stop" => cast.gate = ConstantGate(GateDecision::Stop).role(),
        "mock:continue" => cast.gate = ConstantGate(GateDecision::Continue).role(),
        other => match other.strip_prefix("mock:knowing:").and_then(|rate| rate.parse().ok()) {
            Some(rate) if (0.0..=1.0).contains(&rate) => {
                let questions: Vec<_> = world.all_questions.iter().map(|question| (**question).clone()).collect();
                cast.gate = MockGate::knowing(&questions, rate, KNOWING_SEED).role();
            }
            _ => {
                let known = "gate, mock:stop, mock:continue or mock:knowing:RATE with a rate from 0 to 1";
                return Err(nobody("cast.gate", other, known));
            }
        },
    }
    match settings.coordinator.split_once(':') {
        None if settings.coordinator == "mind" => {}
        Some(("scripted", _)) => {}
        Some(("mock", file)) => {
            let text = read_text(Path::new(file))?;
            let lines = Lines::from_toml(&text).map_err(|error| AssembleError::Setting(format!("{file}: {error}")))?;
            cast.coordinator = MockCoordinator::following(lines).role();
        }
        _ => {
            let expected = "mind, scripted:FILE.toml or mock:FILE.toml";
            return Err(nobody("cast.coordinator", &settings.coordinator, expected));
        }
    }
    Ok(cast)
}

/// The script that `cast.coordinator = "scripted:FILE"` names, if it does.
///
/// # Errors
/// A script that cannot be read.
pub fn load_script(settings: &CastSettings) -> Result<Option<Script>, AssembleError> {
    let Some(path) = settings.coordinator.strip_prefix("scripted:") else { return Ok(None) };
    let text = read_text(Path::new(path))?;
    let script = toml::from_str(&text);
    script.map(Some).map_err(|error| AssembleError::Setting(format!("{path}: {error}")))
}

/// The lines that `cast.coordinator = "mock:FILE"` names, by their digest, for the manifest.
///
/// # Errors
/// Lines that cannot be read.
pub fn lines_digest(settings: &CastSettings) -> Result<Option<String>, AssembleError> {
    let Some(path) = settings.coordinator.strip_prefix("mock:") else { return Ok(None) };
    let text = read_text(Path::new(path))?;
    Ok(Some(blake3::hash(text.as_bytes()).to_hex().to_string()))
}

fn read_text(path: &Path) -> Result<String, AssembleError> {
    let text =
        std::fs::read_to_string(path).map_err(|source| AssembleError::Io { path: path.to_path_buf(), source })?;
    if text.len() > SCRIPT_MAX_BYTES {
        let detail = format!("{} has {} bytes, a script has at most {SCRIPT_MAX_BYTES}", path.display(), text.len());
        return Err(AssembleError::Setting(detail));
    }
    Ok(text)
}

fn cast_library(name: &str, world: &LoadedWorld, library: Arc<dyn Library>) -> Result<Arc<dyn Library>, AssembleError> {
    Ok(match name {
        "library" => library,
        "mock:gold" => {
            let pages = world.documents.iter().map(|document| Page {
                docid: document.docid.clone(),
                url: Some(document.url.clone()).filter(|url| !url.is_empty()),
                title: Some(document.title.clone()).filter(|title| !title.is_empty()),
                text: Arc::from(document.text.as_str()),
            });
            let questions = world.all_questions.iter().map(|question| (**question).clone()).collect();
            Arc::new(GoldLibrary::new(pages, questions))
        }
        "mock:fixed" => Arc::new(FixedLibrary::of_size(5, 2048)),
        other => return Err(nobody("cast.retriever", other, "library, mock:gold or mock:fixed")),
    })
}

fn nobody(role: &str, name: &str, expected: &str) -> AssembleError {
    AssembleError::Setting(format!("{role} is `{name}`, expected {expected}"))
}
