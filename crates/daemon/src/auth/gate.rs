//! Who comes in, and as whom. It knows headers and certificates, and nothing of what is asked for.

use std::net::SocketAddr;
use std::time::SystemTime;

use super::tokens::Stamp;
use crate::auth::error::AuthError;
use crate::auth::role::Role;
use crate::auth::token::Kept;
use crate::auth::tokens::Tokens;

/// What is known of somebody who asks.
#[derive(Clone, Copy, Debug, Default)]
pub struct Knock<'a> {
    /// The header `Authorization`, or what stands for it.
    pub authorization: Option<&'a str>,
    /// The header `Host`.
    pub host: Option<&'a str>,
    /// The header `Origin`, which a browser sends for the page that asks.
    pub origin: Option<&'a str>,
    /// The name in the certificate that the other side has proved to own.
    pub certificate: Option<&'a str>,
}

/// Somebody who was let in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Who {
    /// Their name: that of a token or of a certificate; `local` for those who need none.
    pub name: String,
    /// What they may do.
    pub role: Role,
    /// How that is known.
    pub by: By,
}

/// How it is known who somebody is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum By {
    /// They are on this machine, and no token is asked for there.
    Loopback,
    /// They have the token with this id.
    Token(String),
    /// They have a certificate that was vouched for.
    Certificate,
}

impl Who {
    /// An error, unless this is enough.
    pub fn may(&self, needs: Role) -> Result<(), AuthError> {
        match self.role >= needs {
            true => Ok(()),
            false => Err(AuthError::TooLittle { name: self.name.clone(), has: self.role, needs }),
        }
    }
}

/// The rules of one listening address.
#[derive(Debug)]
pub struct Gate {
    tokens: Tokens,
    needs_token: bool,
    /// Names by which this daemon may be asked for, in small letters, without ports.
    hosts: Vec<String>,
    /// How this daemon is spoken to: `http` or `https`.
    scheme: &'static str,
    /// Whose pages may ask, besides those that it was itself asked for by this name.
    origins: Vec<String>,
    /// Roles of those who come with a certificate.
    clients: Vec<(String, Role)>,
}

impl Gate {
    /// A gate for an address. Where others than this machine can reach it, a token is needed.
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

    /// TLS is spoken here.
    pub fn tls(mut self) -> Gate {
        self.scheme = "https";
        self
    }

    /// Pages of this origin may ask too: `https://tiffany.example.org`, say, where a proxy has that name.
    pub fn origin(mut self, origin: &str) -> Gate {
        self.origins.push(origin.to_lowercase());
        self
    }

    /// Who has a certificate with this name has this role, without a token.
    pub fn client(mut self, name: &str, role: Role) -> Gate {
        self.clients.push((name.into(), role));
        self
    }

    /// Whether a token is needed.
    pub fn needs_token(&self) -> bool {
        self.needs_token
    }

    /// Whether somebody can come in at all: by a token that is good, by a certificate, or without either.
    pub fn lets_somebody_in(&self) -> bool {
        let is_good = |kept: &Kept| !kept.has_expired(SystemTime::now());
        !self.needs_token
            || !self.clients.is_empty()
            || self.tokens.all().is_ok_and(|all| all.iter().any(is_good))
    }

    /// Which state the file of the tokens is in.
    pub(crate) fn token_file(&self) -> Option<Stamp> {
        self.tokens.stamp()
    }

    /// An error, if somebody who was let in would not be let in now.
    pub fn still_knows(&self, who: &Who) -> Result<(), AuthError> {
        match &who.by {
            By::Token(id) => self.tokens.is_good(id, who.role),
            By::Certificate | By::Loopback => Ok(()),
        }
    }

    /// Who it is, if they may come in.
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

    /// A page of somebody else that makes a browser ask us, or a name of somebody else that leads to our address, must not get in on the strength of where
    /// the browser runs. A token proves more than the name does: no browser sends one by itself.
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
        // Another port is another program's, and so is another scheme. Who has a token may be behind a proxy that speaks TLS.
        let is_same = without_usual_port(scheme, name) == without_usual_port(scheme, &host)
            && !host.is_empty()
            && (scheme == self.scheme || knock.authorization.is_some());
        match is_same || self.origins.contains(&origin_is) {
            true => Ok(()),
            false => stranger("the origin", origin),
        }
    }
}

/// The token in a header.
fn bearer(authorization: &str) -> Option<&str> {
    let (scheme, token) = authorization.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then_some(token.trim())
}

/// The port that a scheme has anyway is left out by some.
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
            // A name of somebody else that leads here, and a page of somebody else.
            (None, Some("evil.example:80"), None, "TFY0174"),
            (None, host, Some("http://evil.example"), "TFY0174"),
            (None, host, Some("null"), "TFY0174"),
            // Another program of this machine, and the same place by another name.
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
