//! Crashes a durable workflow everywhere, and checks that it goes on as if nothing had happened.
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
//! The workflow runs on a simulated machine ([`tiffany::testing::Simulation`]): one thread, a virtual clock, and a disk that
//! keeps only what was synced. It is run undisturbed first. Then it is run again for every operation of the disk and for every attempt at a
//! step, with the power going there: in the middle of a write after so many bytes, or just before the step. The
//! kernel and all memory are gone then; of the bytes that were not synced the disk keeps nothing, all, or some, torn and in no order. It is brought back, often
//! crashed again meanwhile, and goes to its end. It is brought back too from its undisturbed log cut after each record, from
//! disks that fail with EIO and ENOSPC at each operation, and from disks with a turned bit.
//!
//! # What is checked
//!
//! **The outcome** of every run is that of the undisturbed simulation.
//!
//! **The effects**, by a ledger that sees every attempt that is really begun: a step that is `at_most_once` is begun once at most; an
//! idempotent one has the same key each time and a higher number; nothing is begun before the log has that it is, nor again once the log has its result; and the
//! same steps are done.
//!
//! **The log**: what was there after a crash is there ever after, byte by byte; what anybody was told is safe (a run that was started, a
//! message, an answer, an outcome) is there; and at its end the log says the same as the undisturbed one. *The same* means: each
//! task, known by the way it was spawned, made the same calls, of the same kind, name, line and input, got the same answers, and ended alike; the
//! same messages came under each name. What a crash may change is left out: times, numbers of records and turns, the order between tasks, attempts and their
//! failures (`EffectStart`, `EffectCheckpoint`, `EffectResult` with `retry_at`), `TaskWake`, `ShutdownMarker`, plain yields; UUIDs are compared by the call that drew them.
//!
//! A step that is `at_most_once` and was cut off by the crash is in doubt, and its task is told so. What that changes is not compared.
//! A disk with a turned bit may be refused, with a code; if it is not, the outcome must be the same.
//!
//! A log cut after a record is tried only where there is no world of one's own, which would not know what the log says.
//!
//! A workflow whose outcome depends on when things happen says [`may_differ`](Crashes::may_differ).
//!
//! # What a step may be
//!
//! Steps run on the simulation's own thread: a blocking one when its time has come, a future of `step_async` too, without the
//! runtime it was meant for. What they act upon belongs into a world of their own ([`Crashes::in_world`]), so that each simulation begins afresh.

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

/// Crashes a workflow everywhere, and panics with an account of the first thing that is wrong, which ends with the one
/// command that repeats it. [`Crashes`] has the options.
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

/// The chapter of the book, whose code is run.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/src/crashes.md")]
mod book {}
