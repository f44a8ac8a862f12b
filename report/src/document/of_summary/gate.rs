//! The gate's section: its STOPs, what they save, what asking took, and in words what each of it divides by.

use super::super::{Block, Section, Table, plural};
use crate::number::{count, percent};
use crate::summary::gate::GateSummary;
use legwork_protocol::profile::GateMode;

pub(super) fn gate(gate: &GateSummary) -> Section {
    let mut table = Table::new(["Gate", "#Value", "#Counted"]);
    let shares = [
        ("precision: STOPs with a right candidate", gate.precision, gate.right_stops, gate.stops),
        ("premature: STOPs that came too early", gate.premature_rate, gate.premature_stops, gate.judged_stops),
        ("recall: workers told to STOP when it was due", gate.recall, gate.stopped_when_due, gate.due_workers),
        ("correct episodes with a right STOP", gate.found_share(), gate.found, gate.findable),
    ];
    for (name, share, part, whole) in shares {
        table.row(false, [name.to_owned(), percent(share), format!("{}/{}", count(part), count(whole))]);
    }
    let after_stop = match gate.mode {
        Some(GateMode::On) => "tokens of the wrap-ups after STOP",
        _ => "tokens after the first STOP",
    };
    let amounts = [
        (after_stop, gate.saved_share, gate.tokens_after_stop),
        ("tokens after STOP was first due", gate.due_share, gate.tokens_after_due),
        ("tokens of the gate itself", gate.cost_share, gate.tokens),
    ];
    for (name, share, tokens) in amounts {
        table.row(false, [name.to_owned(), percent(share), count(tokens)]);
    }
    let mut note = match gate.mode {
        Some(GateMode::Shadow) => "Shadow: asked, never obeyed. ".to_owned(),
        Some(GateMode::On) => format!(
            "On: asked and obeyed; workers that obeyed left {} of their leases unspent. ",
            plural(gate.unspent_tokens, "token"),
        ),
        Some(GateMode::Off) | None => String::new(),
    };
    note.push_str(&format!(
        "Asked {} in {}; {} of the answers could not be read or came too late and count as CONTINUE. ",
        plural(gate.asked, "time"),
        plural(gate.episodes, "episode"),
        count(gate.unreadable),
    ));
    note.push_str(
        "STOP is due once a document that supports the answer has been opened by a worker whose answer turned out \
         right; it is premature before that, or with a wrong candidate. Shares of tokens are of all that workers spent \
         in these episodes.",
    );
    Section::new("Gate", Vec::new(), vec![Block::Table(table), Block::Note(note)])
}
