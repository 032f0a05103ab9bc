//! The heart of Tiffany: a cooperative, deterministic scheduler that touches nothing of the world.
//!
//! A [`Run`] is a root task with every task it spawned. Its host gives it rounds, completions and the
//! time; it leaves what must happen in its outbox ([`Order`], [`Event`]). The same calls and the same
//! completions give the same run, every time: that is what makes a run replayable, and it is why this
//! crate has no clock, file, socket, thread, random number or unordered map.
//!
//! The way of a system call: a [`Coroutine`] leaves it in the [`Port`]; `scheduler.rs` accepts it when
//! the coroutine returns, past the task's [`Handler`]s; the call's own file under `calls/` answers it or
//! registers it; what the host must do goes to the outbox; a [`Completion`] or another task's call
//! answers it; `scheduler.rs` makes the task ready again.
//!
//! People use the crate `tiffany`, which has the hosts and the API around this.

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

pub use call::{
    Asking, CallKind, Claim, EffectWork, GatherMode, Handlers, Message, Permits, Reply,
    SpawnOptions, SystemCall,
};
pub use census::Census;
pub use config::{End, Events, Limits, Mode, Rules, RunConfig};
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
