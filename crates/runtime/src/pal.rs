//! The activity log: live events that say what runs are doing. The [log](tiffany_log) records what
//! happened and outlives the process; activity is lost with the process.
//!
//! A [`Hub`] has the events of all runs of a runtime. It keeps the most recent ones, for each run
//! and for all runs together, and any thread can [subscribe](Hub::subscribe) to them. No reader
//! slows a task: a reader that is too slow loses the oldest events and is told how many.
//!
//! ```
//! use tiffany::Runtime;
//! use tiffany::pal::{Stage, Told, Wanted, progress};
//!
//! let mut runtime = Runtime::new()?;
//! let mut events = runtime.activity().subscribe(Wanted::new());
//! runtime.run(async {
//!     progress(1, 2, "half of it").await;
//! })?;
//! drop(runtime);
//!
//! let mut stages = Vec::new();
//! while let Some(told) = events.next() {
//!     match told {
//!         Told::Event(event) => stages.push(event.stage),
//!         Told::Lost { count } => panic!("{count} events were lost"),
//!     }
//! }
//! assert_eq!(stages, [Stage::Spawned, Stage::Progress, Stage::Completed, Stage::Completed]);
//! # Ok::<(), tiffany::RunError>(())
//! ```

pub use crate::activity::{Counts, Hub, Settings, Subscription, Timeout, Told};
pub use crate::calls::show::{log, output, progress, stage};
pub use tiffany_kernel::{LogLevel, Showing, Shown, Stage};
pub use tiffany_records::activity::{Activity, Data, Detail, StepData, TaskId, Wanted};
