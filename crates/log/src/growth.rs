//! Notifies followers of a run when its file grows, so that they need not poll. It doesn't tell
//! them what was added.

use std::collections::HashMap;
use std::fmt;
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Poll, Waker};

use tiffany_kernel::Uuid;

use crate::sync::Mutex;

/// All followers of runs of a log.
#[derive(Default)]
pub struct Followers {
    /// The number of followers, so that a log without any takes no lock.
    count: AtomicUsize,
    of_runs: Mutex<HashMap<Uuid, Vec<Arc<Ear>>>>,
}

#[derive(Default)]
struct Ear {
    has_heard: AtomicBool,
    waker: Mutex<Option<Waker>>,
}

/// A subscription to the growth or removal of a run's file, made by [`Followers::follow`].
pub struct Growth {
    followers: Arc<Followers>,
    run: Uuid,
    ear: Arc<Ear>,
}

impl Followers {
    /// Follows a run until the returned value is dropped.
    pub fn follow(self: &Arc<Followers>, run: Uuid) -> Growth {
        let ear = Arc::<Ear>::default();
        self.of_runs.lock().entry(run).or_default().push(Arc::clone(&ear));
        self.count.fetch_add(1, Ordering::SeqCst);
        Growth { followers: Arc::clone(self), run, ear }
    }

    /// Notifies the followers of these runs.
    pub(crate) fn tell(&self, runs: impl Iterator<Item = Uuid>) {
        if self.count.load(Ordering::SeqCst) == 0 {
            return;
        }
        for run in runs {
            let ears = self.of_runs.lock().get(&run).cloned().unwrap_or_default();
            for ear in ears {
                ear.has_heard.store(true, Ordering::SeqCst);
                let waker = ear.waker.lock().take();
                waker.into_iter().for_each(Waker::wake);
            }
        }
    }
}

impl Growth {
    /// Waits until the file has grown since the last call, or since this was made.
    pub async fn wait(&mut self) {
        poll_fn(|context| {
            // The waker is stored first, because `tell` sets the flag before it takes the waker.
            *self.ear.waker.lock() = Some(context.waker().clone());
            match self.ear.has_heard.swap(false, Ordering::SeqCst) {
                true => Poll::Ready(()),
                false => Poll::Pending,
            }
        })
        .await;
    }
}

impl Drop for Growth {
    fn drop(&mut self) {
        let mut of_runs = self.followers.of_runs.lock();
        if let Some(ears) = of_runs.get_mut(&self.run) {
            ears.retain(|ear| !Arc::ptr_eq(ear, &self.ear));
            if ears.is_empty() {
                of_runs.remove(&self.run);
            }
        }
        self.followers.count.fetch_sub(1, Ordering::SeqCst);
    }
}

impl fmt::Debug for Growth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Growth").field("run", &self.run).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::pin;
    use std::task::Context;

    use super::*;

    #[test]
    fn a_follower_is_notified_once_and_only_of_its_own_run() {
        let followers = Arc::<Followers>::default();
        let (tea, cake) = (Uuid::from_random(1), Uuid::from_random(2));
        let mut growth = followers.follow(tea);
        let mut is_told = || {
            let mut wait = pin!(growth.wait());
            wait.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready()
        };
        assert!(!is_told());
        followers.tell([cake].into_iter());
        assert!(!is_told());
        followers.tell([tea, tea].into_iter());
        assert!(is_told() && !is_told());
        drop(growth);
        assert!(followers.of_runs.lock().is_empty());
        assert_eq!(followers.count.load(Ordering::SeqCst), 0);
    }
}
