//! Blocking work that waits for a thread.

use std::sync::mpsc;
use std::time::{Duration, Instant};

use tiffany::{Runtime, blocking, cancel, sleep, spawn};

/// As much as a busy program may have: to search for each among the others would take very long.
#[test]
fn much_work_that_has_not_begun_is_cancelled_quickly() {
    const MANY: usize = 30_000;
    let mut runtime = Runtime::builder().blocking_threads(1).build().unwrap();
    let done = runtime.try_run(async {
        let (open, gate) = mpsc::channel::<()>();
        let busy = spawn(blocking(move || gate.recv())).await;
        sleep(Duration::from_millis(5)).await;
        let mut tasks = Vec::new();
        for n in 0..MANY {
            tasks.push(spawn(blocking(move || n)).await);
        }
        let stays = tasks.swap_remove(MANY / 2);
        let began = Instant::now();
        // The last first, which is the longest search.
        for task in tasks.iter().rev() {
            cancel(task).await;
        }
        sleep(Duration::from_millis(5)).await;
        assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
        open.send(()).unwrap();
        busy.await??.unwrap();
        stays.await?
    });
    assert_eq!(done.unwrap(), MANY / 2);
}
