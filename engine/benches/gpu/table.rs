//! Rows of figures: ours, the ceiling of this run, and the floor that ENGINE.md asks for. It refuses to know how they were
//! measured.

/// The least that is asked of a row: tokens a second, and the part of the ceiling.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Floor {
    pub(crate) tokens_s: f64,
    pub(crate) part: f64,
}

/// Rows so far.
#[derive(Default)]
pub(crate) struct Table {
    short: Vec<String>,
    passed: usize,
}

impl Table {
    /// Begins a table.
    pub(crate) fn head(&self) {
        println!("| what | tok/s | ms a step | ceiling tok/s | of it | floor | |");
        println!("| --- | ---: | ---: | ---: | ---: | --- | --- |");
    }

    /// A row: tokens a second, milliseconds of a step, and tokens a second at the ceiling.
    pub(crate) fn row(&mut self, what: &str, tokens_s: f64, step_ms: f64, ceiling: f64, floor: Option<Floor>) {
        let part = tokens_s / ceiling;
        let (asked, verdict) = match floor {
            None => (String::new(), ""),
            Some(floor) => {
                let passes = tokens_s >= floor.tokens_s && part >= floor.part;
                let mut asked = Vec::new();
                if floor.part > 0.0 {
                    asked.push(format!("{:.0} %", 100.0 * floor.part));
                }
                if floor.tokens_s > 0.0 {
                    asked.push(format!("{:.0} tok/s", floor.tokens_s));
                }
                match passes {
                    true => self.passed += 1,
                    false => self.short.push(what.to_owned()),
                }
                (asked.join(", "), if passes { "pass" } else { "SHORT" })
            }
        };
        println!(
            "| {what} | {tokens_s:.0} | {step_ms:.3} | {ceiling:.0} | {:.1} % | {asked} | {verdict} |",
            100.0 * part
        );
    }

    /// Which rows pass.
    pub(crate) fn print_verdicts(&self) {
        if self.passed + self.short.len() > 0 {
            let short = if self.short.is_empty() { "none".to_owned() } else { self.short.join("; ") };
            println!("\n{} rows pass their floors; short of them: {short}", self.passed);
        }
    }
}
