//! Errors of access control: refused requests, and problems with tokens, certificates and the audit
//! file.

use std::io;
use std::path::{Path, PathBuf};

use crate::auth::role::Role;

/// Why access is refused, or why it cannot be decided.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AuthError {
    /// The request has no token.
    #[error(
        "this needs a token [TFY0170]; send it as `Authorization: Bearer TOKEN`; `tiffany token add` makes one"
    )]
    NoToken,
    /// The token is unknown, or is not a token.
    #[error(
        "the token is not known here, or was removed [TFY0171]; `tiffany token ls` lists those that are"
    )]
    BadToken,
    /// The token has expired.
    #[error("the token `{0}` has expired [TFY0172]; `tiffany token add` makes another one")]
    Expired(String),
    /// The client is known, but its role is not sufficient.
    #[error(
        "`{name}` is {has}, and this takes {needs} [TFY0173]; use a token with that role, or ask a person who has one"
    )]
    TooLittle {
        /// The name of the client.
        name: String,
        /// The client's role.
        has: Role,
        /// The required role.
        needs: Role,
    },
    /// The request was made by a page of another site, or for another host.
    #[error(
        "{what} `{given}` is not that of this daemon [TFY0174]; open it by its own address, or list the name under `hosts`, or the page under `origins`, in its configuration"
    )]
    Stranger {
        /// The header that was refused.
        what: &'static str,
        /// The value of the header.
        given: String,
    },
    /// The file of tokens cannot be used.
    #[error(
        "the tokens in {} cannot be {did}: {why} [TFY0175]; it must be a file of this user that no other user can read", .file.display()
    )]
    TokenFile {
        /// The path of the file of tokens.
        file: PathBuf,
        /// The attempted operation.
        did: &'static str,
        /// The reason.
        why: String,
    },
    /// A certificate or its key cannot be used.
    #[error(
        "{what} in {} cannot be used: {why} [TFY0176]; it must be PEM, and the key must belong to the certificate", .file.display()
    )]
    Tls {
        /// The purpose of the file, such as "the certificate".
        what: &'static str,
        /// The path of the certificate or key.
        file: PathBuf,
        /// The reason.
        why: String,
    },
    /// No token with this name can be created or removed.
    #[error("{0} [TFY0178]; `tiffany token ls` lists those that there are")]
    TokenName(String),
    /// The change cannot be recorded in the audit file, so it is not made.
    #[error(
        "the audit file {} cannot be written: {why} [TFY0179]; nothing can be changed until it can be written; free some space, repair the file, or end the process that has it locked", .file.display()
    )]
    Audit {
        /// The path of the audit file.
        file: PathBuf,
        /// The error from the operating system.
        why: String,
    },
    /// The change was made, but its outcome could not be recorded.
    #[error(
        "the change was made, but its outcome could not be written to the audit file {}: {why} [TFY0210]; don't repeat the change; the outcome is written as soon as the file can be, and nothing else is changed before that", .file.display()
    )]
    AuditBehind {
        /// The path of the audit file.
        file: PathBuf,
        /// The error from the operating system.
        why: String,
    },
}

impl AuthError {
    /// All error codes, in order.
    pub const CODES: &[&str] = &[
        "TFY0170", "TFY0171", "TFY0172", "TFY0173", "TFY0174", "TFY0175", "TFY0176", "TFY0178",
        "TFY0179", "TFY0210",
    ];

    /// Returns the stable error code.
    pub fn code(&self) -> &'static str {
        match self {
            AuthError::NoToken => "TFY0170",
            AuthError::BadToken => "TFY0171",
            AuthError::Expired(_) => "TFY0172",
            AuthError::TooLittle { .. } => "TFY0173",
            AuthError::Stranger { .. } => "TFY0174",
            AuthError::TokenFile { .. } => "TFY0175",
            AuthError::Tls { .. } => "TFY0176",
            AuthError::TokenName(_) => "TFY0178",
            AuthError::Audit { .. } => "TFY0179",
            AuthError::AuditBehind { .. } => "TFY0210",
        }
    }

    /// Returns the error for remote clients: without paths on this machine.
    #[must_use]
    pub fn without_places(mut self) -> AuthError {
        if let AuthError::TokenFile { file, .. }
        | AuthError::Tls { file, .. }
        | AuthError::Audit { file, .. }
        | AuthError::AuditBehind { file, .. } = &mut self
        {
            *file = file.file_name().unwrap_or_default().into();
        }
        self
    }

    /// Returns the HTTP status of the error.
    pub fn status(&self) -> u16 {
        match self {
            AuthError::NoToken | AuthError::BadToken | AuthError::Expired(_) => 401,
            AuthError::TooLittle { .. } | AuthError::Stranger { .. } => 403,
            AuthError::TokenName(_) => 400,
            AuthError::TokenFile { .. }
            | AuthError::Tls { .. }
            | AuthError::Audit { .. }
            | AuthError::AuditBehind { .. } => 503,
        }
    }

    /// Turns the error into one that says that the change was made.
    pub(crate) fn after_the_change(self) -> AuthError {
        match self {
            AuthError::Audit { file, why } => AuthError::AuditBehind { file, why },
            other => other,
        }
    }

    pub(super) fn file(file: &Path, did: &'static str, error: &io::Error) -> AuthError {
        AuthError::TokenFile { file: file.into(), did, why: error.to_string() }
    }
}
