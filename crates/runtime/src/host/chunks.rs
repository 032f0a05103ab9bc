//! Chunks: partial results that steps show to watchers while they run. They are not recorded, and
//! may be repeated after a crash. The watcher runs on a thread of its own and never slows the work.
//! If it is too slow, the oldest chunks are lost, and it is told how many.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use tiffany_kernel::{Showing, TaskError, panic_text};

use crate::host::attempt::{Attempt, StepError};
use tiffany_log::sync::{Condvar, Mutex};
use tiffany_records::value::{decode, encode};

/// The number of chunks that can wait for the watcher.
const ROOM: usize = 1024;

/// How long the thread of the watcher waits for more before it ends.
const IDLE: Duration = Duration::from_secs(5);

/// A partial result of a step.
#[derive(Clone, Debug)]
pub struct Chunk {
    /// The step's key. In a durable run it is `<run>/<record>`.
    pub key: Arc<str>,
    /// The step's name.
    pub step: &'static str,
    /// The attempt it comes from.
    pub attempt: u64,
    /// Its number among the chunks of that attempt, from 1.
    pub number: u64,
    /// How many chunks, of all steps, were lost just before this one because the watcher was too
    /// slow.
    pub lost: u64,
    /// The value, as JSON.
    pub json: String,
}

impl Chunk {
    /// The value, converted to the type that it was made from.
    pub fn value<T: DeserializeOwned>(&self) -> Result<T, TaskError> {
        decode(&self.json)
    }
}

/// The watcher.
pub(crate) type OnChunk = Arc<dyn Fn(&Chunk) + Send + Sync>;

/// Chunks on their way to the watcher.
pub(crate) struct Chunks {
    hook: OnChunk,
    queue: Mutex<Queue>,
    came: Condvar,
}

#[derive(Default)]
struct Queue {
    chunks: VecDeque<Chunk>,
    /// Whether the thread runs.
    is_served: bool,
}

impl Chunks {
    pub(crate) fn new(hook: OnChunk) -> Arc<Chunks> {
        Arc::new(Chunks { hook, queue: Mutex::default(), came: Condvar::new() })
    }

    fn add(self: &Arc<Chunks>, chunk: Chunk) {
        let mut queue = self.queue.lock();
        queue.chunks.push_back(chunk);
        if queue.chunks.len() > ROOM {
            // Losses that this chunk would have reported are added to the next one.
            let lost = queue.chunks.pop_front().map_or(0, |oldest| oldest.lost + 1);
            if let Some(next) = queue.chunks.front_mut() {
                next.lost += lost;
            }
        }
        if std::mem::replace(&mut queue.is_served, true) {
            drop(queue);
            self.came.notify_one();
            return;
        }
        drop(queue);
        let chunks = Arc::clone(self);
        let thread = std::thread::Builder::new().name("tiffany-chunks".into());
        if thread.spawn(move || chunks.serve()).is_err() {
            // The next call tries again.
            self.queue.lock().is_served = false;
        }
    }

    fn serve(&self) {
        let mut queue = self.queue.lock();
        loop {
            if let Some(chunk) = queue.chunks.pop_front() {
                drop(queue);
                if let Err(payload) = catch_unwind(AssertUnwindSafe(|| (self.hook)(&chunk))) {
                    panic_text(payload);
                }
                queue = self.queue.lock();
            } else if self.came.wait_for(&mut queue, IDLE) && queue.chunks.is_empty() {
                queue.is_served = false;
                return;
            }
        }
    }
}

impl Attempt {
    /// Shows a partial result to the watcher that
    /// [`Builder::on_chunk`](crate::runtime::builder::Builder::on_chunk) sets, and as output in the
    /// [activity log](crate::pal). It is not recorded, never waits, and counts as a heartbeat. It
    /// fails if the value has no form in JSON.
    pub fn chunk(&self, value: &impl Serialize) -> Result<(), StepError> {
        self.heartbeat();
        let (chunks, is_watched) = (&self.shared.chunks, self.is_watched());
        if chunks.is_none() && !is_watched {
            return Ok(());
        }
        let json = encode(value).map_err(StepError::last)?;
        if is_watched {
            self.show(Showing::Output("chunk".into()), json.clone());
        }
        let Some(chunks) = chunks else { return Ok(()) };
        let number = self.shared.chunk_count.fetch_add(1, Ordering::Relaxed) + 1;
        chunks.add(Chunk {
            key: Arc::clone(&self.identity.key),
            step: self.step_name(),
            attempt: self.number(),
            number,
            lost: 0,
            json,
        });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    fn chunk(number: u64) -> Chunk {
        Chunk {
            key: "run/1".into(),
            step: "step",
            attempt: 1,
            number,
            lost: 0,
            json: number.to_string(),
        }
    }

    #[test]
    fn a_slow_watcher_loses_the_oldest_and_is_told_how_many() {
        let (told, tells) = mpsc::channel();
        let (let_go, wait) = mpsc::channel::<()>();
        let wait = Mutex::new(wait);
        let chunks = Chunks::new(Arc::new(move |chunk: &Chunk| {
            told.send((chunk.number, chunk.lost)).expect("the test listens");
            let _ = wait.lock().recv();
        }));
        chunks.add(chunk(1));
        assert_eq!(tells.recv(), Ok((1, 0)));
        // It hangs in the first one. Three more than there is room for come meanwhile.
        (2..ROOM as u64 + 5).for_each(|number| chunks.add(chunk(number)));
        drop(let_go);
        assert_eq!(tells.recv(), Ok((5, 3)));
        let rest: Vec<(u64, u64)> = (0..ROOM - 1).filter_map(|_| tells.recv().ok()).collect();
        assert_eq!((rest[0], rest[ROOM - 2]), ((6, 0), (ROOM as u64 + 4, 0)));
    }

    #[test]
    fn a_watcher_that_panics_is_given_the_next() {
        let (told, tells) = mpsc::channel();
        let chunks = Chunks::new(Arc::new(move |chunk: &Chunk| {
            told.send(chunk.number).expect("the test listens");
            assert!(chunk.number > 1, "the first one panics");
        }));
        chunks.add(chunk(1));
        chunks.add(chunk(2));
        assert_eq!((tells.recv(), tells.recv()), (Ok(1), Ok(2)));
    }
}
