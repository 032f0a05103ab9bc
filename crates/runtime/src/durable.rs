//! Durable runs. What they do is written to the log before anything that depends on it leaves the
//! process, so that they can be stopped at any instruction and resumed where they were.

pub use crate::calls::annotate::{Annotate, annotate};
pub use crate::calls::approve::{Approve, approve};
pub use crate::calls::attributes::{
    add_tags, change_attributes, remove_attributes, remove_tags, set_attributes,
};
pub use crate::calls::continue_as::{Never, continue_as};
pub use crate::calls::durable_agent::{DurableAgent, DurableTask};
pub use crate::calls::durable_promise::{DurablePromise, external_promise};
pub use crate::calls::question::{Answering, on_question};
pub use crate::calls::receive::{patched, receive};
pub use crate::calls::retry::Retry;
pub use crate::calls::saga::{Saga, SagaError, SagaStep, saga};
pub use crate::calls::send::send;
pub use crate::calls::step::{Step, step, step_async, step_transactional, step_with};
pub use crate::calls::written::Written;
pub use crate::host::attempt::{Attempt, SpawnedFuture, Spawner, StepError};
pub use crate::host::checkpoint::Checkpoint;
pub use crate::host::chunks::Chunk;
pub use crate::host::step_output::attempt;
pub use crate::program::language::{Language, Wanted, Way};
pub use crate::program::run_limits::RunLimits;
pub use crate::run_log::replay::dry_run::Upcoming;
pub use crate::run_log::replay::proposal::Proposal;
pub use crate::runtime::durable_runs::DurableRun;
pub use crate::runtime::step_queue::{QueueSettings, Rate};
pub use crate::time_travel::travel::{Moment, TaskMoment, TimeTravel};
pub use crate::time_travel::trial::{Check, Checked, Trial};
pub use tiffany_kernel::{AnnotationKind, AttributeChange, AttributeValue, Attributes};
pub use tiffany_records::key::run_id;
pub use tiffany_records::request::Approval;
pub use tiffany_records::request::Fork;
pub use tiffany_records::request::Lost;
pub use tiffany_records::request::{StartDeadline, StartOptions};
