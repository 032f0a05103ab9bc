//! The address of a server, which may contain a user and a password. Its printed forms leave them
//! out.

use std::fmt;

use serde::Deserialize;

/// The address of a server. Its credentials are not printed.
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
    /// Creates an address from a URL.
    pub fn new(url: impl Into<String>) -> Address {
        Address(url.into())
    }

    /// Returns the whole URL, for connecting.
    pub(super) fn secret(&self) -> &str {
        &self.0
    }

    /// Returns the URL without user and password.
    pub(super) fn bare(&self) -> String {
        let (scheme, _, rest) = self.parts();
        format!("{scheme}{rest}")
    }

    /// Returns the user and the password, unescaped. A single word is a user.
    pub(super) fn credentials(&self) -> Option<(String, Option<String>)> {
        let user = self.parts().1?;
        Some(match user.split_once(':') {
            Some((name, password)) => (decoded(name), Some(decoded(password))),
            None => (decoded(user), None),
        })
    }

    /// Splits the URL into the text before the user, the credentials, and the rest.
    fn parts(&self) -> (&str, Option<&str>, &str) {
        let from = self.0.find("://").map_or(0, |at| at + 3);
        let (scheme, rest) = self.0.split_at(from);
        let host = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        // The password may contain a slash that was not escaped.
        match rest[..host].rfind('@').or_else(|| rest.rfind('@')) {
            Some(at) => (scheme, Some(&rest[..at]), &rest[at + 1..]),
            None => (scheme, None, rest),
        }
    }

    /// Returns a foreign text, such as a server's error, without the secrets of this address.
    pub fn hide(&self, text: &str) -> String {
        let mut text = text.replace(&self.0, &self.to_string());
        let Some(user) = self.parts().1 else { return text };
        let (name, password) = user.split_once(':').unwrap_or((user, ""));
        let mut secrets: Vec<String> = Vec::new();
        for secret in [user, password, name] {
            secrets.extend([secret.to_owned(), decoded(secret)]);
        }
        // The longest first: one secret may be part of another.
        secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        for secret in secrets.iter().filter(|secret| secret.len() > 1) {
            text = text.replace(secret.as_str(), "…");
        }
        text
    }
}

/// Unescapes percent-encoding, such as `%41`.
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
        // The query may contain a password too.
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
