//! Makes a mixture's files: `mix.jsonl`, its rows as they were, and `mix.json`, the manifest. Rows are read once, counted, and
//! kept in a spool until their order is drawn; both files appear when they are whole.
//! It refuses to change a row.

use super::spool::{Lying, Spool, WholeFile, digest_of, io};
use super::{
    Drawn, FORMAT, Input, MixManifest, Output, Part, PartManifest, Plan, Recipe, RowCount, gradient_shares, plan,
};
use crate::error::TrainingError;
use crate::mask::{Encoder, TextDigests};
use crate::rows::{AnyRow, RowSource, Rows, Sieve, no_row};
use std::collections::BTreeSet;
use std::path::Path;

/// The name of the rows' file.
pub const ROWS_FILE: &str = "mix.jsonl";
/// The name of the manifest.
pub const MANIFEST_FILE: &str = "mix.json";

/// What is mixed, and what its tokens are counted with.
#[derive(Clone, Copy)]
pub struct MixInputs<'a> {
    /// Sources of the repeated rows.
    pub core: &'a [RowSource],
    /// Sources of the drawn rows; none makes a mixture of the core alone.
    pub gate: &'a [RowSource],
    /// What counts the tokens.
    pub encoder: &'a Encoder,
    /// What the encoder was made of.
    pub digests: &'a TextDigests,
}

/// Mixes into a folder, which is made where it is not there; `progress` is told rows read so far.
///
/// # Errors
/// A folder that holds a mixture already, sources that cannot be read or have no good row, a bad row where the sieve refuses
/// them, rows of chat and of ids together, and what [`plan`] refuses.
pub fn write(
    inputs: &MixInputs<'_>,
    recipe: &Recipe,
    sieve: &mut Sieve,
    folder: &Path,
    progress: &mut dyn FnMut(u64),
) -> Result<MixManifest, TrainingError> {
    std::fs::create_dir_all(folder).map_err(io("make", folder))?;
    for name in [ROWS_FILE, MANIFEST_FILE] {
        if folder.join(name).exists() {
            let expected = "a folder without a mixture; name another, or remove the old one".to_owned();
            let got = format!("{} with {name}", folder.display());
            return Err(TrainingError::Setting { setting: "out", expected, got });
        }
    }
    let mut reading = Reading { spool: Spool::create(folder)?, kind: None, rows: 0, progress };
    let core = reading.part(inputs.core, inputs.encoder, sieve)?;
    let gate = reading.part(inputs.gate, inputs.encoder, sieve)?;
    let plan = plan(&core.counts, &gate.counts, recipe.repeat, recipe.seed)?;
    let mut manifest = MixManifest {
        format: FORMAT.to_owned(),
        recipe: recipe.clone(),
        mask: inputs.encoder.kind(),
        template: inputs.encoder.prompts().template().name().to_owned(),
        digests: inputs.digests.clone(),
        length_max: Some(inputs.encoder.limits().length_max).filter(|max| *max < usize::MAX),
        target_tokens: plan.target,
        gap_tokens: plan.gap,
        passes: plan.passes,
        core: PartManifest::default(),
        gate: PartManifest::default(),
        slots: (plan.order.len() / recipe.batch.max(1)) as u64,
        rows_beyond_slots: (plan.order.len() % recipe.batch.max(1)) as u64,
        output: rows_file(&folder.join(ROWS_FILE), &plan, &core, &gate, &mut reading.spool)?,
        bad: sieve.report().clone(),
    };
    (manifest.core, manifest.gate) = parts(&plan, core, gate, recipe.batch);
    let mut text = serde_json::to_vec_pretty(&manifest).map_err(|error| io("write", folder)(error.into()))?;
    text.push(b'\n');
    let mut page = WholeFile::create(&folder.join(MANIFEST_FILE))?;
    page.put(&text)?;
    page.finish()?;
    Ok(manifest)
}

/// The rows of a part: what each counts and where it lies.
#[derive(Default)]
struct PartRows {
    inputs: Vec<Input>,
    counts: Vec<RowCount>,
    lying: Vec<Lying>,
}

struct Reading<'a> {
    spool: Spool,
    kind: Option<&'static str>,
    rows: u64,
    progress: &'a mut dyn FnMut(u64),
}

impl Reading<'_> {
    fn part(&mut self, sources: &[RowSource], encoder: &Encoder, sieve: &mut Sieve) -> Result<PartRows, TrainingError> {
        let mut part = PartRows::default();
        for source in sources {
            let before = part.counts.len();
            let mut rows = Rows::open(source)?;
            loop {
                let some = encoder.encode_some(&mut rows);
                if some.is_empty() {
                    break;
                }
                for encoded in some {
                    let Some((row, sample)) = sieve.pass(encoded)? else { continue };
                    self.same_kind(&row.row, source)?;
                    let (supervised, tokens) = (sample.supervised() as u64, sample.ids.len() as u64);
                    part.counts.push(RowCount { supervised, tokens });
                    part.lying.push(self.spool.put(&row.text)?);
                    self.rows += 1;
                    (self.progress)(self.rows);
                }
            }
            let rows = (part.counts.len() - before) as u64;
            if rows == 0 {
                return Err(no_row(source, sieve));
            }
            let (sha256, bytes) = digest_of(&source.path)?;
            part.inputs.push(Input { source: source.to_string(), sha256, bytes, rows });
        }
        Ok(part)
    }

    /// A file holds rows of one kind, so a mixture does.
    fn same_kind(&mut self, row: &AnyRow, source: &RowSource) -> Result<(), TrainingError> {
        let kind = row.kind();
        let before = *self.kind.get_or_insert(kind);
        if before == kind {
            return Ok(());
        }
        let got = format!("{source} with rows of {kind}");
        let expected = format!("rows of {before} as in the files before");
        Err(TrainingError::Setting { setting: "rows", expected, got })
    }
}

fn rows_file(
    path: &Path,
    plan: &Plan,
    core: &PartRows,
    gate: &PartRows,
    spool: &mut Spool,
) -> Result<Output, TrainingError> {
    let mut file = WholeFile::create(path)?;
    let mut line = Vec::new();
    for Drawn { part, row } in &plan.order {
        let rows = if *part == Part::Core { core } else { gate };
        spool.get(rows.lying[*row as usize], &mut line)?;
        line.push(b'\n');
        file.put(&line)?;
    }
    let (sha256, bytes) = file.finish()?;
    Ok(Output { file: ROWS_FILE.to_owned(), sha256, bytes, rows: plan.order.len() as u64 })
}

/// What each part is of the mixture.
fn parts(plan: &Plan, core: PartRows, gate: PartRows, batch: usize) -> (PartManifest, PartManifest) {
    let count = |drawn: &Drawn| match drawn.part {
        Part::Core => core.counts[drawn.row as usize],
        Part::Gate => gate.counts[drawn.row as usize],
    };
    let name = |part: Part| if part == Part::Core { "core" } else { "gate" };
    let shares = gradient_shares(plan.order.iter().map(|drawn| (name(drawn.part), count(drawn).supervised)), batch);
    let part = |part: Part, rows: &PartRows| {
        let own: Vec<&Drawn> = plan.order.iter().filter(|drawn| drawn.part == part).collect();
        PartManifest {
            inputs: rows.inputs.clone(),
            source_rows: rows.counts.len() as u64,
            rows: own.len() as u64,
            distinct_rows: own.iter().map(|drawn| drawn.row).collect::<BTreeSet<u32>>().len() as u64,
            supervised_tokens: own.iter().map(|drawn| count(drawn).supervised).sum(),
            tokens: own.iter().map(|drawn| count(drawn).tokens).sum(),
            gradient: shares.get(name(part)).copied().unwrap_or_default(),
        }
    };
    (part(Part::Core, &core), part(Part::Gate, &gate))
}
