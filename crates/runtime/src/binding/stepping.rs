//! The test kit for another language.

use std::panic::Location;

use tiffany_kernel::{BoxCoroutine, Value};

use crate::runtime::RunHandle;
use crate::testing::TestScheduler;
use tiffany_records::RunError;

/// Starts a run with any coroutine as its root.
#[track_caller]
pub fn start_test(test: &mut TestScheduler, root: BoxCoroutine) -> RunHandle<Value> {
    test.start_coroutine(root)
}

/// Runs a run until it is finished, with the clock jumping ahead whenever no task is ready, or
/// until `stop` returns true. Returns `None` if the run is not finished.
#[track_caller]
pub fn finish_test(
    test: &mut TestScheduler,
    run: &RunHandle<Value>,
    stop: impl Fn() -> bool,
) -> Option<Result<Value, RunError>> {
    test.drive(Location::caller(), run, stop)
}
