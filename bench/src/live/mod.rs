//! The measures of what is seen and asked while it happens: what it costs those who work that others watch, and how soon those others know.

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

/// All of them, in the order they are taken.
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
