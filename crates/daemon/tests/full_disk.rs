//! The threat: the disk is full while the daemon serves. Whoever wants to change something is told so with the code of the log, looking still works, the daemon
//! stays up, and with more room everything that was acknowledged is there.

mod kit;

use std::path::PathBuf;
use std::process::Command;

use kit::{House, program};
use tiffany::wal::Settings;
use tiffany_daemon::Daemon;

/// A file system of its own, which is taken away again whatever happens.
struct Tmpfs(PathBuf);

impl Tmpfs {
    /// The reason if there can be none here.
    fn new(size: &str) -> Result<Tmpfs, String> {
        let dir = std::env::temp_dir().join(format!("tiffany-daemon-full-{}", std::process::id()));
        std::fs::create_dir_all(&dir).map_err(|error| error.to_string())?;
        let tmpfs = Tmpfs(dir);
        tmpfs.mount(&format!("size={size}"))?;
        Ok(tmpfs)
    }

    fn mount(&self, options: &str) -> Result<(), String> {
        let mut command = Command::new("mount");
        command.args(["-t", "tmpfs", "-o", options, "tmpfs"]).arg(&self.0);
        let output = command.output().map_err(|error| error.to_string())?;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        output.status.success().then_some(()).ok_or(said)
    }

    fn house(&self) -> House {
        House::of(&self.0.join("log"), |dir| {
            let settings = Settings { segment_bytes: 1 << 16, ..Settings::default() };
            Daemon::new(program().log_settings(settings), dir)
        })
    }
}

impl Drop for Tmpfs {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).output();
        let _ = std::fs::remove_dir(&self.0);
    }
}

#[test]
fn a_full_disk_is_told_and_the_daemon_stays_up() {
    let tmpfs = match Tmpfs::new("1m") {
        Ok(tmpfs) => tmpfs,
        Err(why) => {
            // Only root may mount.
            return println!("not tested here, because no tmpfs can be mounted: {why}");
        }
    };
    let house = tmpfs.house();
    let input = format!("\"{}\"", "x".repeat(3000));
    let mut acknowledged = Vec::new();
    let refused = loop {
        let id = format!("r-{}", acknowledged.len());
        let answer = house.submit("echo", &id, &input);
        match answer.status {
            201 => acknowledged.push(id),
            _ => break answer,
        }
        assert!(acknowledged.len() < 2000, "the disk does not fill");
    };
    assert_eq!(refused.problem(), (507, "TFY0103".into()));
    assert_eq!(house.submit("echo", "more", "1").problem(), (507, "TFY0103".into()));
    assert_eq!(house.post("/api/v1/runs/r-0/cancel", "").problem(), (507, "TFY0103".into()));
    assert_eq!(house.get("/healthz").status, 200);
    let ready = house.get("/readyz");
    assert_eq!((ready.status, &ready.json()["why"]["code"]), (503, &"TFY0103".into()));
    let list = house.get("/api/v1/runs?limit=1").json();
    assert!(list["total"].as_u64().unwrap() >= acknowledged.len() as u64, "{list}");
    assert_eq!(house.get("/api/v1/runs/r-0").json()["state"], "completed");
    assert_eq!(house.get("/api/v1/runs/r-0/records").json()["records"][0]["type"], "RunStart");
    house.close();

    tmpfs.mount("remount,size=32m").unwrap();
    let house = tmpfs.house();
    for id in &acknowledged {
        house.wait_for(id, "completed");
    }
    assert_eq!(house.submit("echo", "more", "1").status, 201);
}
