//! Semaphores and mutexes between tasks of one run. Waiters are served in the order in which they
//! began to wait.

use std::cell::{RefCell, RefMut};
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::rc::Rc;

use tiffany_kernel::{ObjectRef, Permits, Release, Reply, SystemCall, TaskError};

use crate::calls::call::{Call, FromReply, TryCall, unexpected};
use crate::calls::context;

/// A number of permits. Clones are the same semaphore.
///
/// ```
/// use tiffany::semaphore;
///
/// tiffany::try_run(async {
///     let semaphore = semaphore(2).await;
///     let _one = semaphore.acquire().await?;
///     let _two = semaphore.acquire().await?;
///     Ok::<(), tiffany::TaskError>(())
/// })?;
/// # Ok::<(), tiffany::RunError>(())
/// ```
#[derive(Clone)]
pub struct Semaphore {
    inner: Rc<SemaphoreHandle>,
}

struct SemaphoreHandle(ObjectRef);

/// Permits that were acquired; dropping this returns them.
#[must_use = "the permit goes back at once if it is not kept"]
pub struct Permit {
    semaphore: Rc<SemaphoreHandle>,
    count: usize,
}

/// Creates a semaphore.
#[track_caller]
pub fn semaphore(permits: usize) -> Call<Semaphore> {
    Call::new(SystemCall::CreateSemaphore(permits))
}

impl Semaphore {
    pub(crate) fn object(&self) -> ObjectRef {
        self.inner.0
    }

    /// The handle of permits that were acquired by a call other than [`Acquire`].
    pub(crate) fn permit(&self, permits: Permits) -> Permit {
        Permit { semaphore: Rc::clone(&self.inner), count: permits.count as usize }
    }

    /// Acquires a permit, and waits until one is free.
    #[track_caller]
    pub fn acquire(&self) -> Acquire {
        self.acquire_many(1)
    }

    /// Acquires several permits at once, and waits until all are free. Asking for more than the
    /// semaphore has in all is an error (TFY0033), because the wait could never end.
    #[track_caller]
    pub fn acquire_many(&self, permits: usize) -> Acquire {
        let call = TryCall::new(SystemCall::Acquire(self.inner.0, permits));
        Acquire { call, semaphore: Rc::clone(&self.inner) }
    }
}

/// The future of [`Semaphore::acquire`].
#[must_use = "a system call does nothing until it is awaited: add `.await`"]
pub struct Acquire {
    call: TryCall<Permits>,
    semaphore: Rc<SemaphoreHandle>,
}

impl Future for Acquire {
    type Output = Result<Permit, TaskError>;

    fn poll(
        mut self: std::pin::Pin<&mut Self>,
        cx: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Self::Output> {
        let semaphore = Rc::clone(&self.semaphore);
        std::pin::Pin::new(&mut self.call)
            .poll(cx)
            .map_ok(|permits| Permit { semaphore, count: permits.count as usize })
    }
}

impl FromReply for Semaphore {
    fn from_reply(reply: Reply) -> Result<Semaphore, TaskError> {
        match reply {
            Reply::Object(object) => Ok(Semaphore { inner: Rc::new(SemaphoreHandle(object)) }),
            _ => unexpected("semaphore"),
        }
    }
}

impl Drop for SemaphoreHandle {
    fn drop(&mut self) {
        context::release(Release::Semaphore(self.0));
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        context::release(Release::Permits(self.semaphore.0, self.count));
    }
}

impl fmt::Debug for Semaphore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Semaphore({})", self.inner.0.id)
    }
}

impl fmt::Debug for Permit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Permit({} of {})", self.count, self.semaphore.0.id)
    }
}

/// A value that only one task can lock at a time, even across calls.
///
/// ```
/// use tiffany::{mutex, spawn, yield_now};
///
/// tiffany::try_run(async {
///     let total = mutex(0).await;
///     let other = total.clone();
///     let task = spawn(async move {
///         let mut total = other.lock().await.unwrap();
///         yield_now().await;
///         *total += 1;
///     })
///     .await;
///     *total.lock().await? += 1;
///     task.await?;
///     assert_eq!(*total.lock().await?, 2);
///     Ok::<(), tiffany::TaskError>(())
/// })?;
/// # Ok::<(), tiffany::RunError>(())
/// ```
pub struct Mutex<T> {
    semaphore: Semaphore,
    value: Rc<RefCell<T>>,
}

/// The value of a locked mutex.
#[must_use = "the mutex is unlocked at once if the guard is not kept"]
pub struct MutexGuard<'a, T> {
    // Dropped before the permit, so that the value is free when the next waiter is woken.
    value: RefMut<'a, T>,
    _permit: Permit,
}

/// Creates a mutex.
#[track_caller]
pub fn mutex<T: 'static>(value: T) -> NewMutex<T> {
    NewMutex { call: Call::new(SystemCall::CreateMutex), value: Some(value) }
}

/// The future of [`mutex`].
#[must_use = "a system call does nothing until it is awaited: add `.await`"]
pub struct NewMutex<T> {
    call: Call<Semaphore>,
    value: Option<T>,
}

impl<T: Unpin> Future for NewMutex<T> {
    type Output = Mutex<T>;

    fn poll(
        mut self: std::pin::Pin<&mut Self>,
        cx: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Mutex<T>> {
        std::pin::Pin::new(&mut self.call).poll(cx).map(|semaphore| {
            let value = self.value.take().expect("polled after it had returned");
            Mutex { semaphore, value: Rc::new(RefCell::new(value)) }
        })
    }
}

impl<T> Mutex<T> {
    /// Locks the mutex, and waits until it is free.
    #[track_caller]
    pub fn lock(&self) -> impl Future<Output = Result<MutexGuard<'_, T>, TaskError>> {
        let acquire = self.semaphore.acquire();
        async move {
            let permit = acquire.await?;
            Ok(MutexGuard { value: self.value.borrow_mut(), _permit: permit })
        }
    }
}

impl<T> Clone for Mutex<T> {
    fn clone(&self) -> Mutex<T> {
        Mutex { semaphore: self.semaphore.clone(), value: Rc::clone(&self.value) }
    }
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.value
    }
}

impl<T: fmt::Debug> fmt::Debug for MutexGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}
