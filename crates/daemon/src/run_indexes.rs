//! The indexes of the runs that were viewed last. Each is queried by one request at a time, on a
//! blocking thread. Their number and their memory are limited.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tiffany::Uuid;
use tiffany::history::{RunIndex, RunIndexError};
use tiffany::wal::LogError;
use tokio::sync::Semaphore;

use crate::app::Recorded;
use crate::error::{Crowd, DaemonError};
use crate::http::Problem;

/// The most indexes that are kept.
const KEPT: usize = 8;
/// The most bytes that the indexes take together. A single index may take more.
const BYTES: usize = 256 << 20;
/// The most bytes that one index may take.
const LARGEST: usize = 512 << 20;
/// The most queries that are answered at the same time.
const AT_ONCE: usize = 4;
/// How long a reader waits for durable records to reach the run's file.
pub(crate) const FILE_TIMEOUT: Duration = Duration::from_secs(2);
const PACE: Duration = Duration::from_millis(5);

/// The indexes that are kept, the most recently used last.
pub(crate) struct RunIndexes {
    dir: PathBuf,
    kept: Mutex<Vec<Arc<Kept>>>,
    at_once: Arc<Semaphore>,
}

struct Kept {
    run: Uuid,
    run_index: Mutex<RunIndex>,
    /// The memory of the index when it was last used.
    bytes: Mutex<usize>,
}

impl RunIndexes {
    pub(crate) fn new(dir: &Path) -> RunIndexes {
        let at_once = Arc::new(Semaphore::new(AT_ONCE));
        RunIndexes { dir: dir.to_path_buf(), kept: Mutex::default(), at_once }
    }

    /// Queries the index of a run on a blocking thread, once the index has read all recorded lines.
    pub(crate) async fn ask<T: Send + 'static>(
        &self,
        recorded: Recorded,
        patience: Duration,
        question: impl Fn(&mut RunIndex) -> Result<T, RunIndexError> + Send + 'static,
    ) -> Result<T, Problem> {
        let kept = self.of(recorded.run);
        let asked = Arc::clone(&kept);
        let answer = self.at_leisure(patience, move || asked.ask(recorded, &question)).await?;
        self.make_room(&kept, answer.is_err());
        answer?.map_err(problem)
    }

    /// Runs work that reads files on a blocking thread, limited to a few at a time.
    pub(crate) async fn at_leisure<T: Send + 'static>(
        &self,
        patience: Duration,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Problem> {
        let turn = tokio::time::timeout(patience, Arc::clone(&self.at_once).acquire_owned()).await;
        let turn = turn.map_err(|_| DaemonError::Busy(Crowd::Readers, AT_ONCE))?;
        let work = move || {
            // The place stays taken while the work runs, even if the client disconnects.
            let _turn = turn;
            work()
        };
        let done = tokio::task::spawn_blocking(work).await;
        done.map_err(|error| DaemonError::Start(error.to_string()).into())
    }

    fn kept(&self) -> std::sync::MutexGuard<'_, Vec<Arc<Kept>>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn of(&self, run: Uuid) -> Arc<Kept> {
        let mut kept = self.kept();
        let known = kept.iter().position(|kept| kept.run == run);
        let this = match known {
            Some(place) => kept.remove(place),
            None => Arc::new(Kept {
                run,
                run_index: Mutex::new(RunIndex::new(&self.dir, run).most_bytes(LARGEST)),
                bytes: Mutex::new(0),
            }),
        };
        kept.push(Arc::clone(&this));
        this
    }

    /// Drops the least recently used indexes, and one whose query failed.
    fn make_room(&self, used: &Arc<Kept>, failed: bool) {
        let mut kept = self.kept();
        if failed {
            kept.retain(|kept| !Arc::ptr_eq(kept, used));
        }
        let bytes = |kept: &[Arc<Kept>]| kept.iter().map(|kept| kept.bytes()).sum::<usize>();
        while kept.len() > KEPT || (kept.len() > 1 && bytes(&kept) > BYTES) {
            kept.remove(0);
        }
    }
}

impl Kept {
    fn bytes(&self) -> usize {
        *self.bytes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ask<T>(
        &self,
        Recorded { generation, seq, .. }: Recorded,
        question: impl Fn(&mut RunIndex) -> Result<T, RunIndexError>,
    ) -> Result<Result<T, RunIndexError>, DaemonError> {
        let mut run_index = self.run_index.lock().unwrap_or_else(PoisonError::into_inner);
        let begun = Instant::now();
        let answer = loop {
            let is_behind = match run_index.extend() {
                Ok(()) => !run_index.reaches(generation, seq),
                // A run that was just started is durable before its file exists or has a line.
                Err(RunIndexError::Log(LogError::Vanished { .. } | LogError::UnknownRun(_))) => {
                    run_index.last() == 0
                }
                Err(error) => break Err(error),
            };
            match is_behind {
                false => break question(&mut run_index),
                // Without a record number to wait for, waiting is pointless.
                true if seq > 0 && begun.elapsed() < FILE_TIMEOUT => std::thread::sleep(PACE),
                true => return Err(DaemonError::NoAnswer { patience: FILE_TIMEOUT, turn: None }),
            }
        };
        *self.bytes.lock().unwrap_or_else(PoisonError::into_inner) = run_index.memory();
        Ok(answer)
    }
}

fn problem(error: RunIndexError) -> Problem {
    let status = match error {
        RunIndexError::TooLong { run, records, bytes } => {
            return DaemonError::TooLong { run, records, bytes }.into();
        }
        RunIndexError::Log(LogError::NoRecord { .. } | LogError::UnknownRun(_)) => 404,
        _ => 500,
    };
    Problem::new(error.code(), status, &error.to_string())
}
