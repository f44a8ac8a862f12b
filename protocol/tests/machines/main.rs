//! The machines of an episode, driven by hand and at random: what they want for which events, and what they never do.
#![allow(clippy::unwrap_used, reason = "tests")]

mod coordinators;
mod episodes;
mod folds;
mod gates;
mod workers;

use legwork_protocol::environment::Observed;
use legwork_protocol::generation::Completion;
use legwork_protocol::profile::Profile;
use std::sync::Arc;

/// The archive's profile, changed by `change`.
fn profile(change: impl FnOnce(&mut Profile)) -> Arc<Profile> {
    let mut profile: Profile = toml::from_str(include_str!("../../../src/profiles/archive-mock.toml")).unwrap();
    change(&mut profile);
    Arc::new(profile)
}

/// A completion of this text.
fn said(text: &str) -> Completion {
    Completion { text: text.to_owned(), attempts: 1, ..Completion::default() }
}

/// A call in the strict grammar.
fn call(name: &str, arguments: &[(&str, &str)]) -> String {
    let mut text = format!("<think>x</think>\n<function={name}>\n");
    for (key, value) in arguments {
        text.push_str(&format!("<parameter={key}>{value}</parameter>\n"));
    }
    text + "</function>"
}

/// An observation of one answered search.
fn observed(text: &str) -> Observed {
    Observed { text: text.to_owned(), searches: 1, ..Observed::default() }
}
