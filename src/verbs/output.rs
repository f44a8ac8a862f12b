//! Printing: the only file that writes to standard output and standard error for verbs.
#![allow(clippy::print_stdout, clippy::print_stderr)]

use std::io::{IsTerminal, Write};

/// Prints a result, with one newline at its end. A closed pipe is no failure.
pub(super) fn print(text: &str) {
    let mut out = std::io::stdout().lock();
    let _closed_pipe = writeln!(out, "{}", text.trim_end_matches('\n')).and_then(|()| out.flush());
}

/// Prints a value as JSON.
pub(super) fn print_json(value: &impl serde::Serialize) {
    match serde_json::to_string_pretty(value) {
        Ok(text) => print(&text),
        Err(error) => complain(&error),
    }
}

/// Says something beside the result.
pub(super) fn note(text: &str) {
    let _closed_pipe = writeln!(std::io::stderr(), "{text}");
}

/// Says why a verb failed, with every cause that says more.
pub(super) fn complain(error: &dyn std::error::Error) {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let said = error.to_string();
        if !text.contains(&said) {
            text.push_str(&format!(": {said}"));
        }
        cause = error.source();
    }
    note(&format!("legwork: {text}"));
}

/// Starts the log: warnings by default, more by `LEGWORK_LOG`, beside the live view.
pub(super) fn start_log(level: &str) {
    let filter = tracing_subscriber::EnvFilter::try_from_env("LEGWORK_LOG")
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new(level));
    let _already_started = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(crate::terminal::log_writer)
        .with_target(false)
        .with_ansi(std::io::stderr().is_terminal())
        .try_init();
}
