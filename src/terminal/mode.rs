//! Which way of watching fits: decided by a pure function over flags, the terminal and `TERM`.

use std::io::IsTerminal;

/// How a run is watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WatchMode {
    /// A full-screen view.
    Live,
    /// A line now and then.
    Plain,
    /// Nothing; stopping still works.
    Silent,
}

/// Flags that have a say in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags {
    /// `--json`: a machine reads.
    pub json: bool,
    /// `--quiet`: nobody reads.
    pub quiet: bool,
    /// `--plain`: lines only.
    pub plain: bool,
}

/// All that the choice depends on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Situation {
    /// The flags given.
    pub flags: Flags,
    /// Whether standard error is a terminal.
    pub is_tty: bool,
    /// The value of `TERM`.
    pub term: Option<String>,
}

/// Silent for machines, plain where a screen cannot be drawn, else live.
pub fn choose(situation: &Situation) -> WatchMode {
    let Situation { flags, is_tty, term } = situation;
    if flags.json || flags.quiet {
        WatchMode::Silent
    } else if flags.plain || !is_tty || matches!(term.as_deref(), None | Some("" | "dumb" | "unknown")) {
        WatchMode::Plain
    } else {
        WatchMode::Live
    }
}

/// The choice for this process.
pub fn here(flags: Flags) -> WatchMode {
    choose(&Situation { flags, is_tty: std::io::stderr().is_terminal(), term: std::env::var("TERM").ok() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(flags: Flags, is_tty: bool, term: Option<&str>) -> WatchMode {
        choose(&Situation { flags, is_tty, term: term.map(str::to_owned) })
    }

    #[test]
    fn a_capable_terminal_without_flags_gets_the_live_view() {
        assert_eq!(chosen(Flags::default(), true, Some("xterm-256color")), WatchMode::Live);
    }

    #[test]
    fn without_a_terminal_or_with_a_dumb_one_lines_are_plain() {
        assert_eq!(chosen(Flags::default(), false, Some("xterm")), WatchMode::Plain);
        for term in [None, Some(""), Some("dumb"), Some("unknown")] {
            assert_eq!(chosen(Flags::default(), true, term), WatchMode::Plain, "{term:?}");
        }
        assert_eq!(chosen(Flags { plain: true, ..Flags::default() }, true, Some("xterm")), WatchMode::Plain);
    }

    #[test]
    fn machines_get_silence_even_on_a_terminal_and_with_plain() {
        for (json, quiet) in [(true, false), (false, true)] {
            let flags = Flags { json, quiet, plain: true };
            assert_eq!(chosen(flags, true, Some("xterm")), WatchMode::Silent);
            assert_eq!(chosen(flags, false, None), WatchMode::Silent);
        }
    }
}
