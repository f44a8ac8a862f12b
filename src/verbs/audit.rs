//! `legwork audit`: whether questions of a test are in rows to train on, and what such a search cannot prove.

mod test;

use super::mask::note_bad;
use super::{ConfigFlags, Ended, VerbError, output};
use crate::terminal::progress;
use clap::Args;
use legwork_model::Tokenizer;
use legwork_protocol::untrusted::Untrusted;
use legwork_training::audit::{Audit, AuditReport, OverlapKind, Words};
use legwork_training::rows::{BadRows, RowSource, Rows, Sieve};
use legwork_worlds::contamination::Held;
use std::collections::BTreeMap;
use std::path::PathBuf;
use test::Test;

/// Overlaps that are listed for a person.
const LISTED_MAX: usize = 20;
/// Characters of a name that are shown.
const NAME_CHARS_MAX: usize = 80;

/// Looks for test questions in rows.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  legwork audit --train mix.jsonl --test test.jsonl
  legwork audit --train core.jsonl gate.jsonl --split test -p archive --json

A test is a file of questions (legwork's, the multihop set's, BrowseComp-Plus' or FoldAgent's), a file of rows whose
question hashes are taken, or a split of the configured world. A row that carries a question's hash or quotes half of it or more is
a finding: exit code 1. Thirteen words in a row that it shares with a question are listed, and a finding with --strict.")]
pub struct AuditArgs {
    /// Rows to look in; file@[a:b] is a slice.
    #[arg(long, required = true, num_args = 1.., value_name = "FILE")]
    train: Vec<RowSource>,
    /// Files of test questions, or of rows of test questions, of which file@[a:b] is a slice.
    #[arg(long, num_args = 1.., value_name = "FILE", required_unless_present = "split")]
    test: Vec<RowSource>,
    /// A split of the configured world as the test: test or train.
    #[arg(long)]
    split: Option<String>,
    #[command(flatten)]
    config: ConfigFlags,
    /// The model whose ids token rows are of, so that they can be read as text.
    #[arg(long, value_name = "FOLDER")]
    model: Option<PathBuf>,
    /// Take thirteen words in a row for a finding too.
    #[arg(long)]
    strict: bool,
    /// As JSON.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &AuditArgs) -> Result<Ended, VerbError> {
    let mut test = Test::default();
    for source in &args.test {
        test.add_file(source)?;
    }
    if let Some(split) = &args.split {
        test.add_world(&args.config, split)?;
    }
    let report = audit(args, &test)?;
    if args.json {
        output::print_json(&report);
    } else {
        told(&report);
    }
    let is_clean = report.is_clean() && !(args.strict && report.by_trace > 0);
    Ok(if is_clean { Ended::Done } else { Ended::Refused })
}

fn audit(args: &AuditArgs, test: &Test) -> Result<AuditReport, VerbError> {
    let tokenizer = args.model.as_ref().map(|folder| Tokenizer::open(&folder.join("tokenizer.json"))).transpose()?;
    let decode = |ids: &[u32]| tokenizer.as_ref()?.decode(ids, false).ok();
    let traces = test.traces();
    let find = |text: &str| -> BTreeMap<String, Words> {
        let words = |held: Held| if held.is_quote() { Words::Quote } else { Words::Trace };
        traces.found_in(text).into_iter().map(|(question, held)| (question.to_string(), words(held))).collect()
    };
    let mut audit = Audit::new(&test.hashes, test.questions.len(), &find, &decode);
    // What cannot be read cannot be looked at, which the report says; there is no reason to end there.
    let mut sieve = Sieve::new(BadRows::Skip);
    let bar = progress::documents("looking", !args.json).with_message("rows");
    for source in &args.train {
        for row in Rows::open(source)? {
            bar.inc(1);
            if let Some(row) = sieve.pass(row)? {
                audit.take(&row);
            }
        }
    }
    bar.finish_and_clear();
    Ok(audit.finish(sieve.report().clone()))
}

fn told(report: &AuditReport) {
    let name = |text: &str| Untrusted::from(text).for_log(NAME_CHARS_MAX).into_owned();
    output::print(&format!(
        "{} rows against {} test questions ({} with their text): {} overlaps by question hash, {} by quote; {} questions \
         found; {} parts of rows share words in a row with a question",
        report.rows,
        report.test_questions,
        report.test_texts,
        report.by_hash,
        report.by_quote,
        report.questions_found,
        report.by_trace
    ));
    for overlap in report.listed.iter().take(LISTED_MAX) {
        let how = match overlap.kind {
            OverlapKind::QuestionHash => "carries the hash of",
            OverlapKind::Quote => "quotes",
            OverlapKind::Trace => "shares words with",
        };
        output::print(&format!(
            "  {}:{} {} {how} question {}",
            name(&overlap.file),
            overlap.line,
            name(&overlap.part),
            name(&overlap.question)
        ));
    }
    let found = report.by_hash + report.by_quote + report.by_trace;
    let more = found.saturating_sub(LISTED_MAX.min(report.listed.len()) as u64);
    if more > 0 {
        output::print(&format!("  … and {more} more; --json lists up to {}", legwork_training::audit::LISTED_MAX));
    }
    output::print("What this does not prove:");
    report.cannot_prove.iter().for_each(|open| output::print(&format!("  - {open}")));
    note_bad(&report.bad);
}
