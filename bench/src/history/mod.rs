//! The measures of long histories: the cost of runs that have lived very long, and of many runs.

mod backup;
mod check;
mod compact;
mod long_runs;
mod seek;

pub(crate) use backup::serve as serve_backup;
pub(crate) use long_runs::serve as serve_long_run;

use std::rc::Rc;

use crate::durable::Place;
use crate::harness::Measure;

/// Returns all of these measures, in the order in which they are taken.
pub(crate) fn measures(place: &Rc<Place>) -> Vec<Measure> {
    vec![
        seek::measure(place),
        check::measure(place),
        compact::of_long_runs(place),
        compact::of_short_runs(place),
        long_runs::of_snapshots(place),
        long_runs::of_continued(place),
        backup::measure(place),
    ]
}
