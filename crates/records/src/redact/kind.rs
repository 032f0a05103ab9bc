//! What kind of value a text is, as far as what stands for it must be of the same kind. It knows nothing of rules.

/// What kind of value it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Any other text.
    Text,
    /// Bytes, in base 64.
    Bytes,
    /// A date, a time or both (ISO 8601).
    Moment,
    /// A number.
    Number,
    /// `true` or `false`.
    Flag,
}

/// The kind of a text: dates must stay dates.
pub fn kind_of(text: &str) -> Kind {
    if is_date(text) { Kind::Moment } else { Kind::Text }
}

/// Whether it is a date, or a date and a time, and nothing else.
fn is_date(text: &str) -> bool {
    let shape: String =
        text.chars().take(48).map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
    let Some(rest) = shape.strip_prefix("0000-00-00") else { return false };
    let time = rest.strip_prefix(['T', 't', ' ']);
    time.map_or(rest.is_empty(), is_time)
}

/// Whether this is the shape of a time of the day.
fn is_time(shape: &str) -> bool {
    let Some(rest) = shape.strip_prefix("00:00") else { return false };
    let rest = rest.strip_prefix(":00").unwrap_or(rest);
    let rest = match rest.strip_prefix(['.', ',']) {
        Some(parts) => parts.trim_start_matches('0'),
        None => rest,
    };
    matches!(rest, "" | "Z" | "z" | "+00:00" | "-00:00" | "+0000" | "-0000" | "+00" | "-00")
}

/// Whether it is a time of the day, with or without a date.
pub(super) fn is_moment(text: &str) -> bool {
    let shape: String =
        text.chars().take(48).map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
    is_date(text) || is_time(&shape)
}

/// Days from the first of January 2000 on, or seconds after midnight. An offset from UTC stays.
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
    // Parts of a second that are all 0 would be left out by who writes them again.
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
    fn a_date_is_one_only_as_a_whole() {
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
