//! The address of a daemon, and what belongs to it: the token, the authority that signed its certificate. Errors of the connection have their codes here.

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tiffany_kernel::{ErrorKind, TaskError};

use crate::args::GLOBAL;

/// How a daemon is reached over HTTP.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct RemoteOptions {
    /// Work on a daemon over HTTP, such as `https://host:8787`, instead of a directory
    #[arg(long, global = true, env = "TIFFANY_URL", value_name = "URL", help_heading = GLOBAL)]
    pub(crate) url: Option<String>,
    /// With `--url`: file with the token. [default: the token in TIFFANY_TOKEN]
    #[arg(long, global = true, env = "TIFFANY_TOKEN_FILE", value_name = "FILE", help_heading = GLOBAL)]
    pub(crate) token_file: Option<PathBuf>,
    /// With `--url`: file with the certificates of the authorities that sign the daemon's. [default: those of the system]
    #[arg(long, global = true, env = "TIFFANY_CA", value_name = "FILE", help_heading = GLOBAL)]
    pub(crate) ca: Option<PathBuf>,
    /// With `--url`: let the token and all values travel unencrypted to another machine
    #[arg(long, global = true, help_heading = GLOBAL)]
    pub(crate) insecure: bool,
}

/// A daemon that commands work on.
pub(crate) struct Remote {
    pub(super) host: String,
    pub(super) port: u16,
    pub(super) url: String,
    token: Option<String>,
    pub(super) tls: Option<(Arc<ClientConfig>, ServerName<'static>)>,
}

/// An error of the connection, with its code and the next step in its text. It is shown with that code.
pub(super) fn coded(code: &str, what: impl std::fmt::Display, next: &str) -> TaskError {
    TaskError::new(ErrorKind::Unreachable, format!("{what} [{code}]; {next}"))
}

/// The error for a daemon that lacks what is asked for.
pub(super) fn old_daemon(what: &str) -> TaskError {
    let next = "upgrade the daemon to the version of this program; `status` shows which it has";
    coded("TFY0302", format_args!("the daemon does not know {what}"), next)
}

/// The error for something else than a daemon.
pub(super) fn not_a_daemon(url: &str, why: &str) -> TaskError {
    let what = format!("what answers at {url} is not a Tiffany daemon: {why}");
    coded("TFY0302", what, "check the URL, its scheme (http or https) and what stands between")
}

/// The error for a command that works on files.
pub(crate) fn needs_files(what: &str) -> TaskError {
    let next = "run it on the daemon's machine, with `--dir` and the daemon's directory";
    let what = format!("{what} works on the files of a log, which are not reached over HTTP");
    coded("TFY0304", what, next)
}

fn bad(what: String, next: &str) -> TaskError {
    coded("TFY0303", what, next)
}

impl RemoteOptions {
    /// The daemon that was named, if one was.
    pub(crate) fn remote(&self) -> Result<Option<Arc<Remote>>, TaskError> {
        let Some(url) = &self.url else { return Ok(None) };
        let (is_secure, rest) = match (url.strip_prefix("https://"), url.strip_prefix("http://")) {
            (Some(rest), _) => (true, rest),
            (None, Some(rest)) => (false, rest),
            (None, None) => {
                let what = format!("`{url}` is not the URL of a daemon");
                return Err(bad(what, "write it as https://host:8787"));
            }
        };
        let rest = rest.trim_end_matches('/');
        let usual = if is_secure { 443 } else { 80 };
        let (host, port) = match rest.rsplit_once(':') {
            Some((host, port)) if !port.ends_with(']') => (host, port.parse().ok()),
            _ => (rest, Some(usual)),
        };
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let is_plain = !host.is_empty()
            && host.chars().all(|c| c.is_ascii_alphanumeric() || ".-_:".contains(c));
        let Some(port) = port.filter(|_| is_plain) else {
            let what =
                format!("`{url}` is not the URL of a daemon, or has more than a host and a port");
            return Err(bad(what, "write it as https://host:8787, without a path"));
        };
        let is_loopback =
            host == "localhost" || host.parse().is_ok_and(|ip: IpAddr| ip.is_loopback());
        if !is_secure && !is_loopback && !self.insecure {
            let what = format!(
                "`{url}` would send the token and all values unencrypted to another machine"
            );
            return Err(bad(what, "use https, or say `--insecure`"));
        }
        let tls = is_secure.then(|| self.tls(host)).transpose()?;
        let token = self.token()?;
        Ok(Some(Arc::new(Remote { host: host.into(), port, url: url.clone(), token, tls })))
    }

    fn token(&self) -> Result<Option<String>, TaskError> {
        let token = match &self.token_file {
            Some(file) => std::fs::read_to_string(file).map_err(|error| {
                bad(
                    format!("the token file {} cannot be read: {error}", file.display()),
                    "give another file",
                )
            })?,
            None => std::env::var("TIFFANY_TOKEN").unwrap_or_default(),
        };
        let token = token.trim();
        match token.bytes().all(|byte| byte.is_ascii_graphic()) {
            true => Ok((!token.is_empty()).then(|| token.to_owned())),
            false => Err(bad(
                "the token has characters that no token has".into(),
                "give it as `token add` printed it",
            )),
        }
    }

    fn tls(&self, host: &str) -> Result<(Arc<ClientConfig>, ServerName<'static>), TaskError> {
        let next = "`--ca` is a file of certificates in PEM format";
        let mut roots = RootCertStore::empty();
        match &self.ca {
            Some(file) => {
                let failed = |error: rustls::pki_types::pem::Error| {
                    bad(
                        format!("the certificates in {} cannot be read: {error}", file.display()),
                        next,
                    )
                };
                for certificate in CertificateDer::pem_file_iter(file).map_err(failed)? {
                    let added = roots.add(certificate.map_err(failed)?);
                    added.map_err(|error| {
                        bad(format!("a certificate in {}: {error}", file.display()), next)
                    })?;
                }
            }
            None => {
                let found = rustls_native_certs::load_native_certs();
                roots.add_parsable_certificates(found.certs);
            }
        }
        if roots.is_empty() {
            return Err(bad("no certificate of an authority was found".into(), next));
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| bad(error.to_string(), next))?
            .with_root_certificates(roots)
            .with_no_client_auth();
        let name = ServerName::try_from(host.to_owned());
        let name = name
            .map_err(|_| bad(format!("`{host}` is not the name of a host"), "correct the URL"))?;
        Ok((Arc::new(config), name))
    }
}

impl Remote {
    /// The daemon as requests name it.
    pub(super) fn authority(&self) -> String {
        match self.host.contains(':') {
            true => format!("[{}]:{}", self.host, self.port),
            false => format!("{}:{}", self.host, self.port),
        }
    }

    pub(super) fn token(&self) -> Option<&str> {
        self.token.as_deref()
    }
}
