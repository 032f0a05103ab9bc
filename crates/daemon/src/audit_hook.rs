//! Records in the audit file what arrives through the directory's socket, and what commands do to a
//! log that no process owns. A daemon that is ending starts no more changes. Every user who can
//! open the socket or the log has full access.

use std::path::PathBuf;
use std::sync::Arc;

use tiffany::control::{AuditHook, Change, Finish};
use tiffany::{ErrorKind, TaskError};

use crate::app::{App, Phase};
use crate::audit::{Audit, Entry};
use crate::auth::AuthError;
use crate::auth::Role;

impl AuditHook for App {
    fn begins(&self, change: &Change) -> Result<Finish, TaskError> {
        if matches!(self.phase(), Phase::Draining | Phase::Closing) {
            let message =
                "the daemon is ending and begins nothing new; do it again when it is back";
            return Err(TaskError::new(ErrorKind::Unreachable, message));
        }
        begin(&self.audit, change, "socket", |_| Ok(()))
    }
}

/// Changes that a command makes to the log in this directory while no process owns it.
pub struct ByHand(pub PathBuf);

impl AuditHook for ByHand {
    fn begins(&self, change: &Change) -> Result<Finish, TaskError> {
        let audit = Audit::at(&self.0).map_err(failed)?;
        // The command ends soon, and no other thread syncs the file.
        begin(&Arc::new(audit), change, "log", Audit::sync)
    }
}

fn failed(error: AuthError) -> TaskError {
    TaskError::new(ErrorKind::Host, error.to_string())
}

fn begin(
    audit: &Arc<Audit>,
    change: &Change,
    from: &str,
    sync: fn(&Audit) -> Result<(), AuthError>,
) -> Result<Finish, TaskError> {
    let intent = audit.begin(&Entry {
        who: change.user.clone(),
        role: Role::Admin.to_string(),
        by: format!("uid:{}", change.uid),
        from: from.into(),
        did: change.did.into(),
        to: change.to.clone(),
        ..Entry::default()
    });
    let (intent, audit) = (intent.map_err(failed)?, Arc::clone(audit));
    Ok(Box::new(move |refused| {
        let outcome = refused.map_or("ok", TaskError::code);
        audit.finish(intent, outcome).and_then(|()| sync(&audit)).map_err(|error| {
            tracing::error!(target: "tiffany", code = error.code(), "{error}");
            failed(error)
        })
    }))
}
