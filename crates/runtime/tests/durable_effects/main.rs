//! What steps promise: how often they are done, under which key, when they are tried again, how long they may take,
//! and who goes first.

mod checkpoints;
mod elsewhere;
mod kinds;
mod outward;
mod posts;
mod queues;
mod retries;
mod sagas;
mod timeouts;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tiffany::wal::Settings;
use tiffany::{Builder, Runtime};

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// A directory that goes when it is dropped.
struct Dir(PathBuf);

impl Dir {
    fn new() -> Dir {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("tiffany-effects-{}-{number}", std::process::id());
        let dir = std::env::temp_dir().join(name);
        let _ = std::fs::remove_dir_all(&dir);
        Dir(dir)
    }

    /// Settings of a runtime that has its log here.
    fn builder(&self) -> Builder {
        let settings = Settings { segment_bytes: 1 << 18, ..Settings::default() };
        Runtime::builder().log_dir(&self.0).log_settings(settings)
    }

    fn run_file(&self) -> PathBuf {
        let files = std::fs::read_dir(self.0.join("wal")).expect("there is a log");
        let mut paths = files.map(|file| file.expect("it can be read").path());
        let is_run = |path: &PathBuf| path.extension().is_some_and(|ending| ending == "wal");
        paths.find(is_run).expect("there is a run")
    }

    /// The log of the only run, once no runtime has it open.
    fn log(&self) -> String {
        std::fs::read_to_string(self.run_file()).expect("it can be read")
    }

    /// Another directory, with the log up to and with the nth line that has this in it, as a crash leaves it.
    fn cut_after(&self, nth: usize, what: &str) -> Dir {
        let log = self.log();
        let lines: Vec<&str> = log.split_inclusive('\n').collect();
        let mut with = lines.iter().enumerate().filter(|(_, line)| line.contains(what));
        let (at, _) = with.nth(nth - 1).unwrap_or_else(|| panic!("no {nth} `{what}` in\n{log}"));
        let cut = Dir::new();
        std::fs::create_dir_all(cut.0.join("wal")).expect("it can be made");
        let name = self.run_file();
        let name = Path::new("wal").join(name.file_name().expect("it has a name"));
        std::fs::write(cut.0.join(name), lines[..=at].concat()).expect("it can be written");
        cut
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// What the log has of effects: `Start 1`, `Kept 1`, `Failed 1`, `Result`, in order.
fn effects(log: &str) -> Vec<String> {
    let field = |line: &str, name: &str| -> Option<String> {
        let line: serde_json::Value = serde_json::from_str(line).expect("a line is JSON");
        line.get(name).map(ToString::to_string)
    };
    let entries = log.lines().filter_map(|line| {
        let attempt = field(line, "attempt").unwrap_or_default();
        match (field(line, "type")?.trim_matches('"'), field(line, "retry_at")) {
            ("EffectStart", _) => Some(format!("Start {attempt}")),
            ("EffectCheckpoint", _) => Some(format!("Kept {attempt}")),
            ("EffectResult", Some(_)) => Some(format!("Failed {attempt}")),
            ("EffectResult", None) => Some("Result".into()),
            _ => None,
        }
    });
    entries.collect()
}
