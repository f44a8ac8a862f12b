//! Confidences as people and models write them, on one scale of 0 to 100.

/// Reads the first number of a text as a confidence of 0 to 100. With a percent sign it stands as it is;
/// without one a decimal fraction of at most 1 (`0.9`, `1.0`) is a share. Nothing, words alone, a negative
/// number and anything above 100 are no confidence.
pub fn read_confidence(text: &str) -> Option<f64> {
    let folded = text.replace('％', "%");
    let start = folded.find(|c: char| c.is_ascii_digit())?;
    let end = folded[start..]
        .find(|c: char| !c.is_ascii_digit() && c != '.' && c != ',')
        .map_or(folded.len(), |length| start + length);
    let digits = folded[start..end].trim_end_matches(['.', ',']).replace(',', ".");
    let before = folded[..start].trim_end();
    if before.ends_with(['-', '−']) && !before.trim_end_matches(['-', '−']).ends_with(char::is_alphanumeric) {
        return None;
    }
    let number: f64 = digits.parse().ok()?;
    let is_percent = folded[end..].trim_start_matches(['.', ',']).trim_start().starts_with('%');
    let is_share = !is_percent && digits.contains('.') && number <= 1.0;
    let confidence = if is_share { number * 100.0 } else { number };
    (0.0..=100.0).contains(&confidence).then_some(confidence)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn confidences_are_read_on_one_scale() {
        let cases = [
            ("85%", Some(85.0)),
            ("85", Some(85.0)),
            ("0.9", Some(90.0)),
            ("90", Some(90.0)),
            ("1.0", Some(100.0)),
            ("1", Some(1.0)),
            ("0", Some(0.0)),
            ("0.9%", Some(0.9)),
            ("92.5 %", Some(92.5)),
            ("72,5％", Some(72.5)),
            ("about 80% sure", Some(80.0)),
            ("90.", Some(90.0)),
            ("100 %", Some(100.0)),
            ("101 %", None),
            ("-5", None),
            ("N/A", None),
            ("high", None),
            ("", None),
            ("1.2.3", None),
            ("99999999999999999999999999", None),
        ];
        for (text, expected) in cases {
            assert_eq!(read_confidence(text), expected, "{text}");
        }
    }
}
