//! The report of two runs' tokens: where each conversation parts, and whether the model was of two minds there.

use super::{Block, Document, Fact, Section, Table, plural, provenance_section};
use crate::divergence::{Divergence, Divergences, Parting, Token};
use crate::number::{Finite, UNDEFINED, count};
use crate::provenance::Provenance;
use legwork_protocol::outcome::Outcome;

/// Digits behind the point of nats.
const NATS_DECIMALS: usize = 4;

/// Lays out where two runs part.
pub fn document(found: &Divergences, provenance: &[Provenance]) -> Document {
    let mut sections = vec![partings(found)];
    sections.push(provenance_section(provenance));
    Document {
        title: format!("Tokens of {} against {}", found.b, found.a),
        subtitle: format!("{} of both runs", plural(found.episodes, "episode")),
        provenance: provenance.to_vec(),
        facts: facts(found),
        sections,
    }
}

fn facts(found: &Divergences) -> Vec<Fact> {
    let parted = found.partings.len() as u64;
    let others = found.other_outcomes().count() as u64;
    let distance = &found.distance;
    let mut facts = vec![
        Fact::new(
            "The same to the last token",
            count(found.episodes - parted),
            format!("of {}", count(found.episodes)),
        ),
        Fact::new("Ended otherwise", count(others), format!("of {} that part", count(parted))),
        Fact::new(
            "Distance where both drew the same",
            format!("{} nats", nats(distance.mean_nats())),
            format!(
                "in the mean, {:.NATS_DECIMALS$} at most, over {}",
                distance.largest_nats,
                plural(distance.places, "token")
            ),
        ),
    ];
    if let (Some(tie), true) = (found.tie_nats, found.partings.iter().any(|parting| parting.margin.is_some())) {
        let of = found.partings.iter().filter(|parting| parting.margin.is_some()).count() as u64;
        let detail =
            format!("of {} asked again: both tokens at most {} nats behind the likeliest", count(of), nats(Some(tie)));
        facts.push(Fact::new("Ties", count(found.ties()), detail));
    }
    if found.left_out > 0 {
        facts.push(Fact::new("Left out", count(found.left_out), "in one run only"));
    }
    facts
}

fn partings(found: &Divergences) -> Section {
    let mut table =
        Table::new(["Episode", "Outcome", "Machine", "#Turn", "#Token", "Before", "After", "Likeliest", "#Behind", ""]);
    for parting in &found.partings {
        table.row(false, row(parting, found.tie_nats));
    }
    let note = "Turn and token count from 0; a token is shown with the logarithm of its probability in its run. The likeliest is that \
                of the model that was asked again, and behind it, in nats, is the less likely one of the two that were drawn.";
    let mut blocks = vec![Block::Table(table), Block::Note(note.to_owned())];
    if found.partings.is_empty() {
        blocks = vec![Block::Note("No conversation parts.".to_owned())];
    }
    Section::new("Where conversations part", Vec::new(), blocks)
}

fn row(parting: &Divergence, tie: Option<Finite>) -> Vec<String> {
    let (place, before, after) = match &parting.parting {
        Parting::Token { place, before, after } => (count(*place), drawn(before.as_ref()), drawn(after.as_ref())),
        Parting::Prompt { place } => {
            (UNDEFINED.to_owned(), format!("another prompt, from its token {place}"), String::new())
        }
        Parting::Ended => (UNDEFINED.to_owned(), "one asked no more".to_owned(), String::new()),
        Parting::Unknown => (UNDEFINED.to_owned(), "no ids".to_owned(), String::new()),
    };
    let verdict = match (&parting.margin, tie) {
        (Some(_), Some(tie)) if parting.is_tie(tie) => "tie",
        (Some(_), Some(_)) => "no tie",
        _ => "",
    };
    vec![
        parting.key.to_string(),
        outcomes(parting.before, parting.after),
        parting.scope.to_string(),
        count(u64::from(parting.turn)),
        place,
        before,
        after,
        parting.margin.as_ref().map(|margin| token(&margin.likeliest)).unwrap_or_default(),
        parting.margin.as_ref().map(|margin| nats(margin.nats())).unwrap_or_default(),
        verdict.to_owned(),
    ]
}

fn outcomes(before: Option<Outcome>, after: Option<Outcome>) -> String {
    let name = |outcome: Option<Outcome>| outcome.map_or("not ended", Outcome::name);
    if before == after { name(before).to_owned() } else { format!("{} → {}", name(before), name(after)) }
}

fn drawn(of: Option<&Token>) -> String {
    of.map_or_else(|| "the end".to_owned(), token)
}

fn token(token: &Token) -> String {
    let name = token.text.as_ref().map_or_else(|| format!("#{}", token.id), |text| format!("{text:?}"));
    format!("{name} {}", nats(token.logprob))
}

fn nats(value: Option<Finite>) -> String {
    crate::number::decimal(value, NATS_DECIMALS)
}
