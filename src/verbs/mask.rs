//! `legwork mask show`: rows as the trainer sees them, token by token, with what is learned set off from what is not.
//! Text of rows is somebody else's: what would act on a terminal is written out.

use super::{Ended, VerbError, output};
use crate::terminal::progress;
use clap::{Args, Subcommand};
use legwork_training::Sample;
use legwork_training::mask::{Encoder, EncoderSettings, MaskKind, ShownToken, TemplateChoice, TextDigests};
use legwork_training::rows::{BadReport, BadRows, RowSource, Rows, Sieve};
use serde_json::{Value, json};
use std::io::IsTerminal;
use std::path::PathBuf;

/// Rows that are shown in full unless one is asked for; all are counted.
const SHOWN_MAX: u64 = 10;
/// Bad rows that are listed for a person.
const BAD_LISTED_MAX: usize = 20;
/// Opens and closes what is learned where there are no colours.
const BRACKETS: [char; 2] = ['⟦', '⟧'];
const LEARNED: &str = "\u{1b}[32m";
const PLAIN: &str = "\u{1b}[0m";

/// Looks at loss masks.
#[derive(Debug, Args)]
pub struct MaskArgs {
    #[command(subcommand)]
    command: MaskCommand,
}

#[derive(Debug, Subcommand)]
enum MaskCommand {
    /// Show rows token by token, the learned ones set off.
    Show(ShowArgs),
}

/// How rows become tokens.
#[derive(Clone, Debug, Args)]
pub(super) struct RowFlags {
    /// The model's folder; of it, the tokenizer and the template.
    #[arg(long, value_name = "FOLDER")]
    model: PathBuf,
    /// How messages are rendered one by one: qwen3 or qwen.
    #[arg(long, default_value = "qwen3", value_parser = mask_kind)]
    mask: MaskKind,
    /// Which template renders them: own, keep_think, qwen3_fixed or qwen3.
    #[arg(long, default_value = "own", value_parser = template_choice)]
    template: TemplateChoice,
    /// Tokens of a row at most; a longer one is bad, never cut.
    #[arg(long)]
    length_max: Option<usize>,
    /// What is done with bad rows: refuse, or skip and list them.
    #[arg(long, default_value = "refuse", value_parser = bad_rows)]
    pub(super) bad_rows: BadRows,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  legwork mask show core.jsonl --model models/Qwen3-4B --row 3
  legwork mask show 'rows.parquet@[0:50]' --model models/Qwen3-4B --template keep_think --json")]
struct ShowArgs {
    /// Rows of chat or of token ids, JSONL or parquet; file@[a:b] is a slice.
    rows: RowSource,
    #[command(flatten)]
    flags: RowFlags,
    /// One row only, counted from 1 in what is read.
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    row: Option<u64>,
    /// Every row in full; else the first ten, and all are counted.
    #[arg(long, conflicts_with = "row")]
    all: bool,
    /// A bar between tokens.
    #[arg(long)]
    tokens: bool,
    /// Brackets in place of colours.
    #[arg(long)]
    plain: bool,
    /// As JSON.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &MaskArgs) -> Result<Ended, VerbError> {
    let MaskCommand::Show(args) = &args.command;
    show(args)
}

impl RowFlags {
    /// The encoder that these ask for.
    pub(super) fn encoder(&self) -> Result<(Encoder, TextDigests), VerbError> {
        let settings = EncoderSettings { template: self.template, kind: self.mask, length_max: self.length_max };
        Ok(Encoder::open(&self.model, settings)?)
    }
}

fn show(args: &ShowArgs) -> Result<Ended, VerbError> {
    let (encoder, _) = args.flags.encoder()?;
    let style = Style { colours: !args.plain && !args.json && std::io::stdout().is_terminal(), bars: args.tokens };
    let mut sieve = Sieve::new(args.flags.bad_rows);
    let mut shown = Vec::new();
    let (mut rows, mut unshown, mut total) = (0, 0, Counts::default());
    for row in Rows::open(&args.rows)? {
        let encoded = row.and_then(|row| encoder.encode(&row.row, &row.place));
        let Some(sample) = sieve.pass(encoded)? else { continue };
        rows += 1;
        total.add(&sample);
        let is_shown = args.row.map_or(args.all || rows <= SHOWN_MAX, |row| row == rows);
        if !is_shown {
            unshown += 1;
            continue;
        }
        let tokens = encoder.shown(&sample)?;
        if args.json {
            shown.push(row_json(rows, &sample, &tokens));
        } else {
            output::print(&format!("{}\n{}", heading(rows, &sample), style.draw(&tokens)));
        }
        if args.row.is_some() {
            break;
        }
    }
    if let Some(row) = args.row.filter(|row| rows < *row) {
        return Err(format!("there is no row {row}: {} has {rows} good rows", args.rows).into());
    }
    if args.json {
        let total = json!({"rows": rows, "tokens": total.tokens, "supervised": total.supervised});
        output::print_json(&json!({"rows": shown, "total": total, "not_shown": unshown, "bad": sieve.report()}));
    } else {
        if unshown > 0 {
            output::print(&format!(
                "… {unshown} more rows are counted and not shown; --row shows one, --all every one"
            ));
        }
        if args.row.is_none() {
            output::print(&format!("total: {rows} rows, {}", total.words()));
        }
        note_bad(sieve.report());
    }
    Ok(if rows == 0 { Ended::Refused } else { Ended::Done })
}

/// Tells a person which rows were skipped.
pub(super) fn note_bad(report: &BadReport) {
    if report.total() == 0 {
        return;
    }
    let kinds: Vec<String> = report.counts.iter().map(|(kind, count)| format!("{count} {}", kind.words())).collect();
    output::note(&format!("skipped {} bad rows: {}", report.total(), kinds.join(", ")));
    report.listed.iter().take(BAD_LISTED_MAX).for_each(|bad| output::note(&format!("  {}", bad.reason)));
    let more = report.total().saturating_sub(BAD_LISTED_MAX.min(report.listed.len()) as u64);
    if more > 0 {
        output::note(&format!("  … and {more} more; --json lists up to {}", legwork_training::rows::LISTED_MAX));
    }
}

#[derive(Default)]
struct Counts {
    tokens: u64,
    supervised: u64,
}

impl Counts {
    fn of(sample: &Sample) -> Self {
        Self { tokens: sample.ids.len() as u64, supervised: sample.supervised() as u64 }
    }

    fn add(&mut self, sample: &Sample) {
        let own = Self::of(sample);
        self.tokens += own.tokens;
        self.supervised += own.supervised;
    }

    fn words(&self) -> String {
        let share = 100.0 * self.supervised as f64 / self.tokens.max(1) as f64;
        format!("{} tokens, {} of them learned ({share:.1} %)", self.tokens, self.supervised)
    }
}

fn heading(row: u64, sample: &Sample) -> String {
    let source = legwork_protocol::untrusted::Untrusted::from(sample.source.as_str());
    let source = if source.is_blank() { String::new() } else { format!(" · {}", source.for_log(80)) };
    format!("── row {row} · {}{source} · {}", sample.place, Counts::of(sample).words())
}

fn row_json(row: u64, sample: &Sample, tokens: &[ShownToken]) -> Value {
    let tokens: Vec<Value> = tokens.iter().map(|token| json!([token.id, token.text, token.supervised])).collect();
    let counts = Counts::of(sample);
    json!({
        "row": row, "file": sample.place.file, "line": sample.place.line, "source": sample.source,
        "tokens": counts.tokens, "supervised": counts.supervised, "shown": tokens,
    })
}

/// How tokens are drawn.
struct Style {
    colours: bool,
    bars: bool,
}

impl Style {
    /// Stretches of tokens, those that are learned set off.
    fn draw(&self, tokens: &[ShownToken]) -> String {
        let mut drawn = String::new();
        let [open, close] =
            if self.colours { [LEARNED.to_owned(), PLAIN.to_owned()] } else { BRACKETS.map(String::from) };
        let mut learned = false;
        for (at, token) in tokens.iter().enumerate() {
            if token.supervised != learned {
                drawn.push_str(if learned { &close } else { &open });
                learned = token.supervised;
            } else if self.bars && at > 0 {
                drawn.push('│');
            }
            for c in token.text.for_terminal().chars() {
                // Marks that the text spells itself must not be taken for ours.
                if BRACKETS.contains(&c) || (self.bars && c == '│') {
                    drawn.push_str(&c.escape_unicode().to_string());
                } else {
                    drawn.push(c);
                }
            }
        }
        if learned {
            drawn.push_str(&close);
        }
        drawn
    }
}

fn mask_kind(text: &str) -> Result<MaskKind, String> {
    MaskKind::named(text).ok_or_else(|| "expected qwen3 or qwen".to_owned())
}

fn template_choice(text: &str) -> Result<TemplateChoice, String> {
    TemplateChoice::named(text).ok_or_else(|| "expected own, keep_think, qwen3_fixed or qwen3".to_owned())
}

fn bad_rows(text: &str) -> Result<BadRows, String> {
    match text {
        "refuse" => Ok(BadRows::Refuse),
        "skip" => Ok(BadRows::Skip),
        _ => Err("expected refuse or skip".to_owned()),
    }
}

/// A bar over rows that are encoded.
pub(super) fn encoding(is_wanted: bool) -> indicatif::ProgressBar {
    progress::documents("encoding", is_wanted).with_message("rows")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(text: &str, supervised: bool) -> ShownToken {
        ShownToken { id: 7, text: text.into(), supervised }
    }

    #[test]
    fn learned_tokens_are_set_off_and_the_texts_own_marks_and_controls_are_written_out() {
        let tokens =
            [token("a\n", false), token("⟦x\u{1b}[31m", true), token("│y", true), token("b", false), token("c", true)];
        let draw = |colours, bars| Style { colours, bars }.draw(&tokens);
        assert_eq!(draw(false, false), "a\n⟦\\u{27e6}x\\x1b[31m│y⟧b⟦c⟧");
        assert_eq!(draw(false, true), "a\n⟦\\u{27e6}x\\x1b[31m│\\u{2502}y⟧b⟦c⟧");
        assert_eq!(draw(true, false), "a\n\u{1b}[32m\\u{27e6}x\\x1b[31m│y\u{1b}[0mb\u{1b}[32mc\u{1b}[0m");
    }
}
