//! `w1`, `w2`, `w2_1000`, `w2_50k`: runs that do one step after the other, alone and many at once.
//! A step is safe before the next one begins, and its work is empty, so that only the log is
//! measured.
//!
//! `raw` appends the bytes that a step has in its run's file to a file that was filled before:
//! alone with an fdatasync each, or with 64 threads that share one. `bare` is the latter without
//! the threads: one write of 64 such pieces and one fdatasync, which no program with 64 waiters can
//! reach.

use std::cell::Cell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use super::disk::{Ring, WAITERS};
use super::place::{self, Place};
use super::work;
use crate::harness::{Better, Contender, Measure, Mode, Sample, Taken, Target};

/// The settings that all measures of steps have.
#[derive(Clone)]
struct Steps {
    place: Rc<Place>,
    function: &'static str,
    /// The bytes of one step in the log: an estimate until the first sample has measured them.
    bytes: Rc<Cell<usize>>,
}

impl Steps {
    fn new(place: &Rc<Place>, function: &'static str, bytes: usize) -> Steps {
        Steps { place: Rc::clone(place), function, bytes: Rc::new(Cell::new(bytes)) }
    }

    /// Takes a sample of `runs` runs at once, with `steps` steps each.
    fn tiffany(&self, runs: usize, steps: usize) -> Taken {
        let scratch = self.place.fresh("steps")?;
        let mut runtime = work::open(&scratch.log())?;
        // The log's files and threads exist before the time is taken, as in a program that has been
        // running for a while.
        let before = steps.div_ceil(4);
        self.take(&mut runtime, "before", runs, before)?;
        place::settle();
        let elapsed = self.take(&mut runtime, "run", runs, steps)?;
        drop(runtime);
        // Payloads of 50 kB are not in the files of the runs, although they are what is measured.
        if self.function == "steps" {
            self.bytes.set(scratch.run_bytes()? as usize / (runs * (before + steps)));
        }
        Ok(per_second(runs * steps, elapsed).beside("bytes", self.bytes.get() as f64))
    }

    fn take(
        &self,
        runtime: &mut tiffany::Runtime,
        name: &str,
        runs: usize,
        steps: usize,
    ) -> Result<Duration, String> {
        let start = Instant::now();
        let ids = (0..runs).map(|run| format!("{name} {run}"));
        let runs = work::submit(runtime, self.function, ids, steps as u64)?;
        work::wait_for_all(runtime, &runs)?;
        Ok(start.elapsed())
    }

    fn raw(
        &self,
        count: usize,
        write: impl FnOnce(Ring, usize) -> std::io::Result<Duration>,
    ) -> Taken {
        let scratch = self.place.fresh("raw")?;
        let bytes = self.bytes.get();
        let elapsed = Ring::make(scratch.path()).and_then(|ring| write(ring, bytes));
        let elapsed = elapsed.map_err(|error| error.to_string())?;
        Ok(per_second(count, elapsed).beside("bytes", bytes as f64))
    }

    fn raw_groups(&self, groups: usize) -> Taken {
        self.raw(groups * WAITERS, |ring, bytes| ring.by_group(bytes, groups))
    }

    fn bare_groups(&self, groups: usize) -> Taken {
        let write = |mut ring: Ring, bytes| ring.one_by_one(bytes * WAITERS, groups);
        self.raw(groups * WAITERS, write)
    }
}

fn per_second(count: usize, elapsed: Duration) -> Sample {
    Sample::of(count as f64 / elapsed.as_secs_f64())
}

pub(super) fn one_run(place: &Rc<Place>) -> Measure {
    let ours = Steps::new(place, "steps", 600);
    let raw = ours.clone();
    Measure {
        name: "w1",
        what: "one run, 1,000 steps one after the other",
        unit: "steps/s",
        better: Better::Higher,
        targets: vec![Target::Of("raw", 0.7)],
        rounds: 7,
        contenders: vec![
            Contender::fallible("tiffany", move |mode| ours.tiffany(1, mode.pick(1_000, 10))),
            Contender::fallible("raw", move |mode| {
                let count = mode.pick(1_000, 10);
                raw.raw(count, |mut ring, bytes| ring.one_by_one(bytes, count))
            }),
        ],
    }
}

pub(super) fn runs_at_once(place: &Rc<Place>) -> Measure {
    let ours = Steps::new(place, "steps", 600);
    Measure {
        name: "w2",
        what: "200 runs at once, 20 steps each",
        unit: "steps/s",
        better: Better::Higher,
        targets: vec![Target::Of("raw", 0.5), Target::Figure(10_000.0)],
        rounds: 7,
        contenders: groups(ours, |mode| mode.pick((200, 20, 200), (5, 2, 2))),
    }
}

pub(super) fn large_results(place: &Rc<Place>) -> Measure {
    let ours = Steps::new(place, "large", work::LARGE + 600);
    Measure {
        name: "w2_50k",
        what: "200 runs at once, 20 steps each, results of 50 kB",
        unit: "steps/s",
        better: Better::Higher,
        targets: vec![Target::Of("raw", 0.5)],
        rounds: 5,
        contenders: groups(ours, |mode| mode.pick((200, 20, 62), (5, 2, 2))),
    }
}

/// Returns tiffany and its two floors, with the number of runs, steps and group commits from
/// `size`.
fn groups(ours: Steps, size: fn(Mode) -> (usize, usize, usize)) -> Vec<Contender> {
    let (raw, bare) = (ours.clone(), ours.clone());
    vec![
        Contender::fallible("tiffany", move |mode| {
            let (runs, steps, _) = size(mode);
            ours.tiffany(runs, steps)
        }),
        Contender::fallible("raw", move |mode| raw.raw_groups(size(mode).2)),
        Contender::fallible("bare", move |mode| bare.bare_groups(size(mode).2)),
    ]
}

pub(super) fn more_runs_at_once(place: &Rc<Place>) -> Measure {
    let ours = Steps::new(place, "steps", 600);
    let fewer = ours.clone();
    Measure {
        name: "w2_1000",
        what: "1,000 runs at once, 20 steps each, beside 200",
        unit: "steps/s",
        better: Better::Higher,
        targets: vec![Target::Of("w2", 1.0)],
        rounds: 5,
        contenders: vec![
            Contender::fallible("tiffany", move |mode| {
                let (runs, steps) = mode.pick((1_000, 20), (10, 2));
                ours.tiffany(runs, steps)
            }),
            Contender::fallible("w2", move |mode| {
                let (runs, steps) = mode.pick((200, 20), (5, 2));
                fewer.tiffany(runs, steps)
            }),
        ],
    }
}
