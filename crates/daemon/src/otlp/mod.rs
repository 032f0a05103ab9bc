//! OpenTelemetry: the spans of runs, and the metrics, sent to a collector as OTLP over HTTP with JSON. It is done on a thread of its own, and nobody waits for
//! it: what a collector that is away cannot be told in time is dropped, and counted.
//!
//! A durable run is one trace, whose id is the run's UUID, over restarts too.

mod exporter;
mod json;
mod post;
mod spans;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde::Deserialize;
use tiffany::RuntimeHandle;
use tiffany::metrics::{Family, Kind, Reading};

pub use exporter::Exporter;
use exporter::Queue;
use post::Endpoint;
pub use spans::SpanLayer;

/// Where telemetry is sent.
///
/// ```
/// use tiffany_daemon::otlp::Settings;
///
/// let settings: Settings = toml::from_str("endpoint = 'http://127.0.0.1:4318'").unwrap();
/// assert_eq!(settings.service, "tiffany");
/// ```
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Settings {
    /// The collector, as `http://HOST:PORT`; `/v1/traces` and `/v1/metrics` are added.
    pub endpoint: String,
    /// Headers to be sent along.
    #[serde(default)]
    pub headers: std::collections::BTreeMap<String, String>,
    /// What this is called there: `service.name`.
    #[serde(default = "default_service")]
    pub service: String,
    /// Every how many seconds metrics are sent; 0: never.
    #[serde(default = "default_every")]
    pub metrics_every_seconds: u64,
}

fn default_service() -> String {
    "tiffany".into()
}

fn default_every() -> u64 {
    30
}

impl Settings {
    /// With everything else as it is by default.
    pub fn new(endpoint: impl Into<String>) -> Settings {
        Settings {
            endpoint: endpoint.into(),
            headers: Default::default(),
            service: default_service(),
            metrics_every_seconds: default_every(),
        }
    }
}

/// Headers may have secrets.
impl std::fmt::Debug for Settings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Settings")
            .field("endpoint", &crate::sinks::Address::new(&*self.endpoint))
            .field("headers", &self.headers.keys())
            .field("service", &self.service)
            .field("metrics_every_seconds", &self.metrics_every_seconds)
            .finish()
    }
}

/// Why telemetry cannot be sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "telemetry cannot be sent: {0} [TFY0197]; give the address of a collector that speaks OTLP over HTTP, such as http://127.0.0.1:4318"
)]
pub struct OtlpError(String);

impl OtlpError {
    /// The code of all of them.
    pub const CODE: &str = "TFY0197";

    /// The stable code.
    pub fn code(&self) -> &'static str {
        OtlpError::CODE
    }
}

/// What was sent and what was not.
#[derive(Debug, Default)]
struct Counts {
    spans: AtomicU64,
    dropped_spans: AtomicU64,
    metrics: AtomicU64,
    failures: AtomicU64,
}

impl Counts {
    fn families(&self) -> Vec<Family> {
        let count = |counter: &AtomicU64| Reading::Value(counter.load(Ordering::Relaxed) as f64);
        let mut sent = Family::new(
            "tiffany_otlp_sent_total",
            Kind::Counter,
            "Spans, and sets of metrics, that a collector has taken.",
        );
        sent.add(&[("signal", "traces")], count(&self.spans));
        sent.add(&[("signal", "metrics")], count(&self.metrics));
        let mut dropped = Family::new(
            "tiffany_otlp_dropped_total",
            Kind::Counter,
            "Spans that were dropped because the collector was away, too slow, or refused them.",
        );
        dropped.add(&[("signal", "traces")], count(&self.dropped_spans));
        let mut failures = Family::new(
            "tiffany_otlp_failures_total",
            Kind::Counter,
            "How often the collector could not be reached or did not take what it was sent.",
        );
        failures.add(&[], count(&self.failures));
        vec![sent, dropped, failures]
    }
}

/// Begins to send telemetry. The layer is for the subscriber of the program; spans that begin after it is set are sent. Metrics are sent from when
/// [`Exporter::watch`] is told of a runtime.
///
/// ```no_run
/// use std::time::Duration;
/// use tiffany_daemon::otlp::{Settings, start};
/// use tracing_subscriber::layer::SubscriberExt;
/// use tracing_subscriber::util::SubscriberInitExt;
///
/// let (layer, exporter) = start(&Settings::new("http://127.0.0.1:4318"), "blade-1")?;
/// tracing_subscriber::registry().with(layer).init();
/// let mut runtime = tiffany::Runtime::new()?;
/// exporter.watch(&runtime.handle());
/// runtime.run(async {})?;
/// exporter.finish(Duration::from_secs(5));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn start(settings: &Settings, node: &str) -> Result<(SpanLayer, Exporter), OtlpError> {
    let endpoint = Endpoint::parse(settings)?;
    let (counts, queue) = (Arc::new(Counts::default()), Arc::new(Queue::default()));
    let layer = SpanLayer::new(Arc::clone(&queue), Arc::clone(&counts));
    let resource = json::resource(&settings.service, node);
    let every = settings.metrics_every_seconds;
    let every = (every > 0).then(|| Duration::from_secs(every));
    let exporter = Exporter::start(endpoint, resource, queue, counts, every)
        .map_err(|error| OtlpError(format!("the system gives no thread: {error}")))?;
    Ok((layer, exporter))
}

/// The runtime whose metrics are sent.
type Measured = std::sync::Mutex<Option<RuntimeHandle>>;
