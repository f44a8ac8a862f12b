//! FoldAgent's results file: the average, the average by source, and one row an episode. Every planned episode is in
//! it; its `status` is our outcome, so that what failed never reads as a success.

use super::file::WholeFile;
use super::walk::Walk;
use super::{ExportError, Summary};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;

/// Right and all episodes.
#[derive(Clone, Copy, Default)]
struct Score {
    right: u64,
    all: u64,
}

impl Score {
    fn add(&mut self, right: bool) {
        self.right += u64::from(right);
        self.all += 1;
    }

    fn average(self) -> f64 {
        if self.all == 0 { 0.0 } else { self.right as f64 / self.all as f64 }
    }
}

pub(super) fn write(walk: &Walk<'_>, out: &Path, summary: &mut Summary) -> Result<(), ExportError> {
    // The averages stand first and are known last: the rows are written to a file of their own and poured behind.
    let mut rows = WholeFile::aside(out)?;
    let mut total = Score::default();
    let mut by_source: BTreeMap<String, Score> = BTreeMap::new();
    walk.each(summary, |episode, summary| {
        let right = episode.is_correct();
        total.add(right);
        by_source.entry(episode.question.tier.clone()).or_default().add(right);
        let mut row = json!({
            "instance_id": episode.key.question,
            "data_source": episode.question.tier,
            "score": if right { 1.0 } else { 0.0 },
            "status": episode.outcome().replace(' ', "_"),
        });
        if walk.several_rounds {
            row["round"] = json!(episode.key.round);
        }
        rows.put_text(if summary.written == 0 { "\n    " } else { ",\n    " })?;
        rows.put_json(&row)?;
        summary.written += 1;
        Ok(())
    })?;
    let by_source: BTreeMap<String, Value> = by_source
        .into_iter()
        .map(|(source, score)| (source, json!({"avg_score": score.average(), "count": score.all})))
        .collect();
    let mut file = WholeFile::create(out)?;
    file.put_text("{\n  \"avg_score\": ")?;
    file.put_json(&total.average())?;
    file.put_text(",\n  \"by_source\": ")?;
    file.put_json(&by_source)?;
    file.put_text(",\n  \"results\": [")?;
    rows.pour_into(&mut file)?;
    file.put_text("\n  ]\n}\n")?;
    file.finish()
}
