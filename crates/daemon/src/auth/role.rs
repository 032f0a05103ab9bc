//! What somebody may do.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// What somebody may do. Each may do what those before it may.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Look at everything.
    Viewer,
    /// Start runs, and do to them what changes them: send, settle, approve, cancel, fork.
    Operator,
    /// Also what cannot be taken back: remove and compact runs, decide on steps in doubt.
    Admin,
}

impl Role {
    /// All of them, the least first.
    pub const ALL: [Role; 3] = [Role::Viewer, Role::Operator, Role::Admin];

    /// As it is written.
    pub fn word(self) -> &'static str {
        match self {
            Role::Viewer => "viewer",
            Role::Operator => "operator",
            Role::Admin => "admin",
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

impl FromStr for Role {
    type Err = String;

    fn from_str(text: &str) -> Result<Role, String> {
        let role = Role::ALL.into_iter().find(|role| role.word() == text);
        role.ok_or_else(|| {
            format!("`{text}` is not a role; the roles are viewer, operator and admin")
        })
    }
}
