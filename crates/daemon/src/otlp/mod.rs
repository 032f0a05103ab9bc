//! OpenTelemetry: the spans of runs and the metrics, sent to a collector as OTLP over HTTP with
//! JSON. A separate thread sends them, and nothing waits for it: while a collector is unavailable,
//! spans beyond the size of the queue are dropped and counted.
//!
//! A durable run is one trace, whose id is the run's UUID, across restarts too.

#[cfg(feature = "otlp")]
mod exporter;
#[cfg(feature = "otlp")]
mod json;
#[cfg(feature = "otlp")]
mod post;
mod settings;
#[cfg(feature = "otlp")]
mod spans;

#[cfg(feature = "otlp")]
mod sending;

#[cfg(feature = "otlp")]
pub use exporter::Exporter;
#[cfg(feature = "otlp")]
pub use sending::start;
pub use settings::{OtlpError, Settings};
#[cfg(feature = "otlp")]
pub use spans::SpanLayer;
