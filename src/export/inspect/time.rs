//! Milliseconds since the Unix epoch as ISO 8601, in UTC.

/// The moment, such as `2026-11-30T08:55:11.042+00:00`.
pub(super) fn iso(epoch_ms: u64) -> String {
    let (seconds, ms) = (epoch_ms / 1000, epoch_ms % 1000);
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day) = date(days);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{ms:03}+00:00")
}

/// Year, month and day of a day since the epoch, by the Gregorian calendar. Years are counted from March, so that the
/// leap day is the last of a year, and in eras of 400 years, which are all 146,097 days long.
fn date(days: u64) -> (u64, u64, u64) {
    let since_era = days + 719_468;
    let (era, day_of_era) = (since_era / 146_097, since_era % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    (era * 400 + year_of_era + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::iso;

    #[test]
    fn moments_agree_with_an_independent_clock() {
        // date -u -d @SECONDS +%FT%T
        for (seconds, expected) in [
            (0, "1970-01-01T00:00:00"),
            (951_782_399, "2000-02-28T23:59:59"),
            (951_782_400, "2000-02-29T00:00:00"),
            (1_796_028_911, "2026-11-30T08:55:11"),
            (4_107_542_400, "2100-03-01T00:00:00"),
        ] {
            assert_eq!(iso(seconds * 1000 + 42), format!("{expected}.042+00:00"));
        }
    }
}
