//! What was read of all meters at one moment, as plain data: it can be looked at, sent elsewhere, and written as text.

pub mod catalogue;
mod text;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::redact::clean;
pub use catalogue::{About, CATALOGUE};
pub use text::CONTENT_TYPE;

/// What a runtime has counted up to now. [`Display`](fmt::Display) writes it as Prometheus reads it.
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

/// One metric: its values differ in their labels.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Family {
    /// Its name.
    pub name: Cow<'static, str>,
    /// What kind of numbers it has.
    pub kind: Kind,
    /// What it tells.
    pub help: Cow<'static, str>,
    /// Its values.
    pub samples: Vec<Sample>,
}

/// What kind of numbers a metric has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Only grows, from 0 when the process began.
    Counter,
    /// What is so at present.
    Gauge,
    /// How often which sizes were seen.
    Histogram,
}

/// One value of a metric.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Sample {
    /// What tells it from the others of its metric.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// What is measured.
    #[serde(flatten)]
    pub reading: Reading,
}

/// A measured value.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reading {
    /// A count, or what is so at present.
    Value(f64),
    /// How often which sizes were seen.
    Histogram(Buckets),
}

/// How often sizes were seen.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Buckets {
    /// Where each bucket ends; a size that is equal belongs to it.
    pub bounds: Vec<f64>,
    /// How often a size was in each bucket, and beyond the last.
    pub counts: Vec<u64>,
    /// What all sizes add up to.
    pub sum: f64,
}

impl Buckets {
    /// How many sizes were seen.
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
    /// A metric by its name.
    pub fn family(&self, name: &str) -> Option<&Family> {
        self.families.iter().find(|family| family.name == name)
    }

    /// The value of a metric with these labels; of a histogram, how many sizes it has seen.
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
    /// A metric without values yet. What is not made by Tiffany itself should not begin with `tiffany_`.
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

    /// The metric that the catalogue describes, without values yet.
    pub fn about(about: &'static About) -> Family {
        Family::new(about.name, about.kind, about.help)
    }

    /// Adds a value. Labels are without what the [rules](crate::redact) of this process take out; values that are the same without it are added up.
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
