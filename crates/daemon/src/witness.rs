//! What comes through the socket of the directory is written down as what comes over HTTP is, and no more of it is begun when the daemon ends; so is what
//! commands do to the log while no process has it. Who may open the socket or the log may do everything.

use tiffany::control::{Seen, Witness};
use tiffany::{ErrorKind, TaskError};

use crate::app::{App, Phase};
use crate::audit::{Audit, Entry};
use crate::auth::Role;

impl Witness for App {
    fn may(&self) -> Result<(), TaskError> {
        if matches!(self.phase(), Phase::Draining | Phase::Closing) {
            let message =
                "the daemon is ending and begins nothing new; do it again when it is back";
            return Err(TaskError::new(ErrorKind::Unreachable, message));
        }
        self.audit.has_room().map_err(|error| TaskError::new(ErrorKind::Host, error.to_string()))
    }

    fn saw(&self, seen: &Seen<'_>) {
        write(&self.audit, seen, "socket");
    }
}

/// What a command does to a log that no process has.
pub(crate) struct ByHand(pub(crate) Audit);

impl Witness for ByHand {
    fn may(&self) -> Result<(), TaskError> {
        self.0.has_room().map_err(|error| TaskError::new(ErrorKind::Host, error.to_string()))
    }

    fn saw(&self, seen: &Seen<'_>) {
        write(&self.0, seen, "log");
        if let Err(error) = self.0.sync() {
            tracing::error!(target: "tiffany", code = error.code(), "{error}");
        }
    }
}

fn write(audit: &Audit, seen: &Seen<'_>, from: &str) {
    let entry = Entry {
        who: seen.user.clone(),
        role: Role::Admin.to_string(),
        by: format!("uid:{}", seen.uid),
        from: from.into(),
        did: seen.did.into(),
        to: seen.to.clone(),
        outcome: seen.refused.map_or("ok", TaskError::code).into(),
        ..Entry::default()
    };
    if let Err(error) = audit.write(&entry) {
        tracing::error!(target: "tiffany", code = error.code(), "{error}");
    }
}
