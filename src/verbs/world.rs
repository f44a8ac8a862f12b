//! `legwork world`: writes a world's corpus and questions as files, so that other tools can use them.

use super::{ConfigFlags, Ended, VerbError, output, resolve};
use crate::assemble;
use crate::config::{Settings, WorldSettings};
use crate::runs::RunError;
use clap::Args;
use legwork_training::JsonlWriter;
use legwork_training::trajectory::TextRow;
use legwork_worlds::{archive, plain};
use std::path::PathBuf;

/// Writes a world's files.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  legwork world --out archive/\n  legwork world --out archive/ --quizzes --set world.seed=101"
)]
pub struct WorldArgs {
    /// The folder to write corpus.jsonl and questions.jsonl into.
    #[arg(long)]
    out: PathBuf,
    /// Which questions: test or train.
    #[arg(long)]
    split: Option<String>,
    /// Write quizzes.jsonl as well: rows of text to learn reading from, a page of the archive with questions and what is read in it.
    #[arg(long)]
    quizzes: bool,
    #[command(flatten)]
    config: ConfigFlags,
}

pub(super) fn run(args: &WorldArgs) -> Result<Ended, VerbError> {
    let split = args.split.iter().map(|split| ("--split", "run.split", toml::Value::String(split.clone()))).collect();
    let settings = Settings::read(&resolve(&args.config, split)?)?;
    let world = assemble::load_world(&settings.world, &settings.run)?;
    let io = |path: &PathBuf| {
        let path = path.clone();
        move |source| RunError::Io { path, source }
    };
    std::fs::create_dir_all(&args.out).map_err(io(&args.out))?;
    let questions: Vec<_> = world.questions.iter().map(|question| (**question).clone()).collect();
    let (mut corpus_bytes, mut question_bytes) = (Vec::new(), Vec::new());
    plain::write_corpus(&world.documents, &mut corpus_bytes)?;
    plain::write_questions(&questions, &mut question_bytes)?;
    for (name, bytes) in [("corpus.jsonl", corpus_bytes), ("questions.jsonl", question_bytes)] {
        let path = args.out.join(name);
        std::fs::write(&path, bytes).map_err(io(&path))?;
        output::note(&format!("wrote {}", path.display()));
    }
    if args.quizzes {
        let WorldSettings::Archive { seed } = settings.world else {
            return Err(format!(
                "--quizzes is of the archive only; of {} nobody knows what each sentence states",
                world.name
            )
            .into());
        };
        let path = args.out.join("quizzes.jsonl");
        let mut written = JsonlWriter::create(&path)?;
        archive::generate(seed)?
            .quizzes()
            .into_iter()
            .try_for_each(|text| written.write(&TextRow { text, ..TextRow::default() }))?;
        written.finish()?;
        output::note(&format!("wrote {}", path.display()));
    }
    output::print(&format!("{}: {} documents, {} questions", world.name, world.documents.len(), questions.len()));
    Ok(Ended::Done)
}
