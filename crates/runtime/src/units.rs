//! Durations, moments and sizes as people type and read them.

use std::time::Duration;

use tiffany_kernel::Time;

use crate::clock::Clock;
use tiffany_records::request::{StartDeadline, parse_moment};

/// Splits a text into a number and its unit.
fn number(text: &str) -> Option<(f64, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (digits, unit) = text.split_at(end);
    let number = digits.parse::<f64>().ok().filter(|number| number.is_finite())?;
    Some((number, unit.trim()))
}

/// Parses a duration: `90s`, `15m`, `12h`, `30d` or `2w`.
pub fn time(text: &str) -> Result<Duration, String> {
    let seconds = number(text).and_then(|(number, unit)| {
        let seconds = match unit {
            "ms" => 0.001,
            "s" => 1.0,
            "m" => 60.0,
            "h" => 3_600.0,
            "d" => 86_400.0,
            "w" => 604_800.0,
            _ => return None,
        };
        Duration::try_from_secs_f64(number * seconds).ok()
    });
    seconds.ok_or_else(|| "it takes a number and a unit, such as 90s, 15m, 12h, 30d or 2w".into())
}

/// Formats a duration in the form that [`time`] parses, in its largest whole unit: `90s`, `2m`.
pub fn span(time: Duration) -> String {
    let millis = time.as_millis();
    let units = [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000)];
    let whole = units.iter().find(|(_, of)| millis >= *of && millis.is_multiple_of(*of));
    match whole {
        Some((unit, of)) => format!("{}{unit}", millis / of),
        None if millis == 0 => "0s".into(),
        None => format!("{millis}ms"),
    }
}

/// Parses a moment in the form of the log, or the beginning of one; or a duration before now, in
/// the form of [`time`].
pub fn moment(text: &str) -> Result<Time, String> {
    let ago = || {
        let ago = time(text).ok()?;
        let nanos = u64::try_from(ago.as_nanos()).ok()?;
        Some(Time::from_nanos(Clock::system().now().as_nanos().saturating_sub(nanos)))
    };
    parse_moment(text)
        .or_else(ago)
        .ok_or_else(|| "it takes a moment in UTC, such as 2026-11-05T09:41:00Z, or an age, such as 15m, 12h or 30d".into())
}

/// Parses a deadline: a moment in the form of the log, or a duration from the start of a run, in the
/// form of [`time`].
///
/// ```
/// use std::time::Duration;
/// use tiffany::durable::StartDeadline;
/// use tiffany::units::deadline;
///
/// assert_eq!(deadline("2h"), Ok(StartDeadline::After(Duration::from_secs(7200))));
/// assert!(matches!(deadline("2026-11-05T09:41Z"), Ok(StartDeadline::At(_))));
/// ```
pub fn deadline(text: &str) -> Result<StartDeadline, String> {
    let at = parse_moment(text).map(StartDeadline::At);
    at.or_else(|| time(text).ok().map(StartDeadline::After)).ok_or_else(|| {
        "it takes a moment in UTC, such as 2026-11-05T09:41:00Z, or how long the run may take: 90s, 15m or 2h".into()
    })
}

/// Parses a size: `500kB`, `20MB` or `1GB`.
pub fn bytes(text: &str) -> Result<u64, String> {
    let bytes = number(text).and_then(|(number, unit)| {
        let factor = match unit.to_ascii_lowercase().as_str() {
            "" | "b" => 1.0,
            "kb" => 1e3,
            "mb" => 1e6,
            "gb" => 1e9,
            "tb" => 1e12,
            _ => return None,
        };
        Some((number * factor) as u64)
    });
    bytes.ok_or_else(|| "it takes a number and a unit, such as 500kB, 20MB or 1GB".into())
}

/// Formats a duration for display, in at most two units: `1m05s`.
pub fn age(seconds: u64) -> String {
    tiffany_records::wait_reason::age(seconds)
}

/// The duration from a moment of the log to another one, for display.
pub fn since(started: &str, until: Time) -> String {
    match parse_moment(started) {
        Some(then) => age(until.saturating_since(then).as_secs()),
        None => started.to_owned(),
    }
}

/// Formats a size for display.
pub fn size(bytes: u64) -> String {
    let units = ["B", "kB", "MB", "GB", "TB"];
    let (mut value, mut unit) = (bytes as f64, 0);
    while value >= 1000.0 && unit + 1 < units.len() {
        value /= 1000.0;
        unit += 1;
    }
    match unit {
        0 => format!("{bytes} B"),
        _ => format!("{value:.1} {}", units[unit]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_age_has_two_units_at_most() {
        for (seconds, expected) in [
            (0, "0s"),
            (59, "59s"),
            (60, "1m00s"),
            (3_599, "59m59s"),
            (3_600, "1h00m"),
            (86_399, "23h59m"),
            (86_400, "1d00h"),
            (1_000_000, "11d13h"),
        ] {
            assert_eq!(age(seconds), expected);
        }
    }

    #[test]
    fn a_span_is_read_again_as_what_it_was() {
        for text in ["0s", "1ms", "1500ms", "1s", "90s", "2m", "61m", "12h", "30d"] {
            assert_eq!(span(time(text).unwrap()), text);
        }
        assert_eq!(span(time("2w").unwrap()), "14d");
        assert_eq!(span(time("99999999999d").unwrap()), "99999999999d");
    }
}
