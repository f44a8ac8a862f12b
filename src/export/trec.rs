//! A TREC run: for each question the documents that searches showed, in order of first sight. What a harness showed is
//! a ranking only in that sense; the score counts down from the number of documents.

use super::file::WholeFile;
use super::walk::Walk;
use super::{ExportError, Format, Summary};
use legwork_protocol::untrusted::Untrusted;
use std::io::Write;
use std::path::Path;

pub(super) fn write(walk: &Walk<'_>, out: &Path, summary: &mut Summary) -> Result<(), ExportError> {
    if walk.several_rounds {
        return Err(ExportError::Rounds { format: Format::Trec, rounds: walk.manifest.rounds });
    }
    let run = Untrusted::from(walk.manifest.run.as_str());
    let tag = run.for_file_name();
    let mut file = WholeFile::create(out)?;
    walk.each(summary, |episode, summary| {
        let Some(record) = &episode.record else {
            summary.left_out("episodes that have not ended");
            return Ok(());
        };
        if record.retrieved.is_empty() {
            summary.left_out("questions for which nothing was shown: a run has no lines for them");
        }
        let question = fit("the question", episode.key.question.as_str())?;
        for (place, docid) in record.retrieved.iter().enumerate() {
            let docid = fit("the document", docid.as_str())?;
            let (rank, score) = (place + 1, record.retrieved.len() - place);
            file.put(|out| writeln!(out, "{question} Q0 {docid} {rank} {score} {tag}"))?;
            summary.written += 1;
        }
        Ok(())
    })?;
    file.finish()
}

/// An id that stays one column.
fn fit<'a>(what: &'static str, id: &'a str) -> Result<&'a str, ExportError> {
    if id.is_empty() || id.contains(char::is_whitespace) {
        return Err(ExportError::UnfitId { format: Format::Trec, what, id: id.escape_debug().to_string() });
    }
    Ok(id)
}
