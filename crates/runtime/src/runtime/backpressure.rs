//! Keeps runs from writing faster than the disk. While too many bytes wait for the disk, durable
//! runs have no turns; ephemeral runs and the rest of the loop continue. Held runs have no turns
//! either.

use crate::runtime::durable::Durable;
use crate::runtime::hosted_runs::Hosted;

impl Durable {
    /// Checks whether the disk is behind.
    pub(crate) fn look_at_backlog(&mut self, limit: usize) {
        let (was_behind, bytes) = (self.is_behind, self.log.backlog());
        self.is_behind = bytes > limit;
        if self.is_behind && !was_behind {
            tracing::debug!(
                target: "tiffany", bytes,
                "the disk is behind: durable runs have no turns until it has caught up",
            );
        }
    }

    /// Handles a notice of the log. If the disk has caught up, the runs that waited may have their
    /// turns.
    pub(crate) fn take_held_back(&mut self, limit: usize) -> Option<Vec<usize>> {
        self.look_at_backlog(limit);
        // While it is behind, more notices follow.
        (!self.is_behind).then(|| std::mem::take(&mut self.held_back))
    }

    /// Whether a run has to wait for its turn: until the disk has caught up, or until the run is
    /// released.
    #[inline]
    pub(crate) fn holds_back(&mut self, hosted: &mut Hosted, place: usize) -> bool {
        if !self.is_behind && !self.has_held {
            return false;
        }
        let Some(durable_state) = &hosted.durable_state else { return false };
        if durable_state.is_held() {
            // It is put in line again when it is released.
            hosted.leave_turn();
            return true;
        }
        if self.is_behind {
            self.held_back.push(place);
        }
        self.is_behind
    }

    /// Forgets a run that is gone.
    pub(crate) fn forget_held_back(&mut self, place: usize) {
        self.held_back.retain(|other| *other != place);
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::panic::Location;
    use std::rc::Rc;
    use std::time::Duration;

    use crate::calls::sys::{random, yield_now};
    use crate::runtime::Runtime;
    use crate::runtime::durable_runs::DurableRun;
    use tiffany_kernel::TaskError;
    use tiffany_log::Settings;

    async fn randoms(count: u64) -> Result<u64, TaskError> {
        for _ in 0..count {
            random().await;
        }
        Ok(count)
    }

    /// A disk that takes 20 ms for each commit, as a waiting task sees it.
    fn slow(name: &str) -> (std::path::PathBuf, Runtime) {
        let dir = std::env::temp_dir().join(format!("tiffany-{name}-{}", std::process::id()));
        let settings = Settings {
            backlog_bytes: 200_000,
            batch_window: Duration::from_millis(20),
            segment_bytes: 1 << 20,
            ..Settings::default()
        };
        let builder = Runtime::builder().log_dir(&dir).log_settings(settings);
        (dir, builder.register("randoms", randoms).build().unwrap())
    }

    fn backlog(runtime: &Runtime) -> usize {
        runtime.durable.as_ref().map_or(0, |durable| durable.log.backlog())
    }

    #[test]
    fn a_run_that_records_faster_than_the_disk_waits_and_others_go_on() {
        let (dir, mut runtime) = slow("pressure");
        let runs: Vec<DurableRun<u64>> = (0..3)
            .map(|run| runtime.submit("randoms", &format!("run {run}"), &5_000_u64).unwrap())
            .collect();
        let (turns, behind) = (Rc::new(Cell::new(0_u64)), Cell::new(0_u64));
        let counts = Rc::clone(&turns);
        let beside = runtime.start(async move {
            loop {
                counts.set(counts.get() + 1);
                yield_now().await;
            }
        });
        let (most, since) = (Cell::new(0), Cell::new(0));
        runtime
            .drive_until(Location::caller(), |runtime| {
                most.set(most.get().max(backlog(runtime)));
                let durable = runtime.durable.as_ref().unwrap();
                match durable.is_behind {
                    true if since.get() == 0 => since.set(turns.get()),
                    false if since.get() > 0 => {
                        behind.set(behind.get().max(turns.get() - since.replace(0)));
                    }
                    _ => {}
                }
                runs.iter().all(|run| runtime.live(run.uuid()).is_err())
            })
            .unwrap();
        // 3 MB of lines in all. What was written before it was looked at, and what a commit was about to take, may be
        // there too.
        assert!(most.get() > 200_000 && most.get() < 600_000, "{} bytes waited", most.get());
        assert!(behind.get() > 100, "the other run had {} turns", behind.get());
        for run in &runs {
            assert_eq!(runtime.wait_for(run).unwrap(), 5_000);
        }
        drop((beside, runtime));
        std::fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn a_run_that_is_cancelled_while_it_is_held_back_ends() {
        let (dir, mut runtime) = slow("pressure-cancel");
        let run: DurableRun<u64> = runtime.submit("randoms", "run", &1_000_000_u64).unwrap();
        let is_behind = |runtime: &Runtime| {
            runtime.durable.as_ref().is_some_and(|durable| !durable.held_back.is_empty())
        };
        runtime.drive_until(Location::caller(), is_behind).unwrap();
        runtime.cancel(&run).unwrap();
        let error = runtime.wait_for(&run).unwrap_err().to_string();
        assert!(error.contains("cancelled"), "{error}");
        drop(runtime);
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
