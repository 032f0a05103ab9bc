//! The threat: the disk is full while the daemon serves. Changes are refused with the log's error
//! code, reads still work, the daemon stays up, and once there is room again everything that was
//! acknowledged is there.

#[path = "../../runtime/tests/tmpfs/mod.rs"]
mod tmpfs;

use crate::kit::{House, program};
use tiffany::wal::Settings;
use tiffany_daemon::Daemon;
use tmpfs::Tmpfs;

fn open(tmpfs: &Tmpfs) -> House {
    House::of(&tmpfs.0.join("log"), |dir| {
        let settings = Settings { segment_bytes: 1 << 16, ..Settings::default() };
        Daemon::new(program().log_settings(settings), dir)
    })
}

#[test]
fn a_full_disk_is_told_and_the_daemon_stays_up() {
    let tmpfs = match Tmpfs::new("daemon-full", "1m") {
        Ok(tmpfs) => tmpfs,
        Err(why) => {
            // Only root may mount.
            return println!("not tested here, because no tmpfs can be mounted: {why}");
        }
    };
    let house = open(&tmpfs);
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
    let house = open(&tmpfs);
    for id in &acknowledged {
        house.wait_for(id, "completed");
    }
    assert_eq!(house.submit("echo", "more", "1").status, 201);
}
