//! What comes through the socket of the directory is written down as what comes over HTTP is, and no more of it is begun when the daemon ends. Who may open
//! the socket may do everything.

use tiffany::control::{Seen, Witness};
use tiffany::{ErrorKind, TaskError};

use crate::app::{App, Phase};
use crate::audit::Entry;
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
        let entry = Entry {
            who: seen.user.clone(),
            role: Role::Admin.to_string(),
            by: format!("uid:{}", seen.uid),
            from: "socket".into(),
            did: seen.did.into(),
            to: seen.to.clone(),
            outcome: seen.refused.map_or("ok", TaskError::code).into(),
            ..Entry::default()
        };
        if let Err(error) = self.audit.write(&entry) {
            tracing::error!(target: "tiffany", code = error.code(), "{error}");
        }
    }
}
