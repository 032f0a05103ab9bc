//! Several futures in one task: all of them, the first of them, or one with a time limit. They are
//! polled in the order in which they are written, so that the outcome is always the same.

use std::future::{Future, poll_fn};
use std::panic::Location;
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Duration;

use tiffany_kernel::{ErrorKind, TaskError};

use crate::calls::context;
use crate::calls::sys::sleep;

/// Waits for all of the futures and returns their outputs as a tuple.
///
/// ```
/// use tiffany::{get_tid, join, now};
///
/// tiffany::run(async {
///     let (tid, _time) = join!(get_tid(), now());
///     assert_eq!(tid.0, 1);
/// })?;
/// # Ok::<(), tiffany::RunError>(())
/// ```
#[macro_export]
macro_rules! join {
    ($($future:expr),+ $(,)?) => {
        $crate::__join!(@ [] [] $($future,)+)
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __join {
    (@ [$(($slot:ident $done:ident))*] [$($name:ident = $value:expr;)*]) => {{
        $(let mut $slot = ::std::pin::pin!($value);
          let mut $done = ::std::option::Option::None;)*
        ::std::future::poll_fn(|cx| {
            let mut waiting = false;
            $(if $done.is_none() {
                match ::std::future::Future::poll($slot.as_mut(), cx) {
                    ::std::task::Poll::Ready(output) => $done = ::std::option::Option::Some(output),
                    ::std::task::Poll::Pending => waiting = true,
                }
            })*
            if waiting {
                return ::std::task::Poll::Pending;
            }
            ::std::task::Poll::Ready(($($done.take().expect("all are done"),)*))
        })
        .await
    }};
    (@ [$($slots:tt)*] [$($names:tt)*] $future:expr, $($rest:expr,)*) => {
        $crate::__join!(@ [$($slots)* (slot done)] [$($names)* name = ::std::future::IntoFuture::into_future($future);] $($rest,)*)
    };
}

/// Waits for the first of the futures, in the order in which they are written, and runs its arm.
/// The others are dropped, which withdraws their calls.
///
/// ```
/// use tiffany::{promise, select, sleep};
/// use std::time::Duration;
///
/// tiffany::run(async {
///     let never = promise::<u32>().await;
///     let text = select! {
///         value = never.future() => format!("got {value:?}"),
///         () = sleep(Duration::from_millis(1)) => "nothing came".to_string(),
///     };
///     assert_eq!(text, "nothing came");
/// })?;
/// # Ok::<(), tiffany::RunError>(())
/// ```
#[macro_export]
macro_rules! select {
    ($($pattern:pat = $future:expr => $arm:expr),+ $(,)?) => {
        $crate::__select!(@ [] $(($pattern, $future, $arm))+)
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __select {
    (@ [] ($p0:pat, $f0:expr, $a0:expr)) => { match ::std::future::IntoFuture::into_future($f0).await { $p0 => $a0 } };
    (@ [] ($p0:pat, $f0:expr, $a0:expr) $(($p:pat, $f:expr, $a:expr))+) => {{
        let winner = $crate::combine::either(
            ::std::future::IntoFuture::into_future($f0),
            $crate::__select!(@nest $(($f))+),
        )
        .await;
        $crate::__select!(@arms winner, ($p0, $a0) $(($p, $a))+)
    }};
    (@nest ($f0:expr)) => { ::std::future::IntoFuture::into_future($f0) };
    (@nest ($f0:expr) $(($f:expr))+) => {
        $crate::combine::either(
            ::std::future::IntoFuture::into_future($f0),
            $crate::__select!(@nest $(($f))+),
        )
    };
    (@arms $winner:expr, ($p0:pat, $a0:expr)) => { match $winner { $p0 => $a0 } };
    (@arms $winner:expr, ($p0:pat, $a0:expr) $(($p:pat, $a:expr))+) => {
        match $winner {
            $crate::combine::Either::First($p0) => $a0,
            $crate::combine::Either::Second(rest) => $crate::__select!(@arms rest, $(($p, $a))+),
        }
    };
}

/// The output of the first or of the second future.
#[doc(hidden)]
pub enum Either<A, B> {
    First(A),
    Second(B),
}

/// Waits for the first of two futures; if both are ready, the one written first.
#[doc(hidden)]
pub async fn either<A: Future, B: Future>(first: A, second: B) -> Either<A::Output, B::Output> {
    let (mut first, mut second) = (pin!(first), pin!(second));
    poll_fn(|cx| {
        if let Poll::Ready(output) = first.as_mut().poll(cx) {
            return Poll::Ready(Either::First(output));
        }
        second.as_mut().poll(cx).map(Either::Second)
    })
    .await
}

/// Limits how long a future may take. After that the future is dropped, and the error is TFY0028.
///
/// ```
/// use tiffany::{ErrorKind, sleep, timeout};
/// use std::time::Duration;
///
/// tiffany::run(async {
///     let slow = sleep(Duration::from_secs(3600));
///     let error = timeout(Duration::from_millis(1), slow).await.unwrap_err();
///     assert_eq!(error.kind(), ErrorKind::TimedOut);
/// })?;
/// # Ok::<(), tiffany::RunError>(())
/// ```
#[track_caller]
pub fn timeout<F: IntoFuture>(
    limit: Duration,
    future: F,
) -> impl Future<Output = Result<F::Output, TaskError>> {
    let at = Location::caller();
    let (future, timer) = (future.into_future(), sleep(limit).checked());
    async move {
        match either(future, timer).await {
            Either::First(output) => Ok(output),
            Either::Second(Ok(())) => {
                let message = format!("took longer than {limit:?}");
                let mut error = TaskError::new(ErrorKind::TimedOut, message);
                context::place(&mut error, "timeout", at);
                Err(error)
            }
            Either::Second(Err(error)) => Err(error),
        }
    }
}

/// Waits for all of the futures and returns their outputs in order.
pub async fn join_all<F: IntoFuture>(futures: impl IntoIterator<Item = F>) -> Vec<F::Output> {
    let mut futures: Vec<Pin<Box<F::IntoFuture>>> =
        futures.into_iter().map(|future| Box::pin(future.into_future())).collect();
    let mut outputs: Vec<Option<F::Output>> = futures.iter().map(|_| None).collect();
    poll_fn(|cx| {
        let mut waiting = false;
        for (future, output) in futures.iter_mut().zip(&mut outputs) {
            if output.is_none() {
                match future.as_mut().poll(cx) {
                    Poll::Ready(value) => *output = Some(value),
                    Poll::Pending => waiting = true,
                }
            }
        }
        if waiting { Poll::Pending } else { Poll::Ready(()) }
    })
    .await;
    outputs.into_iter().flatten().collect()
}
