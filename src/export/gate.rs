//! Rows for a STOP gate: each worker's conversation, cut after every observation after which a gate would be asked, as
//! the gate would be shown it; and the decision that hindsight says was due. Only the decision is in the loss.

mod label;
mod moments;
mod reason;

use super::walk::{EpisodeView, Walk};
use super::{ExportError, GateRows, Options, REPEAT_HARD_MAX, Summary, lineage};
use label::{Candidate, Hard, Label, Sight, judge};
use legwork_protocol::call::{Call, Grammar};
use legwork_protocol::gate::{GateDecision, GateSaid, Hindsight};
use legwork_protocol::id::{DocId, Scope};
use legwork_protocol::message::Role;
use legwork_protocol::profile::{GateMode, Profile};
use legwork_protocol::untrusted::{ControlTokens, Untrusted};
use legwork_training::JsonlWriter;
use legwork_training::trajectory::{ChatMessage, ChatRow};
use moments::{Moment, Watched, watch};
use serde_json::json;
use std::path::Path;
use std::sync::Arc;

/// Documents that a decision names as evidence at most.
const EVIDENCE_MAX: usize = 4;

pub(super) fn write(walk: &Walk<'_>, out: &Path, options: &Options, summary: &mut Summary) -> Result<(), ExportError> {
    if !(1..=REPEAT_HARD_MAX).contains(&options.gate.repeat_hard) {
        return Err(ExportError::Repeats { got: options.gate.repeat_hard });
    }
    let asking = Arc::new(asking(&walk.manifest.profile));
    let mut rows = JsonlWriter::create(out)?;
    walk.each(summary, |episode, summary| {
        let Some(after) = lineage::hindsight(episode) else {
            summary.left_out("episodes that have not ended");
            return Ok(());
        };
        for (scope, events) in walk.worker_events(episode) {
            if after.supporting().is_empty() {
                summary.left_out("workers of questions that name no document which supports their answer");
                continue;
            }
            let talk = Conversation { walk, episode, scope, watched: watch(&asking, events), after };
            talk.write(&mut rows, options, summary)?;
        }
        Ok(())
    })?;
    rows.finish()?;
    Ok(())
}

/// The profile under which a worker's machine asks its gate: the run's own, or if its gate was off, one in shadow, which
/// changes nothing else.
fn asking(profile: &Profile) -> Profile {
    let mut profile = profile.clone();
    if profile.gate.mode == GateMode::Off {
        profile.gate.mode = GateMode::Shadow;
    }
    profile
}

/// One worker's conversation, from which rows are cut.
struct Conversation<'a> {
    walk: &'a Walk<'a>,
    episode: &'a EpisodeView,
    scope: Scope,
    watched: Watched,
    after: Hindsight<'a>,
}

impl Conversation<'_> {
    fn write(
        &self,
        rows: &mut JsonlWriter<ChatRow>,
        options: &Options,
        summary: &mut Summary,
    ) -> Result<(), ExportError> {
        let candidate = Candidate::of(self.watched.report.as_ref(), &self.after);
        for (place, moment) in self.watched.moments.iter().enumerate() {
            let last = place + 1 == self.watched.moments.len();
            let (label, hard) = match judge(candidate, self.sight(moment), last) {
                Ok(judged) => judged,
                Err(why) => {
                    summary.left_out(why);
                    continue;
                }
            };
            let repeats = if hard.is_some() { options.gate.repeat_hard } else { 1 };
            for repeat in 0..repeats {
                let Some(target) = self.target(moment, label, hard, repeat, &options.gate) else {
                    summary.left_out("rows whose decision would not be read back");
                    continue;
                };
                rows.write(&self.row(moment, target, (label, hard, repeat), options))?;
                summary.written += 1;
                let repeated = (repeat > 0).then_some("of these, repeats of hard rows");
                for kind in [Some(label.word()), hard.map(Hard::kind), repeated].into_iter().flatten() {
                    *summary.kinds.entry(kind).or_default() += 1;
                }
            }
        }
        Ok(())
    }

    fn sight(&self, moment: &Moment) -> Sight {
        let (opened, _) = self.watched.before(moment);
        match () {
            () if self.after.is_supported_by(opened) => Sight::Opened,
            () if self.decisive(moment).is_some() => Sight::Listed,
            () => Sight::Unseen,
        }
    }

    /// The decision that is learned, or none if the gate's own reader would read it otherwise.
    fn target(
        &self,
        moment: &Moment,
        label: Label,
        hard: Option<Hard>,
        repeat: u32,
        how: &GateRows,
    ) -> Option<ChatMessage> {
        let mut arguments = vec![("decision", label.word().to_owned())];
        match label {
            Label::Stop => {
                let answer = self.watched.report.as_ref().and_then(|report| report.answer.as_deref());
                arguments.push(("answer", answer.unwrap_or_default().trim().to_owned()));
                arguments.push(("evidence", self.evidence(moment).map(DocId::as_str).collect::<Vec<_>>().join(", ")));
            }
            Label::Continue => arguments.extend(self.watched.next_after(moment).map(|next| ("next", next.to_owned()))),
        }
        // What models and pages wrote brings no control string into what is learned.
        let plain = |text: String| Untrusted::from(text).for_prompt(&ControlTokens::default()).into_owned();
        let call = Call::new("gate", arguments.into_iter().map(|(name, value)| (name, plain(value))));
        let wording = reason::draw(how.seed, &self.trajectory_id(), moment.turn).wrapping_add(u64::from(repeat));
        let seen = (self.sight(moment), self.decisive(moment));
        let reason = plain(reason::reason((label, hard), seen.0, &moment.did, seen.1, wording));
        let text = format!("<think>\n{reason}\n</think>\n\n{}", Grammar::Strict.render(&[call]));
        let read = GateSaid::read(&text, 0).decision;
        let expected = if label == Label::Stop { GateDecision::Stop } else { GateDecision::Continue };
        (read == expected).then(|| ChatMessage::new(Role::Assistant, text))
    }

    /// What of the question's evidence had been opened, what supports the answer first.
    fn evidence(&self, moment: &Moment) -> impl Iterator<Item = &DocId> {
        let (opened, _) = self.watched.before(moment);
        let mut named: Vec<&DocId> = Vec::new();
        let supporting = opened.iter().filter(|docid| self.after.supporting().contains(docid));
        let on_the_way = opened.iter().filter(|docid| self.episode.question.evidence.contains(docid));
        for docid in supporting.chain(on_the_way) {
            if !named.contains(&docid) {
                named.push(docid);
            }
        }
        named.into_iter().take(EVIDENCE_MAX)
    }

    /// The document that decides: one that supports the answer and was opened, or at least listed where the gate sees it.
    fn decisive(&self, moment: &Moment) -> Option<&DocId> {
        let (opened, listed) = self.watched.before(moment);
        let supports = |docid: &&DocId| self.after.supporting().contains(docid);
        opened.iter().find(supports).or_else(|| listed.iter().filter(supports).find(|docid| moment.shows(docid)))
    }

    fn trajectory_id(&self) -> String {
        format!("{}/{}/{}", self.walk.manifest.run, self.episode.key, self.scope)
    }

    fn row(
        &self,
        moment: &Moment,
        target: ChatMessage,
        (label, hard, repeat): (Label, Option<Hard>, u32),
        options: &Options,
    ) -> ChatRow {
        let mut messages: Vec<ChatMessage> =
            moment.messages.iter().map(|message| ChatMessage::from(&**message)).collect();
        messages.push(target);
        let turns = (self.scope, moment.turn as usize);
        let mut metadata = lineage::of_scope(self.walk, self.episode, turns, "gate", options);
        let mut say = |name: &str, value| metadata.other.insert(name.to_owned(), value);
        say("trajectory_id", json!(self.trajectory_id()));
        say("turn", json!(moment.turn));
        say("label", json!(label.word()));
        say("hard_negative", json!(hard.is_some()));
        if let Some(hard) = hard {
            say("hard_kind", json!(hard.name()));
        }
        say("repeat", json!(repeat));
        ChatRow { messages, metadata, ..ChatRow::default() }
    }
}
