//! Helpers for JSON text in the form of the log.

/// Removes the white space between the parts of a JSON text, which puts it on one line.
pub fn compact(json: &str) -> String {
    let (mut text, mut in_string, mut escaped) = (String::with_capacity(json.len()), false, false);
    for c in json.chars() {
        if !in_string && c.is_ascii_whitespace() {
            continue;
        }
        in_string ^= c == '"' && !escaped;
        escaped = in_string && c == '\\' && !escaped;
        text.push(c);
    }
    text
}
