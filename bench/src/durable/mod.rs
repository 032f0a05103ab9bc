//! The measures of durable runs, next to what the same disk does without tiffany.

mod child;
mod disk;
mod many_runs;
mod place;
mod pure;
mod resume;
mod steps;
mod work;
mod yield_logged;

pub(crate) use child::{Process, memory, output, serve as serve_child};
pub(crate) use disk::{Ring, WAITERS};
pub(crate) use place::{Place, Scratch, settle};
pub(crate) use work::{functions, open, said, steps, yields};

use std::rc::Rc;

use crate::harness::Measure;

/// The hidden command of a process that is killed or observed from outside.
pub(crate) const CHILD: &str = "durable-child";

/// Returns all of these measures, in the order in which they are taken.
pub(crate) fn measures(place: &Rc<Place>) -> Vec<Measure> {
    vec![
        steps::one_run(place),
        steps::runs_at_once(place),
        steps::more_runs_at_once(place),
        steps::large_results(place),
        pure::measure(place),
        yield_logged::measure(place),
        resume::after_a_kill(place),
        resume::long_log(place),
        many_runs::sleeping(place),
        many_runs::opening(place),
    ]
}
