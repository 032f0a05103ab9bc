//! The kernel of Tiffany: a cooperative, deterministic scheduler without I/O.
//!
//! A [`Run`] is a root task and every task it spawned. The host gives it rounds, completions and
//! the time; the run leaves work for the host in its outbox ([`Order`], [`Event`]). The same calls
//! and the same completions always give the same run. That makes runs replayable, and it is why
//! this crate has no clock, file, socket, thread, random number generator or unordered map.
//!
//! The path of a system call: a [`Coroutine`] leaves it in the [`Port`]. When the coroutine
//! returns, `scheduler.rs` accepts the call and passes it through the task's [`Handler`]s. The
//! call's own file under `calls/` answers or registers it, and leaves work for the host in the
//! outbox. Later a [`Completion`], or a call of another task, answers it, and `scheduler.rs` makes
//! the task ready again.
//!
//! Programs use the crate `tiffany`, which has the hosts and the API.

mod annotation;
mod attributes;
mod call;
mod calls;
mod census;
mod config;
mod coroutine;
mod deadlock;
mod ending;
mod error;
mod handler;
mod id;
mod intercept;
mod outbox;
mod outstanding;
mod planning;
mod policy;
mod rare;
mod ready;
mod record;
mod run;
mod scheduler;
mod shown;
mod sight;
mod snapshot;
mod state;
mod store;
mod task;
mod tids;
mod time;
mod timer;
mod value;
mod waiters;

pub use annotation::{Annotation, AnnotationKind, RecordedCall};
pub use attributes::{AttributeChange, AttributeValue, Attributes};
pub use call::{
    Asking, CallKind, Claim, EffectWork, GatherMode, Handlers, Message, Permits, Reply,
    SpawnOptions, SystemCall,
};
pub use census::Census;
pub use config::{Deadline, End, Events, Limits, Mode, Rules, RunConfig};
pub use coroutine::{BoxCoroutine, Coroutine, Port, Release, Step, Unwind};
pub use deadlock::{DeadlockError, Waiting};
pub use ending::forced_end;
pub use error::{ErrorKind, Site, TaskError, TaskLabel, Trace, panic_text};
pub use handler::{Handler, Verdict};
pub use id::{CallId, ObjectRef, RunId, TaskRef, Tid, Uuid, Waitable};
pub use outbox::{Asked, CallRef, Completion, Event, EventKind, Interest, Order};
pub use policy::{Candidate, DependencyAware, Policy, Priority};
pub use record::{About, CallRecord, Record, RecordKind, Recording};
pub use run::{Counts, Run, RunFailure, TaskInfo};
pub use shown::{LogLevel, Showing, Shown, Stage};
pub use sight::{Frame, Sight};
pub use snapshot::{EndedTask, HeldPromise, LiveTask, Names, Saved, Tables};
pub use state::{BlockReason, TaskState};
pub use store::Env;
pub use time::Time;
pub use value::{Object, Value, WrongType};
