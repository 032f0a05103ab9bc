//! How a fork differs from its parent, as a client asks for it. It knows nothing of logs.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tiffany_kernel::TaskError;

use super::approval::user_name;
use crate::value::raw;

/// How a fork differs from its parent.
///
/// ```
/// use tiffany_records::request::Fork;
///
/// let fork = Fork::new().set_reply(&7)?.allow("mail").id("what if");
/// # drop(fork);
/// # Ok::<(), tiffany_kernel::TaskError>(())
/// ```
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Fork {
    reply: Option<ForkReply>,
    as_is: bool,
    allow: BTreeSet<String>,
    id: Option<String>,
    #[serde(default)]
    by: Option<String>,
}

/// What the record at which a fork begins says instead.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ForkReply {
    /// A value.
    Value(Box<RawValue>),
    /// An error.
    Error(TaskError),
}

impl Fork {
    /// One that is as its parent was, and does nothing that its parent has not done.
    pub fn new() -> Fork {
        Fork::default()
    }

    /// The answer in the record at which the fork begins is this instead. It must have the shape of the one that is there.
    pub fn set_reply(self, value: &impl Serialize) -> Result<Fork, TaskError> {
        Ok(Fork { reply: Some(ForkReply::Value(raw(value)?)), ..self })
    }

    /// The answer in the record at which the fork begins is an error with this message instead.
    pub fn fail(self, message: impl Into<String>) -> Fork {
        self.fail_with(TaskError::failed(message))
    }

    /// Replaces the answer in the record at which the fork begins with this error.
    pub fn fail_with(self, error: TaskError) -> Fork {
        Fork { reply: Some(ForkReply::Error(error)), ..self }
    }

    /// The fork with another value, or another error, as its answer.
    pub fn with_reply(
        self,
        value: impl Fn(Box<RawValue>) -> Result<Box<RawValue>, TaskError>,
        error: impl Fn(TaskError) -> TaskError,
    ) -> Result<Fork, TaskError> {
        let reply = match self.reply {
            Some(ForkReply::Value(given)) => Some(ForkReply::Value(value(given)?)),
            Some(ForkReply::Error(given)) => Some(ForkReply::Error(error(given))),
            None => None,
        };
        Ok(Fork { reply, ..self })
    }

    /// What it is called, and what it names.
    pub fn names(&self) -> impl Iterator<Item = &String> {
        self.id.iter().chain(&self.allow)
    }

    /// What the record says instead, if anything.
    pub fn reply(&self) -> Option<&ForkReply> {
        self.reply.as_ref()
    }

    /// Whether the answer may have another shape than the one that it replaces.
    pub fn is_as_is(&self) -> bool {
        self.as_is
    }

    /// The names of the steps that it may do.
    pub fn allowed(&self) -> &BTreeSet<String> {
        &self.allow
    }

    /// The name of the person who makes it.
    pub fn maker(&self) -> Option<&str> {
        self.by.as_deref()
    }

    /// Whether it has another answer than its parent.
    pub fn has_reply(&self) -> bool {
        self.reply.is_some()
    }

    /// The answer may have another shape than the one that is there.
    pub fn as_is(self) -> Fork {
        Fork { as_is: true, ..self }
    }

    /// The fork may do effects of this name that its parent has no answer for; those of every name if it is `*`. Messages to other runs have the
    /// name `send`.
    pub fn allow(mut self, name: impl Into<String>) -> Fork {
        self.allow.insert(name.into());
        self
    }

    /// Who makes the fork: its log has this name beside the answer that it changes. Requests through the control socket are known by the
    /// user who makes them.
    pub fn by(self, name: impl Into<String>) -> Fork {
        Fork { by: Some(name.into()), ..self }
    }

    /// Names the user who asks, unless a user is named already.
    pub fn asked_by_user(self, uid: u32) -> Fork {
        Fork { by: self.by.or_else(|| Some(user_name(uid))), ..self }
    }

    /// The id that it was given, if it was.
    pub fn new_id(&self) -> Option<&str> {
        self.id.as_deref()
    }

    /// The fork's id. Without one it is the parent's, with the number of the record: `order-7~12`.
    pub fn id(self, id: impl Into<String>) -> Fork {
        Fork { id: Some(id.into()), ..self }
    }
}
