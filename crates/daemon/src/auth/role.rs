//! Roles of clients.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The role of a client. Each role includes the permissions of those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Can read everything.
    Viewer,
    /// Can also start and change runs: send, settle, approve, cancel, fork.
    Operator,
    /// Can also do what cannot be undone: remove and compact runs, decide on steps in doubt.
    Admin,
}

impl Role {
    /// All roles, the least powerful first.
    pub const ALL: [Role; 3] = [Role::Viewer, Role::Operator, Role::Admin];

    /// Returns the name of the role.
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
