//! Handlers as closures, and custom calls that they answer.

use std::future::Future;

use tiffany_kernel::{Handler, Reply, SystemCall, TaskError, Tid, Value, Verdict};

use crate::calls::call::{Moved, TryCall};
use crate::calls::future_task::{FutureTask, Plain};

/// A system call that a program defines: the request, and the type of its answer.
///
/// The kernel does not know it; a [`Handler`] answers it.
///
/// ```
/// use tiffany::{CustomCall, answering, call, spawn};
///
/// struct Add(i64, i64);
///
/// impl CustomCall for Add {
///     const NAME: &'static str = "add";
///     type Answer = i64;
/// }
///
/// tiffany::try_run(async {
///     let task = spawn(async { call(Add(2, 3)).await })
///         .handler(answering(|add: &Add| Ok(add.0 + add.1)))
///         .await;
///     assert_eq!(task.await??, 5);
///     Ok::<(), tiffany::TaskError>(())
/// })?;
/// # Ok::<(), tiffany::RunError>(())
/// ```
pub trait CustomCall: 'static {
    /// The call's name in errors and traces.
    const NAME: &'static str;

    /// The type of the answer.
    type Answer: 'static;
}

/// Makes a custom call.
#[track_caller]
pub fn call<C: CustomCall>(request: C) -> TryCall<C::Answer, Moved> {
    TryCall::new(SystemCall::Custom(C::NAME, Value::new(request)))
}

/// A handler that answers one type of custom call, and passes all other calls on. An `Err` refuses
/// the call.
pub fn answering<C, F>(answer: F) -> impl Handler
where
    C: CustomCall,
    F: Fn(&C) -> Result<C::Answer, String>,
{
    handler(C::NAME, move |call, _| match call {
        SystemCall::Custom(name, request) if *name == C::NAME => match request.borrow::<C>() {
            Some(request) => match answer(request) {
                Ok(value) => Verdict::Answer(Reply::Value(Value::new(value))),
                Err(why) => Verdict::Refuse(why),
            },
            None => Verdict::Pass,
        },
        _ => Verdict::Pass,
    })
}

/// A handler made from a closure.
///
/// ```
/// use tiffany::{SystemCall, Verdict, handler, now, sleep, spawn};
/// use std::time::Duration;
///
/// tiffany::try_run(async {
///     // Nobody in this task sleeps longer than a millisecond.
///     let hurry = handler("hurry", |call, _caller| {
///         if let SystemCall::Sleep(duration) = call {
///             *duration = (*duration).min(Duration::from_millis(1));
///         }
///         Verdict::Pass
///     });
///     spawn(sleep(Duration::from_secs(3600))).handler(hurry).await.await
/// })?;
/// # Ok::<(), tiffany::RunError>(())
/// ```
pub fn handler<F>(name: impl Into<String>, handle: F) -> impl Handler
where
    F: Fn(&mut SystemCall, Tid) -> Verdict,
{
    ClosureHandler { name: name.into(), handle }
}

struct ClosureHandler<F> {
    name: String,
    handle: F,
}

impl<F: Fn(&mut SystemCall, Tid) -> Verdict> Handler for ClosureHandler<F> {
    fn name(&self) -> &str {
        &self.name
    }

    fn handle(&self, call: &mut SystemCall, caller: Tid) -> Verdict {
        (self.handle)(call, caller)
    }
}

/// The verdict of a handler that makes calls itself to find the answer. They are seen only by the
/// handlers outside it.
pub fn answer_with<F>(future: F) -> Verdict
where
    F: Future + 'static,
    F::Output: 'static,
{
    Verdict::Run(Box::pin(FutureTask::<F, Plain>::new(future)))
}

/// The verdict of a handler that makes calls itself to find an answer, which can fail.
pub fn try_answer_with<F, T>(future: F) -> Verdict
where
    F: Future<Output = Result<T, TaskError>> + 'static,
    T: 'static,
{
    Verdict::Run(Box::pin(FutureTask::<F, crate::calls::future_task::Fallible>::new(future)))
}
