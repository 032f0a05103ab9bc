//! Formats figures: as a table for people, or as one JSON object per line for programs.

use std::fmt::Write as _;

use crate::harness::{Better, Figures, Measure, Target};

/// The contenders that are floors. They show what the machine can do without a runtime, so runtimes
/// are not compared with them.
const FLOORS: [&str; 2] = ["bare", "raw"];

const OURS: &str = "tiffany";

/// Formats a measure as one object:
/// `{"measure":…,"unit":…,"better":…,"tiffany":…,"peers":{…},"spread":{…},…}`.
pub(crate) fn json(measure: &Measure, figures: &[Figures]) -> String {
    let better = match measure.better {
        Better::Lower => "lower",
        Better::Higher => "higher",
    };
    let ours = figures.iter().find(|figures| figures.name == OURS).and_then(Figures::median);
    let peers = figures.iter().filter(|figures| figures.name != OURS);
    let mut line = format!(
        r#"{{"measure":"{}","unit":"{}","better":"{better}","{OURS}":{},"peers":{}"#,
        measure.name,
        measure.unit,
        number(ours),
        object(peers.map(|peer| (peer.name, number(peer.median())))),
    );
    let spread = figures.iter().filter_map(|figures| {
        let (low, high) = figures.spread()?;
        Some((figures.name, format!("[{},{}]", number(Some(low)), number(Some(high)))))
    });
    let _ = write!(line, r#","spread":{}"#, object(spread));
    for column in columns(figures) {
        let beside = figures
            .iter()
            .filter_map(|figures| Some((figures.name, number(Some(figures.beside(column)?)))));
        let _ = write!(line, r#","{column}":{}"#, object(beside));
    }
    let missing: Vec<_> = figures
        .iter()
        .filter_map(|figures| Some((figures.name, format!("{:?}", figures.missing.as_ref()?))))
        .collect();
    if !missing.is_empty() {
        let _ = write!(line, r#","not_measured":{}"#, object(missing.into_iter()));
    }
    line.push('}');
    line
}

fn object<'a>(entries: impl Iterator<Item = (&'a str, String)>) -> String {
    let entries: Vec<_> = entries.map(|(key, value)| format!(r#""{key}":{value}"#)).collect();
    format!("{{{}}}", entries.join(","))
}

fn number(value: Option<f64>) -> String {
    value.filter(|value| value.is_finite()).map_or("null".into(), |value| format!("{value:.3}"))
}

/// Returns the names of all additional columns, in order of appearance.
fn columns(figures: &[Figures]) -> Vec<&'static str> {
    let mut columns = Vec::new();
    for column in figures.iter().flat_map(Figures::columns) {
        if !columns.contains(&column) {
            columns.push(column);
        }
    }
    columns
}

/// Lists the contenders of a measure that worked, without figures.
pub(crate) fn worked(measure: &Measure, figures: &[Figures]) -> String {
    let (there, missing): (Vec<&Figures>, Vec<&Figures>) =
        figures.iter().partition(|figures| figures.median().is_some());
    let names = |some: &[&Figures]| {
        some.iter().map(|figures| figures.name).collect::<Vec<&str>>().join(", ")
    };
    match missing.is_empty() {
        true => format!("{:<14} works: {}", measure.name, names(&there)),
        false => {
            format!("{:<14} works: {}; not: {}", measure.name, names(&there), names(&missing))
        }
    }
}

/// Formats a table of median, spread, ratio to tiffany and additional columns, followed by the
/// targets.
pub(crate) fn table(measure: &Measure, figures: &[Figures]) -> String {
    let better = match measure.better {
        Better::Lower => "lower is better",
        Better::Higher => "higher is better",
    };
    let mut text = format!("{}: {} ({}, {better})\n", measure.name, measure.what, measure.unit);
    let columns = columns(figures);
    let _ = write!(text, "  {:<10}{:>12}{:>26}{:>10}", "", "median", "lowest – highest", "ratio");
    for column in &columns {
        let _ = write!(text, "{column:>16}");
    }
    text.push('\n');
    let ours = figures.iter().find(|figures| figures.name == OURS).and_then(Figures::median);
    for figures in figures {
        let Some((median, (low, high))) = figures.median().zip(figures.spread()) else {
            let why = figures.missing.as_deref().unwrap_or("no sample");
            let _ = writeln!(text, "  {:<10}not measured: {why}", figures.name);
            continue;
        };
        let spread = format!("{} – {}", short(low), short(high));
        let ratio = ours.map_or(f64::NAN, |ours| median / ours);
        let _ =
            write!(text, "  {:<10}{:>12}{spread:>26}{ratio:>10.2}", figures.name, short(median));
        for column in &columns {
            let _ = write!(text, "{:>16}", figures.beside(column).map_or("–".into(), short));
        }
        text.push('\n');
    }
    for target in &measure.targets {
        let _ = writeln!(text, "  target: {}", verdict(*target, measure.better, figures));
    }
    text
}

fn short(value: f64) -> String {
    match value.abs() {
        size if size >= 1_000.0 => format!("{value:.0}"),
        size if size >= 100.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

/// Describes a target, and whether it is reached.
fn verdict(target: Target, better: Better, figures: &[Figures]) -> String {
    let of = |name: &str| figures.iter().find(|figures| figures.name == name);
    let (ours, bound) = (of(OURS), if better == Better::Lower { "at most" } else { "at least" });
    let (words, is, limit) = match target {
        Target::OfBest(factor) => {
            let Some((name, best)) = best_peer(better, figures) else {
                return format!("{bound} {factor} of the best: no peer measured");
            };
            let words = format!("{bound} {factor} of the best runtime here ({name})");
            (words, ours.and_then(Figures::median).map(|is| is / best), Some(factor))
        }
        Target::Of(name, factor) => {
            let ratio = ours.and_then(Figures::median).zip(of(name).and_then(Figures::median));
            let words = format!("{bound} {factor} of {name}");
            (words, ratio.map(|(is, peer)| is / peer), Some(factor))
        }
        Target::Figure(limit) => {
            (format!("{bound} {limit}"), ours.and_then(Figures::median), Some(limit))
        }
        Target::Beside(column, limit) => {
            let is = ours.and_then(|ours| ours.beside(column));
            return judge(&format!("{column} at most {limit}"), is, Some(limit), Better::Lower);
        }
        Target::BesideNoMoreThan(column, name) => {
            let is = ours.and_then(|ours| ours.beside(column));
            let limit = of(name).and_then(|peer| peer.beside(column)).map(|peer| peer * 1.01);
            return judge(
                &format!("{column} no more than {name}, within 1%"),
                is,
                limit,
                Better::Lower,
            );
        }
    };
    judge(&words, is, limit, better)
}

fn judge(words: &str, is: Option<f64>, limit: Option<f64>, better: Better) -> String {
    let Some((is, limit)) = is.zip(limit) else { return format!("{words}: not measured") };
    let reached = match better {
        Better::Lower => is <= limit,
        Better::Higher => is >= limit,
    };
    let verdict = if reached { "reached" } else { "NOT reached" };
    format!("{words}: {is:.2}, {verdict}")
}

fn best_peer(better: Better, figures: &[Figures]) -> Option<(&'static str, f64)> {
    let peers = figures.iter().filter(|peer| peer.name != OURS && !FLOORS.contains(&peer.name));
    let medians = peers.filter_map(|peer| Some((peer.name, peer.median()?)));
    match better {
        Better::Lower => medians.min_by(|a, b| a.1.total_cmp(&b.1)),
        Better::Higher => medians.max_by(|a, b| a.1.total_cmp(&b.1)),
    }
}
