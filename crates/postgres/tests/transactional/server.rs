//! A real PostgreSQL server for one test, in a directory of its own, reached through a Unix socket,
//! and removed with the test.

use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tiffany_postgres::Postgres;
use tiffany_postgres::postgres::{Client, NoTls};

pub(crate) struct Server {
    pub(crate) dir: PathBuf,
    bin: PathBuf,
    process: Option<Child>,
}

impl Server {
    pub(crate) fn start() -> Server {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let dir = std::env::temp_dir().join(format!("tiffany-pg-{}-{number}", std::process::id()));
        let _ = std::fs::remove_dir_all(&dir);
        let data = dir.join("data");
        std::fs::create_dir_all(&data).expect("it can be made");
        std::fs::set_permissions(&data, PermissionsExt::from_mode(0o700)).expect("it is ours");
        if let Some((user, group)) = other_user() {
            chown(&data, Some(user), Some(group)).expect("it is ours");
        }
        let mut server = Server { dir, bin: binaries(), process: None };
        let mut init = server.command("initdb");
        init.args(["--username=tiffany", "--auth=trust", "--no-sync", "--encoding=UTF8", "-D"]);
        let made = init.arg(&data).stdout(Stdio::null()).status().expect("initdb starts");
        assert!(made.success(), "initdb ended with {made}");
        server.run();
        let table = "CREATE TABLE effect (round bigint, key text)";
        server.client().batch_execute(table).expect("it can be made");
        server
    }

    /// Starts the server, also after it was killed.
    pub(crate) fn run(&mut self) {
        let mut start = self.command("postgres");
        start.arg("-D").arg(self.dir.join("data")).arg("-k").arg(self.dir.join("data"));
        start.args(["-c", "listen_addresses=", "-c", "fsync=off", "-c", "max_connections=20"]);
        let log = std::fs::File::create(self.dir.join("server.log")).expect("it can be made");
        self.process = Some(start.stderr(log).stdout(Stdio::null()).spawn().expect("it starts"));
        let began = Instant::now();
        while Client::connect(&self.how(), NoTls).is_err() {
            let log = std::fs::read_to_string(self.dir.join("server.log")).unwrap_or_default();
            assert!(began.elapsed() < Duration::from_secs(30), "the server does not start:\n{log}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Kills the server as a crash of its machine would, with all processes that serve connections.
    /// These would otherwise answer once more before they notice.
    pub(crate) fn kill(&mut self) {
        let Some(mut process) = self.process.take() else { return };
        let children = format!("/proc/{0}/task/{0}/children", process.id());
        let children = std::fs::read_to_string(children).unwrap_or_default();
        process.kill().expect("it can be killed");
        process.wait().expect("it ended");
        for child in children.split_whitespace() {
            let id = child.parse().ok().and_then(Pid::from_raw).expect("an id");
            let _ = kill_process(id, Signal::KILL); // it may have ended by itself
            let began = Instant::now();
            while kill_process(id, Signal::KILL).is_ok() && !is_zombie(child) {
                assert!(began.elapsed() < Duration::from_secs(30), "process {child} lives on");
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    }

    /// Makes a command for a PostgreSQL program, which refuses to be run by root.
    fn command(&self, program: &str) -> Command {
        let program = self.bin.join(program);
        let mut command = match other_user() {
            None => Command::new(program),
            Some((user, group)) => {
                let mut command = Command::new("setpriv");
                let (user, group) = (format!("--reuid={user}"), format!("--regid={group}"));
                command.args([&user, &group, "--clear-groups", "--pdeathsig", "KILL"]).arg(program);
                command
            }
        };
        command.current_dir("/");
        command
    }

    pub(crate) fn how(&self) -> String {
        how(&self.dir)
    }

    pub(crate) fn client(&self) -> Client {
        connect(&self.how())
    }

    pub(crate) fn postgres(&self) -> Postgres {
        Postgres::new(&self.how()).expect("it can be read")
    }

    /// Returns how often each round was done.
    pub(crate) fn effects(&self) -> Vec<(i64, i64)> {
        let count = "SELECT round, count(*) FROM effect GROUP BY round ORDER BY round";
        let rows = self.client().query(count, &[]).expect("there is a table");
        rows.iter().map(|row| (row.get(0), row.get(1))).collect()
    }
}

pub(crate) fn connect(how: &str) -> Client {
    Client::connect(how, NoTls).expect("the server is there")
}

pub(crate) fn how(dir: &Path) -> String {
    format!("host={} user=tiffany dbname=postgres", dir.join("data").display())
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

/// Returns whether a process has ended but was not waited for.
fn is_zombie(id: &str) -> bool {
    let state = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
    state.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with('Z'))
}

/// Returns the user and group to run as if this process is root.
fn other_user() -> Option<(u32, u32)> {
    if !rustix::process::geteuid().is_root() {
        return None;
    }
    let users = std::fs::read_to_string("/etc/passwd").expect("there are users");
    let line = users.lines().find(|line| line.starts_with("postgres:"));
    let parts: Vec<&str> = line.expect(MISSING).split(':').collect();
    Some((parts[2].parse().expect("a number"), parts[3].parse().expect("a number")))
}

/// Returns the directory of PostgreSQL's programs.
fn binaries() -> PathBuf {
    let debian = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let debian = debian.map(|version| version.path().join("bin"));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = debian.chain(std::env::split_paths(&path)).find(|dir| dir.join("initdb").exists());
    found.expect(MISSING)
}

const MISSING: &str =
    "PostgreSQL is not installed: `cargo xtask test` does it, or `apt-get install postgresql`";
