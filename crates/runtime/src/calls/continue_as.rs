//! Beginning a run anew with another input.

use crate::calls::call::{Decode, TryCall, unexpected};
use serde::Serialize;
use tiffany_kernel::{CallKind, Reply, SystemCall, TaskError};
use tiffany_records::value::encode;

/// Begins this run anew, from its function with another input. It does not return: the new beginning is all that is left of the run, in
/// memory and in its log, whose file is replaced by a new generation.
///
/// The run keeps its id, its UUID and the messages that it has not taken, and who waits for its outcome goes on waiting. What it waits for
/// besides is taken back, as if the function had returned; its promises that are not settled are gone, and who settles one is told
/// that there is none. Keys of steps are never used again: they have the generation in them. Its random numbers are others, and its limits begin anew.
///
/// Only the root may do this, and only when every other task of the run is over. Anything else is the error
/// [`CannotContinue`](tiffany_kernel::ErrorKind::CannotContinue); an input that the function cannot read is
/// [`Unreadable`](tiffany_kernel::ErrorKind::Unreadable). After an error the run goes on as it was.
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

/// The same with an input that is JSON already.
#[track_caller]
pub(crate) fn continue_with(input: &str) -> TryCall<Reply> {
    TryCall::new(SystemCall::ContinueAs(input.into()))
}

/// No reply comes, so it is of any type.
pub struct Never;

impl<R> Decode<R> for Never {
    fn decode(_: Reply) -> Result<R, TaskError> {
        unexpected("nothing")
    }
}
