//! `legwork regrade`: grades the saved answers of a run again, by another judge or rule, and says how far the two
//! agree. The run itself is not touched: its verdicts stay what they were.

use super::report::folder;
use super::{ConfigFlags, Ended, VerbError, output, resolve};
use crate::assemble;
use crate::config::{ModelSettings, Settings};
use crate::runs::{OpenRun, RunError};
use clap::Args;
use futures::StreamExt;
use legwork_actors::grader::{Grading, grade};
use legwork_endpoints::Endpoint;
use legwork_protocol::episode::EpisodeEvent;
use legwork_protocol::event::Event;
use legwork_protocol::failure::{Failure, FailureKind};
use legwork_protocol::generation::Route;
use legwork_protocol::id::{EpisodeKey, Scope};
use legwork_protocol::outcome::Verdict;
use legwork_report::agreement::NoiseSamples;
use legwork_report::{Charset, Format, Provenance, agreement, render};
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

/// Answers graded at once.
const AT_ONCE: usize = 32;

/// Grades a run's answers again.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  legwork regrade runs/mine -c judge.toml --repeat 3 --out regraded.jsonl
where judge.toml names another judge under [models.judge] or another rule under [grader]")]
pub struct RegradeArgs {
    /// The run's folder; the last one if absent.
    run: Option<PathBuf>,
    /// Times each answer is graded, to tell the judge's noise.
    #[arg(long, default_value_t = 1)]
    repeat: u32,
    /// Write each verdict as a line of JSON.
    #[arg(long)]
    out: Option<PathBuf>,
    /// As JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    config: ConfigFlags,
}

#[derive(Serialize)]
struct Regraded<'a> {
    episode: &'a EpisodeKey,
    was: Option<bool>,
    verdicts: &'a [Verdict],
}

pub(super) fn run(args: &RegradeArgs) -> Result<Ended, VerbError> {
    let settings = Settings::read(&resolve(&args.config, Vec::new())?)?;
    let run = OpenRun::open(&folder(args.run.as_deref())?)?;
    let world = assemble::load_world(&settings.world, &settings.run)?;
    let mut routes = assemble::assemble_models(&settings, &world)?.routes;
    let judge = routes.remove(&Route::Judge);
    let gradings = gradings(&run)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let verdicts = runtime.block_on(regrade(&settings, judge, gradings, args.repeat.max(1)));

    let was: BTreeMap<EpisodeKey, Option<bool>> =
        run.records.iter().filter_map(|record| Some((record.key.clone(), record.verdict.as_ref()?.correct))).collect();
    if let Some(out) = &args.out {
        let mut text = String::new();
        for (key, verdicts) in &verdicts {
            let line = Regraded { episode: key, was: was.get(key).copied().flatten(), verdicts };
            text.push_str(&serde_json::to_string(&line)?);
            text.push('\n');
        }
        std::fs::write(out, text).map_err(|source| RunError::Io { path: out.clone(), source })?;
        output::note(&format!("wrote {}", out.display()));
    }
    let first = |verdicts: &[Verdict]| verdicts.first().and_then(|verdict| verdict.correct);
    let a = legwork_report::Grading {
        grader: format!("{} (recorded)", judge_name(&run.manifest.inputs)),
        verdicts: verdicts.keys().map(|key| (key.clone(), was.get(key).copied().flatten())).collect(),
    };
    let b = legwork_report::Grading {
        grader: match settings.models.get(&Route::Judge) {
            Some(ModelSettings::Endpoint(config)) => config.model.clone(),
            Some(ModelSettings::Mock(mock)) => format!("mock {}", mock.mock),
            Some(ModelSettings::Local(of)) => of.local.display().to_string(),
            None => format!("{:?}", settings.profile.grader.exact).to_lowercase(),
        },
        verdicts: verdicts.iter().map(|(key, verdicts)| (key.clone(), first(verdicts))).collect(),
    };
    let samples = NoiseSamples {
        regrades: verdicts
            .iter()
            .map(|(key, verdicts)| (key.clone(), verdicts.iter().map(|verdict| verdict.correct).collect()))
            .collect(),
        rounds: was.into_iter().collect(),
    };
    let agreed = agreement(&a, &b, &samples)?;
    let provenance: [Provenance; 1] = [run.provenance(format!("{} regraded", run.manifest.run))];
    let format = if args.json { Format::Json } else { Format::Text(Charset::Unicode) };
    output::print(&render(&agreed, &provenance, format)?);
    Ok(Ended::Done)
}

/// The answers of a run, as the grader was given them.
fn gradings(run: &OpenRun) -> Result<Vec<Grading>, VerbError> {
    let questions: BTreeMap<_, _> =
        run.questions.iter().map(|question| (question.id.clone(), Arc::new(question.clone()))).collect();
    let mut gradings = Vec::new();
    for record in &run.records {
        let history = run.reader.history(&record.key)?;
        let answered = history.get(&Scope::Episode).into_iter().flatten().find_map(|recorded| match &recorded.event {
            Event::Episode(EpisodeEvent::Answered(answer)) => Some(answer),
            _ => None,
        });
        let (Some(answer), Some(question)) = (answered, questions.get(&record.key.question)) else { continue };
        let Some(short) = &answer.answer else { continue };
        gradings.push(Grading {
            episode: record.key.clone(),
            question: Arc::clone(question),
            answer: short.clone(),
            text: answer.text.clone(),
            confidence: answer.confidence,
        });
    }
    Ok(gradings)
}

async fn regrade(
    settings: &Settings,
    judge: Option<Arc<dyn Endpoint>>,
    gradings: Vec<Grading>,
    repeat: u32,
) -> BTreeMap<EpisodeKey, Vec<Verdict>> {
    let grader = &settings.profile.grader;
    let graded = futures::stream::iter(gradings).map(|grading| {
        let judge = judge.clone();
        async move {
            let mut verdicts = Vec::new();
            for _ in 0..repeat {
                let ask = |request| {
                    let judge = judge.clone();
                    async move {
                        match judge {
                            Some(judge) => judge.generate(request).await,
                            None => Err(Failure::new(
                                FailureKind::Misconfigured,
                                "no model plays the judge; give it one under [models.judge]",
                            )),
                        }
                    }
                };
                verdicts.push(grade(grader, &grading, ask).await);
            }
            (grading.episode, verdicts)
        }
    });
    graded.buffer_unordered(AT_ONCE).collect().await
}

fn judge_name(inputs: &BTreeMap<String, String>) -> String {
    inputs.get("models.judge").cloned().unwrap_or_else(|| "exact match".to_owned())
}
