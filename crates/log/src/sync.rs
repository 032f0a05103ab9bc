//! Locks of the standard library, without poison: nothing that a lock of this crate protects is ever half written, so one whose holder
//! panicked is as good as any.
//!
//! They are the standard library's because a program may `fork`: its locks are a word each, so a child has those of the runtimes it makes
//! and nothing else. Locks that park threads in a table of the process find threads there that the child never had.

use std::ops::{Deref, DerefMut};
use std::sync::{self, PoisonError, TryLockError};
use std::time::{Duration, Instant};

/// A mutex.
#[derive(Debug, Default)]
pub struct Mutex<T>(sync::Mutex<T>);

/// What is locked, until this is dropped.
#[derive(Debug)]
pub struct MutexGuard<'a, T> {
    mutex: &'a Mutex<T>,
    /// Nothing only while [`Condvar::wait`] or [`MutexGuard::unlocked`] runs, which have the guard to themselves.
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

    /// Waits for the lock.
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
    /// Does something while the lock is free.
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
    /// Makes one that no thread waits for.
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

    /// Waits for so long at most, and tells whether that is over.
    pub fn wait_for<T>(&self, guard: &mut MutexGuard<'_, T>, time: Duration) -> bool {
        let held = guard.held.take().expect("a guard holds its lock");
        let (held, waited) =
            self.0.wait_timeout(held, time).unwrap_or_else(PoisonError::into_inner);
        guard.held = Some(held);
        waited.timed_out()
    }

    /// Waits until then at most, and tells whether that is over.
    pub fn wait_until<T>(&self, guard: &mut MutexGuard<'_, T>, until: Instant) -> bool {
        self.wait_for(guard, until.saturating_duration_since(Instant::now()))
    }
}
