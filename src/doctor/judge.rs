//! Judging what was seen: pure, so that every finding can be tested without the machine that would show it.

mod machine;
mod setup;
#[cfg(test)]
mod tests;

use super::inputs::DoctorInputs;
use super::seen::Seen;
use super::{Finding, State};

/// The findings, machine first, in an order that does not change.
pub(crate) fn judge(inputs: &DoctorInputs, seen: &Seen) -> Vec<Finding> {
    let mut findings = vec![machine::processor(&seen.processor)];
    findings.extend(machine::memory(seen.memory));
    findings.extend(machine::open_files(seen.open_files_max, inputs.concurrency));
    findings.push(machine::gpu(&seen.gpu, inputs.has_gpu_code));
    findings.extend(machine::gpu_libraries(&seen.gpu, inputs.has_gpu_code));
    findings.push(machine::terminal(&seen.terminal));
    findings.push(setup::runs(&seen.runs, &inputs.runs_folder));
    findings.extend(setup::room(&seen.runs));
    findings.extend(setup::endpoints(&inputs.endpoints, &seen.endpoints, seen.proxy_variable));
    findings.extend(setup::models(inputs, &seen.models));
    findings.extend(setup::tokenizers(inputs, &seen.tokenizers));
    findings.push(setup::corpus(inputs, seen.corpus.as_ref()));
    findings.push(setup::index(inputs, seen.index.as_ref(), seen.corpus.as_ref()));
    findings
}

fn good(what: impl Into<String>, saw: impl Into<String>) -> Finding {
    Finding { what: what.into(), state: State::Good, saw: saw.into(), cure: None }
}

fn note(what: impl Into<String>, saw: impl Into<String>, cure: impl Into<String>) -> Finding {
    Finding { what: what.into(), state: State::Note, saw: saw.into(), cure: Some(cure.into()) }
}

fn bad(what: impl Into<String>, saw: impl Into<String>, cure: impl Into<String>) -> Finding {
    Finding { what: what.into(), state: State::Bad, saw: saw.into(), cure: Some(cure.into()) }
}

/// Bytes as a person reads them.
fn size(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["bytes", "KiB", "MiB", "GiB", "TiB"];
    let (mut value, mut unit) = (bytes as f64, 0);
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    if unit == 0 { format!("{bytes} bytes") } else { format!("{value:.1} {}", UNITS[unit]) }
}
