//! Crashes a durable workflow everywhere, and checks that it continues as if nothing had happened.
//!
//! ```no_run
//! use tiffany::TaskError;
//! use tiffany::durable::step;
//!
//! async fn order(item: String) -> Result<u32, TaskError> {
//!     let price: u32 = step("price", || Ok::<u32, String>(42)).input(&item).await?;
//!     step("charge", move || Ok::<u32, String>(price)).at_most_once().await
//! }
//!
//! tiffany_sim::crash_everywhere(order, "tea".to_string());
//! ```
//!
//! The workflow runs on a simulated machine ([`tiffany::testing::Simulation`]): one thread, a
//! virtual clock, and a disk that keeps only what was synced. It first runs undisturbed. Then it is
//! repeated for every disk operation and every attempt at a step, with a power failure at that
//! place: in the middle of a write after some bytes, or just before the step. The kernel and all
//! memory are lost; of the bytes that were not synced, the disk keeps none, all, or some, torn and
//! in any order. The machine restarts, often crashes again while it does, and runs to the end. The
//! workflow is also resumed from its undisturbed log cut after each record, from disks that fail
//! with EIO and ENOSPC at each operation, and from disks with a flipped bit.
//!
//! # What is checked
//!
//! **The outcome** of every run must equal that of the undisturbed simulation.
//!
//! **The effects** are checked with a ledger of all attempts that actually begin. A step that is
//! `at_most_once` begins at most once. An idempotent one has the same key each time and an
//! increasing number. No attempt begins before its start is in the log, or again after its result
//! is in the log. The same steps are performed.
//!
//! **The log** must still have, byte by byte, what was there after any earlier crash. It must have
//! everything that was reported as safe (the start of a run, a message, an answer, an outcome). At
//! the end, it must say the same as the undisturbed log: each task, identified by the way it was
//! spawned, made the same calls, of the same kind, name, source line and input, got the same
//! answers, and ended in the same way; and the same messages arrived under each name. Whatever a
//! crash may change is left out: times, numbers of records and turns, the order between tasks,
//! attempts and their failures (`EffectStart`, `EffectCheckpoint`, `EffectResult` with `retry_at`),
//! `TaskWake`, `ShutdownMarker`, and plain yields. UUIDs are compared by the call that drew them.
//!
//! A step that is `at_most_once` and was interrupted by a crash is in doubt, and its task gets that
//! error. The consequences of this are not compared. A disk with a flipped bit may be refused with
//! a code; if it is not, the outcome must be the same.
//!
//! Logs cut after a record are tried only without a separate world, because that would not match the
//! log.
//!
//! A workflow whose outcome depends on timing needs [`may_differ`](Crashes::may_differ).
//!
//! # Requirements for steps
//!
//! Steps run on the simulation's own thread when their time has come. This includes blocking steps,
//! and the futures of `step_async`, which run without the runtime they were written for. The state
//! that steps act upon belongs in a world of its own ([`Crashes::in_world`]), so that each
//! simulation begins with a new one.

#![forbid(unsafe_code)]

mod crashes;
#[doc(hidden)]
pub mod fuzzing;
mod ledger;
mod logs;
mod outside;
mod person;
mod plan;
#[doc(hidden)]
pub mod programs;
mod universe;
mod verdict;

use std::fmt::Display;
use std::future::Future;

use serde::Serialize;
use serde::de::DeserializeOwned;

pub use crashes::{Crashes, Failure, Report, Seen};
pub use ledger::Entry;
pub use outside::Question;
pub use plan::{Disaster, Plan};

/// Crashes a workflow everywhere. Panics with a description of the first problem, which ends with
/// the command that repeats it. [`Crashes`] has the options.
#[track_caller]
pub fn crash_everywhere<I, O, E, F, R>(workflow: F, input: I) -> Report
where
    I: Serialize + DeserializeOwned + 'static,
    O: Serialize + 'static,
    E: Display + 'static,
    F: Fn(I) -> R + Clone + 'static,
    R: Future<Output = Result<O, E>> + 'static,
{
    Crashes::of(workflow, input).check()
}

/// The chapter of the book, whose code is run as a test.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/src/crashes.md")]
mod book {}
