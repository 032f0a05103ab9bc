//! The address of a server, which may have a user and a password in it. Nothing that is shown of it has them.

use std::fmt;

use serde::Deserialize;

/// The address of a server.
///
/// ```
/// use tiffany_daemon::sinks::Address;
///
/// let address = Address::new("redis://ada:s3cret@127.0.0.1:6379/0");
/// assert_eq!(address.to_string(), "redis://…@127.0.0.1:6379/0");
/// assert_eq!(address.hide("no user ada, password s3cret"), "no user …, password …");
/// ```
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct Address(String);

impl Address {
    /// An address.
    pub fn new(url: impl Into<String>) -> Address {
        Address(url.into())
    }

    /// With all that is in it, for who connects.
    pub(super) fn secret(&self) -> &str {
        &self.0
    }

    /// Without user and password.
    pub(super) fn bare(&self) -> String {
        let (scheme, _, rest) = self.parts();
        format!("{scheme}{rest}")
    }

    /// The user and the password, as they are before they are escaped. One word alone is a user.
    pub(super) fn credentials(&self) -> Option<(String, Option<String>)> {
        let user = self.parts().1?;
        Some(match user.split_once(':') {
            Some((name, password)) => (decoded(name), Some(decoded(password))),
            None => (decoded(user), None),
        })
    }

    /// What comes before the user, the user with the password, and the rest.
    fn parts(&self) -> (&str, Option<&str>, &str) {
        let from = self.0.find("://").map_or(0, |at| at + 3);
        let (scheme, rest) = self.0.split_at(from);
        let host = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        // A password may have a slash in it that somebody forgot to escape.
        match rest[..host].rfind('@').or_else(|| rest.rfind('@')) {
            Some(at) => (scheme, Some(&rest[..at]), &rest[at + 1..]),
            None => (scheme, None, rest),
        }
    }

    /// A text of somebody else, without what is secret here.
    pub fn hide(&self, text: &str) -> String {
        let mut text = text.replace(&self.0, &self.to_string());
        let Some(user) = self.parts().1 else { return text };
        let (name, password) = user.split_once(':').unwrap_or((user, ""));
        let mut secrets: Vec<String> = Vec::new();
        for secret in [user, password, name] {
            secrets.extend([secret.to_owned(), decoded(secret)]);
        }
        // The longest first: one may be part of another.
        secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        for secret in secrets.iter().filter(|secret| secret.len() > 1) {
            text = text.replace(secret.as_str(), "…");
        }
        text
    }
}

/// What `%41` and the like stand for.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let code = after.get(..2).and_then(|hex| std::str::from_utf8(hex).ok());
        match code.and_then(|hex| u8::from_str_radix(hex, 16).ok()).filter(|_| *first == b'%') {
            Some(byte) => {
                bytes.push(byte);
                rest = &after[2..];
            }
            None => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (scheme, user, rest) = self.parts();
        let user = if user.is_some() { "…@" } else { "" };
        // A query may have a password too.
        let rest = rest.split(['?', '#']).next().unwrap_or_default();
        write!(f, "{scheme}{user}{rest}")
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_secret_is_shown() {
        for (url, shown) in [
            ("redis://127.0.0.1", "redis://127.0.0.1"),
            ("redis://:pa%2Fss@host:1/2?password=pass", "redis://…@host:1/2"),
            ("nats://token-1@host", "nats://…@host"),
            ("nats://a:b/c@host", "nats://…@host"),
            ("ada:s3cret@host", "…@host"),
        ] {
            let address = Address::new(url);
            assert_eq!(address.to_string(), shown);
            assert_eq!(format!("{address:?}"), format!("{shown:?}"));
        }
        let address = Address::new("redis://:pa%2Fss@host");
        assert_eq!(address.hide("wrong password pa/ss or pa%2Fss"), "wrong password … or …");
        let address = Address::new("redis://ada:adamant@host");
        assert_eq!(address.hide("adamant, ada, redis://ada:adamant@host"), "…, …, redis://…@host");
    }
}
