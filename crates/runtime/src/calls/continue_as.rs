//! `continue_as`: starting a run again with another input.

use crate::calls::call::{Decode, TryCall, unexpected};
use serde::Serialize;
use tiffany_kernel::{CallKind, Reply, SystemCall, TaskError};
use tiffany_records::value::encode;

/// Starts this run again, from its function with another input. It does not return. Nothing else is
/// left of the run, in memory or in its log, whose file is replaced by a new generation.
///
/// The run keeps its id, its UUID, the messages that it has not received, and the clients that wait
/// for its outcome. Its outstanding calls are withdrawn, as if the function had returned. Its
/// unsettled promises are gone, and settling one of them is an error. Keys of steps are not reused,
/// because they contain the generation. The run draws other random numbers, and its limits start
/// from zero.
///
/// Only the root may call this, and only when every other task of the run is finished. Otherwise
/// the error is [`CannotContinue`](tiffany_kernel::ErrorKind::CannotContinue); for an input that
/// the function cannot read it is [`Unreadable`](tiffany_kernel::ErrorKind::Unreadable). After an
/// error the run continues as before.
///
/// ```
/// use tiffany::durable::{continue_as, receive};
/// use tiffany::{Runtime, TaskError};
///
/// /// Counts messages, with a log of ten at most.
/// async fn count(mut sum: u64) -> Result<u64, TaskError> {
///     for _ in 0..10 {
///         match receive::<Option<u64>>("number").await? {
///             Some(number) => sum += number,
///             None => return Ok(sum),
///         }
///     }
///     continue_as(&sum).await
/// }
///
/// # let dir = std::env::temp_dir().join(format!("tiffany-doc-continue-{}", std::process::id()));
/// let mut runtime = Runtime::builder().log_dir(&dir).register("count", count).build()?;
/// let run = runtime.submit::<u64>("count", "counter", &0)?;
/// for number in 1..=25 {
///     runtime.send(&run, "number", &Some(number))?;
/// }
/// runtime.send(&run, "number", &None::<u64>)?;
/// assert_eq!(runtime.wait_for(&run)?, 325);
/// # drop(runtime);
/// # std::fs::remove_dir_all(&dir).unwrap();
/// # Ok::<(), tiffany::RunError>(())
/// ```
#[track_caller]
pub fn continue_as<R>(input: &impl Serialize) -> TryCall<R, Never> {
    let at = std::panic::Location::caller();
    match encode(input) {
        Ok(json) => TryCall::new_at(SystemCall::ContinueAs(json.into()), at),
        Err(error) => TryCall::bad_at(CallKind::ContinueAs, error, at),
    }
}

/// Starts the run again with an input that is JSON already.
#[track_caller]
pub(crate) fn continue_with(input: &str) -> TryCall<Reply> {
    TryCall::new(SystemCall::ContinueAs(input.into()))
}

/// The type of a call that never returns.
pub struct Never;

impl<R> Decode<R> for Never {
    fn decode(_: Reply) -> Result<R, TaskError> {
        unexpected("nothing")
    }
}
