//! Two runs' tokens from their ledgers, and what the runs' own model thinks of the places where they part. It refuses to judge:
//! what is a tie, the report decides.

use super::VerbError;
use crate::assemble::for_machine;
use crate::runs::OpenRun;
use legwork_actors::clock::Clock;
use legwork_actors::ledger::StoredEvent;
use legwork_actors::local::{Heard, LocalModel, LocalSettings};
use legwork_engine::{Reason, Sampling};
use legwork_protocol::coordinator::CoordinatorEvent;
use legwork_protocol::event::Event;
use legwork_protocol::generation::Completion;
use legwork_protocol::id::{EpisodeKey, Scope};
use legwork_protocol::outcome::Outcome;
use legwork_protocol::worker::WorkerEvent;
use legwork_report::divergence::{Answer, Distance, Divergence, Divergences, Margin, Parting, Token, part};
use legwork_report::number::Finite;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

/// Tokens that a model is asked for where conversations part: as many as an engine gives.
const LIKELIEST: u8 = legwork_engine::LOGPROBS_MAX;

/// Where an episode parts.
struct Place {
    scope: Scope,
    turn: u32,
    parting: Parting,
    /// What the model had read there; nothing where it parts by no token.
    read: Vec<u32>,
}

/// An episode that parts, and what its model had read there.
struct Parted {
    divergence: Divergence,
    read: Vec<u32>,
}

/// Finds where the runs' conversations part, and asks the model there, if one is given.
pub(super) fn divergences(
    before: &OpenRun,
    after: &OpenRun,
    model: Option<&Path>,
    tie: Option<Finite>,
) -> Result<Divergences, VerbError> {
    let (of_before, of_after) = (outcomes(before), outcomes(after));
    let planned: BTreeSet<EpisodeKey> = after.reader.planned()?.into_iter().collect();
    let (mut distance, mut parted, mut episodes) = (Distance::default(), Vec::new(), 0);
    let all = before.reader.planned()?;
    for key in all.iter().filter(|key| planned.contains(*key)) {
        episodes += 1;
        let (events, others) = (before.reader.events(key)?, after.reader.events(key)?);
        let Some(Place { scope, turn, parting, read }) = first_parting(&events, &others, &mut distance) else {
            continue;
        };
        let divergence = Divergence {
            key: key.clone(),
            before: of_before.get(key).copied(),
            after: of_after.get(key).copied(),
            scope,
            turn,
            parting,
            margin: None,
        };
        parted.push(Parted { divergence, read });
    }
    let left_out = (all.len() + planned.len()) as u64 - 2 * episodes;
    if let Some(path) = model {
        ask_again(path, [before, after], &mut parted)?;
    }
    Ok(Divergences {
        a: before.manifest.run.clone(),
        b: after.manifest.run.clone(),
        episodes,
        left_out,
        tie_nats: tie.or_else(|| Divergences::measured_tie(&distance)),
        distance,
        partings: parted.into_iter().map(|parted| parted.divergence).collect(),
    })
}

fn outcomes(run: &OpenRun) -> BTreeMap<EpisodeKey, Outcome> {
    run.records.iter().map(|record| (record.key.clone(), record.outcome)).collect()
}

/// The first machine, in the first run's order of events, whose conversation parts.
fn first_parting(before: &[StoredEvent], after: &[StoredEvent], distance: &mut Distance) -> Option<Place> {
    let (before, after) = (answers(before), answers(after));
    let scopes: BTreeSet<Scope> = before.iter().chain(&after).map(|(scope, _)| *scope).collect();
    let of = |all: &[(Scope, Answer<'_>)], scope: Scope| -> Vec<usize> {
        all.iter().enumerate().filter(|(_, (of, _))| *of == scope).map(|(place, _)| place).collect()
    };
    let mut first: Option<(usize, Place)> = None;
    for scope in scopes {
        let places = of(&before, scope);
        let mine: Vec<Answer<'_>> = places.iter().map(|place| before[*place].1).collect();
        let others: Vec<Answer<'_>> = of(&after, scope).iter().map(|place| after[*place].1).collect();
        let Some((turn, parting)) = part(&mine, &others, distance) else { continue };
        let at = places.get(turn as usize).copied().unwrap_or(usize::MAX);
        if first.as_ref().is_none_or(|(first, _)| at < *first) {
            let read = read_before(mine.get(turn as usize), &parting);
            first = Some((at, Place { scope, turn, parting, read }));
        }
    }
    first.map(|(_, place)| place)
}

/// The prompt, and what both runs drew behind it.
fn read_before(answer: Option<&Answer<'_>>, parting: &Parting) -> Vec<u32> {
    match (answer, parting) {
        (Some(answer), Parting::Token { place, .. }) => {
            let drawn = answer.drawn.iter().take(usize::try_from(*place).unwrap_or(usize::MAX));
            answer.prompt.iter().chain(drawn).copied().collect()
        }
        _ => Vec::new(),
    }
}

/// Every answer of a model in an episode, by machine, in order.
fn answers(events: &[StoredEvent]) -> Vec<(Scope, Answer<'_>)> {
    events.iter().filter_map(|event| Some((event.scope, answer(completion(event)?)))).collect()
}

fn completion(event: &StoredEvent) -> Option<&Completion> {
    match &event.recorded.event {
        Event::Worker(WorkerEvent::Generated { completion, .. })
        | Event::Coordinator(CoordinatorEvent::Generated { completion, .. }) => Some(completion),
        _ => None,
    }
}

fn answer(completion: &Completion) -> Answer<'_> {
    completion.ids.as_ref().map_or_else(Answer::default, |ids| Answer {
        prompt: &ids.prompt,
        drawn: &ids.completion,
        logprobs: &ids.logprobs,
    })
}

/// Gives every parting by a token its margin, and its tokens what they spell.
fn ask_again(path: &Path, runs: [&OpenRun; 2], parted: &mut [Parted]) -> Result<(), VerbError> {
    if parted.iter().all(|parted| parted.read.is_empty()) {
        return Ok(());
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let model = LocalModel::open(path, for_machine(LocalSettings::default()), Clock::system())?;
        is_of_runs(&model, runs)?;
        for parted in parted.iter_mut().filter(|parted| !parted.read.is_empty()) {
            let top = likeliest(&model, std::mem::take(&mut parted.read)).await?;
            if let Parting::Token { before, after, .. } = &mut parted.divergence.parting {
                parted.divergence.margin = Some(margin(&model, &top, [before.as_ref(), after.as_ref()])?);
                [before, after].into_iter().flatten().for_each(|token| spell(&model, token));
            }
        }
        Ok(())
    })
}

fn is_of_runs(model: &LocalModel, runs: [&OpenRun; 2]) -> Result<(), VerbError> {
    for run in runs {
        let models = run.manifest.inputs.iter().filter(|(name, _)| name.starts_with("models."));
        let mut told = models.map(|(_, described)| described);
        if !told.any(|described| described.contains(model.digest())) {
            let (run, name, digest) = (&run.manifest.run, model.name(), model.digest());
            return Err(format!(
                "--model: {name} has the digest {digest}, which no model of the run {run} has; name the model that the run was made with"
            )
            .into());
        }
    }
    Ok(())
}

/// The likeliest next tokens behind what was read, best first.
async fn likeliest(model: &Arc<LocalModel>, read: Vec<u32>) -> Result<Vec<(u32, f32)>, VerbError> {
    let sampling = Sampling { max_new: 1, temperature: 0.0, logprobs: Some(LIKELIEST), ..Sampling::default() };
    let mut answering = model.begin(read, sampling, None, None)?;
    let mut top = Vec::new();
    loop {
        match answering.next().await {
            Some(Heard::Tokens { tokens, .. }) => top.extend(tokens.into_iter().flat_map(|drawn| drawn.top)),
            Some(Heard::Done { reason: Reason::Failed(why), .. }) => return Err(why.into()),
            Some(Heard::Done { .. }) => return Ok(top),
            Some(Heard::Refused(refusal)) => return Err(refusal.into()),
            None => {
                let why = model.health().err().unwrap_or_else(|| "the engine ended without a word".to_owned());
                return Err(why.into());
            }
        }
    }
}

fn margin(model: &LocalModel, top: &[(u32, f32)], drawn: [Option<&Token>; 2]) -> Result<Margin, VerbError> {
    let (best, of_best) = *top.first().ok_or("the model that was asked again names no likeliest token")?;
    let behind = |token: Option<&Token>| {
        let (_, logprob) = top.iter().find(|(id, _)| token.is_some_and(|token| token.id == *id))?;
        Finite::new(f64::from(of_best) - f64::from(*logprob))
    };
    let mut likeliest = Token { id: best, text: None, logprob: Finite::new(f64::from(of_best)) };
    spell(model, &mut likeliest);
    Ok(Margin { likeliest, before: behind(drawn[0]), after: behind(drawn[1]) })
}

fn spell(model: &LocalModel, token: &mut Token) {
    token.text = model.tokenizer().decode(&[token.id], false).ok();
}
