//! Durable runs: what they do is written to the log before anything that depends on it leaves the process, so
//! that they can be stopped at any instruction and go on where they were.

mod agent;
mod cancellation;
pub(crate) mod capture;
mod commit;
mod continuing;
mod damage;
mod earlier;
mod failed_log;
mod few;
mod finite;
mod fork;
pub(crate) mod hold;
mod hosting;
mod journal;
mod json;
mod keeping;
mod known_runs;
mod language;
mod listing;
mod log;
mod memory_gauge;
mod page;
mod plain;
mod post;
mod pressure;
mod promise;
mod question;
mod registry;
pub(crate) mod resume;
mod run_limits;
pub(crate) mod runs;
mod schema;
mod service;
mod serving;
pub(crate) mod shelved;
mod snapshot;
mod steps;
mod travel;
pub(crate) mod trial;
mod unread;

use serde::de::DeserializeOwned;
use tiffany_kernel::SystemCall;

use crate::call::{Call, TryCall};

pub use crate::approval::{Approval, Approve, approve};
pub(crate) use agent::foreign;
pub use agent::{DurableAgent, DurableTask};
pub(crate) use continuing::continue_with;
pub use continuing::{Never, continue_as};
pub use damage::Lost;
pub(crate) use damage::lost;
pub use fork::Fork;
pub(crate) use fork::{Source, copy};
pub(crate) use hosting::{Durable, Hosting};
pub use json::Written;
pub(crate) use json::{Json, decode, deserialize, encode};
pub(crate) use keeping::{Needed, Parent, not_over, parent_of, read_too_early};
pub(crate) use known_runs::RunStates;
pub use language::{Language, Wanted, Way};
pub(crate) use log::CommitTime;
pub(crate) use memory_gauge::MemoryGauge;
pub(crate) use page::Page;
pub(crate) use plain::{accept, check_readable, marked, unmark};
pub(crate) use post::Sending;
pub use post::{run_id, send};
pub use promise::{DurablePromise, external_promise};
pub use question::{Answering, on_question};
pub(crate) use question::{Questions, answer_json};
pub(crate) use registry::Registry;
pub use resume::proposal::Proposal;
pub use resume::rehearsal::Upcoming;
pub(crate) use resume::replay::Sources;
pub(crate) use resume::resuming::{fetch, log_failed, read_outcome, read_script};
pub use run_limits::RunLimits;
pub use runs::DurableRun;
pub(crate) use runs::{Stand, refuse_ambiguous, uuid_of};
pub(crate) use serving::{not_in_doubt, own, parse_key, raw, run_over};
pub(crate) use shelved::{Shelved, why_not_open};
pub use steps::attempt::{Attempt, SpawnedFuture, Spawner, StepError};
pub(crate) use steps::attempt::{Blocking, Job as StepJob, Stop, Tried};
pub use steps::checkpoint::Checkpoint;
pub(crate) use steps::checkpoint::Receipt;
pub use steps::chunks::Chunk;
pub(crate) use steps::chunks::OnChunk;
pub(crate) use steps::effects::{EffectStates, Effects};
pub use steps::queue::{QueueSettings, Rate};
pub use steps::retry::Retry;
pub(crate) use steps::retry::mixed;
pub use steps::saga::{Saga, SagaError, SagaStep, saga};
pub use steps::showing::attempt;
pub(crate) use steps::showing::working;
pub(crate) use steps::slots::{DEFAULT_SLOTS, Slot, SlotUsage};
pub(crate) use steps::step::StepWork;
pub use steps::step::{Step, step, step_async, step_transactional, step_with};
pub use travel::{Moment, TaskMoment, TimeTravel};
pub use trial::{Check, Checked, Trial};

/// Takes the next message that was sent to this run under this name, waiting for one.
#[track_caller]
pub fn receive<T: DeserializeOwned + 'static>(name: &str) -> TryCall<T, Written> {
    TryCall::new(SystemCall::ReceiveMessage(name.into()))
}

/// Whether this run takes the new way at a change of the program. A run that had gone past this place before the program had this line
/// takes the old way, here and wherever this id is asked for, to its end. One that had not come so far takes the new one, as all new
/// runs do.
///
/// ```
/// # async fn charge() -> Result<u32, tiffany::TaskError> { Ok(1) }
/// # async fn charge_with_tax() -> Result<u32, tiffany::TaskError> { Ok(2) }
/// use tiffany::durable::patched;
///
/// tiffany::try_run(async {
///     let paid = match patched("tax").await {
///         true => charge_with_tax().await?,
///         false => charge().await?,
///     };
///     assert_eq!(paid, 2);
///     Ok::<(), tiffany::TaskError>(())
/// })?;
/// # Ok::<(), tiffany::RunError>(())
/// ```
#[track_caller]
pub fn patched(id: &str) -> Call<bool> {
    Call::new(SystemCall::Patched(id.into(), true))
}
