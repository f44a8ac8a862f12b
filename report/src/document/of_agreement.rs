//! The report of two gradings: what an agreement becomes, and the sentences beside it.

use super::plot::{Plot, WhiskerRow, Whiskers};
use super::{Block, Document, Fact, Figure, Section, Table, interval, of, plural, provenance_section};
use crate::agreement::{Agreement, Noise, VERDICTS};
use crate::number::{Finite, UNDEFINED, count, p_value, percent, points};
use crate::provenance::Provenance;
use crate::statistics::agreement::{Kappa, Repeats};

/// Lays out an agreement.
pub fn document(agreement: &Agreement, provenance: &[Provenance]) -> Document {
    let mut sections = vec![confusion(agreement), rates(agreement)];
    sections.extend(agreement.noise.as_ref().map(noise));
    sections.push(splits(agreement));
    sections.push(provenance_section(provenance));
    Document {
        title: format!("{} against {}", agreement.b, agreement.a),
        subtitle: format!("two gradings of {}", plural(agreement.rate_a.of, "episode")),
        provenance: provenance.to_vec(),
        facts: facts(agreement),
        sections,
    }
}

fn facts(agreement: &Agreement) -> Vec<Fact> {
    let (value, detail) = kappa(&agreement.kappa_graded);
    let difference = agreement.difference.map_or_else(|| UNDEFINED.to_owned(), points);
    let test = &agreement.mcnemar;
    vec![
        Fact::new("Cohen's kappa", value, detail),
        Fact::new(
            "Leniency",
            format!("{difference} points"),
            format!("{} against {}", of(&agreement.rate_b), of(&agreement.rate_a)),
        ),
        Fact::new("McNemar, exact", format!("p = {}", p_value(test.p, test.log10_p)), "whether the graders lean apart"),
    ]
}

fn kappa(kappa: &Kappa) -> (String, String) {
    match kappa {
        Kappa::Defined { kappa, observed, expected, items } => (
            format!("{:.3}", kappa.get()),
            format!(
                "{} agree over {}, {} expected by chance",
                percent(Some(*observed)),
                plural(*items, "episode"),
                percent(Some(*expected))
            ),
        ),
        Kappa::Undefined { reason, items } => {
            ("undefined".to_owned(), format!("{}, over {}", reason.text(), plural(*items, "episode")))
        }
    }
}

fn confusion(agreement: &Agreement) -> Section {
    let mut table = Table { columns: vec![super::text_column(&agreement.a)], rows: Vec::new() };
    for verdict in VERDICTS {
        table = table.numbers(format!("{}: {verdict}", agreement.b));
    }
    for (verdict, counts) in VERDICTS.into_iter().zip(&agreement.confusion) {
        table.row(false, [verdict.to_owned()].into_iter().chain(counts.iter().map(|n| count(*n))));
    }
    let (all, detail) = kappa(&agreement.kappa_all);
    let note = format!("Kappa with ungraded as a category of its own: {all} ({detail}).");
    Section::new("Verdicts", Vec::new(), vec![Block::Table(table), Block::Note(note)])
}

fn rates(agreement: &Agreement) -> Section {
    let graders = [(&agreement.a, agreement.rate_a), (&agreement.b, agreement.rate_b)];
    let mut table = Table::new(["Grader", "#Correct", "#Accuracy", "#Wilson 95 %"]);
    for (grader, rate) in &graders {
        table.row(false, [(*grader).clone(), of(rate), percent(rate.rate), interval(rate)]);
    }
    let rows = graders.map(|(grader, rate)| WhiskerRow { label: grader.clone(), total: false, rates: vec![rate] });
    let figure = Figure {
        caption: "Accuracy of one run by grader, with Wilson 95 % intervals".to_owned(),
        plot: Plot::Whiskers(Whiskers { series: vec!["accuracy".to_owned()], rows: rows.to_vec() }),
    };
    Section::new("Accuracy by grader", vec![figure], vec![Block::Table(table)])
}

fn noise(noise: &Noise) -> Section {
    let mut table = Table::new(["Source", "#Verdicts differ", "#Accuracy ± points", "#Items", "#Unanimous"]);
    let hundred =
        |value: Option<Finite>| value.map_or_else(|| UNDEFINED.to_owned(), |v| format!("{:.2}", v.get() * 100.0));
    let rows: [(&str, &Repeats); 2] =
        [("judge: re-grades of one answer", &noise.judge), ("both: rounds of one question", &noise.rounds)];
    for (name, repeats) in rows {
        let cells = [
            name.to_owned(),
            percent(repeats.disagreement),
            hundred(repeats.accuracy_deviation),
            count(repeats.items),
            count(repeats.unanimous),
        ];
        table.row(false, cells);
    }
    table.row(true, ["agent alone: the second less the first".to_owned(), percent(noise.agent_disagreement)]);
    let note = format!(
        "How often two verdicts differ. Variances add, so what rounds differ by beyond the judge's own wavering is the \
         agent's. {} could not be read and {} left out.",
        plural(noise.unreadable, "verdict"),
        if noise.unreadable == 1 { "was" } else { "were" },
    );
    Section::new("Noise", Vec::new(), vec![Block::Table(table), Block::Note(note)])
}

fn splits(agreement: &Agreement) -> Section {
    let mut table = Table::new(["Question", "#Round"]);
    for grader in [&agreement.a, &agreement.b] {
        table.columns.push(super::text_column(grader));
    }
    let verdict = |verdict: Option<bool>| match verdict {
        Some(true) => VERDICTS[0],
        Some(false) => VERDICTS[1],
        None => VERDICTS[2],
    };
    for split in &agreement.splits {
        let key = &split.key;
        let cells =
            [key.question.to_string(), key.round.to_string(), verdict(split.a).to_owned(), verdict(split.b).to_owned()];
        table.row(false, cells);
    }
    let heading = format!("The graders differ on {}", plural(agreement.splits.len() as u64, "episode"));
    Section::folded(&heading, vec![Block::Table(table)])
}
