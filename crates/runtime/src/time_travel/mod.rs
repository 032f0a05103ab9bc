//! Runs looked at, tried and captured with the code of today: any moment of a run, what a run would do next, a run as a test. Each replays a
//! run in a runtime of its own, without effects; nothing here is needed to run.

pub(crate) mod capture;
pub(crate) mod travel;
pub(crate) mod trial;
