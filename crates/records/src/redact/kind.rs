//! The kind of a value, which its replacement must have too. It knows nothing of rules.

/// The kind of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Any other text.
    Text,
    /// Bytes, in Base64.
    Bytes,
    /// A date, a time or both (ISO 8601).
    Moment,
    /// A number.
    Number,
    /// `true` or `false`.
    Flag,
}

/// Returns the kind of a text: a date must stay a date.
pub fn kind_of(text: &str) -> Kind {
    if is_date(text) { Kind::Moment } else { Kind::Text }
}

/// Returns whether a text is exactly a date, or a date and a time.
fn is_date(text: &str) -> bool {
    let shape: String =
        text.chars().take(48).map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
    let Some(rest) = shape.strip_prefix("0000-00-00") else { return false };
    let time = rest.strip_prefix(['T', 't', ' ']);
    time.map_or(rest.is_empty(), is_time)
}

/// Returns whether this is the shape of a time of day.
fn is_time(shape: &str) -> bool {
    let Some(rest) = shape.strip_prefix("00:00") else { return false };
    let rest = rest.strip_prefix(":00").unwrap_or(rest);
    let rest = match rest.strip_prefix(['.', ',']) {
        Some(parts) => parts.trim_start_matches('0'),
        None => rest,
    };
    matches!(rest, "" | "Z" | "z" | "+00:00" | "-00:00" | "+0000" | "-0000" | "+00" | "-00")
}

/// Returns whether a text is a time of day, with or without a date.
pub(super) fn is_moment(text: &str) -> bool {
    let shape: String =
        text.chars().take(48).map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
    is_date(text) || is_time(&shape)
}

/// Makes a replacement for a date or time: `number` days after January 1, 2000, or seconds after
/// midnight. An offset from UTC is kept.
pub fn moment(text: &str, number: u64) -> String {
    let (date, time) = match text.get(..10).filter(|date| date.as_bytes()[4] == b'-') {
        Some(_) => {
            let (day, month, year) =
                (number % 28 + 1, number / 28 % 12 + 1, 2000 + number / 336 % 8000);
            (format!("{year:04}-{month:02}-{day:02}"), &text[10..])
        }
        None => (String::new(), text),
    };
    let zone = time.find(['+', '-', 'Z', 'z']).unwrap_or(time.len());
    let (clock, zone) = time.split_at(zone);
    let second = if date.is_empty() { number } else { 0 };
    let figures = format!("{:02}{:02}{:02}", second / 3600 % 24, second / 60 % 60, second % 60);
    let mut figures = figures.chars();
    let last = clock.rfind(|c: char| c.is_ascii_digit()).filter(|_| clock.contains('.'));
    // If all decimals of a second were 0, programs that write it again would leave them out.
    let clock = clock.char_indices().map(|(at, c)| match c {
        c if !c.is_ascii_digit() => c,
        _ if Some(at) == last => '1',
        _ => figures.next().unwrap_or('0'),
    });
    format!("{date}{}{zone}", clock.collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_complete_text_is_a_date() {
        for text in [
            "2026-11-16",
            "2026-11-16T04:14:18.665+02:00",
            "2026-11-16 04:14",
            "2026-11-16T04:14:18Z",
        ] {
            assert_eq!(kind_of(text), Kind::Moment, "{text}");
        }
        for text in ["2026-11-16-hunter2", "2026-11-16T04:14:18 hunter2", "2026-11", "04:14:18"] {
            assert_eq!(kind_of(text), Kind::Text, "{text}");
        }
        assert!(is_moment("04:14:18") && !is_moment("04:14:18x"));
    }
}
