//! Writes metrics in the Prometheus text format, version 0.0.4.

use std::fmt;

use super::{Family, Kind, Reading, Sample};

/// The HTTP content type of the format.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

pub(super) fn write(f: &mut fmt::Formatter<'_>, family: &Family) -> fmt::Result {
    let name = &family.name;
    writeln!(f, "# HELP {name} {}", Escaped(&family.help, Quotes::AreText))?;
    writeln!(f, "# TYPE {name} {}", family.kind)?;
    family.samples.iter().try_for_each(|sample| match &sample.reading {
        Reading::Value(value) => {
            writeln!(f, "{name}{} {}", Labels(sample, None), Number(*value))
        }
        Reading::Histogram(buckets) => {
            let mut so_far = 0;
            let bounds = buckets.bounds.iter().copied().chain([f64::INFINITY]);
            for (bound, count) in bounds.zip(&buckets.counts) {
                so_far += count;
                writeln!(f, "{name}_bucket{} {so_far}", Labels(sample, Some(bound)))?;
            }
            let labels = Labels(sample, None);
            writeln!(f, "{name}_sum{labels} {}", Number(buckets.sum))?;
            writeln!(f, "{name}_count{labels} {so_far}")
        }
    })
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        })
    }
}

/// The labels of a value, and the upper bound of its bucket.
struct Labels<'a>(&'a Sample, Option<f64>);

impl fmt::Display for Labels<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Labels(sample, bound) = self;
        let mut before = "{";
        for (label, value) in &sample.labels {
            write!(f, "{before}{label}=\"{}\"", Escaped(value, Quotes::End))?;
            before = ",";
        }
        if let Some(bound) = bound {
            write!(f, "{before}le=\"{}\"", Number(*bound))?;
            before = ",";
        }
        if before == "," { f.write_str("}") } else { Ok(()) }
    }
}

/// How quotation marks in a text are treated.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Quotes {
    AreText,
    End,
}

struct Escaped<'a>(&'a str, Quotes);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.chars().try_for_each(|char| match char {
            '\\' => f.write_str("\\\\"),
            '\n' => f.write_str("\\n"),
            '"' if self.1 == Quotes::End => f.write_str("\\\""),
            // Some readers treat these as line ends, and a terminal might interpret others.
            other if other.is_control() => f.write_str("\u{fffd}"),
            other => fmt::Write::write_char(f, other),
        })
    }
}

struct Number(f64);

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            value if value == f64::INFINITY => f.write_str("+Inf"),
            value if value == f64::NEG_INFINITY => f.write_str("-Inf"),
            value => write!(f, "{value}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Buckets, Snapshot};
    use super::*;

    #[test]
    fn metrics_are_written_in_the_text_format() {
        let mut steps = Family::new("steps_total", Kind::Counter, "Steps,\nby \\ \"name\".");
        steps.add(&[("step", "a \"b\" \\ c\nd\u{1b}[2J"), ("outcome", "ok")], Reading::Value(3.0));
        let mut times = Family::new("times_seconds", Kind::Histogram, "Times.");
        let buckets = Buckets { bounds: vec![0.5, 1.0], counts: vec![2, 0, 1], sum: 7.25 };
        times.add(&[("step", "x")], Reading::Histogram(buckets));
        let mut none = Family::new("none", Kind::Gauge, "Nothing.");
        none.add(&[], Reading::Value(f64::NEG_INFINITY));
        let text = Snapshot { families: vec![steps, times, none] }.to_string();
        let expected = "\
# HELP steps_total Steps,\\nby \\\\ \"name\".
# TYPE steps_total counter
steps_total{outcome=\"ok\",step=\"a \\\"b\\\" \\\\ c\\nd\u{fffd}[2J\"} 3
# HELP times_seconds Times.
# TYPE times_seconds histogram
times_seconds_bucket{step=\"x\",le=\"0.5\"} 2
times_seconds_bucket{step=\"x\",le=\"1\"} 2
times_seconds_bucket{step=\"x\",le=\"+Inf\"} 3
times_seconds_sum{step=\"x\"} 7.25
times_seconds_count{step=\"x\"} 3
# HELP none Nothing.
# TYPE none gauge
none -Inf
";
        assert_eq!(text, expected);
    }
}
