//! The threat: a call that does not concern the world is written a second time, because the replay took the run to be further than it was.

use std::time::Duration;

use tiffany::durable::step;
use tiffany::{TaskError, gather, group, sleep, spawn};

async fn wakes_and_goes_on(_: ()) -> Result<u32, TaskError> {
    let nap = spawn(sleep(Duration::from_millis(5))).await;
    gather(vec![nap]).await?;
    let _group = group().await;
    step("one", || Ok::<u32, String>(1)).await
}

#[test]
fn what_follows_a_wake_is_written_once() {
    tiffany_sim::crash_everywhere(wakes_and_goes_on, ());
}
