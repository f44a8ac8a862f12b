//! A run's folder, opened: what its report needs, whoever asks. It knows where things lie in a run and refuses to
//! know how they got there.

use legwork_actors::ledger::{LedgerError, LedgerReader, Manifest};
use legwork_protocol::budget::Amount;
use legwork_protocol::question::Question;
use legwork_protocol::record::EpisodeRecord;
use legwork_report::{Digest, Format, Plan, Provenance, ReportError, Summary, SummaryOptions, render, summarise};
use std::path::{Path, PathBuf};

/// What can go wrong with a run's folder.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// Its ledger.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    /// Its report.
    #[error(transparent)]
    Report(#[from] ReportError),
    /// A file in it.
    #[error("cannot write {}: {source}; make it writable or make room, then try again", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// There is no run to take.
    #[error("{} holds no run yet; begin one with `legwork eval`", folder.display())]
    NoneYet {
        /// Where runs are kept.
        folder: PathBuf,
    },
}

/// A run, opened for reading.
pub struct OpenRun {
    /// Its folder.
    pub folder: PathBuf,
    /// Its ledger.
    pub reader: LedgerReader,
    /// What it was begun with.
    pub manifest: Manifest,
    /// Its questions, in order.
    pub questions: Vec<Question>,
    /// Its finished episodes.
    pub records: Vec<EpisodeRecord>,
}

impl OpenRun {
    /// Opens the run in a folder.
    ///
    /// # Errors
    /// A folder without a run, or a ledger that cannot be read.
    pub fn open(folder: &Path) -> Result<Self, RunError> {
        let reader = LedgerReader::open(folder)?;
        let (manifest, questions, records) = (reader.manifest()?, reader.questions()?, reader.records()?);
        Ok(Self { folder: folder.to_path_buf(), reader, manifest, questions, records })
    }

    /// The denominator, fixed before the run.
    ///
    /// # Errors
    /// A plan that names a question twice.
    pub fn plan(&self) -> Result<Plan, RunError> {
        let questions = self.questions.iter().map(|question| (question.id.clone(), question.tier.clone()));
        Ok(Plan::of_questions(questions, self.manifest.rounds)?)
    }

    /// The summary of its records.
    ///
    /// # Errors
    /// Records that do not fit the plan.
    pub fn summary(&self, resamples: u32) -> Result<Summary, RunError> {
        let worker = &self.manifest.profile.worker;
        let coordinator = &self.manifest.profile.coordinator;
        let limited = |tokens, turns, served_ms| Amount { tokens, turns, served_ms, micros: 0 };
        let options = SummaryOptions {
            worker_budget: Some(limited(worker.budget_tokens, worker.turns_max, worker.served_max_ms)),
            coordinator_budget: Some(limited(
                coordinator.budget_tokens,
                coordinator.turns_max,
                coordinator.served_max_ms,
            )),
            gate: Some(self.manifest.profile.gate.mode),
            seed: self.manifest.seed,
            resamples,
            ..SummaryOptions::default()
        };
        Ok(summarise(&self.plan()?, &self.records, &options)?)
    }

    /// Where its records come from.
    pub fn provenance(&self, title: impl Into<String>) -> Provenance {
        Provenance {
            title: title.into(),
            run_id: self.manifest.run.clone(),
            profile: self.manifest.profile.name.clone(),
            digests: self.manifest.inputs.iter().map(|(name, digest)| Digest::new(name, digest)).collect(),
            mock: self.manifest.mock,
        }
    }

    /// Writes report.html, report.md and report.json into its folder; returns their paths. Each is made beside its place
    /// and moved there whole: a full disk or a kill leaves the one before as it was.
    ///
    /// # Errors
    /// Records that do not fit the plan, or a folder that cannot be written.
    pub fn write_reports(&self, summary: &Summary) -> Result<Vec<PathBuf>, RunError> {
        let provenance = [self.provenance(format!("{} on {}", self.manifest.profile.name, self.manifest.world))];
        let files = [("report.html", Format::Html), ("report.md", Format::Markdown), ("report.json", Format::Json)];
        let mut written = Vec::new();
        for (name, format) in files {
            let path = self.folder.join(name);
            let making = self.folder.join(format!("{name}.making"));
            let page = render(summary, &provenance, format)?;
            std::fs::write(&making, page).and_then(|()| std::fs::rename(&making, &path)).map_err(|source| {
                let _half_a_page = std::fs::remove_file(&making);
                RunError::Io { path: path.clone(), source }
            })?;
            written.push(path);
        }
        Ok(written)
    }
}

/// The run that was begun last of those in a folder: names begin with the time.
///
/// # Errors
/// If there is none.
pub fn latest(folder: &Path) -> Result<PathBuf, RunError> {
    let none = || RunError::NoneYet { folder: folder.to_path_buf() };
    let entries = std::fs::read_dir(folder).map_err(|_| none())?;
    let runs = entries.filter_map(Result::ok).map(|entry| entry.path()).filter(|path| path.join("run.db").exists());
    runs.max().ok_or_else(none)
}
