//! Readers of configuration: a TOML file laid over the defaults, `--set` pairs, and the script of a coordinator. What is
//! taken can be shown whole; what is not is an error that says where.

use super::{files, text};
use legwork::config::{Given, Resolved, Settings, resolve};
use legwork_protocol::coordinator::Script;
use legwork_protocol::question::Question;

pub fn file(bytes: &[u8]) {
    let path = files::file("settings.toml", bytes);
    resolved(&Given { file: Some(path), ..Given::default() });
}

/// Each line is one `--set`.
pub fn set(bytes: &[u8]) {
    let sets = text(bytes).lines().map(str::to_owned).collect();
    resolved(&Given { sets, ..Given::default() });
}

pub fn script(bytes: &[u8]) {
    let Ok(script) = toml::from_str::<Script>(&text(bytes)) else { return };
    let written = toml::to_string(&script).expect("what was read from TOML can be written as TOML");
    assert_eq!(toml::from_str::<Script>(&written).as_ref(), Ok(&script), "{written}");
    let question = Question {
        id: "1".into(),
        text: "Which?".to_owned(),
        answers: vec!["this".to_owned()],
        tier: "easy".to_owned(),
        gold: Vec::new(),
        evidence: Vec::new(),
        decomposition: Vec::new(),
    };
    let step = script.step_for(&question);
    assert!(script.steps.contains(&step) || step == legwork_protocol::coordinator::ScriptStep::default());
}

fn resolved(given: &Given) {
    let Ok(resolved) = resolve(given).inspect_err(|error| assert!(!error.to_string().is_empty())) else { return };
    every_value_has_its_origin(&resolved);
    if let Err(error) = Settings::read(&resolved) {
        assert!(!error.to_string().is_empty());
    }
}

fn every_value_has_its_origin(resolved: &Resolved) {
    assert!(resolved.to_text().lines().count() >= resolved.origins.len());
    for key in resolved.origins.keys() {
        assert_eq!(resolved.origin_of(key), resolved.origins[key].to_string());
    }
}
