//! The metrics of a runtime, for Prometheus and others. Tasks pay nothing for them: frequent things
//! are counted where the loop polls anyway, present values are counted when they are read, and
//! everything else costs a few additions beside work that takes much longer.
//!
//! [`Runtime::metrics`](crate::runtime::Runtime::metrics) and
//! [`RuntimeHandle::metrics`](crate::handle::RuntimeHandle::metrics) read all of them; the book's
//! chapter "Metrics" explains each one.
//!
//! ```
//! use tiffany::Runtime;
//! use tiffany::durable::step;
//!
//! let mut runtime = Runtime::new()?;
//! runtime.try_run(async { step("greet", || Ok::<_, String>("hello".to_string())).await })?;
//! let metrics = runtime.metrics();
//! let greeted = metrics.value("tiffany_effect_attempts_total", &[("step", "greet"), ("outcome", "ok")]);
//! assert_eq!(greeted, Some(1.0));
//! # Ok::<(), tiffany::RunError>(())
//! ```

pub(crate) mod disk;
pub(crate) mod loop_state;
pub(crate) mod meter;
pub(crate) mod meters;
pub(crate) mod process;
pub(crate) mod report;
pub(crate) mod stretch;

use std::sync::Arc;

pub use tiffany_records::metrics::{
    About, Buckets, CATALOGUE, CONTENT_TYPE, Family, Kind, Reading, Sample, Snapshot,
};

/// Another source of metrics. It is called on the thread of the reader.
pub type Source = Arc<dyn Fn() -> Vec<Family> + Send + Sync>;
