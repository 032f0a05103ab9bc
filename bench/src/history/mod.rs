//! The measures of long histories: what it costs that a run has been going on for very long.

mod seek;
mod snapshots;

pub(crate) use snapshots::serve as serve_snapshots;

use std::rc::Rc;

use crate::durable::Place;
use crate::harness::Measure;

/// All of them, in the order they are taken.
pub(crate) fn measures(place: &Rc<Place>) -> Vec<Measure> {
    vec![seek::measure(place), snapshots::restart(place)]
}
