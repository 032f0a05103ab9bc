//! OpenTelemetry: the spans of runs, and the metrics, sent to a collector as OTLP over HTTP with JSON. It is done on a thread of its own, and nobody waits for
//! it: what a collector that is away cannot be told in time is dropped, and counted.
//!
//! A durable run is one trace, whose id is the run's UUID, over restarts too.

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
