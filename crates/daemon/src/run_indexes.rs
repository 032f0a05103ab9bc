//! The run_indexes of the runs that were looked at last. Each is asked by one at a time, on a thread for that; few are kept, and no more than so many bytes.

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

/// So many run_indexes are kept.
const KEPT: usize = 8;
/// So many bytes they take together, as far as one alone does not take more.
const BYTES: usize = 256 << 20;
/// So many bytes one may take.
const LARGEST: usize = 512 << 20;
/// So many questions are answered at once.
const AT_ONCE: usize = 4;
/// How long records that are safe are waited for in the run's file.
pub(crate) const FILE_TIMEOUT: Duration = Duration::from_secs(2);
const PACE: Duration = Duration::from_millis(5);

/// The run_indexes that are kept, the one that was used last at the end.
pub(crate) struct RunIndexes {
    dir: PathBuf,
    kept: Mutex<Vec<Arc<Kept>>>,
    at_once: Arc<Semaphore>,
}

struct Kept {
    run: Uuid,
    run_index: Mutex<RunIndex>,
    /// What it took when it was last used.
    bytes: Mutex<usize>,
}

impl RunIndexes {
    pub(crate) fn new(dir: &Path) -> RunIndexes {
        let at_once = Arc::new(Semaphore::new(AT_ONCE));
        RunIndexes { dir: dir.to_path_buf(), kept: Mutex::default(), at_once }
    }

    /// Asks the run_index of a run, on a thread where that may take its time. It is asked when it has all that was
    /// recorded.
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

    /// Does what reads files, on a thread for that, and little of it at once.
    pub(crate) async fn at_leisure<T: Send + 'static>(
        &self,
        patience: Duration,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Problem> {
        let turn = tokio::time::timeout(patience, Arc::clone(&self.at_once).acquire_owned()).await;
        let turn = turn.map_err(|_| DaemonError::Busy(Crowd::Readers, AT_ONCE))?;
        let work = move || {
            // Who leaves gives no place away while the work goes on.
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

    /// Lets go of those that were not used for longest, and of one that gave no answer.
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
                // A run that was started a moment ago is safe, and has no file yet, or none that has a line.
                Err(RunIndexError::Log(LogError::Vanished { .. } | LogError::UnknownRun(_))) => {
                    run_index.last() == 0
                }
                Err(error) => break Err(error),
            };
            match is_behind {
                false => break question(&mut run_index),
                // Where it is not known what to wait for, nothing comes.
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
