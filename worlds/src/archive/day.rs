//! Days of the archive's calendar and the forms in which its articles and its answer keys write them.

/// A day. The calendar has twelve months of 28 days at least; only days up to the 28th are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Day {
    /// The year.
    pub year: i32,
    /// The month, 1 to 12.
    pub month: u8,
    /// The day of the month, 1 to 28.
    pub day: u8,
}

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

impl Day {
    /// How many forms a day has.
    pub const FORMS: usize = 4;

    /// One of the forms, counted round: `14 March 1742`, `March 14, 1742`, `the 14th of March 1742`, `14.03.1742`.
    pub fn form(&self, which: usize) -> String {
        let month = MONTHS[usize::from(self.month.clamp(1, 12)) - 1];
        match which % Self::FORMS {
            0 => format!("{} {month} {}", self.day, self.year),
            1 => format!("{month} {}, {}", self.day, self.year),
            2 => format!("the {}{} of {month} {}", self.day, ordinal_suffix(self.day), self.year),
            _ => format!("{:02}.{:02}.{}", self.day, self.month, self.year),
        }
    }

    /// Every form, the plain one first.
    pub fn forms(&self) -> Vec<String> {
        (0..Self::FORMS).map(|which| self.form(which)).collect()
    }
}

fn ordinal_suffix(day: u8) -> &'static str {
    match (day % 10, day / 10) {
        (_, 1) => "th",
        (1, _) => "st",
        (2, _) => "nd",
        (3, _) => "rd",
        _ => "th",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_has_four_forms() {
        let day = Day { year: 1742, month: 3, day: 21 };
        assert_eq!(day.forms(), ["21 March 1742", "March 21, 1742", "the 21st of March 1742", "21.03.1742"]);
        let eleventh = Day { year: 1500, month: 12, day: 11 };
        assert_eq!(eleventh.form(2), "the 11th of December 1500");
    }
}
