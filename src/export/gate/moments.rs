//! The moments of one worker at which a gate would be asked, rebuilt by its own machine, and what it had looked up and
//! seen by then. It refuses to know what any of it is worth.

use legwork_protocol::environment::{Lookup, Observed};
use legwork_protocol::event::{Event, RecordedEvent};
use legwork_protocol::gate::{GateSaid, gate_messages};
use legwork_protocol::id::DocId;
use legwork_protocol::message::Message;
use legwork_protocol::profile::Profile;
use legwork_protocol::retrieval::PageRef;
use legwork_protocol::worker::{Worker, WorkerEffect, WorkerEvent, WorkerReport};
use std::sync::Arc;

/// One worker from beginning to end.
#[derive(Debug, Default)]
pub(super) struct Watched {
    pub(super) moments: Vec<Moment>,
    /// Its report, if it came to one.
    pub(super) report: Option<WorkerReport>,
    opened: Vec<DocId>,
    listed: Vec<DocId>,
    /// The first lookup of each turn that had any, with the turn.
    firsts: Vec<(u32, Did)>,
}

/// A moment at which a gate is asked.
#[derive(Debug)]
pub(super) struct Moment {
    /// Turns answered by then.
    pub(super) turn: u32,
    /// What the gate is shown.
    pub(super) messages: Vec<Arc<Message>>,
    /// What the worker did last.
    pub(super) did: Did,
    opened: usize,
    listed: usize,
}

impl Moment {
    /// Whether the gate sees this document's name: as a word of its own, since ids may be short.
    pub(super) fn shows(&self, docid: &DocId) -> bool {
        let shown = self.messages.last().map(|message| message.content.as_str()).unwrap_or_default();
        let name = docid.as_str();
        let is_part = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
        shown.match_indices(name).any(|(at, _)| {
            !is_part(shown[..at].chars().next_back()) && !is_part(shown[at + name.len()..].chars().next())
        })
    }
}

/// What a worker did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Did {
    /// It searched for this.
    Searched(String),
    /// It asked for this document.
    Opened(String),
    /// It looked nothing up.
    #[default]
    Nothing,
}

impl From<&Lookup> for Did {
    fn from(lookup: &Lookup) -> Self {
        match lookup {
            Lookup::Search { query, .. } => Did::Searched(query.clone()),
            Lookup::Open(PageRef::DocId(docid)) => Did::Opened(docid.to_string()),
            Lookup::Open(PageRef::Url(url)) => Did::Opened(url.clone()),
        }
    }
}

impl Watched {
    /// What had been opened and what searches had listed, in order.
    pub(super) fn before(&self, moment: &Moment) -> (&[DocId], &[DocId]) {
        (&self.opened[..moment.opened], &self.listed[..moment.listed])
    }

    /// The query or document that the worker really went for next.
    pub(super) fn next_after(&self, moment: &Moment) -> Option<&str> {
        self.firsts.iter().find(|(turn, _)| *turn > moment.turn).and_then(|(_, did)| match did {
            Did::Searched(what) | Did::Opened(what) => Some(what.trim()).filter(|what| !what.is_empty()),
            Did::Nothing => None,
        })
    }
}

/// What was asked for last, if it was given: a page that is not there was not opened.
fn done(asked_for: &Did, observed: &Observed) -> Did {
    match asked_for {
        Did::Searched(_) if observed.searches > 0 => asked_for.clone(),
        Did::Opened(_) => observed.opened.last().map(|docid| Did::Opened(docid.to_string())).unwrap_or_default(),
        Did::Searched(_) | Did::Nothing => Did::Nothing,
    }
}

/// Plays a worker's events to a machine that asks a gate. Where the run did not, the gate is taken to have said nothing
/// that could be read, which changes nothing.
pub(super) fn watch(asking: &Arc<Profile>, events: &[RecordedEvent]) -> Watched {
    let mut machine = Worker::new(Arc::clone(asking));
    let mut watched = Watched::default();
    let mut asked_for = Did::Nothing;
    let mut did = Did::Nothing;
    let mut waiting = false;
    for recorded in events {
        let Event::Worker(event) = &recorded.event else { continue };
        let answered = matches!(event, WorkerEvent::GateSaid(_) | WorkerEvent::Cancelled);
        if std::mem::take(&mut waiting) && !answered {
            machine.apply(&WorkerEvent::GateSaid(GateSaid::unreadable()));
        }
        let effect = machine.apply(event);
        if let WorkerEvent::Observed { observed, .. } = event {
            watched.opened.extend(observed.opened.iter().cloned());
            watched.listed.extend(observed.listed.iter().cloned());
            did = done(&asked_for, observed);
        }
        match effect {
            Some(WorkerEffect::Observe(lookups)) => {
                asked_for = lookups.last().map(Did::from).unwrap_or_default();
                watched.firsts.extend(lookups.first().map(|first| (machine.meter().turns(), Did::from(first))));
            }
            Some(WorkerEffect::AskGate) => {
                waiting = true;
                let brief = machine.brief().map(|brief| brief.text.as_str()).unwrap_or_default();
                let so_far = machine.conversation().messages();
                watched.moments.push(Moment {
                    turn: machine.meter().turns(),
                    messages: gate_messages(brief, so_far, machine.meter(), &asking.gate),
                    did: did.clone(),
                    opened: watched.opened.len(),
                    listed: watched.listed.len(),
                });
            }
            Some(WorkerEffect::Report(report)) => watched.report = Some(*report),
            Some(WorkerEffect::Generate(_)) | None => {}
        }
    }
    watched
}

#[cfg(test)]
mod tests {
    use super::*;
    use legwork_protocol::message::Role;

    #[test]
    fn a_document_is_seen_by_its_whole_name_only() {
        let shown = Arc::new(Message::new(Role::User, "-> found\nDocuments there: d12, é7, 3\n<parameter=docid>d9<"));
        let moment = Moment { turn: 1, messages: vec![shown], did: Did::Nothing, opened: 0, listed: 0 };
        for (docid, is_shown) in [("d12", true), ("d9", true), ("3", true), ("d1", false), ("2", false), ("7", false)] {
            assert_eq!(moment.shows(&docid.into()), is_shown, "{docid}");
        }
    }
}
