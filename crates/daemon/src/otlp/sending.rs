//! Starts sending telemetry, and counts what is sent.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tiffany::RuntimeHandle;
use tiffany::metrics::{Family, Kind, Reading};

use super::exporter::{Exporter, Queue};
use super::json;
use super::post::Endpoint;
use super::spans::SpanLayer;
use crate::otlp::settings::{OtlpError, Settings};

/// Counters of sent and dropped telemetry.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) spans: AtomicU64,
    pub(super) dropped_spans: AtomicU64,
    pub(super) metrics: AtomicU64,
    pub(super) failures: AtomicU64,
}

impl Counts {
    pub(super) fn families(&self) -> Vec<Family> {
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
            "How often the collector could not be reached or refused the data.",
        );
        failures.add(&[], count(&self.failures));
        vec![sent, dropped, failures]
    }
}

/// Starts to send telemetry. Add the returned layer to the program's subscriber: spans that begin
/// afterwards are sent. Metrics are sent once [`Exporter::watch`] has a runtime.
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
        .map_err(|error| OtlpError(format!("the system cannot start a thread: {error}")))?;
    Ok((layer, exporter))
}

/// The runtime whose metrics are sent.
pub(super) type Measured = std::sync::Mutex<Option<RuntimeHandle>>;
