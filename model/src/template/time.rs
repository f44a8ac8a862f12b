//! Dates as `strftime` writes them, in UTC and in English. The moment is an argument; it refuses to read a clock, and
//! refuses a letter that it does not know rather than guess.

const SECONDS_OF_DAY: i64 = 86_400;
const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const DAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

/// The moment, formatted.
pub(super) fn formatted(unix_s: i64, format: &str) -> Result<String, String> {
    let (days, second) = (unix_s.div_euclid(SECONDS_OF_DAY), unix_s.rem_euclid(SECONDS_OF_DAY));
    let (year, month, day) = civil(days);
    let (hour, minute) = (second / 3600, second / 60 % 60);
    let month_name = MONTHS[(month - 1) as usize];
    let day_name = DAYS[(days + 4).rem_euclid(7) as usize];
    let mut out = String::with_capacity(format.len() + 16);
    let mut letters = format.chars();
    while let Some(letter) = letters.next() {
        if letter != '%' {
            out.push(letter);
            continue;
        }
        let mut letter = letters.next();
        let bare = letter == Some('-');
        if bare {
            letter = letters.next();
        }
        let two = |number: i64| if bare { number.to_string() } else { format!("{number:02}") };
        let text = match letter {
            Some('Y') => year.to_string(),
            Some('y') => two(year.rem_euclid(100)),
            Some('m') => two(month),
            Some('d') => two(day),
            Some('e') if !bare => format!("{day:2}"),
            Some('B') if !bare => month_name.to_owned(),
            Some('b' | 'h') if !bare => month_name[..3].to_owned(),
            Some('A') if !bare => day_name.to_owned(),
            Some('a') if !bare => day_name[..3].to_owned(),
            Some('H') => two(hour),
            Some('I') => two((hour + 11) % 12 + 1),
            Some('p') if !bare => (if hour < 12 { "AM" } else { "PM" }).to_owned(),
            Some('M') => two(minute),
            Some('S') => two(second % 60),
            Some('j') => {
                let number = days - days_before(year) + 1;
                if bare { number.to_string() } else { format!("{number:03}") }
            }
            Some('F') if !bare => format!("{year}-{month:02}-{day:02}"),
            Some('T') if !bare => format!("{hour:02}:{minute:02}:{:02}", second % 60),
            Some('Z') if !bare => "UTC".to_owned(),
            Some('%') if !bare => "%".to_owned(),
            other => {
                let letter = other.map_or(String::new(), String::from);
                return Err(format!("strftime_now knows no `%{}{letter}`", if bare { "-" } else { "" }));
            }
        };
        out.push_str(&text);
    }
    Ok(out)
}

/// Year, month and day of a day since 1970, by counting in eras of 400 years that begin in March.
fn civil(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let (era, of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let from_march = (5 * of_year + 2) / 153;
    let (day, month) = (of_year - (153 * from_march + 2) / 5 + 1, (from_march + 2) % 12 + 1);
    (era * 400 + year + i64::from(month <= 2), month, day)
}

/// Days from 1970 to a year's first.
fn days_before(year: i64) -> i64 {
    let before = year - 1;
    365 * (year - 1970) + (before.div_euclid(4) - before.div_euclid(100) + before.div_euclid(400)) - 477
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Expected texts were printed by CPython 3.11.
    #[test]
    fn moments_are_written_as_python_writes_them() {
        for (unix_s, expected) in [
            (0, "01 Jan 1970 Thursday 00:00:00 12 AM 001"),
            (951_782_400, "29 Feb 2000 Tuesday 00:00:00 12 AM 060"),
            (1_796_047_658, "30 Nov 2026 Monday 14:07:38 02 PM 334"),
            (1_735_689_599, "31 Dec 2024 Tuesday 23:59:59 11 PM 366"),
        ] {
            assert_eq!(formatted(unix_s, "%d %b %Y %A %H:%M:%S %I %p %j").unwrap(), expected);
        }
        assert_eq!(formatted(0, "%B %-d, %Y 100%%").unwrap(), "January 1, 1970 100%");
        assert_eq!(formatted(i64::MIN / 4, "%F").map(|_| ()), Ok(()));
        assert!(formatted(0, "%Q").unwrap_err().contains("`%Q`"));
        assert!(formatted(0, "%").is_err());
    }
}
