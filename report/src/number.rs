//! Numbers on their way into a report: [`Finite`] keeps NaN and infinities out of every struct and so
//! out of every JSON file; the rest is how numbers are written. Refuses to know what is counted.

use serde::{Deserialize, Serialize};

/// A number that is neither NaN nor infinite, and never `-0`.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(try_from = "f64", into = "f64")]
pub struct Finite(f64);

impl Finite {
    /// Zero.
    pub const ZERO: Finite = Finite(0.0);

    /// The number, unless it is NaN or infinite.
    pub fn new(value: f64) -> Option<Finite> {
        // Adding zero turns -0 into 0, so that two equal reports have equal bytes.
        value.is_finite().then_some(Finite(value + 0.0))
    }

    /// `part / whole`, unless `whole` is 0.
    pub fn ratio(part: u64, whole: u64) -> Option<Finite> {
        if whole == 0 { None } else { Finite::new(part as f64 / whole as f64) }
    }

    /// The mean, unless there is nothing to average or the sum overflows.
    pub fn mean(values: &[f64]) -> Option<Finite> {
        if values.is_empty() { None } else { Finite::new(values.iter().sum::<f64>() / values.len() as f64) }
    }

    /// The number.
    pub fn get(self) -> f64 {
        self.0
    }
}

impl From<Finite> for f64 {
    fn from(value: Finite) -> f64 {
        value.0
    }
}

impl TryFrom<f64> for Finite {
    type Error = String;

    fn try_from(value: f64) -> Result<Finite, String> {
        Finite::new(value).ok_or_else(|| format!("expected a finite number, got {value}: leave the field out instead"))
    }
}

/// What stands where a number is not defined.
pub const UNDEFINED: &str = "–";

/// `0.72` as `72.00 %`.
pub fn percent(share: Option<Finite>) -> String {
    share.map_or_else(|| UNDEFINED.to_owned(), |share| format!("{:.2} %", share.0 * 100.0))
}

/// `0.6433` and `0.7857` as `64.33–78.57 %`.
pub fn percent_range(low: Finite, high: Finite) -> String {
    format!("{:.2}–{:.2} %", low.0 * 100.0, high.0 * 100.0)
}

/// `0.1667` as `+16.67`: percentage points, always signed.
pub fn points(share: Finite) -> String {
    let text = format!("{:+.2}", share.0 * 100.0);
    if text == "-0.00" { "+0.00".to_owned() } else { text }
}

/// A number with so many decimals.
pub fn decimal(value: Option<Finite>, decimals: usize) -> String {
    value.map_or_else(|| UNDEFINED.to_owned(), |value| format!("{:.decimals$}", value.0))
}

/// `3952827` as `3,952,827`.
pub fn count(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A probability with two significant digits; below the smallest double its power of ten is told.
pub fn p_value(p: Finite, log10_p: Finite) -> String {
    if p.0 >= 0.001 {
        format!("{:.3}", p.0)
    } else if p.0 > f64::MIN_POSITIVE {
        format!("{:.1e}", p.0)
    } else {
        format!("1e{:.0}", log10_p.0)
    }
}

/// Milliseconds in the unit that a person would choose.
pub fn duration(ms: u64) -> String {
    if ms < 1_000 {
        return format!("{ms} ms");
    }
    if ms < 60_000 {
        return format!("{:.2} s", ms as f64 / 1e3);
    }
    let seconds = ms / 1_000;
    if seconds < 3_600 {
        return format!("{} min {:02} s", seconds / 60, seconds % 60);
    }
    format!("{} h {:02} min", count(seconds / 3_600), seconds / 60 % 60)
}

/// Millionths of a currency unit as units with four decimals.
pub fn money(micros: f64) -> String {
    format!("{:.4}", micros / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nan_and_infinities_are_no_finite_numbers() {
        for value in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            assert_eq!(Finite::new(value), None);
            assert!(Finite::try_from(value).is_err());
        }
        assert!(Finite::new(-0.0).unwrap().get().is_sign_positive());
    }

    #[test]
    fn an_undefined_number_is_null_in_json_and_reads_back_as_undefined() {
        let scores = vec![Finite::new(f64::NAN), Finite::new(1.0)];
        let text = serde_json::to_string(&scores).unwrap();
        assert_eq!(text, "[null,1.0]");
        assert_eq!(serde_json::from_str::<Vec<Option<Finite>>>(&text).unwrap(), scores);
    }

    #[test]
    fn numbers_are_written_as_the_card_writes_them() {
        assert_eq!(percent(Finite::ratio(108, 150)), "72.00 %");
        assert_eq!(percent(Finite::ratio(0, 0)), UNDEFINED);
        assert_eq!(count(3_952_827), "3,952,827");
        assert_eq!(count(100), "100");
        assert_eq!(points(Finite::new(25.0 / 150.0).unwrap()), "+16.67");
        assert_eq!(points(Finite::new(-1e-9).unwrap()), "+0.00");
        assert_eq!(p_value(Finite(4.14e-5), Finite(-4.38)), "4.1e-5");
        assert_eq!(p_value(Finite(0.0), Finite(-301_030.0)), "1e-301030");
        assert_eq!(duration(999), "999 ms");
        assert_eq!(duration(61_000), "1 min 01 s");
        assert_eq!(duration(7_260_000), "2 h 01 min");
    }
}
