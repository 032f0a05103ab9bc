//! Who follows the file of a run is told when there is more in it, and need not look again and again. It says nothing of what there is.

use std::collections::HashMap;
use std::fmt;
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Poll, Waker};

use tiffany_kernel::Uuid;

use crate::sync::Mutex;

/// All who follow runs of a log.
#[derive(Default)]
pub struct Followers {
    /// How many there are, so that a log that nobody follows takes no lock.
    count: AtomicUsize,
    of_runs: Mutex<HashMap<Uuid, Vec<Arc<Ear>>>>,
}

#[derive(Default)]
struct Ear {
    has_heard: AtomicBool,
    waker: Mutex<Option<Waker>>,
}

/// Tells when the file of a run has grown, or is gone. [`Followers::follow`] makes one.
pub struct Growth {
    followers: Arc<Followers>,
    run: Uuid,
    ear: Arc<Ear>,
}

impl Followers {
    /// Follows a run until the answer is dropped.
    pub fn follow(self: &Arc<Followers>, run: Uuid) -> Growth {
        let ear = Arc::<Ear>::default();
        self.of_runs.lock().entry(run).or_default().push(Arc::clone(&ear));
        self.count.fetch_add(1, Ordering::SeqCst);
        Growth { followers: Arc::clone(self), run, ear }
    }

    /// The files of these runs have grown.
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
    /// Waits until the file has grown since this was last asked, or since this was made.
    pub async fn wait(&mut self) {
        poll_fn(|context| {
            // First this: who tells says so before it looks for somebody to wake.
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
    fn who_follows_a_run_is_told_of_that_run_alone_and_once() {
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
