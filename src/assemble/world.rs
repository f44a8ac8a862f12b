//! Worlds by their settings, and which of their questions a run asks.

mod lookups;

use super::AssembleError;
use crate::config::{RunSettings, WorldSettings};
use legwork_protocol::id::DocId;
use legwork_protocol::question::Question;
use legwork_worlds::telling::Telling;
use legwork_worlds::{
    Canary, Missing, World, WorldDocument, archive, browsecomp_plus, foldagent, multihop, plain, qrels,
};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A world with the questions that a run asks.
pub struct LoadedWorld {
    /// Its name.
    pub name: String,
    /// All documents that were read here; empty where only a corpus file is named.
    pub documents: Vec<WorldDocument>,
    /// The corpus file, where there is one.
    pub corpus: Option<PathBuf>,
    /// The questions asked, in order.
    pub questions: Vec<Arc<Question>>,
    /// Every question of the world, for mocks.
    pub all_questions: Vec<Arc<Question>>,
    /// What documents tell, where the world knows it.
    pub told: BTreeMap<DocId, Telling>,
    /// What was noticed while reading, for a person.
    pub notes: Vec<String>,
}

/// Reads a world and picks the questions.
///
/// # Errors
/// A world that cannot be read, or a choice that leaves no question.
pub fn load_world(settings: &WorldSettings, run: &RunSettings) -> Result<LoadedWorld, AssembleError> {
    let mut notes = Vec::new();
    let (world, corpus) = match settings {
        WorldSettings::Archive { seed } => (archive::generate(*seed)?.world, None),
        WorldSettings::Multihop { path, extra } => {
            let (world, missing) = multihop::read(&multihop::Files::of_folder(path, *extra), Missing::Refuse)?;
            debug_assert!(missing.is_empty());
            let corpus = (!extra).then(|| path.join("corpus.jsonl"));
            (world, corpus)
        }
        WorldSettings::BrowsecompPlus { questions, corpus, canary_file, gold_qrels, evidence_qrels } => {
            let mut test = read_browsecomp_plus(questions, canary_file.as_deref())?;
            attach(&mut test, gold_qrels.as_deref(), qrels::Judged::Gold, &mut notes)?;
            attach(&mut test, evidence_qrels.as_deref(), qrels::Judged::Evidence, &mut notes)?;
            (World { name: "browsecomp-plus".into(), test, ..World::default() }, Some(corpus.clone()))
        }
        WorldSettings::Foldagent { questions, corpus } => {
            let read = foldagent::read(questions)?;
            // Ids alone: answers of a published test set have no place in a log.
            notes.extend(read.disagreeing.iter().map(|row| {
                format!("question {}: extra_info and reward_model give two answers; the former is kept", row.question)
            }));
            (World { name: "foldagent".into(), test: read.questions, ..World::default() }, corpus.clone())
        }
        WorldSettings::Plain { questions, corpus } => {
            let test = plain::read_questions(questions)?;
            (World { name: file_stem(questions), test, ..World::default() }, corpus.clone())
        }
    };
    let mut all_questions: Vec<Arc<Question>> = world.questions().cloned().map(Arc::new).collect();
    let lookups;
    let split = match run.split.as_str() {
        "test" => &world.test,
        "train" => &world.train,
        "lookups" => {
            lookups = lookups::of(&world.train);
            all_questions.extend(lookups.iter().cloned().map(Arc::new));
            &lookups
        }
        other => {
            let detail = format!("run.split is `{other}`, expected `test`, `train` or `lookups`");
            return Err(AssembleError::Setting(detail));
        }
    };
    let questions = pick(split, run)?;
    Ok(LoadedWorld {
        name: world.name.clone(),
        documents: world.documents,
        corpus,
        questions,
        all_questions,
        told: world.told,
        notes,
    })
}

fn read_browsecomp_plus(questions: &Path, canary_file: Option<&Path>) -> Result<Vec<Question>, AssembleError> {
    let set = match canary_file {
        None => browsecomp_plus::read(questions)?,
        Some(path) => {
            let io = |source| AssembleError::Io { path: path.to_path_buf(), source };
            let canary = Canary::new(std::fs::read_to_string(path).map_err(io)?.trim_end());
            browsecomp_plus::read_obfuscated(questions, &canary)?
        }
    };
    Ok(set.questions)
}

fn attach(
    questions: &mut [Question],
    path: Option<&Path>,
    judged: qrels::Judged,
    notes: &mut Vec<String>,
) -> Result<(), AssembleError> {
    let Some(path) = path else { return Ok(()) };
    let attached = qrels::Qrels::read(path)?.attach(questions, judged, qrels::Unknown::List)?;
    notes.push(format!(
        "{}: {} documents attached; {} questions without a judgement, {} judged questions not in the set",
        path.display(),
        attached.documents,
        attached.unjudged.len(),
        attached.unknown.len()
    ));
    Ok(())
}

fn pick(split: &[Question], run: &RunSettings) -> Result<Vec<Arc<Question>>, AssembleError> {
    let mut taken: BTreeMap<&str, usize> = BTreeMap::new();
    let mut picked = Vec::new();
    for question in split {
        if run.tiers.as_ref().is_some_and(|tiers| !tiers.contains(&question.tier)) {
            continue;
        }
        let of_tier = taken.entry(question.tier.as_str()).or_default();
        if run.questions_per_tier.is_some_and(|most| *of_tier >= most) {
            continue;
        }
        *of_tier += 1;
        picked.push(Arc::new(question.clone()));
    }
    picked.truncate(run.questions.unwrap_or(usize::MAX));
    if picked.is_empty() {
        let tiers: std::collections::BTreeSet<&str> = split.iter().map(|question| question.tier.as_str()).collect();
        return Err(AssembleError::Setting(format!(
            "no question is left of the {} in split `{}`; its tiers are {tiers:?}",
            split.len(),
            run.split
        )));
    }
    Ok(picked)
}

fn file_stem(path: &Path) -> String {
    path.file_stem().map_or_else(|| "questions".to_owned(), |stem| stem.to_string_lossy().into_owned())
}
