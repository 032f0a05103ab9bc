//! Calls of durable runs whose reply comes from the log or from outside: messages, and branches at
//! changes to the program.

use serde::de::DeserializeOwned;
use tiffany_kernel::SystemCall;

use crate::calls::call::{Call, TryCall};
use crate::calls::written::Written;

/// Receives the next message that was sent to this run under this name, and waits for one.
#[track_caller]
pub fn receive<T: DeserializeOwned + 'static>(name: &str) -> TryCall<T, Written> {
    TryCall::new(SystemCall::ReceiveMessage(name.into()))
}

/// Whether this run takes the new branch of a change to the program. A run that had passed this
/// place before the change takes the old branch, here and wherever this id is used, until it ends.
/// A run that had not come this far takes the new one, like all new runs.
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
