//! The sections of the configuration file.

use std::collections::{BTreeMap, BTreeSet};
use std::marker::PhantomData;
use std::path::PathBuf;
use std::time::Duration;

use serde::de::{Error, Unexpected, Visitor};
use serde::{Deserialize, Deserializer};
use tiffany::durable::RunLimits;
use tiffany::history::Outcome;
use tiffany::logging;
use tiffany::retention::Retention;
use tiffany::units;

use crate::auth::Role;
use crate::limits::{Limits, in_range, size_in_range, time_in_range};

/// A duration, written as `"90s"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span(pub(super) Duration);

/// A size, written as `"20MB"` or as a number of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Size(pub(super) u64);

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Span, D::Error> {
        struct Typed;

        impl Visitor<'_> for Typed {
            type Value = Span;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a time, such as \"90s\", \"15m\", \"12h\", \"30d\" or \"2w\"")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Span, E> {
                units::time(text).map(Span).map_err(E::custom)
            }
        }

        from.deserialize_str(Typed)
    }
}

impl<'de> Deserialize<'de> for Size {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Size, D::Error> {
        struct Typed;

        impl Visitor<'_> for Typed {
            type Value = Size;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a size, such as \"500kB\", \"20MB\" or \"1GB\"")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Size, E> {
                units::bytes(text).map(Size).map_err(E::custom)
            }

            fn visit_i64<E: Error>(self, bytes: i64) -> Result<Size, E> {
                let size = u64::try_from(bytes).map(Size);
                size.map_err(|_| E::invalid_type(Unexpected::Signed(bytes), &self))
            }

            fn visit_i128<E: Error>(self, bytes: i128) -> Result<Size, E> {
                Ok(Size(saturated(bytes)))
            }
        }

        from.deserialize_any(Typed)
    }
}

/// Converts a number that may be too large, saturating. The setting that it is for checks its own
/// range.
fn saturated(number: i128) -> u64 {
    u64::try_from(number.max(0)).unwrap_or(u64::MAX)
}

/// Paths of TLS certificates.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Tls {
    pub(super) certificate: PathBuf,
    pub(super) key: PathBuf,
    pub(super) clients: Option<PathBuf>,
    /// The roles of clients, by the names in their certificates.
    #[serde(default)]
    pub(super) roles: BTreeMap<String, Role>,
}

/// Settings of the daemon's own log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct Log {
    /// The format: text or JSON.
    pub format: LogFormat,
    /// The least important level that is logged.
    pub level: LogLevel,
}

impl Log {
    /// Returns the format, as the logging module has it.
    pub fn format(&self) -> logging::Format {
        match self.format {
            LogFormat::Text => logging::Format::Text,
            LogFormat::Json => logging::Format::Json,
        }
    }

    /// Returns the level, as the logging module has it.
    pub fn level(&self) -> logging::Level {
        match self.level {
            LogLevel::Error => logging::Level::ERROR,
            LogLevel::Warn => logging::Level::WARN,
            LogLevel::Info => logging::Level::INFO,
            LogLevel::Debug => logging::Level::DEBUG,
            LogLevel::Trace => logging::Level::TRACE,
        }
    }
}

/// The format of log lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LogFormat {
    /// For people to read.
    #[default]
    Text,
    /// For programs to parse.
    Json,
}

/// The level of a log line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LogLevel {
    /// Failures that a person has to act on.
    Error,
    /// Unexpected conditions.
    Warn,
    /// Events that an operator wants to know about.
    #[default]
    Info,
    /// Details that help to find a bug.
    Debug,
    /// Everything.
    Trace,
}

/// Limits of the server; a missing one keeps its default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Limited {
    body_bytes: Option<Size>,
    header_bytes: Option<Size>,
    header_time: Option<Span>,
    body_time: Option<Span>,
    connections: Option<usize>,
    connections_per_peer: Option<usize>,
    requests_per_second: Option<u32>,
    waiting: Option<usize>,
    answer_time: Option<Span>,
    streams: Option<usize>,
    message_bytes: Option<Size>,
    messages_per_second: Option<u32>,
    ping: Option<Span>,
    children: Option<usize>,
    child_time: Option<Span>,
}

impl Limited {
    pub(super) fn limits(self) -> Limits {
        let usual = Limits::default();
        let size = |given: Option<Size>, usual: usize| {
            given.map_or(usual, |Size(bytes)| usize::try_from(bytes).unwrap_or(usize::MAX))
        };
        let time = |given: Option<Span>, usual| given.map_or(usual, |Span(time)| time);
        Limits {
            body_bytes: size(self.body_bytes, usual.body_bytes),
            header_bytes: size(self.header_bytes, usual.header_bytes),
            header_time: time(self.header_time, usual.header_time),
            body_time: time(self.body_time, usual.body_time),
            connections: self.connections.unwrap_or(usual.connections),
            connections_per_peer: self.connections_per_peer.unwrap_or(usual.connections_per_peer),
            requests_per_second: self.requests_per_second.unwrap_or(usual.requests_per_second),
            waiting: self.waiting.unwrap_or(usual.waiting),
            answer_time: time(self.answer_time, usual.answer_time),
            streams: self.streams.unwrap_or(usual.streams),
            message_bytes: size(self.message_bytes, usual.message_bytes),
            messages_per_second: self.messages_per_second.unwrap_or(usual.messages_per_second),
            ping: time(self.ping, usual.ping),
            children: self.children.unwrap_or(usual.children),
            child_time: time(self.child_time, usual.child_time),
        }
    }
}

/// Limits of one run, beyond which it is held. A missing one keeps its default; `false` removes the
/// limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RunLimited {
    tasks: Option<Allowed<u64>>,
    calls: Option<Allowed<u64>>,
    records: Option<Allowed<u64>>,
    log_bytes: Option<Allowed<Size>>,
    memory_bytes: Option<Allowed<Size>>,
    messages: Option<Allowed<u64>>,
    message_bytes: Option<Allowed<Size>>,
    turn: Option<Allowed<Span>>,
    deaths: Option<Allowed<u64>>,
}

/// A limit, or `false` for none.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Allowed<T> {
    Limit(T),
    Off,
}

/// Types that a limit can be written as.
trait Written: Sized {
    const WANTED: &'static str;

    fn of_number(_number: u64) -> Option<Self> {
        None
    }

    fn of_text(_text: &str) -> Option<Self> {
        None
    }
}

impl Written for u64 {
    const WANTED: &'static str = "a whole number";

    fn of_number(number: u64) -> Option<u64> {
        Some(number)
    }
}

impl Written for Size {
    const WANTED: &'static str = "a size, such as \"500kB\", \"20MB\" or \"1GB\"";

    fn of_number(bytes: u64) -> Option<Size> {
        Some(Size(bytes))
    }

    fn of_text(text: &str) -> Option<Size> {
        units::bytes(text).ok().map(Size)
    }
}

impl Written for Span {
    const WANTED: &'static str = "a time, such as \"500ms\", \"30s\" or \"15m\"";

    fn of_text(text: &str) -> Option<Span> {
        units::time(text).ok().map(Span)
    }
}

impl<'de, T: Written> Deserialize<'de> for Allowed<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Allowed<T>, D::Error> {
        struct Typed<T>(PhantomData<T>);

        impl<T: Written> Visitor<'_> for Typed<T> {
            type Value = Allowed<T>;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(f, "{}, or `false` for no limit", T::WANTED)
            }

            fn visit_bool<E: Error>(self, is_on: bool) -> Result<Allowed<T>, E> {
                match is_on {
                    true => Err(E::invalid_type(Unexpected::Bool(true), &self)),
                    false => Ok(Allowed::Off),
                }
            }

            fn visit_i64<E: Error>(self, number: i64) -> Result<Allowed<T>, E> {
                let limit = u64::try_from(number).ok().and_then(T::of_number);
                let limit = limit.map(Allowed::Limit);
                limit.ok_or_else(|| E::invalid_type(Unexpected::Signed(number), &self))
            }

            fn visit_i128<E: Error>(self, number: i128) -> Result<Allowed<T>, E> {
                let limit = T::of_number(saturated(number)).map(Allowed::Limit);
                limit.ok_or_else(|| E::invalid_type(Unexpected::Other("large integer"), &self))
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Allowed<T>, E> {
                let limit = T::of_text(text).map(Allowed::Limit);
                limit.ok_or_else(|| E::invalid_type(Unexpected::Str(text), &self))
            }
        }

        from.deserialize_any(Typed(PhantomData))
    }
}

impl RunLimited {
    pub(super) fn limits(self) -> RunLimits {
        fn chosen<T, L>(
            given: Option<Allowed<T>>,
            usual: Option<L>,
            limit: impl Fn(T) -> L,
        ) -> Option<L> {
            match given {
                None => usual,
                Some(Allowed::Limit(given)) => Some(limit(given)),
                Some(Allowed::Off) => None,
            }
        }
        let usual = RunLimits::for_services();
        let (number, size) = (|number: u64| number, |Size(bytes)| bytes);
        RunLimits {
            tasks: chosen(self.tasks, usual.tasks, number),
            calls: chosen(self.calls, usual.calls, number),
            records: chosen(self.records, usual.records, number),
            log_bytes: chosen(self.log_bytes, usual.log_bytes, size),
            memory_bytes: chosen(self.memory_bytes, usual.memory_bytes, size),
            messages: chosen(self.messages, usual.messages, number),
            message_bytes: chosen(self.message_bytes, usual.message_bytes, size),
            turn: chosen(self.turn, usual.turn, |Span(time)| time),
            deaths: chosen(self.deaths, usual.deaths, number),
        }
    }
}

/// The largest number that a limit can have.
const MAX_LIMIT: u64 = 1_000_000_000_000_000;
/// The range of the time that a turn may take.
const TURN: (Duration, Duration) = (Duration::from_millis(10), Duration::from_secs(86_400));

/// Returns an error that names the first limit out of its range, and the range.
pub(super) fn check_run_limits(limits: &RunLimits) -> Result<(), String> {
    let numbers = [
        ("tasks", limits.tasks, (1, MAX_LIMIT)),
        ("calls", limits.calls, (1, MAX_LIMIT)),
        ("records", limits.records, (1, MAX_LIMIT)),
        ("messages", limits.messages, (1, MAX_LIMIT)),
        ("deaths", limits.deaths, (1, 1_000)),
    ];
    for (name, limit, range) in numbers {
        limit.map_or(Ok(()), |limit| in_range(name, limit, range))?;
    }
    let sizes = [
        ("log_bytes", limits.log_bytes, (1_000, MAX_LIMIT)),
        ("memory_bytes", limits.memory_bytes, (1_000_000, MAX_LIMIT)),
        ("message_bytes", limits.message_bytes, (1, MAX_LIMIT)),
    ];
    for (name, limit, range) in sizes {
        limit.map_or(Ok(()), |limit| size_in_range(name, limit, range))?;
    }
    limits.turn.map_or(Ok(()), |turn| time_in_range("turn", turn, TURN))
}

/// A rule for how long finished runs are kept.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Keep {
    older_than: Option<Span>,
    keep: Option<usize>,
    max_size: Option<Size>,
    compact_after: Option<Span>,
    state: BTreeSet<Ended>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Ended {
    Completed,
    Failed,
    Cancelled,
}

impl Keep {
    pub(super) fn rule(&self) -> Retention {
        let mut rule = Retention::new();
        if let Some(Span(age)) = self.older_than {
            rule = rule.older_than(age);
        }
        if let Some(runs) = self.keep {
            rule = rule.keep(runs);
        }
        if let Some(Size(bytes)) = self.max_size {
            rule = rule.max_bytes(bytes);
        }
        if let Some(Span(age)) = self.compact_after {
            rule = rule.compact_after(age);
        }
        self.state.iter().fold(rule, |rule, ended| {
            rule.only(match ended {
                Ended::Completed => Outcome::Completed,
                Ended::Failed => Outcome::Failed,
                Ended::Cancelled => Outcome::Cancelled,
            })
        })
    }
}
