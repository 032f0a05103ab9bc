//! SetAttributes: changing the tags and attributes of the run.

use crate::attributes::{AttributeChange, Attributes};
use crate::call::Reply;
use crate::calls::Answer;
use crate::error::ErrorKind;
use crate::run::Run;

impl Run {
    /// The tags and attributes of the run; `None` if it has none.
    pub fn attributes(&self) -> Option<&Attributes> {
        self.rare.attributes.as_deref()
    }

    /// Changes the tags and attributes of the run.
    pub(crate) fn set_attributes(&mut self, changes: Vec<AttributeChange>) -> Answer {
        let mut changed = self.attributes().cloned().unwrap_or_default();
        match changed.change(changes) {
            Ok(()) => {
                self.rare.attributes = Some(changed.into());
                Answer::Now(Reply::Unit)
            }
            Err(why) => Answer::error(ErrorKind::BadAttribute, why),
        }
    }
}
