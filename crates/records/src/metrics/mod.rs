//! Metrics as plain data: the values of all meters at one moment, which can be examined, sent
//! elsewhere, or written as text.

pub mod catalogue;
mod text;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::redact::clean;
pub use catalogue::{About, CATALOGUE};
pub use text::CONTENT_TYPE;

/// The metrics of a runtime at one moment. [`Display`](fmt::Display) writes them in the Prometheus
/// text format.
///
/// ```
/// use tiffany_records::metrics::{Family, Kind, Reading, Snapshot};
///
/// let mut mails = Family::new("mails_total", Kind::Counter, "Mails that were sent.");
/// mails.add(&[("to", "ada")], Reading::Value(3.0));
/// let metrics = Snapshot { families: vec![mails] };
/// assert_eq!(metrics.value("mails_total", &[("to", "ada")]), Some(3.0));
/// assert!(metrics.to_string().contains("# TYPE mails_total counter\n"));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Snapshot {
    /// All metrics, each with its values.
    pub families: Vec<Family>,
}

/// One metric, whose values have different labels.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Family {
    /// Its name.
    pub name: Cow<'static, str>,
    /// The kind of its values.
    pub kind: Kind,
    /// Its help text.
    pub help: Cow<'static, str>,
    /// Its values.
    pub samples: Vec<Sample>,
}

/// The kind of a metric's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A number that only grows, starting from 0 when the process began.
    Counter,
    /// A current value, which can go up and down.
    Gauge,
    /// A distribution of sizes over buckets.
    Histogram,
}

/// One value of a metric.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Sample {
    /// The labels that distinguish it from the other values of its metric.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// The measured value.
    #[serde(flatten)]
    pub reading: Reading,
}

/// A measured value.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reading {
    /// A count, or a current value.
    Value(f64),
    /// A distribution of sizes.
    Histogram(Buckets),
}

/// A distribution of sizes over buckets.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Buckets {
    /// The upper bounds of the buckets, inclusive.
    pub bounds: Vec<f64>,
    /// The number of sizes in each bucket, and last, of those beyond all buckets.
    pub counts: Vec<u64>,
    /// The sum of all sizes.
    pub sum: f64,
}

impl Buckets {
    /// Returns the number of sizes in all buckets.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }
}

impl Reading {
    fn add(&mut self, other: Reading) {
        match (self, other) {
            (Reading::Value(value), Reading::Value(more)) => *value += more,
            (Reading::Histogram(buckets), Reading::Histogram(more)) => {
                let counts = buckets.counts.iter_mut().zip(more.counts);
                counts.for_each(|(count, more)| *count += more);
                buckets.sum += more.sum;
            }
            _ => {}
        }
    }
}

impl Snapshot {
    /// Returns the metric with this name.
    pub fn family(&self, name: &str) -> Option<&Family> {
        self.families.iter().find(|family| family.name == name)
    }

    /// Returns the value of a metric with these labels; for a histogram, the number of sizes.
    pub fn value(&self, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
        let samples = self.family(name)?.samples.iter();
        let mut found = samples.filter(|sample| {
            sample.labels.len() == labels.len()
                && labels
                    .iter()
                    .all(|(label, value)| sample.labels.get(*label).is_some_and(|is| is == value))
        });
        found.next().map(|sample| match &sample.reading {
            Reading::Value(value) => *value,
            Reading::Histogram(buckets) => buckets.count() as f64,
        })
    }
}

impl fmt::Display for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.families.iter().try_for_each(|family| text::write(f, family))
    }
}

impl Family {
    /// Makes a metric without values. Only metrics of Tiffany itself should begin with `tiffany_`.
    ///
    /// ```
    /// use tiffany_records::metrics::{Family, Kind, Reading};
    ///
    /// let mut mails = Family::new("mails_total", Kind::Counter, "Mails that were sent.");
    /// mails.add(&[("to", "ada")], Reading::Value(3.0));
    /// assert_eq!(mails.samples.len(), 1);
    /// ```
    pub fn new(
        name: impl Into<Cow<'static, str>>,
        kind: Kind,
        help: impl Into<Cow<'static, str>>,
    ) -> Family {
        Family { name: name.into(), kind, help: help.into(), samples: Vec::new() }
    }

    /// Makes a metric from the catalogue, without values.
    pub fn about(about: &'static About) -> Family {
        Family::new(about.name, about.kind, about.help)
    }

    /// Adds a value. Labels are redacted with the [rules](crate::redact) of this process; values
    /// whose labels become equal are added up.
    pub fn add(&mut self, labels: &[(&str, &str)], reading: Reading) {
        let labels = labels.iter().map(|(label, value)| (label.to_string(), clean(value)));
        let has_secret = labels.clone().any(|(_, value)| matches!(value, Cow::Owned(_)));
        let labels = labels.map(|(label, value)| (label, value.into_owned())).collect();
        let same = self.samples.iter_mut().find(|sample| has_secret && sample.labels == labels);
        match same {
            Some(sample) => sample.reading.add(reading),
            None => self.samples.push(Sample { labels, reading }),
        }
    }
}
