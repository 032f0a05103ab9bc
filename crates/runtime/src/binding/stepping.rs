//! The test kit for another language.

use std::panic::Location;

use tiffany_kernel::{BoxCoroutine, Value};

use crate::runtime::RunHandle;
use crate::testing::TestScheduler;
use tiffany_records::RunError;

/// Starts a run of any coroutine.
#[track_caller]
pub fn start_test(test: &mut TestScheduler, root: BoxCoroutine) -> RunHandle<Value> {
    test.start_coroutine(root)
}

/// Runs a run to its end, with the clock jumping ahead whenever all are idle, or until `stop` says so. `None`: it is not over.
#[track_caller]
pub fn finish_test(
    test: &mut TestScheduler,
    run: &RunHandle<Value>,
    stop: impl Fn() -> bool,
) -> Option<Result<Value, RunError>> {
    test.drive(Location::caller(), run, stop)
}
