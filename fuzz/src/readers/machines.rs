//! Machines fed with recorded events, as a resumed run feeds them: whatever the events hold, nothing panics, no worker
//! spends more than it was lent, an end is an end, and every effect has a digest.

use super::text;
use legwork::config::{Given, Settings, resolve};
use legwork_protocol::coordinator::{Coordinator, CoordinatorEffect, CoordinatorEvent, coordinator};
use legwork_protocol::episode::{Episode, EpisodeEffect, EpisodeEvent};
use legwork_protocol::event::Event;
use legwork_protocol::id::EpisodeKey;
use legwork_protocol::machine::effect_digest;
use legwork_protocol::profile::{CoordinatorKind, GateMode, Profile};
use legwork_protocol::question::Question;
use legwork_protocol::worker::{StandingOrders, Worker, WorkerEffect, WorkerEvent};
use std::sync::{Arc, LazyLock};

/// Each profile that workers and coordinators are tried under; what a worker is told is rendered once.
static PROFILES: LazyLock<Vec<(Arc<Profile>, Arc<StandingOrders>)>> = LazyLock::new(|| {
    let profile = |name: &str, kind, mode| {
        // The experiments of others name no world of their own.
        let sets = vec!["world={kind = \"archive\", seed = 1}".to_owned()];
        let given = Given { profile: Some(name.to_owned()), sets, ..Given::default() };
        let resolved = resolve(&given).expect("an embedded profile resolves");
        let mut profile = Settings::read(&resolved).expect("an embedded profile can be read").profile;
        profile.coordinator.kind = kind;
        profile.gate.mode = mode;
        let profile = Arc::new(profile);
        (Arc::clone(&profile), Arc::new(StandingOrders::new(profile)))
    };
    vec![
        profile("archive", CoordinatorKind::Model, GateMode::On),
        profile("archive", CoordinatorKind::Direct, GateMode::Off),
        profile("card", CoordinatorKind::Scripted, GateMode::Shadow),
        profile("foldagent", CoordinatorKind::Fold, GateMode::Off),
    ]
});

/// Each line is one event, as a ledger keeps it. An event that answers nothing which its machine asked for is left out:
/// a ledger does not hold such.
pub fn replay(bytes: &[u8]) {
    let text = text(bytes);
    let events: Vec<Event> = text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let question = question();
    let mut episode = Episode::new(EpisodeKey { round: 0, question: question.id.clone() }, Arc::new(question.clone()));
    for event in &events {
        if let Event::Episode(event) = event {
            episode_takes(&mut episode, event);
        }
    }
    for (profile, orders) in PROFILES.iter() {
        let mut worker = Worker::under(Arc::clone(orders));
        let mut mind = coordinator(profile, &question, None);
        let (mut worker_wants, mut mind_wants) = (None, None);
        for event in &events {
            match event {
                Event::Worker(event) => worker_takes(&mut worker, &mut worker_wants, event),
                Event::Coordinator(event) => mind_takes(&mut *mind, &mut mind_wants, event),
                Event::Episode(_) => {}
            }
        }
    }
}

fn episode_takes(episode: &mut Episode, event: &EpisodeEvent) {
    let had_ended = episode.ended();
    let effect = episode.apply(event);
    assert!(!had_ended || effect.is_none(), "an end is an end");
    assert_eq!(episode.ended(), had_ended || matches!(effect, Some(EpisodeEffect::End(_))));
    if let Some(effect) = effect {
        effect_digest(&effect);
    }
}

fn worker_takes(worker: &mut Worker, wants: &mut Option<WorkerEffect>, event: &WorkerEvent) {
    let fits = matches!(
        (&*wants, event),
        (None, WorkerEvent::Briefed { .. })
            | (Some(WorkerEffect::Generate(_)), WorkerEvent::Generated { .. } | WorkerEvent::GenerationFailed { .. })
            | (Some(WorkerEffect::Observe(_)), WorkerEvent::Observed { .. })
            | (Some(WorkerEffect::AskGate), WorkerEvent::GateSaid(_))
            | (Some(WorkerEffect::Report(_)), _)
            | (_, WorkerEvent::Cancelled)
    );
    if !fits {
        return;
    }
    let effect = worker.apply(event);
    assert!(worker.meter().lent().covers(&worker.meter().spent()), "more was spent than lent: {:?}", worker.meter());
    let Some(effect) = effect else { return };
    assert!(!matches!(wants, Some(WorkerEffect::Report(_))), "nothing follows a report");
    effect_digest(&effect);
    if let WorkerEffect::Report(report) = &effect {
        assert!(!report.text().is_empty());
    }
    *wants = Some(effect);
}

fn mind_takes(mind: &mut dyn Coordinator, wants: &mut Option<CoordinatorEffect>, event: &CoordinatorEvent) {
    use {CoordinatorEffect as Wants, CoordinatorEvent as Came};
    let fits = matches!(
        (&*wants, event),
        (None, Came::Asked { .. })
            | (Some(Wants::Generate(_)), Came::Generated { .. } | Came::GenerationFailed { .. })
            | (Some(Wants::Observe(_)), Came::Observed { .. })
            | (Some(Wants::Delegate(_)), Came::Reported { .. })
            | (Some(Wants::Answer(_)), _)
            | (_, Came::Cancelled)
    );
    if !fits {
        return;
    }
    if let CoordinatorEvent::Reported { reports, .. } = event {
        mind.report_text(reports);
    }
    let Some(effect) = mind.apply(event) else { return };
    assert!(!matches!(wants, Some(CoordinatorEffect::Answer(_))), "nothing follows an answer");
    effect_digest(&effect);
    *wants = Some(effect);
}

fn question() -> Question {
    Question {
        id: "1".into(),
        text: "Which?".to_owned(),
        answers: vec!["this".to_owned()],
        tier: "all".to_owned(),
        gold: vec!["d1".into()],
        evidence: vec!["d1".into(), "d2".into()],
        decomposition: Vec::new(),
    }
}
