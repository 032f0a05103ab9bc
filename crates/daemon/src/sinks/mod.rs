//! Sinks, which forward the activity log to other servers: Redis Streams and NATS. Each sink is a
//! task on the side threads that reads a subscription of the hub. No run waits for it. While its
//! server is unavailable it reads nothing, so the hub's own limit bounds what waits; lost events
//! are counted, logged, and reported in the stream itself.
//!
//! An event may arrive twice after a broken connection: `epoch` and `seq` identify it.

mod address;
mod item;
mod meters;
#[cfg(feature = "nats")]
mod nats;
mod pump;
#[cfg(feature = "redis")]
mod redis;

use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use tiffany::RuntimeHandle;
use tiffany::pal::{Detail, Wanted};
use tokio::runtime::Handle;
use tokio::task::JoinSet;

pub use address::Address;
use item::Origin;
use meters::SinkMeters;
use pump::{Outlet, pump};

/// The servers to which the activity log is forwarded.
///
/// ```
/// use tiffany_daemon::sinks::Settings;
///
/// let settings: Settings = toml::from_str("[redis]\nurl = 'redis://:secret@127.0.0.1'\n").unwrap();
/// assert_eq!(settings.redis.unwrap().stream, "tiffany");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct Settings {
    /// The settings of Redis Streams.
    pub redis: Option<RedisSettings>,
    /// The settings of NATS.
    pub nats: Option<NatsSettings>,
}

/// Settings of Redis Streams: `STREAM` has the events of all runs, `STREAM:RUN` those of one.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct RedisSettings {
    /// The server, as `redis://` or `rediss://`; it may contain a user and a password.
    pub url: Address,
    /// The prefix of the streams' names.
    #[serde(default = "default_name")]
    pub stream: String,
    /// About how many events the stream of all runs keeps.
    #[serde(default = "default_keep")]
    pub keep: u64,
    /// About how many events the stream of one run keeps.
    #[serde(default = "default_keep_run")]
    pub keep_run: u64,
    /// The number of seconds without an event after which the stream of a run expires.
    #[serde(default = "default_forget")]
    pub forget_run_seconds: u64,
    /// Whether the turns of tasks are forwarded too.
    #[serde(default)]
    pub all: bool,
}

/// Settings of NATS: the subject of an event is `SUBJECT.NODE.RUN.STAGE`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct NatsSettings {
    /// The server, as `nats://` or `tls://`; it may contain a user and a password, or a token.
    pub url: Address,
    /// The prefix of the subjects.
    #[serde(default = "default_name")]
    pub subject: String,
    /// Whether the turns of tasks are forwarded too.
    #[serde(default)]
    pub all: bool,
}

fn default_name() -> String {
    "tiffany".into()
}

fn default_keep() -> u64 {
    100_000
}

fn default_keep_run() -> u64 {
    10_000
}

fn default_forget() -> u64 {
    7 * 86_400
}

impl RedisSettings {
    /// Creates settings for a server, with defaults for the rest.
    pub fn new(url: Address) -> RedisSettings {
        RedisSettings {
            url,
            stream: default_name(),
            keep: default_keep(),
            keep_run: default_keep_run(),
            forget_run_seconds: default_forget(),
            all: false,
        }
    }
}

impl NatsSettings {
    /// Creates settings for a server, with defaults for the rest.
    pub fn new(url: Address) -> NatsSettings {
        NatsSettings { url, subject: default_name(), all: false }
    }
}

/// Why a sink cannot be started.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "events cannot be forwarded to {what}: {why} [TFY0196]; see the section `{section}` of the configuration"
)]
pub struct SinkError {
    what: String,
    why: String,
    section: &'static str,
}

impl SinkError {
    /// The error code of every sink error.
    pub const CODE: &str = "TFY0196";

    /// Returns the stable error code.
    pub fn code(&self) -> &'static str {
        SinkError::CODE
    }
}

/// The running sinks.
pub struct Sinks {
    tasks: JoinSet<()>,
}

impl Sinks {
    /// Starts all configured sinks for the activity of a runtime. `node` is the name of this
    /// machine.
    pub fn start(
        settings: &Settings,
        runtime: &RuntimeHandle,
        node: &str,
        on: &Handle,
    ) -> Result<Sinks, SinkError> {
        let mut sinks = Sinks { tasks: JoinSet::new() };
        #[cfg(feature = "redis")]
        if let Some(settings) = &settings.redis {
            let outlet = redis::Redis::new(settings)?;
            sinks.add(outlet, settings.all, runtime, node, on);
        }
        #[cfg(feature = "nats")]
        if let Some(settings) = &settings.nats {
            let outlet = nats::Nats::new(settings, node)?;
            sinks.add(outlet, settings.all, runtime, node, on);
        }
        #[cfg(not(feature = "redis"))]
        if let Some(settings) = &settings.redis {
            return Err(not_built("redis", &settings.url));
        }
        #[cfg(not(feature = "nats"))]
        if let Some(settings) = &settings.nats {
            return Err(not_built("nats", &settings.url));
        }
        Ok(sinks)
    }

    fn add<O: Outlet>(
        &mut self,
        outlet: O,
        all: bool,
        runtime: &RuntimeHandle,
        node: &str,
        on: &Handle,
    ) {
        let detail = if all { Detail::All } else { Detail::Notable };
        let hub = runtime.activity();
        // Events from resuming the log, before the sinks started, are forwarded too.
        let events = hub.subscribe(Wanted::new().from(1).detail(detail));
        let origin = Origin { node: node.to_owned(), epoch: hub.epoch() };
        let meters = Arc::new(SinkMeters::new(O::KIND));
        let families = Arc::clone(&meters);
        runtime.add_metrics(Arc::new(move || families.families()));
        self.tasks.spawn_on(pump(outlet, events, origin, meters), on);
    }

    /// Waits until all events are forwarded after the runtime has ended, but at most `patience`.
    pub async fn finish(mut self, patience: Duration) {
        let all = async { while self.tasks.join_next().await.is_some() {} };
        if tokio::time::timeout(patience, all).await.is_err() {
            tracing::warn!(target: "tiffany::sink", "events that a sink has not taken are lost");
        }
    }
}

#[cfg(not(all(feature = "redis", feature = "nats")))]
fn not_built(section: &'static str, url: &Address) -> SinkError {
    SinkError {
        what: url.to_string(),
        why: format!("this program was built without the feature `{section}`"),
        section,
    }
}
