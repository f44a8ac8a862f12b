//! The questions of a test, from files of several forms or from a configured world: their hashes, and their texts where there are
//! any. It refuses to look for them.

use super::super::{ConfigFlags, VerbError, resolve};
use crate::assemble;
use crate::config::Settings;
use legwork_protocol::question::Question;
use legwork_training::audit::TestQuestions;
use legwork_training::rows::{BadRows, RowSource, Rows, Sieve};
use legwork_worlds::contamination::{Traces, question_hash};
use legwork_worlds::{LINE_BYTES_MAX, browsecomp_plus, foldagent, multihop, plain};
use serde::Deserialize;
use serde::de::IgnoredAny;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

/// A test's questions.
#[derive(Default)]
pub(super) struct Test {
    pub(super) hashes: TestQuestions,
    pub(super) questions: Vec<Question>,
}

/// What tells forms of a line apart; nothing else of it is kept.
#[derive(Deserialize)]
struct Probe {
    messages: Option<IgnoredAny>,
    prompt_ids: Option<IgnoredAny>,
    question: Option<IgnoredAny>,
    query: Option<IgnoredAny>,
    gold_docids: Option<IgnoredAny>,
}

enum Form {
    Plain,
    Multihop,
    BrowseCompPlus,
    FoldAgent,
    Rows,
}

impl Test {
    /// Adds the questions of a file, whose form its first line says.
    pub(super) fn add_file(&mut self, source: &RowSource) -> Result<(), VerbError> {
        let path = source.path();
        let form = form(path)?;
        if !matches!(form, Form::Rows) && *source != RowSource::all(path) {
            return Err(format!("{source}: expected a whole file of questions, got a slice; slices are of rows").into());
        }
        match form {
            Form::Plain => self.add(plain::read_questions(path)?),
            Form::Multihop => {
                let bytes = std::fs::read(path).map_err(|error| format!("cannot read {}: {error}", path.display()))?;
                self.add(multihop::parse_questions(&path.display().to_string(), &bytes)?);
            }
            Form::BrowseCompPlus => self.add(browsecomp_plus::read(path)?.questions),
            Form::FoldAgent => self.add(foldagent::read(path)?.questions),
            Form::Rows => self.add_rows(source)?,
        }
        Ok(())
    }

    /// Adds a split of the configured world.
    pub(super) fn add_world(&mut self, config: &ConfigFlags, split: &str) -> Result<(), VerbError> {
        let split = vec![("--split", "run.split", toml::Value::String(split.to_owned()))];
        let settings = Settings::read(&resolve(config, split)?)?;
        let world = assemble::load_world(&settings.world, &settings.run)?;
        self.add(world.questions.iter().map(|question| (**question).clone()).collect());
        Ok(())
    }

    /// The traces of all questions of which the text is known.
    pub(super) fn traces(&self) -> Traces {
        Traces::of(&self.questions)
    }

    fn add(&mut self, questions: Vec<Question>) {
        for question in &questions {
            self.hashes.add(&question_hash(&question.text), question.id.to_string());
        }
        self.questions.extend(questions);
    }

    /// Of rows the hashes are taken; a row without one says nothing of the test.
    fn add_rows(&mut self, source: &RowSource) -> Result<(), VerbError> {
        let mut sieve = Sieve::new(BadRows::Refuse);
        let before = self.hashes.len();
        for row in Rows::open(source)? {
            let Some(row) = sieve.pass(row)? else { continue };
            let metadata = row.row.metadata();
            let Some(hash) = &metadata.question_hash else {
                let what = "expected a `metadata.question_hash` in every row of a test, got a row without one";
                return Err(format!("{}: {what}; give the file of questions instead", row.place).into());
            };
            self.hashes.add(hash, metadata.episode.clone().unwrap_or_else(|| format!("at {}", row.place)));
        }
        if self.hashes.len() == before {
            return Err(format!("{source} has no test question that is not known from another file").into());
        }
        Ok(())
    }
}

/// What a file holds.
fn form(path: &Path) -> Result<Form, VerbError> {
    if path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("parquet")) {
        let is_rows = Rows::open(&RowSource::all(path)).is_ok();
        return Ok(if is_rows { Form::Rows } else { Form::FoldAgent });
    }
    let wrong = |got: &str| -> VerbError {
        let expected = "questions of legwork, multihop or BrowseComp-Plus, or rows";
        format!("{}: expected {expected} as JSON lines, got {got}; name another file", path.display()).into()
    };
    let file = File::open(path).map_err(|error| wrong(&error.to_string()))?;
    let mut lines = BufReader::new(file.take(LINE_BYTES_MAX));
    let mut line = String::new();
    while line.trim().is_empty() {
        line.clear();
        if lines.read_line(&mut line).map_err(|error| wrong(&error.to_string()))? == 0 {
            return Err(wrong("nothing"));
        }
    }
    let probe: Probe =
        serde_json::from_str(line.trim_start_matches('\u{feff}')).map_err(|error| wrong(&error.to_string()))?;
    Ok(match probe {
        Probe { messages: Some(_), .. } | Probe { prompt_ids: Some(_), .. } => Form::Rows,
        Probe { question: Some(_), gold_docids: Some(_), .. } => Form::Multihop,
        Probe { question: Some(_), .. } => Form::Plain,
        Probe { query: Some(_), .. } => Form::BrowseCompPlus,
        _ => return Err(wrong("other fields")),
    })
}
