//! Runs a test in a time limit, so that what should have been an error is never a hang.

use std::io;
use std::time::Duration;

use tiffany::{End, Runtime, timeout};

const LIMIT: Duration = Duration::from_secs(10);

/// What a test may give: nothing, or an error that fails it.
pub(crate) trait Outcome {
    fn into_result(self) -> Result<(), String>;
}

impl Outcome for () {
    fn into_result(self) -> Result<(), String> {
        Ok(())
    }
}

impl Outcome for io::Result<()> {
    fn into_result(self) -> Result<(), String> {
        self.map_err(|error| error.to_string())
    }
}

/// Runs a test as the root of a run, which ends with it whatever other tasks still wait for.
pub(crate) fn check<F>(test: F)
where
    F: Future<Output: Outcome> + 'static,
{
    let mut runtime = Runtime::builder().end(End::Root).build().unwrap();
    let bounded = async {
        match timeout(LIMIT, test).await {
            Ok(outcome) => outcome.into_result(),
            Err(late) => Err(late.to_string()),
        }
    };
    runtime.try_run(bounded).unwrap();
}
