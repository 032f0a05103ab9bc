//! The timestamp of a line: RFC 3339 in UTC with nanoseconds. It reads no clock.

use super::json::two_digits;

/// The length of a timestamp: `2026-11-05T09:41:00.000000000Z`.
const LENGTH: usize = 30;
const DAY_SECS: u64 = 86_400;

/// Formats the timestamp of a line for people, to the second: `2026-11-05 09:41:00`. A shorter text
/// is returned unchanged.
pub fn to_the_second(ts: &str) -> String {
    ts.get(..19).unwrap_or(ts).replace('T', " ")
}

/// A timestamp, formatted once and used for all lines of a round.
///
/// ```
/// # use tiffany_log::Stamp;
/// let stamp = Stamp::from_unix_nanos(1_762_335_660_000_000_001);
/// assert_eq!(stamp.as_str(), "2025-11-05T09:41:00.000000001Z");
/// assert_eq!(Stamp::parse(stamp.as_str()), Some(stamp));
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    /// The timestamp with the text around it in a line, so that it is copied in one piece.
    piece: [u8; BEFORE.len() + LENGTH + AFTER.len()],
    nanos: u64,
}

const BEFORE: &[u8] = b",\"ts\":\"";
const AFTER: &[u8] = b"\",\"type\":\"";
const SECOND: u64 = 1_000_000_000;
/// The offset of the nanoseconds in the piece.
const FRACTION: usize = BEFORE.len() + 20;

impl Stamp {
    /// Makes the timestamp from nanoseconds since 1970. The range ends in the year 2554.
    pub fn from_unix_nanos(nanos: u64) -> Stamp {
        let secs = nanos / 1_000_000_000;
        let (year, month, day) = civil(secs / DAY_SECS);
        let second_of_day = (secs % DAY_SECS) as u32;
        let mut text = *b"0000-00-00T00:00:00.000000000Z";
        text[0..2].copy_from_slice(&two_digits(year / 100));
        text[2..4].copy_from_slice(&two_digits(year % 100));
        text[5..7].copy_from_slice(&two_digits(month));
        text[8..10].copy_from_slice(&two_digits(day));
        text[11..13].copy_from_slice(&two_digits(second_of_day / 3600));
        text[14..16].copy_from_slice(&two_digits(second_of_day / 60 % 60));
        text[17..19].copy_from_slice(&two_digits(second_of_day % 60));
        let mut piece = [0; BEFORE.len() + LENGTH + AFTER.len()];
        piece[..BEFORE.len()].copy_from_slice(BEFORE);
        piece[BEFORE.len()..BEFORE.len() + LENGTH].copy_from_slice(&text);
        piece[BEFORE.len() + LENGTH..].copy_from_slice(AFTER);
        let mut stamp = Stamp { piece, nanos };
        stamp.set_fraction();
        stamp
    }

    /// Changes to another moment. Within the same second, this is cheap.
    #[inline]
    pub fn move_to(&mut self, nanos: u64) {
        if self.nanos == nanos {
            return;
        }
        if self.nanos / SECOND == nanos / SECOND {
            self.nanos = nanos;
            self.set_fraction();
        } else {
            *self = Stamp::from_unix_nanos(nanos);
        }
    }

    /// Writes the nanoseconds within the second, two digits at a time.
    #[inline]
    fn set_fraction(&mut self) {
        let fraction = (self.nanos % SECOND) as u32;
        let digits = &mut self.piece[FRACTION..FRACTION + 9];
        let (high, low) = (fraction / 10_000, fraction % 10_000);
        let (top, middle) = (high / 10_000, high % 10_000);
        digits[0] = b'0' + top as u8;
        digits[1..3].copy_from_slice(&two_digits(middle / 100));
        digits[3..5].copy_from_slice(&two_digits(middle % 100));
        digits[5..7].copy_from_slice(&two_digits(low / 100));
        digits[7..9].copy_from_slice(&two_digits(low % 100));
    }

    /// Parses exactly the form that [`Stamp::as_str`] returns.
    pub fn parse(text: &str) -> Option<Stamp> {
        let text: &[u8; LENGTH] = text.as_bytes().try_into().ok()?;
        let number = |from: usize, to: usize| {
            text[from..to].iter().try_fold(0_u64, |number, byte| {
                byte.is_ascii_digit().then(|| number * 10 + u64::from(byte - b'0'))
            })
        };
        let days = days(number(0, 4)?, number(5, 7)?, number(8, 10)?)?;
        let secs = number(11, 13)? * 3600 + number(14, 16)? * 60 + number(17, 19)?;
        let total = (days * DAY_SECS + secs).checked_mul(1_000_000_000)?;
        let stamp = Stamp::from_unix_nanos(total.checked_add(number(20, 29)?)?);
        // A text in another form, or with a day that doesn't exist, is not formatted back to
        // itself.
        (stamp.text() == text).then_some(stamp)
    }

    /// Changes to the moment in a text, and returns it in nanoseconds since 1970. Within the same
    /// second, this is cheap.
    pub fn read(&mut self, text: &str) -> Option<u64> {
        let same = text.len() == LENGTH && text.as_bytes()[..20] == self.text()[..20];
        if !same || text.as_bytes()[29] != b'Z' {
            *self = Stamp::parse(text)?;
            return Some(self.nanos);
        }
        let fraction = text.as_bytes()[20..29].iter().try_fold(0, |number, byte| {
            byte.is_ascii_digit().then(|| number * 10 + u64::from(byte - b'0'))
        })?;
        self.move_to(self.nanos - self.nanos % SECOND + fraction);
        Some(self.nanos)
    }

    /// Returns the nanoseconds since 1970.
    pub fn unix_nanos(&self) -> u64 {
        self.nanos
    }

    /// Returns the timestamp as text.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(self.text()).expect("a stamp is ASCII")
    }

    fn text(&self) -> &[u8] {
        &self.piece[BEFORE.len()..BEFORE.len() + LENGTH]
    }

    /// Returns the part of a line with the timestamp: `,"ts":"…","type":"`
    pub fn piece(&self) -> &[u8] {
        &self.piece
    }
}

impl std::fmt::Debug for Stamp {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

fn is_leap(year: u64) -> bool {
    year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
}

/// Returns the number of days before a month of a year.
fn days_before(month: usize, leap: bool) -> u64 {
    const BEFORE: [u64; 13] = [0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334, 365];
    BEFORE[month] + u64::from(leap && month >= 2)
}

/// Returns the number of days from 1970 to the first of January of a year.
fn days_to_year(year: u64) -> u64 {
    let leaps = |year: u64| year / 4 - year / 100 + year / 400;
    (year - 1970) * 365 + leaps(year - 1) - leaps(1969)
}

/// Returns the year, month and day of a day counted from 1970.
fn civil(day: u64) -> (u32, u32, u32) {
    let mut year = 1970 + day / 366;
    while days_to_year(year + 1) <= day {
        year += 1;
    }
    let in_year = day - days_to_year(year);
    let leap = is_leap(year);
    let month = (1..12).take_while(|month| days_before(*month, leap) <= in_year).count();
    (year as u32, month as u32 + 1, (in_year - days_before(month, leap)) as u32 + 1)
}

fn days(year: u64, month: u64, day: u64) -> Option<u64> {
    if year < 1970 || !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    Some(days_to_year(year) + days_before(month as usize - 1, is_leap(year)) + day - 1)
}

#[cfg(test)]
mod tests {
    use super::Stamp;

    #[test]
    fn known_moments_are_formatted() {
        let cases = [
            (0, "1970-01-01T00:00:00.000000000Z"),
            (951_782_399, "2000-02-28T23:59:59.000000000Z"),
            (951_782_400, "2000-02-29T00:00:00.000000000Z"),
            (951_868_800, "2000-03-01T00:00:00.000000000Z"),
            (4_107_542_400, "2100-03-01T00:00:00.000000000Z"),
            (1_735_689_599, "2024-12-31T23:59:59.000000000Z"),
            (1_735_689_600, "2025-01-01T00:00:00.000000000Z"),
        ];
        for (secs, text) in cases {
            let stamp = Stamp::from_unix_nanos(secs * 1_000_000_000);
            assert_eq!(stamp.as_str(), text);
            assert_eq!(Stamp::parse(text), Some(stamp));
        }
    }

    #[test]
    fn every_day_round_trips_and_follows_the_one_before() {
        let mut last = String::new();
        for day in 0..80_000_u64 {
            let nanos = day * 86_400_000_000_000 + day;
            let stamp = Stamp::from_unix_nanos(nanos);
            assert!(stamp.as_str() > last.as_str(), "{stamp:?} after {last}");
            for later in [0, 7, 123_456_789, 999_999_999, 1_000_000_000] {
                let mut moved = stamp;
                moved.move_to(nanos + later);
                assert!(moved == Stamp::from_unix_nanos(nanos + later), "{moved:?}");
                assert_eq!(stamp.clone().read(moved.as_str()), Some(nanos + later));
            }
            assert_eq!(Stamp::parse(stamp.as_str()).map(|s| s.unix_nanos()), Some(nanos));
            last = stamp.as_str().to_string();
        }
    }

    #[test]
    fn other_forms_are_refused() {
        let bad = [
            "",
            "2025-02-29T00:00:00.000000000Z",
            "2025-13-01T00:00:00.000000000Z",
            "2025-01-01T24:00:00.000000000Z",
            "2025-01-01 00:00:00.000000000Z",
            "2025-01-01T00:00:00.00000000Z",
            "9999-01-01T00:00:00.000000000Z",
        ];
        let first = Stamp::from_unix_nanos(1_735_689_600_000_000_000);
        let almost = ["2025-01-01T00:00:00.00000000aZ", "2025-01-01T00:00:00.000000000z"];
        for text in bad.iter().chain(&almost) {
            assert_eq!(Stamp::parse(text), None, "{text}");
            assert_eq!(first.clone().read(text), None, "{text}");
        }
    }
}
