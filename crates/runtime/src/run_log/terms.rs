//! The terms of a run, which are given beside its function and input: its namespace, its deadline,
//! its tags and attributes. Most runs have none of them.

use std::rc::Rc;

use tiffany_kernel::{Attributes, Deadline, RunConfig, Time};

use tiffany_log::Stamp;
use tiffany_records::attributes::{json_of_tags, json_of_values};
use tiffany_records::record::{Inline, RunStart, Text};
use tiffany_records::request::moment;

/// The terms of a run in the first line of its generation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Terms {
    pub(crate) namespace: Rc<str>,
    pub(crate) deadline: Option<Time>,
    pub(crate) attributes: Attributes,
}

impl Terms {
    /// Reads the terms from a log.
    pub(crate) fn read(start: &RunStart<'_>) -> Terms {
        let deadline = start.deadline.and_then(|text| Stamp::parse(&text.get()));
        Terms {
            namespace: start.namespace.map(|text| text.get().into()).unwrap_or_default(),
            deadline: deadline.map(|stamp| Time::from_nanos(stamp.unix_nanos())),
            attributes: start.attributes_at_start(),
        }
    }

    /// Sets the terms in the configuration of the kernel.
    pub(crate) fn apply(&self, config: &mut RunConfig) {
        config.deadline = self.deadline.map(|at| Deadline { at, shown: moment(at).into() });
        config.attributes = self.attributes.clone();
    }

    /// The terms of the next generation, which begins with the tags and attributes that the run has now.
    pub(crate) fn now(&self, attributes: Option<&Attributes>) -> Terms {
        Terms { attributes: attributes.cloned().unwrap_or_default(), ..self.clone() }
    }

    /// Their fields.
    pub(crate) fn fields(&self) -> TermFields {
        let Attributes { tags, values } = &self.attributes;
        TermFields {
            deadline: self.deadline.map(moment),
            tags: (!tags.is_empty()).then(|| json_of_tags(tags)),
            values: (!values.is_empty()).then(|| json_of_values(values)),
        }
    }
}

/// The terms in the form of a line.
pub(crate) struct TermFields {
    deadline: Option<String>,
    tags: Option<String>,
    values: Option<String>,
}

impl TermFields {
    /// The first line with these fields.
    pub(crate) fn put<'a>(&'a self, start: RunStart<'a>, namespace: &'a str) -> RunStart<'a> {
        RunStart {
            namespace: (!namespace.is_empty()).then(|| namespace.into()),
            deadline: self.deadline.as_deref().map(Text::Safe),
            tags: self.tags.as_deref().map(Inline),
            attributes: self.values.as_deref().map(Inline),
            ..start
        }
    }
}
