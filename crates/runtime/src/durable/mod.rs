//! Durable runs: what they do is written to the log before anything that depends on it leaves the process, so
//! that they can be stopped at any instruction and go on where they were.

pub(crate) mod cancel;
pub(crate) mod cancellation;
pub(crate) mod commit;
pub(crate) mod continuing;
pub(crate) mod dry_run;
pub(crate) mod earlier;
pub(crate) mod failed_log;
pub(crate) mod few;
pub(crate) mod fork;
pub(crate) mod forking;
pub(crate) mod hold;
pub(crate) mod hold_state;
pub(crate) mod hosting;
pub(crate) mod journal;
pub(crate) mod keeping;
pub(crate) mod known_runs;
pub(crate) mod language;
pub(crate) mod listing;
pub(crate) mod log;
pub(crate) mod memory_gauge;
pub(crate) mod needed;
pub(crate) mod page;
pub(crate) mod post;
pub(crate) mod pressure;
pub(crate) mod registry;
pub(crate) mod resume;
pub(crate) mod retention;
pub(crate) mod run_limits;
pub(crate) mod runs;
pub(crate) mod schema;
pub(crate) mod service;
pub(crate) mod serving;
pub(crate) mod shelved;
pub(crate) mod snapshot;
pub(crate) mod steps;
pub(crate) mod unread;

use serde::de::DeserializeOwned;
use tiffany_kernel::SystemCall;

use crate::calls::call::{Call, TryCall};

pub use crate::calls::approve::{Approve, approve};
pub use crate::calls::continue_as::{Never, continue_as};
pub use crate::calls::durable_agent::{DurableAgent, DurableTask};
pub use crate::calls::durable_promise::{DurablePromise, external_promise};
pub use crate::calls::question::{Answering, on_question};
pub use crate::calls::retry::Retry;
pub use crate::calls::saga::{Saga, SagaError, SagaStep, saga};
pub use crate::calls::send::send;
pub use crate::calls::step::{Step, step, step_async, step_transactional, step_with};
pub use crate::calls::written::Written;
pub use crate::host::attempt::{Attempt, SpawnedFuture, Spawner, StepError};
pub use crate::host::checkpoint::Checkpoint;
pub use crate::host::chunks::Chunk;
pub use crate::host::showing::attempt;
pub use crate::time_travel::travel::{Moment, TaskMoment, TimeTravel};
pub use crate::time_travel::trial::{Check, Checked, Trial};
pub use language::{Language, Wanted, Way};
pub use resume::proposal::Proposal;
pub use resume::rehearsal::Upcoming;
pub use run_limits::RunLimits;
pub use runs::DurableRun;
pub use steps::queue::{QueueSettings, Rate};
pub use tiffany_records::key::run_id;
pub use tiffany_records::request::Approval;
pub use tiffany_records::request::Fork;

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
