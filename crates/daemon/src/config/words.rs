//! Rewrites errors of the configuration parser: it names types and fields, and the author of a file
//! knows keys.

/// Returns the error in our wording, with the key whose value is wrong.
pub(super) fn ours(theirs: &str, key: Option<&str>) -> String {
    // The integer type that the parser uses is of no interest to the user.
    let theirs = theirs.trim().replace('\n', ", ").replace("` as i128", "`");
    let named = |text: String| match key {
        Some(key) => format!("`{key}`: {text}"),
        None => text,
    };
    if let Some((is, takes)) = after(&theirs, &["invalid type: ", "invalid value: "])
        .and_then(|rest| rest.rsplit_once(", expected "))
    {
        let (is, takes) = (with_article(is), wanted(takes));
        return match key {
            Some(key) => format!("`{key}` is {is}, and takes {takes}"),
            None => format!("there is {is}, where {takes} belongs"),
        };
    }
    if let Some(rest) = after(&theirs, &["unknown field "]) {
        return format!("there is no key {}", rest.replacen(", expected ", "; there are ", 1))
            .replacen("there are one of ", "there are ", 1);
    }
    if let Some((is, of)) =
        after(&theirs, &["unknown variant "]).and_then(|rest| rest.split_once(", expected "))
    {
        let of = of.strip_prefix("one of ").unwrap_or(of);
        return named(format!("{is} is not one of {of}"));
    }
    match after(&theirs, &["missing field "]) {
        Some(field) => format!("the key {field} is missing"),
        None => named(theirs),
    }
}

fn after<'a>(text: &'a str, beginnings: &[&str]) -> Option<&'a str> {
    beginnings.iter().find_map(|beginning| text.strip_prefix(beginning))
}

/// Returns a value as the parser describes it, such as ``integer `10` ``, with an article.
fn with_article(value: &str) -> String {
    match value.contains(['`', '"']) {
        true => format!("the {value}"),
        false => format!("a {value}"),
    }
}

/// Returns a description for people of the type that the parser expected.
fn wanted(theirs: &str) -> &str {
    match theirs {
        "usize" | "u64" | "u32" | "u16" => "a whole number from 0 on",
        "a boolean" => "`true` or `false`",
        other => other,
    }
}
