//! The configuration: one TOML file, read and checked before anything is opened. `sections.rs` has
//! the sections of the daemon's parts; this file has their names, and the errors for files that
//! cannot be used.

mod sections;
mod words;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;
use tiffany::durable::RunLimits;
use tiffany::redact::{RedactError, Redactions};
use tiffany::retention::Retention;

use crate::auth::Gate;
use crate::auth::Role;
use crate::auth::Tokens;
use crate::limits::{Limits, in_range, time_in_range};
use crate::tls::TlsFiles;
use crate::{otlp, sinks};
use sections::{Keep, Limited, RunLimited, Span, Tls, check_run_limits};
pub use sections::{Log, LogFormat, LogLevel};

/// A configuration with every key, set to its default where it has one.
pub const EXAMPLE: &str = include_str!("example.toml");

/// The settings of a daemon, read from a file.
///
/// ```
/// use tiffany_daemon::config::Config;
///
/// let config = Config::parse("listen = '127.0.0.1:8787'\ngrace = '30s'", "tiffany.toml".as_ref())?;
/// assert_eq!(config.listen.unwrap().port(), 8787);
/// let error = Config::parse("lisen = '127.0.0.1:8787'", "tiffany.toml".as_ref()).unwrap_err();
/// assert!(error.to_string().contains("tiffany.toml:1:1: there is no key `lisen`"));
/// # Ok::<(), tiffany_daemon::config::ConfigError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// The log directory.
    pub dir: Option<PathBuf>,
    /// The file with the code of the runs.
    pub app: Option<PathBuf>,
    /// The address and port to listen on.
    pub listen: Option<SocketAddr>,
    /// Other host names that browsers may use for the daemon.
    pub hosts: Vec<String>,
    /// Whether clients on this machine need a token too.
    pub require_token: bool,
    /// Origins whose pages may send requests, besides those of the daemon itself.
    pub origins: Vec<String>,
    /// How long running steps have to finish when the daemon ends.
    grace: Option<Span>,
    /// How many steps may block a thread at the same time.
    pub step_slots: Option<usize>,
    /// The name of this machine in logs.
    pub node: Option<String>,
    tls: Option<Tls>,
    /// Settings of the daemon's own log.
    pub log: Log,
    retention: Vec<Keep>,
    redact: Vec<String>,
    limits: Limited,
    run_limits: RunLimited,
    /// Servers to which the activity of runs is forwarded.
    pub sinks: sinks::Settings,
    /// The collector to which telemetry is sent.
    pub otlp: Option<otlp::Settings>,
}

/// Why a configuration cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {why} [TFY0177]; `tiffany config example` prints a file with everything in it")]
pub struct ConfigError {
    /// The path of the file, and the position in it.
    place: String,
    why: String,
}

impl ConfigError {
    /// The error code of every configuration error.
    pub const CODE: &str = "TFY0177";

    /// Returns the stable error code.
    pub fn code(&self) -> &'static str {
        ConfigError::CODE
    }
}

impl From<RedactError> for ConfigError {
    fn from(error: RedactError) -> ConfigError {
        ConfigError { place: "redact".into(), why: short(&error) }
    }
}

/// The most step slots, which is more than any machine needs.
pub const MAX_STEP_SLOTS: u32 = 65_536;
/// The longest grace period for running steps when the daemon ends.
const MAX_GRACE: Duration = Duration::from_secs(7 * 24 * 60 * 60);
/// The environment variable with more redaction rules, one per line. It passes them to processes
/// that run code for a daemon.
pub(crate) const RULES: &str = "TIFFANY_REDACT";

impl Config {
    /// Reads a file. Relative paths in it start at the file's directory.
    pub fn read(file: &Path) -> Result<Config, ConfigError> {
        let failed = |error: std::io::Error| ConfigError {
            place: file.display().to_string(),
            why: format!("it cannot be read: {error}"),
        };
        let text = std::fs::read_to_string(file).map_err(failed)?;
        Config::parse(&text, file)
    }

    /// Adds the redaction rules of the environment variable `TIFFANY_REDACT`.
    pub fn with_rules_of_env(mut self) -> Result<Config, ConfigError> {
        if let Some(rules) = std::env::var_os(RULES) {
            let rules = rules
                .into_string()
                .map_err(|_| ConfigError { place: RULES.into(), why: "it is not text".into() })?;
            let why = |error: RedactError| ConfigError { place: RULES.into(), why: short(&error) };
            Redactions::parse(&rules).map_err(why)?;
            self.redact.extend(rules.lines().map(str::to_owned));
        }
        Ok(self)
    }

    /// Returns the redaction rules in the form of [`RULES`].
    pub(crate) fn rules(&self) -> Option<String> {
        Some(self.redact.join("\n")).filter(|rules| !rules.is_empty())
    }

    /// Parses the text of a configuration file.
    pub fn parse(text: &str, file: &Path) -> Result<Config, ConfigError> {
        let mut config: Config = toml::from_str(text).map_err(|error| {
            let place = match error.span() {
                Some(span) => {
                    let (line, column) = place_of(text, span.start);
                    format!("{}:{line}:{column}", file.display())
                }
                None => file.display().to_string(),
            };
            let key = error.span().and_then(|span| key_at(text, span.start));
            ConfigError { place, why: words::ours(error.message(), key) }
        })?;
        config.redactions().map_err(|error| ConfigError {
            place: format!("{}: redact", file.display()),
            why: short(&error),
        })?;
        if let Some(origin) = config.origins.iter().find(|origin| !is_origin(origin)) {
            let why =
                format!("`{origin}` is not an origin: it is like `https://tiffany.example.org`");
            return Err(ConfigError { place: format!("{}: origins", file.display()), why });
        }
        if let Some(host) = config.hosts.iter().find(|host| !is_host(host)) {
            let why = format!(
                "`{host}` is not the name of a host: it is like `tiffany.example.org` or `[2001:db8::1]`, without a port"
            );
            return Err(ConfigError { place: format!("{}: hosts", file.display()), why });
        }
        config
            .limits()
            .check()
            .map_err(|why| ConfigError { place: format!("{}: limits", file.display()), why })?;
        let why = |key: &str, why| {
            let place = format!("{}: {key}", file.display());
            ConfigError { place, why }
        };
        check_run_limits(&config.run_limits())
            .map_err(|error| why("run_limits", format!("{error}; `false` is without limit")))?;
        if let Some(grace) = config.grace() {
            check_grace(grace).map_err(|error| why("grace", error))?;
        }
        if let Some(slots) = config.step_slots {
            in_range("step_slots", slots as u64, (1, MAX_STEP_SLOTS.into()))
                .map_err(|error| why("step_slots", error))?;
        }
        let from = file.parent().unwrap_or(Path::new(""));
        // A Python module, such as `shop.orders:runtime`, is not a file beside the configuration.
        let module = config.app.take_if(|app| is_module(app) && !from.join(&*app).exists());
        for path in config.paths() {
            *path = from.join(&*path);
        }
        config.app = module.or(config.app.take());
        Ok(config)
    }

    fn paths(&mut self) -> impl Iterator<Item = &mut PathBuf> {
        let tls = self
            .tls
            .iter_mut()
            .flat_map(|tls| [Some(&mut tls.certificate), Some(&mut tls.key), tls.clients.as_mut()]);
        let all = [self.dir.as_mut(), self.app.as_mut()].into_iter().chain(tls);
        all.flatten()
    }

    /// Returns how long running steps have to finish when the daemon ends.
    pub fn grace(&self) -> Option<Duration> {
        self.grace.map(|Span(time)| time)
    }

    /// Returns the paths of the certificates, if TLS is used.
    pub fn tls(&self) -> Option<TlsFiles> {
        self.tls.as_ref().map(|tls| TlsFiles {
            certificate: tls.certificate.clone(),
            key: tls.key.clone(),
            clients: tls.clients.clone(),
        })
    }

    /// Returns the rules that redact everything written or sent.
    pub fn redactions(&self) -> Result<Redactions, RedactError> {
        Redactions::parse(&self.rules().unwrap_or_default())
    }

    /// Returns the limits of the server.
    pub fn limits(&self) -> Limits {
        self.limits.limits()
    }

    /// Returns the limits beyond which a run is held.
    pub fn run_limits(&self) -> RunLimits {
        self.run_limits.limits()
    }

    /// Returns the rules for how long finished runs are kept.
    pub fn retention(&self) -> impl Iterator<Item = Retention> {
        self.retention.iter().map(Keep::rule)
    }

    /// Returns the access rules of an address.
    pub fn gate(&self, listen: SocketAddr, tokens: Tokens) -> Gate {
        let mut gate = Gate::new(listen, tokens);
        if self.require_token {
            gate = gate.always_needs_token();
        }
        if self.tls.is_some() {
            gate = gate.tls();
        }
        gate = self.origins.iter().fold(gate, |gate, origin| gate.origin(origin));
        gate = self.hosts.iter().fold(gate, |gate, host| gate.host(host));
        let roles: BTreeMap<String, Role> = self.tls.clone().unwrap_or_default().roles;
        roles.iter().fold(gate, |gate, (name, role)| gate.client(name, *role))
    }
}

/// Returns the message of an error without its code and next step.
fn short(error: &RedactError) -> String {
    let text = error.to_string();
    text.split(" [TFY").next().unwrap_or(&text).to_owned()
}

/// Returns whether the code of the runs is named as a Python module and not as a file.
fn is_module(app: &Path) -> bool {
    let is_name =
        |part: &str| !part.is_empty() && part.chars().all(|c| c == '_' || c.is_alphanumeric());
    let is_file = app.extension().is_some_and(|extension| extension == "py");
    !is_file && app.to_str().is_some_and(|text| text.split(['.', ':']).all(is_name))
}

/// Returns whether the text is an origin as browsers send it: a scheme, a host, and an optional
/// port.
fn is_origin(text: &str) -> bool {
    let name = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    name.is_some_and(|name| !name.is_empty() && !name.contains(['/', '?', '#', '@', ' ']))
}

/// Returns whether the text is a host name or address as in the header `Host`, without a port.
fn is_host(text: &str) -> bool {
    let is_of = |text: &str, others: &str| {
        !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || others.contains(c))
    };
    match text.strip_prefix('[').and_then(|text| text.strip_suffix(']')) {
        Some(address) => address.parse::<std::net::Ipv6Addr>().is_ok(),
        None => is_of(text, "-._"),
    }
}

/// Returns an error if the time is longer than running steps may be given.
pub fn check_grace(grace: Duration) -> Result<(), String> {
    time_in_range("grace", grace, (Duration::ZERO, MAX_GRACE))
}

/// Returns the key whose value is at this byte, if it is in the same line.
fn key_at(text: &str, at: usize) -> Option<&str> {
    let before = text.get(..at)?.rsplit('\n').next()?;
    let (key, _) = before.split_once('=')?;
    Some(key.trim().trim_matches(['"', '\'']))
}

/// Returns the line and the column of a byte.
fn place_of(text: &str, at: usize) -> (usize, usize) {
    let before = text.get(..at).unwrap_or(text);
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
    (line, column)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> String {
        Config::parse(text, Path::new("t.toml")).unwrap_err().to_string()
    }

    #[test]
    fn the_example_says_what_holds_anyway() {
        let config = Config::parse(EXAMPLE, Path::new("")).unwrap();
        assert_eq!(config, Config::default());
        // With its keys uncommented, the example is a complete configuration.
        let shown: String = EXAMPLE
            .lines()
            .map(|line| line.strip_prefix("#: ").unwrap_or(line))
            .map(|line| format!("{line}\n"))
            .collect();
        let all = Config::parse(&shown, Path::new("/etc/tiffany/t.toml")).unwrap();
        assert_eq!(all.dir.as_deref(), Some(Path::new("/var/lib/tiffany")));
        assert_eq!(all.app.as_deref(), Some(Path::new("/etc/tiffany/orders.py")));
        let app = |app: &str| {
            let text = format!("app = '{app}'");
            Config::parse(&text, Path::new("/etc/tiffany/tiffany.toml")).unwrap().app.unwrap()
        };
        assert_eq!(app("shop.orders:runtime"), Path::new("shop.orders:runtime"));
        assert_eq!(app("shop/orders.py"), Path::new("/etc/tiffany/shop/orders.py"));
        assert_eq!(all.tls().unwrap().key, Path::new("/etc/tiffany/server.key"));
        assert_eq!(all.grace(), Some(Duration::from_secs(10)));
        let day = Duration::from_secs(86_400);
        let rules: Vec<Retention> = all.retention().collect();
        assert_eq!(rules[0], Retention::new().compact_after(day).older_than(30 * day));
        assert_eq!(rules.len(), 2);
        assert!(!all.redactions().unwrap().is_empty());
        // The limits in the example are the defaults.
        assert_eq!(all.limits(), Limits::default());
        assert_eq!(all.otlp.unwrap().endpoint, "http://127.0.0.1:4318");
        assert_eq!(all.sinks.redis.unwrap().stream, "tiffany");
        assert_eq!(all.sinks.nats.unwrap().url.to_string(), "nats://…@127.0.0.1:4222");
    }

    #[test]
    fn what_makes_no_sense_is_named_with_its_place() {
        let cases = [
            ("a = ", "t.toml:1:5: "),
            ("\n\nport = 1", "t.toml:3:1: there is no key `port`; there are `dir`"),
            ("listen = 'here'", "t.toml:1:10: `listen`: invalid socket address"),
            ("grace = 'soon'", "t.toml:1:9: `grace`: it takes a number and a unit"),
            ("grace = 10", "t.toml:1:9: `grace` is the integer `10`, and takes a time"),
            ("[tls]\nkey = 'k'", "t.toml:1:1: the key `certificate` is missing"),
            (
                "[tls]\ncertificate='c'\nkey='k'\n[tls.roles]\nada = 'king'",
                "`king` is not one of `viewer`",
            ),
            ("[[retention]]\nkeep = -1", "t.toml:2:8: "),
            ("[[retention]]\nstate = ['over']", "`over` is not one of `completed`"),
            ("[log]\nlevel = 'loud'", "`level`: `loud` is not one of `error`, `warn`"),
            ("redact = ['pattern (']", "t.toml: redact: the pattern `(`"),
            ("origins = ['shop.example']", "t.toml: origins: `shop.example` is not an origin"),
            (
                "[limits]\nwaiting = 9223372036854775807",
                "t.toml: limits: `waiting` is 9223372036854775807, and may be from 1 to 1000000",
            ),
            ("[limits]\nstreams = 9223372036854775807", "limits: `streams` is 9223372036854775807"),
            ("origins = ['https://a b']", "origins: `https://a b` is not an origin"),
            ("hosts = ['a b']", "t.toml: hosts: `a b` is not the name of a host"),
            ("hosts = ['']", "hosts: `` is not the name of a host"),
            ("hosts = ['ok', 'shop.example:80']", "hosts: `shop.example:80` is not the name of"),
            ("hosts = ['[nine]']", "hosts: `[nine]` is not the name of a host"),
            (
                "grace = '99999999999d'",
                "t.toml: grace: `grace` is 99999999999d, and may be from 0s to 7d",
            ),
            ("grace = '8d'", "`grace` is 8d, and may be from 0s to 7d"),
            ("[limits]\nping = '0s'", "limits: `ping` is 0s, and may be from 1ms to 1d"),
            (
                "[limits]\nanswer_time = '99999999w'",
                "limits: `answer_time` is 699999993d, and may be from 1ms to 1d",
            ),
            (
                "[limits]\nbody_bytes = '99999999999TB'",
                "limits: `body_bytes` is too large: it may be from 1 B to 1.1 GB",
            ),
            (
                "[limits]\nbody_bytes = 99999999999999999999",
                "limits: `body_bytes` is too large: it may be from 1 B to 1.1 GB",
            ),
            ("[limits]\nbody_bytes = -1", "`body_bytes` is the integer `-1`, and takes a size"),
            ("[limits]\nconnections = 0", "limits: `connections` is 0, and may be from 1"),
            (
                "[limits]\nheader_bytes = 10",
                "limits: `header_bytes` is 10 B, and may be from 8.2 kB",
            ),
            (
                "[run_limits]\ntasks = 0",
                "t.toml: run_limits: `tasks` is 0, and may be from 1 to 1000000000000000; `false` is without limit",
            ),
            ("[run_limits]\nturn = '0s'", "`turn` is 0s, and may be from 10ms to 1d"),
            (
                "[run_limits]\nmemory_bytes = '1kB'",
                "`memory_bytes` is 1.0 kB, and may be from 1.0 MB to 1000.0 TB; `false` is without limit",
            ),
            (
                "[run_limits]\nmemory_bytes = 99999999999999999999",
                "`memory_bytes` is too large: it may be from 1.0 MB to 1000.0 TB; `false` is without limit",
            ),
            (
                "[run_limits]\nmemory_bytes = '99999999999999TB'",
                "`memory_bytes` is too large: it may be from 1.0 MB to 1000.0 TB",
            ),
            (
                "[run_limits]\ntasks = 99999999999999999999",
                "`tasks` is too large: it may be from 1 to 1000000000000000",
            ),
            (
                "[run_limits]\nturn = 99999999999999999999",
                "`turn` is a large integer, and takes a time",
            ),
            (
                "[run_limits]\ntasks = 'many'",
                "t.toml:2:9: `tasks` is the string \"many\", and takes a whole number, or `false` for no limit",
            ),
            (
                "[run_limits]\ntasks = true",
                "`tasks` is the boolean `true`, and takes a whole number",
            ),
            ("[run_limits]\ntasks = -1", "`tasks` is the integer `-1`, and takes a whole number"),
            ("[run_limits]\ncalls = 1.5", "`calls` is the floating point `1.5`, and takes a whole"),
            ("[run_limits]\nturn = 30", "`turn` is the integer `30`, and takes a time, such as"),
            (
                "[run_limits]\nlog_bytes = 'big'",
                "`log_bytes` is the string \"big\", and takes a size",
            ),
            ("step_slots = 0", "t.toml: step_slots: `step_slots` is 0, and may be from 1 to 65536"),
            ("step_slots = 99999999999", "`step_slots` is 99999999999, and may be from 1 to 65536"),
            (
                "step_slots = 99999999999999999999",
                "`step_slots` is the integer `99999999999999999999`, and takes a whole number",
            ),
            (
                "step_slots = -1",
                "`step_slots` is the integer `-1`, and takes a whole number from 0 on",
            ),
            ("[sinks.redis]\nstream = 'x'", "the key `url` is missing"),
            ("[sinks.kafka]\nurl = 'x'", "there is no key `kafka`"),
        ];
        for (text, expected) in cases {
            let said = refused(text);
            assert!(said.contains(expected) && said.contains("[TFY0177]"), "{said}");
        }
    }
}
