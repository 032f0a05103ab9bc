//! Calls of durable runs that take what the log or the outside has for them: a message, the way at a change of the program.

use serde::de::DeserializeOwned;
use tiffany_kernel::SystemCall;

use crate::calls::call::{Call, TryCall};
use crate::calls::written::Written;

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
