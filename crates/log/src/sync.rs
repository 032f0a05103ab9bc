//! Locks of the standard library without poisoning: data behind a lock of this crate is never half
//! written, so it is still valid after its holder panicked.
//!
//! They are based on the standard library because a program may `fork`. Its locks are one word
//! each, so a child process has working locks for the runtimes it makes. Locks that park threads in
//! a process-wide table would find threads there that don't exist in the child.

use std::ops::{Deref, DerefMut};
use std::sync::{self, PoisonError, TryLockError};
use std::time::{Duration, Instant};

/// A mutex.
#[derive(Debug, Default)]
pub struct Mutex<T>(sync::Mutex<T>);

/// Access to the locked value, until the guard is dropped.
#[derive(Debug)]
pub struct MutexGuard<'a, T> {
    mutex: &'a Mutex<T>,
    /// The lock; `None` only while [`Condvar::wait`] or [`MutexGuard::unlocked`] runs, which borrow
    /// the guard exclusively.
    held: Option<sync::MutexGuard<'a, T>>,
}

/// A condition that threads wait for.
#[derive(Debug, Default)]
pub struct Condvar(sync::Condvar);

impl<T> Mutex<T> {
    /// Makes an unlocked mutex.
    pub const fn new(value: T) -> Mutex<T> {
        Mutex(sync::Mutex::new(value))
    }

    /// Waits for the lock and takes it.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        let held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        MutexGuard { mutex: self, held: Some(held) }
    }

    /// Takes the lock, unless another thread has it.
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        match self.0.try_lock() {
            Ok(held) => Some(MutexGuard { mutex: self, held: Some(held) }),
            Err(TryLockError::Poisoned(held)) => {
                Some(MutexGuard { mutex: self, held: Some(held.into_inner()) })
            }
            Err(TryLockError::WouldBlock) => None,
        }
    }
}

impl<T> MutexGuard<'_, T> {
    /// Calls a function while the lock is released.
    pub fn unlocked<R>(guard: &mut Self, what: impl FnOnce() -> R) -> R {
        guard.held = None;
        let result = what();
        guard.held = guard.mutex.lock().held;
        result
    }
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.held.as_deref().expect("a guard holds its lock")
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.held.as_deref_mut().expect("a guard holds its lock")
    }
}

impl Condvar {
    /// Makes a condition that no thread waits for.
    pub const fn new() -> Condvar {
        Condvar(sync::Condvar::new())
    }

    /// Wakes one thread.
    pub fn notify_one(&self) {
        self.0.notify_one();
    }

    /// Wakes all threads.
    pub fn notify_all(&self) {
        self.0.notify_all();
    }

    /// Waits until another thread notifies.
    pub fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
        let held = guard.held.take().expect("a guard holds its lock");
        guard.held = Some(self.0.wait(held).unwrap_or_else(PoisonError::into_inner));
    }

    /// Waits for at most this long. Returns true if the time has run out.
    pub fn wait_for<T>(&self, guard: &mut MutexGuard<'_, T>, time: Duration) -> bool {
        let held = guard.held.take().expect("a guard holds its lock");
        let (held, waited) =
            self.0.wait_timeout(held, time).unwrap_or_else(PoisonError::into_inner);
        guard.held = Some(held);
        waited.timed_out()
    }

    /// Waits until this moment at most. Returns true if it has passed.
    pub fn wait_until<T>(&self, guard: &mut MutexGuard<'_, T>, until: Instant) -> bool {
        self.wait_for(guard, until.saturating_duration_since(Instant::now()))
    }
}
