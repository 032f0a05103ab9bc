//! The threat: a call that is not to the outside world is recorded a second time, because the
//! replay assumed that the run was further along than it was.

use std::time::Duration;

use tiffany::durable::step;
use tiffany::{TaskError, gather, group, sleep, spawn};

async fn wakes_and_continues(_: ()) -> Result<u32, TaskError> {
    let nap = spawn(sleep(Duration::from_millis(5))).await;
    gather(vec![nap]).await?;
    let _group = group().await;
    step("one", || Ok::<u32, String>(1)).await
}

#[test]
fn calls_after_a_wake_are_recorded_once() {
    tiffany_sim::crash_everywhere(wakes_and_continues, ());
}
