//! Replays of runs with the present code: looking at any moment of a run, trying what a run would
//! do next, and capturing a run as a test. Each replays a run in a runtime of its own, without
//! effects; running runs needs none of this.

pub(crate) mod capture;
pub(crate) mod travel;
pub(crate) mod trial;
