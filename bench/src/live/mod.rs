//! The measures of what is seen while it happens: what it costs those who work that others watch.

mod pal;

use std::rc::Rc;

use crate::durable::Place;
use crate::harness::Measure;

/// All of them, in the order they are taken.
pub(crate) fn measures(place: &Rc<Place>) -> Vec<Measure> {
    vec![pal::measure(place, 0), pal::measure(place, 1), pal::measure(place, 10)]
}
