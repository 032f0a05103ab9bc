//! The activity log: what runs are doing, told while they do it. The [log](tiffany_log) says what happened and outlives the process; this is
//! of the moment, and lost with it.
//!
//! A [`Hub`] has the events of all runs of a runtime. It keeps the last of them, of each run and in all, and gives them to whoever
//! [subscribes](Hub::subscribe), from any thread. No reader slows a task: one that is too slow loses the oldest events and is told how many.
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
