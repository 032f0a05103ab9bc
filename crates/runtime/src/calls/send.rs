//! Sending a message to another run of the same runtime.

use crate::calls::call::TryCall;
use crate::calls::work::Work;
use serde::Serialize;
use tiffany_kernel::{CallKind, EffectWork, SystemCall, Uuid};
use tiffany_records::value::encode;

/// Sends a message to another durable run of this runtime, which receives it with
/// [`receive`](crate::calls::receive::receive) under this name. When this returns, the message is
/// durable in the log of the other run, exactly once, however often this process dies. Messages
/// from one run to another keep their order.
///
/// If the other run has too many unread messages, this waits. A run that sends to itself does not
/// wait: it gets the error [`InboxFull`](tiffany_kernel::ErrorKind::InboxFull).
///
/// A paused run receives the message when it is resumed. Sending to a run that is finished, was
/// removed or doesn't exist is an error: [`RunOver`](tiffany_kernel::ErrorKind::RunOver),
/// [`RunRemoved`](tiffany_kernel::ErrorKind::RunRemoved) or
/// [`NoSuchRun`](tiffany_kernel::ErrorKind::NoSuchRun).
///
/// ```
/// use tiffany::durable::{receive, run_id, send};
/// use tiffany::{Runtime, TaskError};
///
/// # let dir = std::env::temp_dir().join(format!("tiffany-doc-send-{}", std::process::id()));
/// let mut runtime = Runtime::builder()
///     .log_dir(&dir)
///     .register("kitchen", |_: ()| async {
///         let dish: String = receive("order").await?;
///         Ok::<_, TaskError>(format!("{dish} is ready"))
///     })
///     .register("waiter", |dish: String| async move {
///         send(run_id("kitchen"), "order", &dish).await
///     })
///     .build()?;
/// let kitchen = runtime.submit::<String>("kitchen", "kitchen", &())?;
/// runtime.submit::<()>("waiter", "waiter", &"soup")?;
/// assert_eq!(runtime.wait_for(&kitchen)?, "soup is ready");
/// # drop(runtime);
/// # std::fs::remove_dir_all(&dir).unwrap();
/// # Ok::<(), tiffany::RunError>(())
/// ```
#[track_caller]
pub fn send(to: Uuid, name: &str, message: &impl Serialize) -> TryCall<()> {
    let at = std::panic::Location::caller();
    let (name, json) = match (encode(name), encode(message)) {
        (Ok(quoted), Ok(json)) => ((name, quoted), json),
        (Err(error), _) | (_, Err(error)) => return TryCall::bad_at(CallKind::Effect, error, at),
    };
    let about = format!("{{\"to\":\"{to}\",\"name\":{},\"message\":{json}}}", name.1);
    let work = Work::Send(Sending { to, name: name.0.into(), json }).boxed(None);
    TryCall::new_at(
        SystemCall::Effect(EffectWork { name: "send", about: Some(about.into()), work }),
        at,
    )
}

/// A message that is being sent.
pub(crate) struct Sending {
    pub(crate) to: Uuid,
    pub(crate) name: String,
    pub(crate) json: String,
}
