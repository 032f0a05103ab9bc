//! What the tests of durable runs share: directories that go when they are dropped, and logs cut as a crash
//! leaves them.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use tiffany::wal::Settings;
use tiffany::{Builder, Runtime};

use crate::test_process;

pub(crate) fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// A directory that goes when it is dropped.
pub(crate) struct Dir(pub(crate) PathBuf);

impl Dir {
    pub(crate) fn new() -> Dir {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("tiffany-durable-{}-{number}", std::process::id());
        let dir = std::env::temp_dir().join(name);
        let _ = std::fs::remove_dir_all(&dir);
        Dir(dir)
    }

    /// Settings of a runtime that has its log here.
    pub(crate) fn builder(&self) -> Builder {
        let settings = Settings { segment_bytes: 1 << 18, ..Settings::default() };
        Runtime::builder().log_dir(&self.0).log_settings(settings)
    }

    pub(crate) fn run_file(&self) -> PathBuf {
        let files = std::fs::read_dir(self.0.join("wal")).expect("there is a log");
        let mut paths = files.map(|file| file.expect("it can be read").path());
        let is_run = |path: &PathBuf| path.extension().is_some_and(|ending| ending == "wal");
        paths.find(is_run).expect("there is a run")
    }

    /// The log of the only run, once no runtime has it open.
    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.run_file()).expect("it can be read")
    }

    /// How many lines of the only run's log have this in them.
    pub(crate) fn count(&self, what: &str) -> usize {
        self.log().lines().filter(|line| line.contains(what)).count()
    }

    /// Another directory, with the log up to and with the nth line that has this in it, as a crash leaves it.
    pub(crate) fn cut_after(&self, nth: usize, what: &str) -> Dir {
        let log = self.log();
        let lines: Vec<&str> = log.split_inclusive('\n').collect();
        let mut with = lines.iter().enumerate().filter(|(_, line)| line.contains(what));
        let (at, _) = with.nth(nth - 1).unwrap_or_else(|| panic!("no {nth} `{what}` in\n{log}"));
        self.with_log(&lines[..=at].concat())
    }

    /// Another directory, where the only run has this log.
    pub(crate) fn with_log(&self, log: &str) -> Dir {
        let other = Dir::new();
        std::fs::create_dir_all(other.0.join("wal")).expect("it can be made");
        let name = self.run_file();
        let name = Path::new("wal").join(name.file_name().expect("it has a name"));
        std::fs::write(other.0.join(name), log).expect("it can be written");
        other
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The settings with all calls recorded, or those alone that concern the world.
pub(crate) fn recording(builder: Builder, is_outward: bool) -> Builder {
    if is_outward { builder.record_outward_only() } else { builder }
}

/// Tells a process of a test that it is to be killed, and where it works.
pub(crate) const TO_BE_KILLED: &str = "TIFFANY_TO_BE_KILLED";

/// Starts the test `killed_at_random_moments` of this module again and again as a process, which is killed with SIGKILL after
/// between `least` milliseconds and `spread` more, until one comes to its end. Tells how often it was killed.
pub(crate) fn kill_until_over(
    module: &str,
    dir: &Path,
    seed: u64,
    (least, spread, growth): (u64, u64, u64),
) -> usize {
    let (mut kills, mut state) = (0, seed);
    let began = Instant::now();
    loop {
        assert!(began.elapsed() < Duration::from_secs(50), "it does not come to its end");
        let mut child = test_process::command(module, "killed_at_random_moments")
            .env(TO_BE_KILLED, dir)
            .stdout(Stdio::null())
            .spawn()
            .expect("it starts");
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        // Longer and longer, so that a slow machine comes to its end too.
        std::thread::sleep(ms(least + (state >> 33) % (spread + growth * kills)));
        if let Some(status) = child.try_wait().expect("it can be asked") {
            assert!(status.success());
            break;
        }
        child.kill().expect("it can be killed");
        child.wait().expect("it ended");
        kills += 1;
    }
    assert!(kills >= 5, "killed {kills} times only, so this shows nothing");
    kills as usize
}
