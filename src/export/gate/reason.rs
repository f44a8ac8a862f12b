//! The short reason before a decision: a sentence of recorded facts, in one of a few wordings of our own that a seed
//! draws, so that no one sentence is learned by heart. At most forty tokens.

use super::label::{Hard, Label, Sight};
use super::moments::Did;
use legwork_protocol::id::DocId;

/// Bytes of a reason at most: about thirty tokens of English, and not above forty where a character is a token of three
/// bytes.
pub(super) const REASON_BYTES_MAX: usize = 120;
/// Bytes of a query that a reason quotes.
const QUERY_BYTES_MAX: usize = 48;
/// Bytes of a document's id that a reason quotes.
const DOCID_BYTES_MAX: usize = 32;

/// Draws a wording for a moment of a trajectory.
pub(super) fn draw(seed: u64, trajectory_id: &str, turn: u32) -> u64 {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&seed.to_le_bytes()).update(&turn.to_le_bytes()).update(trajectory_id.as_bytes());
    let digest = hasher.finalize();
    u64::from(digest.as_bytes()[0])
}

/// Why this decision is due: `did` is what the worker did last, `decisive` the document that supports the answer, if it
/// was opened, or else if it was listed.
pub(super) fn reason(
    (label, hard): (Label, Option<Hard>),
    sight: Sight,
    did: &Did,
    decisive: Option<&DocId>,
    wording: u64,
) -> String {
    let document = decisive.map(|docid| clipped(docid.as_str(), DOCID_BYTES_MAX)).unwrap_or_default();
    let wordings = match (label, hard) {
        (Label::Stop, _) => [
            format!("{document} was opened and supports the candidate."),
            format!("The candidate is supported by {document}, which was read."),
        ],
        (Label::Continue, Some(Hard::ListedUnopened)) => [
            format!("{document} is listed and has not been opened."),
            format!("The results list {document}; nobody has read it yet."),
        ],
        (Label::Continue, Some(Hard::WithoutEvidence)) => [
            "No document that was opened supports the candidate.".to_owned(),
            "The candidate is a guess: nothing that was read supports it.".to_owned(),
        ],
        (Label::Continue, Some(Hard::WrongCandidate)) => [
            "What was opened does not support the candidate.".to_owned(),
            "The candidate does not hold against what was read.".to_owned(),
        ],
        (Label::Continue, None) if sight == Sight::Opened => [
            "What was read has not led to a supported candidate.".to_owned(),
            "No candidate is supported by what was read so far.".to_owned(),
        ],
        (Label::Continue, None) => match did {
            Did::Searched(query) => {
                let query = clipped(query.trim(), QUERY_BYTES_MAX);
                [
                    format!("Searched \"{query}\"; no opened document supports an answer yet."),
                    format!("The search \"{query}\" is made, and nothing read settles the brief."),
                ]
            }
            Did::Opened(docid) => {
                let docid = clipped(docid.trim(), DOCID_BYTES_MAX);
                [
                    format!("Opened {docid}; it does not settle the brief."),
                    format!("{docid} was read, and no answer is supported yet."),
                ]
            }
            Did::Nothing => [
                "No document that was read supports an answer yet.".to_owned(),
                "Nothing that was read settles the brief.".to_owned(),
            ],
        },
    };
    let place = usize::try_from(wording % wordings.len() as u64).unwrap_or_default();
    clipped(&wordings[place], REASON_BYTES_MAX)
}

/// The text in one line, cut at a character's end.
fn clipped(text: &str, bytes_max: usize) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut end = line.len().min(bytes_max);
    while !line.is_char_boundary(end) {
        end -= 1;
    }
    line[..end].trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_short_whatever_was_recorded() {
        let long = "史料 <think>\n".repeat(200);
        let dids = [Did::Searched(long.clone()), Did::Opened(long.clone()), Did::Nothing];
        let docid = DocId::from(long.as_str());
        let kinds = [None, Some(Hard::WrongCandidate), Some(Hard::WithoutEvidence), Some(Hard::ListedUnopened)];
        let mut longest = 0;
        for did in &dids {
            for (hard, wording) in kinds.into_iter().flat_map(|hard| [(hard, 0), (hard, 1)]) {
                for (label, sight) in [(Label::Stop, Sight::Opened), (Label::Continue, Sight::Listed)] {
                    let text = reason((label, hard), sight, did, Some(&docid), wording);
                    longest = longest.max(text.len());
                    assert!(text.len() <= REASON_BYTES_MAX && !text.contains('\n') && text.len() > 20, "{text}");
                }
            }
        }
        assert!(longest > 80, "the cuts were put to the test");
    }

    #[test]
    fn a_draw_depends_on_seed_trajectory_and_turn() {
        let all: Vec<u64> = (0..64).map(|turn| draw(1, "run/q#0/worker/0", turn)).collect();
        assert_eq!(all, (0..64).map(|turn| draw(1, "run/q#0/worker/0", turn)).collect::<Vec<_>>());
        assert_ne!(all, (0..64).map(|turn| draw(2, "run/q#0/worker/0", turn)).collect::<Vec<_>>());
        assert_ne!(all, (0..64).map(|turn| draw(1, "run/q#1/worker/0", turn)).collect::<Vec<_>>());
        let odd = all.iter().filter(|drawn| *drawn % 2 == 1).count();
        assert!((16..=48).contains(&odd), "both wordings are drawn: {odd} of 64");
    }
}
