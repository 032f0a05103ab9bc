//! `pal_0`, `pal_1`, `pal_10`: the additional cost of a yield for the loop's thread while this
//! number of readers read every turn (`Detail::All`), each on its own thread, with 100 tasks that
//! yield to each other. It is compared with a runtime whose activity log was never requested. With
//! 0 readers, the log is kept but not read. It is CPU time of the loop's thread, because the
//! readers have work of their own and share its cores.
//!
//! Additional columns: `durable` is the same difference for a durable run with and without these
//! readers; `seen` is the part of all turns that a reader saw, the rest being reported to it as
//! lost; `wall` is the difference in wall-clock time.

use std::rc::Rc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use tiffany::Runtime;
use tiffany::pal::{Detail, Hub, Told, Wanted};

use crate::durable::{self, Place};
use crate::harness::{Better, Contender, Measure, Mode, Sample, Taken, Target, ns_each};

pub(super) fn measure(place: &Rc<Place>, readers: usize) -> Measure {
    let place = Rc::clone(place);
    let (name, what, limit) = match readers {
        0 => ("pal_0", "a yield while the activity log is kept, beyond one without it", 5.0),
        1 => ("pal_1", "a yield whose turn one reader wants to see, beyond one without", 60.0),
        _ => ("pal_10", "a yield whose turn ten readers want to see, beyond one without", 250.0),
    };
    Measure {
        name,
        what,
        unit: "ns",
        better: Better::Lower,
        targets: vec![Target::Figure(limit)],
        rounds: 7,
        contenders: vec![Contender::fallible("tiffany", move |mode| {
            tiffany(&place, mode, readers)
        })],
    }
}

fn tiffany(place: &Place, mode: Mode, readers: usize) -> Taken {
    let yields = mode.pick(2_000_000, 1_000);
    let mut plain = Runtime::new().map_err(durable::said)?;
    let without = ns(yields, || plain.try_run(durable::yields(yields)).map(drop))?;
    let mut watched = Runtime::new().map_err(durable::said)?;
    let reading = Reading::start(&watched.activity(), readers);
    let with = ns(yields, || watched.try_run(durable::yields(yields)).map(drop))?;
    drop(watched);
    let seen = reading.end() / yields as f64;

    let scratch = place.fresh("watched")?;
    let mut logged = durable::open(&scratch.log())?;
    let yields = mode.pick(500_000, 1_000);
    let unwatched = ns(yields, || run(&mut logged, "unwatched", yields))?;
    let reading = Reading::start(&logged.activity(), readers);
    let logged_with = ns(yields, || run(&mut logged, "watched", yields))?;
    drop(logged);
    reading.end();
    Ok(Sample::of(with.cpu - without.cpu)
        .beside("durable", logged_with.cpu - unwatched.cpu)
        .beside("without", without.cpu)
        .beside("wall", with.wall - without.wall)
        .beside("seen", seen))
}

fn run(runtime: &mut Runtime, id: &str, yields: u64) -> Result<(), tiffany::RunError> {
    let run = runtime.submit::<u64>("yields", id, &yields)?;
    runtime.wait_for(&run).map(drop)
}

/// The time per operation.
struct Each {
    cpu: f64,
    wall: f64,
}

fn ns(count: u64, act: impl FnOnce() -> Result<(), tiffany::RunError>) -> Result<Each, String> {
    let (cpu, wall) = (thread_time(), Instant::now());
    act().map_err(durable::said)?;
    let cpu = ns_each(thread_time() - cpu, count as usize);
    Ok(Each { cpu, wall: ns_each(wall.elapsed(), count as usize) })
}

/// Returns the CPU time of this thread.
fn thread_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Threads that read until the runtime ends.
struct Reading(Vec<JoinHandle<u64>>);

impl Reading {
    fn start(hub: &Hub, readers: usize) -> Reading {
        let threads = (0..readers).map(|_| {
            let events = hub.subscribe(Wanted::new().detail(Detail::All));
            let is_event = |told: &Told| matches!(told, Told::Event(_));
            std::thread::spawn(move || events.into_iter().filter(is_event).count() as u64)
        });
        Reading(threads.collect())
    }

    /// Waits for the threads, and returns the average number of events they saw.
    fn end(self) -> f64 {
        let readers = self.0.len().max(1);
        let seen: u64 = self.0.into_iter().filter_map(|thread| thread.join().ok()).sum();
        seen as f64 / readers as f64
    }
}
