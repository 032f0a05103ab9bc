//! The activity log, given on to servers of others: Redis Streams and NATS. Each sink is a task on the side threads that reads a subscription of the hub. No
//! run waits for it. While its server is away it reads nothing, so what waits is what the hub keeps, and no more; what is lost meanwhile it counts, logs, and
//! tells in the stream itself.
//!
//! An event may come twice, after a connection that broke at the wrong moment: `epoch` and `seq` tell.

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

/// Where the activity log is given on to.
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
    /// To Redis Streams.
    pub redis: Option<RedisSettings>,
    /// To NATS.
    pub nats: Option<NatsSettings>,
}

/// Redis Streams: `STREAM` has the events of all runs, `STREAM:RUN` those of one.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct RedisSettings {
    /// The server, as `redis://` or `rediss://`; user and password may be in it.
    pub url: Address,
    /// What the streams are called.
    #[serde(default = "default_name")]
    pub stream: String,
    /// About how many events the stream of all runs keeps.
    #[serde(default = "default_keep")]
    pub keep: u64,
    /// The same for the stream of one run.
    #[serde(default = "default_keep_run")]
    pub keep_run: u64,
    /// After how many seconds without an event the stream of a run is forgotten.
    #[serde(default = "default_forget")]
    pub forget_run_seconds: u64,
    /// Whether turns are told too.
    #[serde(default)]
    pub all: bool,
}

/// NATS: the subject of an event is `SUBJECT.NODE.RUN.STAGE`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct NatsSettings {
    /// The server, as `nats://` or `tls://`; user and password, or a token, may be in it.
    pub url: Address,
    /// What the subjects begin with.
    #[serde(default = "default_name")]
    pub subject: String,
    /// Whether turns are told too.
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
    /// With everything else as it is by default.
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
    /// With everything else as it is by default.
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
    /// The code of all of them.
    pub const CODE: &str = "TFY0196";

    /// The stable code.
    pub fn code(&self) -> &'static str {
        SinkError::CODE
    }
}

/// Sinks at work.
pub struct Sinks {
    tasks: JoinSet<()>,
}

impl Sinks {
    /// Starts all sinks that are wanted, for the activity of a runtime. `node` is what this machine is called.
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
        // What the log brought back before there was a sink is told too.
        let events = hub.subscribe(Wanted::new().from(1).detail(detail));
        let origin = Origin { node: node.to_owned(), epoch: hub.epoch() };
        let meters = Arc::new(SinkMeters::new(O::KIND));
        let families = Arc::clone(&meters);
        runtime.add_metrics(Arc::new(move || families.families()));
        self.tasks.spawn_on(pump(outlet, events, origin, meters), on);
    }

    /// Waits until all is given on after the runtime is gone, but no longer than this.
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
