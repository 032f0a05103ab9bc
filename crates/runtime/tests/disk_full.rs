//! The threat: a disk that is really full, which a small tmpfs is here. The log stops with a message, nobody is told anything
//! that is not true, and with more room the runs go on where they were.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Mutex;

use crate::tmpfs::Tmpfs;
use tiffany::durable::step;
use tiffany::wal::Settings;
use tiffany::{RunError, Runtime, TaskError};

const STEPS: usize = 400;

/// How often each step was done.
static DONE: Mutex<BTreeMap<usize, usize>> = Mutex::new(BTreeMap::new());

async fn work(name: String) -> Result<usize, TaskError> {
    let mut length = 0;
    for number in 0..STEPS {
        let text: String = step("write", move || {
            *DONE.lock().unwrap().entry(number).or_default() += 1;
            Ok::<String, String>(format!("{number:>3000}"))
        })
        .input(&(&name, number))
        .await?;
        length += text.len();
    }
    Ok(length)
}

fn runtime(dir: &Path) -> Result<Runtime, RunError> {
    let settings = Settings { segment_bytes: 1 << 16, ..Settings::default() };
    Runtime::builder()
        .log_dir(dir.join("log"))
        .log_settings(settings)
        .register("work", work)
        .build()
}

#[test]
fn a_full_disk_stops_the_log_and_loses_nothing() {
    let tmpfs = match Tmpfs::new("disk-full", "1m") {
        Ok(tmpfs) => tmpfs,
        Err(why) => {
            // Only root may mount; the same is tested on a simulated disk in any case.
            return println!("not tested here, because no tmpfs can be mounted: {why}");
        }
    };
    let mut first = runtime(&tmpfs.0).expect("there is room for a beginning");
    let run = first.submit::<usize>("work", "letters", &"full").expect("it starts");
    let error = first.wait_for(&run).expect_err("there is no room for all of it");
    assert!(matches!(&error, RunError::Log(_)), "{error}");
    assert!(error.to_string().contains("the disk is full [TFY0103]"), "{error}");
    let done = DONE.lock().unwrap().len();
    assert!(done > 50 && done < STEPS, "{done} steps were done");
    // Nothing is accepted any more.
    assert!(first.submit::<usize>("work", "more", &"full").is_err());
    drop(first);

    // Without more room it is said again, and nothing gets worse.
    match runtime(&tmpfs.0) {
        Err(error) => assert!(error.to_string().contains("[TFY"), "{error}"),
        Ok(mut again) => {
            let run = again.submit::<usize>("work", "letters", &"full");
            let error = run.and_then(|run| again.wait_for(&run)).expect_err("it is still full");
            assert!(error.to_string().contains("[TFY"), "{error}");
        }
    }

    tmpfs.mount("remount,size=16m").expect("it can be made larger");
    let mut second = runtime(&tmpfs.0).expect("there is room now");
    let run = second.submit::<usize>("work", "letters", &"full").expect("it goes on");
    assert_eq!(second.wait_for(&run).expect("it comes to its end"), 3000 * STEPS);
    let done = DONE.lock().unwrap();
    assert_eq!(done.len(), STEPS);
    // At each restart the step under way was done again, and no other.
    let again: usize = done.values().map(|times| times - 1).sum();
    assert!(again <= 2, "{again} steps were done again: {done:?}");
}
