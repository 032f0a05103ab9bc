//! Access control by headers and certificates: whether a client is let in, and its name and role.
//! It doesn't know what is requested.

use std::net::SocketAddr;
use std::time::SystemTime;

use super::tokens::Stamp;
use crate::auth::error::AuthError;
use crate::auth::role::Role;
use crate::auth::token::Kept;
use crate::auth::tokens::Tokens;

/// The headers and the certificate by which a client is identified.
#[derive(Clone, Copy, Debug, Default)]
pub struct Knock<'a> {
    /// The header `Authorization`, or its replacement on a WebSocket.
    pub authorization: Option<&'a str>,
    /// The header `Host`.
    pub host: Option<&'a str>,
    /// The header `Origin`, in which a browser names the site of the requesting page.
    pub origin: Option<&'a str>,
    /// The name in the certificate that the client has proved to own.
    pub certificate: Option<&'a str>,
}

/// A client that was let in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Who {
    /// The client's name: that of its token or certificate, or `local` for clients that need
    /// neither.
    pub name: String,
    /// The client's role.
    pub role: Role,
    /// How the client was identified.
    pub by: By,
}

/// How a client is identified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum By {
    /// The client is on this machine, where no token is required.
    Loopback,
    /// The client has the token with this id.
    Token(String),
    /// The client has a certificate that a configured authority signed.
    Certificate,
}

impl Who {
    /// Returns an error unless the client's role is sufficient.
    pub fn may(&self, needs: Role) -> Result<(), AuthError> {
        match self.role >= needs {
            true => Ok(()),
            false => Err(AuthError::TooLittle { name: self.name.clone(), has: self.role, needs }),
        }
    }
}

/// The access rules of one listening address.
#[derive(Debug)]
pub struct Gate {
    tokens: Tokens,
    needs_token: bool,
    /// Host names of this daemon, in lower case, without ports.
    hosts: Vec<String>,
    /// The scheme of the daemon's URLs: `http` or `https`.
    scheme: &'static str,
    /// Origins whose pages may send requests, besides the daemon's own.
    origins: Vec<String>,
    /// Roles by the names in client certificates.
    clients: Vec<(String, Role)>,
}

impl Gate {
    /// Creates the rules for an address. A token is required if other machines can reach the
    /// address.
    pub fn new(listen: SocketAddr, tokens: Tokens) -> Gate {
        let ip = listen.ip();
        let mut hosts = vec!["localhost".to_owned(), "127.0.0.1".into(), "[::1]".into()];
        if !ip.is_loopback() && !ip.is_unspecified() {
            hosts.push(match ip.is_ipv6() {
                true => format!("[{ip}]"),
                false => ip.to_string(),
            });
        }
        Gate {
            tokens,
            needs_token: !ip.is_loopback(),
            hosts,
            scheme: "http",
            origins: Vec::new(),
            clients: Vec::new(),
        }
    }

    /// Requires a token from clients on this machine too.
    pub fn always_needs_token(mut self) -> Gate {
        self.needs_token = true;
        self
    }

    /// Accepts this host name too, without a port.
    pub fn host(mut self, name: &str) -> Gate {
        self.hosts.push(name.to_lowercase());
        self
    }

    /// Sets the scheme to `https`.
    pub fn tls(mut self) -> Gate {
        self.scheme = "https";
        self
    }

    /// Accepts requests of pages of this origin too, for example `https://tiffany.example.org`
    /// behind a proxy of that name.
    pub fn origin(mut self, origin: &str) -> Gate {
        self.origins.push(origin.to_lowercase());
        self
    }

    /// Gives clients that have a certificate with this name a role, without a token.
    pub fn client(mut self, name: &str, role: Role) -> Gate {
        self.clients.push((name.into(), role));
        self
    }

    /// Returns whether clients need a token.
    pub fn needs_token(&self) -> bool {
        self.needs_token
    }

    /// Returns whether any client can get in: with a valid token, with a certificate, or without
    /// either.
    pub fn lets_somebody_in(&self) -> bool {
        let is_good = |kept: &Kept| !kept.has_expired(SystemTime::now());
        !self.needs_token
            || !self.clients.is_empty()
            || self.tokens.all().is_ok_and(|all| all.iter().any(is_good))
    }

    /// Returns the current state of the file of tokens.
    pub(crate) fn token_file(&self) -> Option<Stamp> {
        self.tokens.stamp()
    }

    /// Returns an error if a client that was let in earlier would now be refused.
    pub fn still_knows(&self, who: &Who) -> Result<(), AuthError> {
        match &who.by {
            By::Token(id) => self.tokens.is_good(id, who.role),
            By::Certificate | By::Loopback => Ok(()),
        }
    }

    /// Returns the client if it is let in.
    pub fn open(&self, knock: Knock<'_>) -> Result<Who, AuthError> {
        self.is_for_us(knock)?;
        if let Some(authorization) = knock.authorization {
            let token = bearer(authorization).ok_or(AuthError::BadToken)?;
            let kept = self.tokens.find(token)?;
            return Ok(Who { name: kept.name, role: kept.role, by: By::Token(kept.id) });
        }
        let certified = knock.certificate.and_then(|name| {
            let client = self.clients.iter().find(|(client, _)| client == name);
            client.map(|(name, role)| (name.clone(), *role))
        });
        match certified {
            Some((name, role)) => Ok(Who { name, role, by: By::Certificate }),
            None if self.needs_token => Err(AuthError::NoToken),
            None => Ok(Who { name: "local".into(), role: Role::Admin, by: By::Loopback }),
        }
    }

    /// Returns an error for a request that a foreign page made through the user's browser, or that
    /// reached this address by a foreign host name: the browser being on this machine must not
    /// grant access. A token needs no such check, since no browser sends one on its own.
    fn is_for_us(&self, knock: Knock<'_>) -> Result<(), AuthError> {
        let stranger = |what, given: &str| {
            let given = given.chars().take(100).filter(|c| !c.is_control()).collect();
            Err(AuthError::Stranger { what, given })
        };
        let is_ours = |name: &str| self.hosts.iter().any(|host| *host == name.to_lowercase());
        match knock.host {
            Some(host) if !is_ours(without_port(host)) && knock.authorization.is_none() => {
                return stranger("the host", host);
            }
            _ => {}
        }
        let Some(origin) = knock.origin else { return Ok(()) };
        let origin_is = origin.to_lowercase();
        let (scheme, name) = origin_is.split_once("://").unwrap_or_default();
        let host = knock.host.map(str::to_lowercase).unwrap_or_default();
        // Another port or scheme belongs to another program. A client with a token may be behind a
        // proxy that terminates TLS.
        let is_same = without_usual_port(scheme, name) == without_usual_port(scheme, &host)
            && !host.is_empty()
            && (scheme == self.scheme || knock.authorization.is_some());
        match is_same || self.origins.contains(&origin_is) {
            true => Ok(()),
            false => stranger("the origin", origin),
        }
    }
}

/// Returns the token in an `Authorization` header.
fn bearer(authorization: &str) -> Option<&str> {
    let (scheme, token) = authorization.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then_some(token.trim())
}

/// Removes the port if it is the default port of the scheme, which some clients leave out.
fn without_usual_port<'a>(scheme: &str, host: &'a str) -> &'a str {
    let usual = if scheme == "https" { ":443" } else { ":80" };
    host.strip_suffix(usual).unwrap_or(host)
}

fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|digit| digit.is_ascii_digit()) => name,
        _ => host,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gate(listen: &str, name: &str) -> (Gate, std::path::PathBuf, String) {
        let dir = std::env::temp_dir().join(format!("tiffany-gate-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let tokens = Tokens::at(&dir);
        let token = tokens.add("ada", Role::Operator, None).unwrap();
        let bearer = format!("Bearer {}", token.reveal());
        (Gate::new(listen.parse().unwrap(), tokens), dir, bearer)
    }

    fn said(answer: Result<Who, AuthError>) -> String {
        match answer {
            Ok(who) => format!("{} {}", who.name, who.role),
            Err(error) => error.code().into(),
        }
    }

    #[test]
    fn on_this_machine_nobody_needs_a_token_but_one_that_is_shown_counts() {
        let (gate, dir, bearer) = gate("127.0.0.1:80", "loopback");
        let host = Some("127.0.0.1:80");
        let cases = [
            (None, host, None, "local admin"),
            (None, Some("localhost:9"), Some("http://localhost:9"), "local admin"),
            (None, Some("[::1]:80"), None, "local admin"),
            (None, None, None, "local admin"),
            (Some(&*bearer), host, None, "ada operator"),
            (Some("Bearer x"), host, None, "TFY0171"),
            (Some("Basic YTpi"), host, None, "TFY0171"),
            (Some(""), host, None, "TFY0171"),
            // A foreign host name that resolves to this machine, and a page of another site.
            (None, Some("evil.example:80"), None, "TFY0174"),
            (None, host, Some("http://evil.example"), "TFY0174"),
            (None, host, Some("null"), "TFY0174"),
            // Another program on this machine, and this daemon under another name.
            (None, Some("localhost:9"), Some("http://localhost:3000"), "TFY0174"),
            (None, Some("localhost:9"), Some("https://localhost:9"), "TFY0174"),
            (None, Some("localhost:9"), Some("http://127.0.0.1:9"), "TFY0174"),
            (Some(&*bearer), Some("localhost:9"), Some("http://localhost:3000"), "TFY0174"),
            (None, None, Some("http://"), "TFY0174"),
            (None, host, Some("http://127.0.0.1"), "local admin"),
            (Some(&*bearer), Some("far.example"), Some("https://far.example"), "ada operator"),
            (None, host, Some("http://127.0.0.1.evil.example"), "TFY0174"),
            (Some(&*bearer), host, Some("http://evil.example"), "TFY0174"),
            (Some(&*bearer), Some("far.example"), Some("http://far.example"), "ada operator"),
        ];
        for (authorization, host, origin, expected) in cases {
            let knock = Knock { authorization, host, origin, certificate: None };
            assert_eq!(said(gate.open(knock)), expected, "{knock:?}");
        }
        std::fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn from_elsewhere_a_token_or_a_known_certificate_is_needed() {
        let (gate, dir, bearer) = gate("0.0.0.0:80", "elsewhere");
        let gate = gate.host("Tiffany.example").client("probe", Role::Viewer);
        let cases = [
            (None, None, "TFY0170"),
            (Some(&*bearer), None, "ada operator"),
            (None, Some("probe"), "probe viewer"),
            (None, Some("other"), "TFY0170"),
            (Some(&*bearer), Some("probe"), "ada operator"),
        ];
        for (authorization, certificate, expected) in cases {
            let host = Some("tiffany.example:80");
            let knock = Knock { authorization, host, origin: None, certificate };
            assert_eq!(said(gate.open(knock)), expected, "{knock:?}");
        }
        std::fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn pages_of_other_origins_ask_if_the_configuration_lists_them() {
        let (gate, dir, _) = gate("127.0.0.1:80", "origins");
        let gate = gate.tls().host("tiffany.example").origin("https://Shop.example:8443");
        let cases = [
            ("https://shop.example:8443", "local admin"),
            ("https://shop.example", "TFY0174"),
            ("http://shop.example:8443", "TFY0174"),
            ("https://tiffany.example", "local admin"),
            ("http://tiffany.example", "TFY0174"),
        ];
        for (origin, expected) in cases {
            let host = Some("tiffany.example:443");
            let knock = Knock { host, origin: Some(origin), ..Knock::default() };
            assert_eq!(said(gate.open(knock)), expected, "{knock:?}");
        }
        std::fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn a_role_includes_those_below_it() {
        let who = Who { name: "ada".into(), role: Role::Operator, by: By::Loopback };
        assert_eq!(who.may(Role::Viewer), Ok(()));
        assert_eq!(who.may(Role::Operator), Ok(()));
        let error = who.may(Role::Admin).unwrap_err();
        assert_eq!((error.code(), error.status()), ("TFY0173", 403));
    }
}
