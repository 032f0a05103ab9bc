//! What a runtime counts and measures of itself, for Prometheus and others. Tasks pay nothing for it: what happens often is counted where the loop looks
//! outside anyway, what is so at present is counted when somebody asks, and everything else costs a few additions beside work that takes much longer.
//!
//! [`Runtime::metrics`](crate::runtime::Runtime::metrics) and [`RuntimeHandle::metrics`](crate::handle::RuntimeHandle::metrics) read it all; the book's chapter
//! "Metrics" says what each one means.
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
pub(crate) mod meter;
pub(crate) mod meters;
pub(crate) mod process;
pub(crate) mod reading;
pub(crate) mod standing;
pub(crate) mod stretch;

use std::sync::Arc;

pub use tiffany_records::metrics::{
    About, Buckets, CATALOGUE, CONTENT_TYPE, Family, Kind, Reading, Sample, Snapshot,
};

use crate::calls::context;
use crate::handle::RuntimeHandle;
use crate::host::inbox::{Inbox, Letter};
use crate::runtime::Runtime;

/// Somebody else who has metrics. It is called on the thread of whoever reads them.
pub type Source = Arc<dyn Fn() -> Vec<Family> + Send + Sync>;

impl Runtime {
    /// What it has counted and measured so far.
    pub fn metrics(&self) -> Snapshot {
        self.measure();
        self.host.inbox.meters.read()
    }
}

impl RuntimeHandle {
    /// What the runtime has counted and measured so far. The loop is asked how it stands, and if it does not answer soon, what it said last is told:
    /// `tiffany_metrics_age_seconds` says how old that is.
    ///
    /// ```
    /// use tiffany::Runtime;
    ///
    /// let mut runtime = Runtime::new()?;
    /// let handle = runtime.handle();
    /// runtime.run(async {})?;
    /// let text = std::thread::spawn(move || handle.metrics().to_string()).join().unwrap();
    /// assert!(text.contains("tiffany_runs_started_total{kind=\"ephemeral\"} 1\n"));
    /// # Ok::<(), tiffany::RunError>(())
    /// ```
    pub fn metrics(&self) -> Snapshot {
        read(self.inbox())
    }

    /// Adds metrics of one's own to those of the runtime.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use tiffany::Runtime;
    /// use tiffany::metrics::{Family, Kind, Reading};
    ///
    /// let runtime = Runtime::new()?;
    /// runtime.handle().add_metrics(Arc::new(|| {
    ///     let mut mails = Family::new("mails_total", Kind::Counter, "Mails that were sent.");
    ///     mails.add(&[], Reading::Value(3.0));
    ///     vec![mails]
    /// }));
    /// assert_eq!(runtime.metrics().value("mails_total", &[]), Some(3.0));
    /// # Ok::<(), tiffany::RunError>(())
    /// ```
    pub fn add_metrics(&self, source: Source) {
        self.inbox().meters.sources.lock().push(source);
    }
}

/// Reads all meters of the runtime with this inbox, on any thread.
pub(crate) fn read(inbox: &Inbox) -> Snapshot {
    // On the loop's own thread nobody would answer.
    if context::current().host().is_none() && !inbox.is_closed() {
        inbox.meters.ask(|| inbox.send(Letter::Measure));
    }
    inbox.meters.read()
}
