//! A reader of Prometheus' text format 0.0.4 that forgives nothing, written from the format's description alone.

use std::collections::{BTreeMap, BTreeSet};

/// Samples: each by its name and its labels.
pub(crate) type Read = BTreeMap<Series, f64>;
type Series = (String, BTreeMap<String, String>);

/// Everything in a text; panics where it breaks a rule.
pub(crate) fn parse(text: &str) -> Read {
    assert!(text.ends_with('\n'), "the last line has no end");
    let (mut read, mut over) = (Read::new(), BTreeSet::new());
    let mut family: Option<(String, String)> = None;
    for line in text.lines() {
        if let Some(help) = line.strip_prefix("# HELP ") {
            let (name, help) = help.split_once(' ').expect(line);
            assert!(over.insert(name.to_owned()), "{name} comes twice");
            assert!(!help.is_empty() && is_name(name), "{line}");
            family = Some((name.to_owned(), String::new()));
        } else if let Some(kind) = line.strip_prefix("# TYPE ") {
            let (name, kind) = kind.split_once(' ').expect(line);
            let (family, known) = family.as_mut().expect("HELP comes first");
            assert_eq!(family, name);
            assert!(
                known.is_empty() && ["counter", "gauge", "histogram"].contains(&kind),
                "{line}"
            );
            assert_eq!(kind == "counter", name.ends_with("_total"), "{line}");
            *known = kind.to_owned();
        } else {
            let (name, kind) = family.as_ref().expect("TYPE comes first");
            let (sample, labels, value) = sample(line);
            match kind.as_str() {
                "histogram" => {
                    let of = sample.strip_prefix(name.as_str()).expect(line);
                    assert!(["_bucket", "_sum", "_count"].contains(&of), "{line}");
                    assert_eq!(of == "_bucket", labels.contains_key("le"), "{line}");
                }
                _ => assert_eq!(&sample, name, "{line}"),
            }
            assert!(kind != "counter" || value >= 0.0, "{line}");
            assert!(read.insert((sample, labels), value).is_none(), "twice: {line}");
        }
    }
    read
}

/// Checks the buckets of a histogram: they only grow, and the last one has all.
pub(crate) fn check_histograms(read: &Read) {
    let mut all: BTreeMap<Series, Vec<(f64, f64)>> = BTreeMap::new();
    for ((name, labels), value) in read {
        if let Some(name) = name.strip_suffix("_bucket") {
            let mut labels = labels.clone();
            let bound = number(&labels.remove("le").unwrap());
            all.entry((name.to_owned(), labels)).or_default().push((bound, *value));
        }
    }
    assert!(!all.is_empty());
    for ((name, labels), mut buckets) in all {
        buckets.sort_by(|a, b| a.0.total_cmp(&b.0));
        assert!(buckets.is_sorted_by(|a, b| a.1 <= b.1), "{name} {labels:?}");
        let (last, all) = buckets[buckets.len() - 1];
        assert_eq!(last, f64::INFINITY);
        assert_eq!(read[&(format!("{name}_count"), labels.clone())], all, "{name}");
        assert!(read.contains_key(&(format!("{name}_sum"), labels)));
    }
}

fn sample(line: &str) -> (String, BTreeMap<String, String>, f64) {
    let end = line.find(['{', ' ']).expect(line);
    let (name, mut rest) = line.split_at(end);
    assert!(is_name(name), "{line}");
    let mut labels = BTreeMap::new();
    if let Some(inner) = rest.strip_prefix('{') {
        rest = inner;
        while !rest.starts_with('}') {
            let (label, value) = rest.split_once("=\"").expect(line);
            assert!(is_name(label) && !label.contains(':'), "{line}");
            let (value, after) = quoted(value).expect(line);
            assert!(labels.insert(label.to_owned(), value).is_none(), "{line}");
            rest = after.strip_prefix(',').unwrap_or(after);
        }
        rest = &rest[1..];
    }
    let value = rest.strip_prefix(' ').expect(line);
    (name.to_owned(), labels, number(value))
}

/// A text up to its closing mark, and what follows.
fn quoted(text: &str) -> Option<(String, &str)> {
    let (mut value, mut chars) = (String::new(), text.char_indices());
    while let Some((at, char)) = chars.next() {
        match char {
            '"' => return Some((value, &text[at + 1..])),
            '\\' => value.push(match chars.next()?.1 {
                'n' => '\n',
                other @ ('\\' | '"') => other,
                other => panic!("\\{other} is no escape"),
            }),
            other => value.push(other),
        }
    }
    None
}

fn number(text: &str) -> f64 {
    match text {
        "+Inf" => f64::INFINITY,
        "-Inf" => f64::NEG_INFINITY,
        other => other.parse().unwrap_or_else(|_| panic!("`{other}` is no number")),
    }
}

fn is_name(text: &str) -> bool {
    let mut chars = text.chars();
    let is_first = |char: char| char.is_ascii_alphabetic() || "_:".contains(char);
    chars.next().is_some_and(is_first) && chars.all(|char| is_first(char) || char.is_ascii_digit())
}
