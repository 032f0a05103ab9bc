//! `submit`: 64 clients start runs over HTTP, each waiting until its run is safe in the log before
//! the next request. The runs return at once, so the log also has their ends. The daemon has a
//! process of its own, and the clients one thread of this process; all share the machine's cores.
//!
//! `raw` is the same as in `w2`: 64 threads share an fdatasync, with as many bytes as a request has
//! in the daemon's log. It has no network, no runs, no file per run and no audit log. Additional
//! columns: `bytes` is the size of a request in the log; `group` is the number of records that were
//! made safe at once; `cpu_us` is the processor time that the daemon needed per request.

use std::cell::Cell;
use std::rc::Rc;

use super::house::House;
use crate::durable::{Place, Ring, WAITERS, settle};
use crate::harness::{Better, Contender, Measure, Mode, Sample, Taken, Target};

pub(super) fn measure(place: &Rc<Place>) -> Measure {
    // An estimate until the first sample has measured it.
    let bytes = Rc::new(Cell::new(600));
    let (ours, raws) = (Rc::clone(place), Rc::clone(place));
    let seen = Rc::clone(&bytes);
    Measure {
        name: "submit",
        what: "runs started over HTTP by 64 clients, each safe before it is answered",
        unit: "requests/s",
        better: Better::Higher,
        targets: vec![Target::Of("raw", 0.4)],
        rounds: 5,
        contenders: vec![
            Contender::fallible("tiffany", move |mode| tiffany(&ours, mode, &seen)),
            Contender::fallible("raw", move |mode| raw(&raws, mode, bytes.get())),
        ],
    }
}

fn tiffany(place: &Place, mode: Mode, bytes: &Cell<usize>) -> Taken {
    let house = House::open(place)?;
    let count = mode.pick(20_000, 128);
    // The log's files and threads exist before the time is taken.
    house.submit("done", "before", count / 4)?;
    settle();
    let figures = || {
        let names = ["_bytes_sum", "_records_sum", "_records_count"];
        let commits = names.map(|name| house.metric(&format!("tiffany_commit{name}")));
        Ok::<_, String>((commits, house.metric("process_cpu_seconds_total")?))
    };
    let (before, cpu_before) = figures()?;
    let elapsed = house.submit("done", "run", count)?;
    let (after, cpu_after) = figures()?;
    let grown = |at: usize| Ok::<f64, String>(after[at].clone()? - before[at].clone()?);
    bytes.set((grown(0)? / count as f64) as usize);
    Ok(Sample::of(count as f64 / elapsed.as_secs_f64())
        .beside("bytes", bytes.get() as f64)
        .beside("group", grown(1)? / grown(2)?)
        .beside("cpu_us", (cpu_after - cpu_before) * 1e6 / count as f64))
}

fn raw(place: &Place, mode: Mode, bytes: usize) -> Taken {
    let scratch = place.fresh("raw")?;
    let groups = mode.pick(300, 2);
    let elapsed = Ring::make(scratch.path()).and_then(|ring| ring.by_group(bytes, groups));
    let elapsed = elapsed.map_err(|error| format!("cannot write to the disk: {error}"))?;
    Ok(Sample::of((groups * WAITERS) as f64 / elapsed.as_secs_f64()))
}
