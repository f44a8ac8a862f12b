//! Bars for long work such as indexing, embedding and loading: position, rate and time left, on standard error.
//! Silent without a terminal, or where whoever asks does not want them: with `--json` and `--plain`.

use super::fields;
use super::mode::{Flags, WatchMode, here};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};
use legwork_retrieval::index::{BuildProgress, Stage};
use std::fmt::Write;
use std::time::Duration;

/// Redraws a second at most.
const DRAWS_PER_S: u8 = 10;
/// A bar of unknown length moves this often.
const SPIN_EVERY: Duration = Duration::from_millis(120);
/// Bars are drawn with these from full to empty.
const BLOCKS: &str = "█▉▊▋▌▍▎▏ ";

const COUNTED: &str = "{prefix} {wide_bar:.cyan/black} {human_pos}/{human_len} {msg} · {pace} · ETA {eta}";
const COUNTING: &str = "{spinner} {prefix} {human_pos} {msg} · {pace} · {elapsed}";
const WEIGHED: &str =
    "{prefix} {wide_bar:.cyan/black} {binary_bytes}/{binary_total_bytes} · {binary_bytes_per_sec} · ETA {eta}";
const WEIGHING: &str = "{spinner} {prefix} {binary_bytes} · {binary_bytes_per_sec} · {elapsed}";

/// A bar over documents whose number is not known: it counts, tells the rate and spins.
pub fn documents(what: &str, is_wanted: bool) -> ProgressBar {
    bar(what, None, COUNTING, is_wanted).with_message("documents")
}

/// A bar over so many documents.
pub fn documents_of(what: &str, total: u64, is_wanted: bool) -> ProgressBar {
    counted(what, "documents", total, is_wanted)
}

/// A bar over so many things of one kind, such as `steps`.
pub fn counted(what: &str, unit: &'static str, total: u64, is_wanted: bool) -> ProgressBar {
    bar(what, Some(total), COUNTED, is_wanted).with_message(unit)
}

/// A bar over bytes, such as those of weights. Without a total it counts and spins.
pub fn bytes(what: &str, total: Option<u64>, is_wanted: bool) -> ProgressBar {
    bar(what, total, if total.is_some() { WEIGHED } else { WEIGHING }, is_wanted)
}

/// Shows a step of building an index: what is being done, and how far documents have been read.
pub fn build_step(bar: &ProgressBar, step: &BuildProgress) {
    let doing = match step.stage {
        Stage::Digesting => "taking the corpus' digest:",
        Stage::Reading => "indexing",
        Stage::Merging => "merging",
        Stage::Sealing => "taking the index' digests:",
    };
    if bar.prefix() != doing {
        bar.set_prefix(doing);
    }
    bar.set_position(step.documents);
}

fn bar(what: &str, total: Option<u64>, template: &str, is_wanted: bool) -> ProgressBar {
    let is_shown = is_wanted && here(Flags::default()) == WatchMode::Live;
    let target = if is_shown { ProgressDrawTarget::stderr_with_hz(DRAWS_PER_S) } else { ProgressDrawTarget::hidden() };
    let bar = dressed(ProgressBar::with_draw_target(total, target), what, template);
    if is_shown && total.is_none() {
        bar.enable_steady_tick(SPIN_EVERY);
    }
    bar
}

fn dressed(bar: ProgressBar, what: &str, template: &str) -> ProgressBar {
    let style = ProgressStyle::with_template(template).expect("each template above is parsed by a test");
    let style = style.progress_chars(BLOCKS).with_key("pace", |state: &ProgressState, out: &mut dyn Write| {
        // The trait's method returns nothing: a bar that cannot be written is not there to be read either.
        let _written = write!(out, "{}/s", fields::rate(Some(state.per_sec())));
    });
    bar.with_style(style).with_prefix(fields::name(what))
}

#[cfg(test)]
mod tests {
    use super::*;
    use indicatif::TermLike;
    use std::io;
    use std::sync::{Arc, Mutex};

    /// A terminal of one line that remembers the last text written.
    #[derive(Clone, Debug, Default)]
    struct LastLine(Arc<Mutex<String>>);

    impl LastLine {
        fn text(&self) -> String {
            self.0.lock().unwrap().clone()
        }
    }

    impl TermLike for LastLine {
        fn width(&self) -> u16 {
            100
        }
        fn move_cursor_up(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn move_cursor_down(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn move_cursor_right(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn move_cursor_left(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn write_line(&self, text: &str) -> io::Result<()> {
            self.write_str(text)
        }
        fn write_str(&self, text: &str) -> io::Result<()> {
            if !text.trim().is_empty() {
                *self.0.lock().unwrap() = text.to_owned();
            }
            Ok(())
        }
        fn clear_line(&self) -> io::Result<()> {
            Ok(())
        }
        fn flush(&self) -> io::Result<()> {
            Ok(())
        }
    }

    fn drawn(template: &str, total: Option<u64>) -> String {
        let line = LastLine::default();
        let target = ProgressDrawTarget::term_like(Box::new(line.clone()));
        let bar = dressed(ProgressBar::with_draw_target(total, target), "indexing\x1b[2J", template)
            .with_message("documents");
        bar.inc(2_048);
        bar.force_draw();
        line.text()
    }

    #[test]
    fn a_counted_bar_tells_position_total_rate_and_time_left() {
        let line = drawn(COUNTED, Some(4_096));
        assert!(!line.contains(".0000"), "no false digits: {line:?}");
        for part in ["indexing\\x1b[2J", "2,048/4,096 documents", "/s", "ETA", "█"] {
            assert!(line.contains(part), "{part:?} is missing in {line:?}");
        }
    }

    #[test]
    fn every_template_is_one_that_can_be_read() {
        assert!(drawn(COUNTING, None).contains("2,048 documents"));
        assert!(drawn(WEIGHED, Some(4_096)).contains("2.00 KiB/4.00 KiB"));
        assert!(drawn(WEIGHING, None).contains("2.00 KiB"));
    }

    #[test]
    fn a_step_of_a_build_is_named_and_counted() {
        let bar = documents("indexing", false);
        build_step(&bar, &BuildProgress { stage: Stage::Merging, documents: 7, resumed_parts: 0 });
        assert_eq!((bar.prefix().as_str(), bar.position()), ("merging", 7));
    }

    #[test]
    fn a_bar_that_nobody_wants_draws_nothing_and_still_counts() {
        for bar in [documents("indexing", false), documents_of("embedding", 3, false), bytes("loading", None, false)] {
            bar.inc(2);
            assert!(bar.is_hidden());
            assert_eq!(bar.position(), 2);
        }
        assert_eq!(counted("training", "steps", 9, false).length(), Some(9));
    }
}
