//! What a run is started with besides its function, id and input: tags, attributes and a deadline.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tiffany_kernel::{AttributeValue, Attributes, ErrorKind, TaskError, Time};

use super::moment;

/// Tags, attributes and a deadline of a run that is about to be started.
///
/// ```
/// use std::time::Duration;
/// use tiffany_records::request::StartOptions;
///
/// let options = StartOptions::new()
///     .tag("gold")
///     .attribute("customer", "ada")
///     .attribute("amount", 17_i64)
///     .deadline_in(Duration::from_secs(3600));
/// assert!(!options.is_empty());
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct StartOptions {
    /// The tags.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub tags: BTreeSet<String>,
    /// The attributes, by name.
    #[serde(with = "crate::attributes::values", skip_serializing_if = "BTreeMap::is_empty")]
    pub attributes: BTreeMap<String, AttributeValue>,
    /// When the run fails if it has not ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deadline: Option<StartDeadline>,
    /// The namespace of the run; empty for nearly all.
    #[serde(skip)]
    namespace: String,
}

/// A deadline as it is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StartDeadline {
    /// At this moment.
    At(Time),
    /// So long after the start of the run.
    After(Duration),
}

impl StartOptions {
    /// No tags, no attributes, no deadline.
    pub fn new() -> StartOptions {
        StartOptions::default()
    }

    /// Adds a tag.
    #[must_use]
    pub fn tag(mut self, tag: impl Into<String>) -> StartOptions {
        self.tags.insert(tag.into());
        self
    }

    /// Gives an attribute a value.
    #[must_use]
    pub fn attribute(
        mut self,
        name: impl Into<String>,
        value: impl Into<AttributeValue>,
    ) -> StartOptions {
        self.attributes.insert(name.into(), value.into());
        self
    }

    /// Sets the moment at which the run fails if it has not ended.
    #[must_use]
    pub fn deadline_at(self, at: Time) -> StartOptions {
        StartOptions { deadline: Some(StartDeadline::At(at)), ..self }
    }

    /// Sets after which time the run fails if it has not ended, counted from its start.
    #[must_use]
    pub fn deadline_in(self, after: Duration) -> StartOptions {
        StartOptions { deadline: Some(StartDeadline::After(after)), ..self }
    }

    /// Sets the namespace, which is part of the run's identity. Lists and access don't know namespaces yet.
    #[doc(hidden)]
    #[must_use]
    pub fn namespace(self, namespace: impl Into<String>) -> StartOptions {
        StartOptions { namespace: namespace.into(), ..self }
    }

    /// The namespace.
    #[doc(hidden)]
    pub fn in_namespace(&self) -> &str {
        &self.namespace
    }

    /// Whether nothing is given.
    pub fn is_empty(&self) -> bool {
        *self == StartOptions::default()
    }

    /// The tags and attributes, if they are allowed.
    pub fn checked_attributes(&self) -> Result<Attributes, TaskError> {
        let attributes = Attributes { tags: self.tags.clone(), values: self.attributes.clone() };
        attributes.check().map(|()| attributes)
    }

    /// The moment of the deadline of a run that is started now. An error if it is past, or too far away to be told.
    pub fn deadline_from(&self, now: Time) -> Result<Option<Time>, TaskError> {
        let bad = |message: String| Err(TaskError::new(ErrorKind::BadDeadline, message));
        match self.deadline {
            None => Ok(None),
            Some(StartDeadline::At(at)) if at <= now => {
                bad(format!("the deadline, {}, is past: it is {}", moment(at), moment(now)))
            }
            Some(StartDeadline::At(at)) => Ok(Some(at)),
            Some(StartDeadline::After(Duration::ZERO)) => {
                bad("the deadline is at the start of the run".into())
            }
            Some(StartDeadline::After(after)) => match now.checked_add(after) {
                Some(at) => Ok(Some(at)),
                None => bad(format!("the deadline, {after:?} after the start, is too far away")),
            },
        }
    }
}
