//! A deterministic cooperative runtime and durable coroutines on top of it. Tasks are `async`
//! blocks on one thread, and everything they do passes through one scheduler.
//!
//! Tasks make system calls: [`spawn`], [`wait`], [`gather`], [`race`], [`cancel`], [`sleep`],
//! [`promise`] and others. Ordinary nested `async` code works unchanged.
//!
//! ```
//! use tiffany::prelude::*;
//! use std::time::Duration;
//!
//! fn main() -> Result<(), tiffany::RunError> {
//!     tiffany::try_run(async {
//!         let hello = spawn(async { "hello" }).await;
//!         let world = spawn(async {
//!             sleep(Duration::from_millis(5)).await;
//!             "world"
//!         })
//!         .await;
//!         println!("{}", gather([hello, world]).await?.join(", "));
//!         Ok::<(), TaskError>(())
//!     })
//! }
//! ```
//!
//! Every call is a scheduling point, and tasks run first in, first out. The same program with the
//! same answers always takes the same path.

mod activity;
pub mod binding;
mod calls;
mod clock;
#[doc(hidden)]
pub mod command;
pub mod control;
mod did_you_mean;
pub mod durable;
pub mod fs;
mod handle;
mod host;
pub mod io;
mod line;
#[cfg(feature = "logging")]
pub mod logging;
pub mod metrics;
pub mod net;
pub mod pal;
mod primitives;
pub mod process;
mod program;
pub mod retention;
mod run_log;
mod runtime;
pub mod signal;
pub mod testing;
mod time_travel;
pub mod units;
mod watchdog;

use std::fmt::Display;
use std::future::Future as StdFuture;

pub use calls::agent_task::{AgentTask, TaskContext, TaskStatus};
pub use calls::approve::{Approve, approve};
pub use calls::call::{Call, Cloned, Decode, Direct, FromReply, Moved, Optional, TryCall, Yield};
pub use calls::channel::{Received, Receiver, Sender, channel, unbounded_channel};
#[doc(hidden)]
pub use calls::combine;
pub use calls::combine::{join_all, timeout};
pub use calls::group::{Group, group};
pub use calls::handler::{CustomCall, answer_with, answering, call, handler, try_answer_with};
pub use calls::promise::{
    Complete, ExternalPromise, Future, NewPromise, Promise, external_promise, promise,
};
pub use calls::sync::{Acquire, Mutex, MutexGuard, NewMutex, Permit, Semaphore, mutex, semaphore};
pub use calls::sys::{
    Named, Spawn, TrySpawn, ask, blocking, cancel, charge, get, get_handlers, get_log, get_tid,
    kill_task, named, new_uuid, now, put, random, read_wait, sleep, sleep_secs, sleep_until, spawn,
    spawn_agent, tell, try_spawn, wait_task, write_wait, yield_now,
};
pub use calls::task::{
    Gather, GatherSettled, Race, RaceResult, Task, Wait, Waitable, gather, gather_settled, race,
    wait,
};
pub use handle::{RuntimeHandle, handle};
pub use runtime::builder::Builder;
pub use runtime::{RunHandle, Runtime};
pub use tiffany_kernel::{
    BlockReason, CallKind, Candidate, Claim, Counts, DeadlockError, DependencyAware, End,
    ErrorKind, Event, EventKind, Handler, Limits, Policy, Priority, Reply, RunId, Site, SystemCall,
    TaskError, TaskInfo, TaskLabel, TaskState, Tid, Time, Uuid, Value, Verdict, Waiting,
};
pub use tiffany_log::{self as wal, descriptors};
pub use tiffany_records::request::{Approval, Settlement};
pub use tiffany_records::{self as history, RunError, redact};
pub use watchdog::StuckTask;

/// The types of calls and their replies. Programs need them to write handlers, policies or state
/// machines.
///
/// ```
/// use tiffany::kernel::{GatherMode, Waitable};
/// use tiffany::{SystemCall, Verdict, handler};
///
/// // Counts what is waited for.
/// let counts = handler("counts", |call, _| {
///     let of: &[Waitable] = match call {
///         SystemCall::Wait(one, _) => std::slice::from_ref(one),
///         SystemCall::Gather(all, GatherMode::FailFast | GatherMode::Settle, _) => all,
///         _ => &[],
///     };
///     println!("{}", of.len());
///     Verdict::Pass
/// });
/// # let _ = counts;
/// ```
pub mod kernel {
    pub use tiffany_kernel::{
        Asking, BoxCoroutine, CallId, Coroutine, EffectWork, Frame, GatherMode, Handlers, Message,
        Object, ObjectRef, Permits, Port, Release, Rules, RunFailure, SpawnOptions, Step, TaskRef,
        Trace, Unwind, Waitable, WrongType,
    };
}

/// Runs a future as the root task of a new run, and returns its value when all tasks of the run are
/// finished.
///
/// ```
/// let six = tiffany::run(async { 6 })?;
/// assert_eq!(six, 6);
/// # Ok::<(), tiffany::RunError>(())
/// ```
#[track_caller]
pub fn run<F>(root: F) -> Result<F::Output, RunError>
where
    F: StdFuture + 'static,
    F::Output: 'static,
{
    let mut runtime = Runtime::new()?;
    runtime.run(root)
}

/// Runs a root that can fail as the root task of a new run. Its error is the error of the run.
///
/// ```
/// let error = tiffany::try_run(async { Err::<(), _>("no") }).unwrap_err();
/// assert_eq!(error.code(), "TFY0001");
/// ```
#[track_caller]
pub fn try_run<F, T, E>(root: F) -> Result<T, RunError>
where
    F: StdFuture<Output = Result<T, E>> + 'static,
    T: 'static,
    E: Display + 'static,
{
    let mut runtime = Runtime::new()?;
    runtime.try_run(root)
}

/// The items that most programs use.
pub mod prelude {
    pub use crate::{
        End, Promise, RunError, Runtime, Task, TaskError, ask, blocking, cancel, channel,
        external_promise, gather, gather_settled, get, get_tid, group, join, join_all, mutex,
        named, now, promise, put, race, select, semaphore, sleep, sleep_until, spawn, tell,
        timeout, try_spawn, unbounded_channel, wait, yield_now,
    };
}

/// Tests the code of the README and of the book.
#[cfg(doctest)]
mod book {
    #[doc = include_str!("../../../README.md")]
    mod readme {}
    #[doc = include_str!("../../../docs/src/guide.md")]
    mod guide {}
    #[doc = include_str!("../../../docs/src/io.md")]
    mod io {}
    #[doc = include_str!("../../../docs/src/durable.md")]
    mod durable {}
    #[doc = include_str!("../../../docs/src/attributes.md")]
    mod attributes {}
    #[doc = include_str!("../../../docs/src/effects.md")]
    mod effects {}
    #[doc = include_str!("../../../docs/src/approvals.md")]
    mod approvals {}
    #[doc = include_str!("../../../docs/src/activity.md")]
    mod activity {}
    #[doc = include_str!("../../../docs/src/time-travel.md")]
    mod time_travel {}
    #[doc = include_str!("../../../docs/src/metrics.md")]
    mod metrics {}
    #[doc = include_str!("../../../docs/src/redaction.md")]
    mod redaction {}
    #[doc = include_str!("../../../docs/src/testing.md")]
    mod testing {}
    #[cfg(feature = "logging")]
    #[doc = include_str!("../../../docs/src/logging.md")]
    mod logging {}
}
