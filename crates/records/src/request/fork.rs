//! A client's request to fork a run, with the changes to make. It knows nothing of logs.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tiffany_kernel::TaskError;

use super::approval::user_name;
use crate::value::raw;

/// The changes that a fork makes to its parent.
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

/// The replacement for the answer in the record where a fork begins.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ForkReply {
    /// A value.
    Value(Box<RawValue>),
    /// An error.
    Error(TaskError),
}

impl Fork {
    /// Makes a fork without changes, which may do nothing that its parent has not done.
    pub fn new() -> Fork {
        Fork::default()
    }

    /// Replaces the answer in the record where the fork begins with this value. It must have the
    /// shape of the original.
    pub fn set_reply(self, value: &impl Serialize) -> Result<Fork, TaskError> {
        Ok(Fork { reply: Some(ForkReply::Value(raw(value)?)), ..self })
    }

    /// Replaces the answer in the record where the fork begins with an error that has this message.
    pub fn fail(self, message: impl Into<String>) -> Fork {
        self.fail_with(TaskError::failed(message))
    }

    /// Replaces the answer in the record where the fork begins with this error.
    pub fn fail_with(self, error: TaskError) -> Fork {
        Fork { reply: Some(ForkReply::Error(error)), ..self }
    }

    /// Converts the value or the error that replaces the answer.
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

    /// Returns its id and the names of the steps it allows.
    pub fn names(&self) -> impl Iterator<Item = &String> {
        self.id.iter().chain(&self.allow)
    }

    /// Returns the replacement for the answer, if there is one.
    pub fn reply(&self) -> Option<&ForkReply> {
        self.reply.as_ref()
    }

    /// Returns whether the replacement may have another shape than the original.
    pub fn is_as_is(&self) -> bool {
        self.as_is
    }

    /// Returns the names of the steps that the fork may do.
    pub fn allowed(&self) -> &BTreeSet<String> {
        &self.allow
    }

    /// Returns the name of the person who makes it.
    pub fn maker(&self) -> Option<&str> {
        self.by.as_deref()
    }

    /// Returns whether it replaces the answer.
    pub fn has_reply(&self) -> bool {
        self.reply.is_some()
    }

    /// Allows the replacement to have another shape than the original.
    pub fn as_is(self) -> Fork {
        Fork { as_is: true, ..self }
    }

    /// Allows the fork to do steps with this name for which its parent has no answer; `*` allows
    /// all. Messages to other runs have the name `send`.
    pub fn allow(mut self, name: impl Into<String>) -> Fork {
        self.allow.insert(name.into());
        self
    }

    /// Sets the name of the person who makes the fork, which is recorded with the answer that it
    /// replaces. Without a name, requests through the control socket are attributed to the user who
    /// makes them.
    pub fn by(self, name: impl Into<String>) -> Fork {
        Fork { by: Some(name.into()), ..self }
    }

    /// Sets the name of the user who sends the request, unless a name is set already.
    pub fn asked_by_user(self, uid: u32) -> Fork {
        Fork { by: self.by.or_else(|| Some(user_name(uid))), ..self }
    }

    /// Returns its id, if one was set.
    pub fn new_id(&self) -> Option<&str> {
        self.id.as_deref()
    }

    /// Sets the fork's id. Without one, it is the parent's with the number of the record:
    /// `order-7~12`.
    pub fn id(self, id: impl Into<String>) -> Fork {
        Fork { id: Some(id.into()), ..self }
    }
}
