//! The threat: a service manager keeps waiting for a daemon that is ready, or kills one that is
//! stopping.

use std::os::unix::net::UnixDatagram;
use std::process::{Command, Stdio};
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(60);

#[test]
fn it_says_when_it_is_ready_and_when_it_ends() {
    let dir = std::env::temp_dir().join(format!("tiffany-notify-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&dir);
    std::fs::create_dir_all(&dir).unwrap();
    let socket = UnixDatagram::bind(dir.join("notify")).unwrap();
    socket.set_read_timeout(Some(LIMIT)).unwrap();
    let mut daemon = Command::new(env!("CARGO_BIN_EXE_tiffany"))
        .args(["--dir", "log", "serve", "--listen", "127.0.0.1:0"])
        .current_dir(&dir)
        .env("NOTIFY_SOCKET", dir.join("notify"))
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let next = || {
        let mut bytes = [0; 4096];
        let count = socket.recv(&mut bytes).expect("it says nothing");
        String::from_utf8(bytes[..count].to_vec()).unwrap()
    };
    let ready = next();
    assert!(ready.starts_with("READY=1\nSTATUS=serving http://127.0.0.1:"), "{ready}");
    let pid = daemon.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
    assert!(next().starts_with("STOPPING=1\n"));
    assert!(daemon.wait().unwrap().success());
    std::fs::remove_dir_all(&dir).unwrap();
}
