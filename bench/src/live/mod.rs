//! The measures of observing runs while they work: what watching costs the runs that are watched,
//! and how soon watchers learn what happened.

mod house;
mod line;
mod pal;
mod pal_ws;
mod ps;
mod submit;
mod watchers;

pub(crate) use house::serve as serve_daemon;
pub(crate) use ps::serve as serve_ps;
pub(crate) use watchers::serve as serve_watchers;

use std::rc::Rc;

use crate::durable::Place;
use crate::harness::Measure;

/// Returns all of these measures, in the order in which they are taken.
pub(crate) fn measures(place: &Rc<Place>) -> Vec<Measure> {
    vec![
        pal::measure(place, 0),
        pal::measure(place, 1),
        pal::measure(place, 10),
        pal_ws::measure(place),
        submit::measure(place),
        watchers::measure(place),
        ps::measure(place),
    ]
}
