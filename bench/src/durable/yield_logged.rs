//! `yield_logged`: the additional cost of a yield for the loop's thread in a durable run, compared
//! with a run that is not durable, with 100 tasks that yield to each other. It is CPU time of that
//! thread, so it excludes the disk and the log's threads. Repeated yields of a task become one line
//! with their count; for comparison, `random` is the same difference for a call that becomes a line
//! each time.

use std::rc::Rc;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use tiffany::Runtime;

use super::place::Place;
use super::work;
use crate::harness::{Better, Contender, Measure, Mode, Sample, Taken, Target, ns_each};

pub(super) fn measure(place: &Rc<Place>) -> Measure {
    let place = Rc::clone(place);
    Measure {
        name: "yield_logged",
        what: "a recorded yield beyond one that is not, for the loop's thread",
        unit: "ns",
        better: Better::Lower,
        targets: vec![Target::Figure(250.0)],
        rounds: 7,
        contenders: vec![Contender::fallible("tiffany", move |mode| tiffany(&place, mode))],
    }
}

fn tiffany(place: &Place, mode: Mode) -> Taken {
    let (yields, randoms) = mode.pick((1_000_000, 100_000), (1_000, 1_000));
    let scratch = place.fresh("yields")?;
    let mut durable = work::open(&scratch.log())?;
    let mut plain = Runtime::new().map_err(work::said)?;
    let ns = |function: &mut dyn FnMut() -> Result<(), String>, count: u64| {
        let start = thread_time();
        function()?;
        Ok::<f64, String>(ns_each(thread_time() - start, count as usize))
    };
    let unlogged =
        ns(&mut || plain.try_run(work::yields(yields)).map(drop).map_err(work::said), yields)?;
    let logged = ns(&mut || work::one(&mut durable, "yields", "yields", yields), yields)?;
    let plain_random =
        ns(&mut || plain.try_run(work::randoms(randoms)).map(drop).map_err(work::said), randoms)?;
    let random = ns(&mut || work::one(&mut durable, "randoms", "randoms", randoms), randoms)?;
    Ok(Sample::of(logged - unlogged)
        .beside("logged", logged)
        .beside("unlogged", unlogged)
        .beside("random", random - plain_random))
}

/// Returns the CPU time of this thread.
fn thread_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
