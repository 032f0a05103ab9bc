//! Real servers for one test each: on loopback, on a free port, in a directory of their own, and
//! stopped with the test.

use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// The timeout of every operation.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);

pub(crate) struct Server {
    pub(crate) port: u16,
    dir: PathBuf,
    command: fn(&Server) -> Command,
    process: Option<Child>,
}

impl Server {
    pub(crate) fn redis() -> Server {
        Server::start(|server| {
            let mut command = Command::new(find("redis-server"));
            command.args(["--bind", "127.0.0.1", "--port", &server.port.to_string()]);
            command.args(["--requirepass", SECRET, "--save", "", "--appendonly", "yes"]);
            command.args(["--appendfsync", "always", "--dir"]).arg(&server.dir);
            command
        })
    }

    pub(crate) fn nats() -> Server {
        Server::start(|server| {
            let mut command = Command::new(find("nats-server"));
            command.args(["--addr", "127.0.0.1", "--port", &server.port.to_string()]);
            command.args(["--user", "ada", "--pass", SECRET]);
            command
        })
    }

    fn start(command: fn(&Server) -> Command) -> Server {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("tiffany-sink-{}-{number}", std::process::id());
        let dir = std::env::temp_dir().join(name);
        let _ = std::fs::remove_dir_all(&dir);
        std::fs::create_dir_all(&dir).unwrap();
        let mut server = Server { port: free_port(number), dir, command, process: None };
        server.run();
        server
    }

    /// Starts the server, or restarts it after a kill.
    pub(crate) fn run(&mut self) {
        let mut command = (self.command)(self);
        let log = std::fs::File::create(self.dir.join("server.log")).unwrap();
        command.stdout(log.try_clone().unwrap()).stderr(log).stdin(Stdio::null());
        self.process = Some(command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}")));
        let begun = Instant::now();
        while TcpStream::connect(("127.0.0.1", self.port)).is_err() {
            let log = std::fs::read_to_string(self.dir.join("server.log")).unwrap_or_default();
            assert!(begun.elapsed() < LIMIT, "the server does not start:\n{log}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Kills the server, as a crash would.
    pub(crate) fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.kill().unwrap();
            process.wait().unwrap();
        }
    }

    /// Sends a signal, to stop the server at any moment or let it continue.
    pub(crate) fn signal(&self, signal: &str) {
        let pid = self.process.as_ref().unwrap().id().to_string();
        assert!(Command::new("kill").args([signal, &pid]).status().unwrap().success());
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if self.process.is_some() && !std::thread::panicking() {
            self.signal("-CONT");
        }
        self.kill();
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

/// Returns a free port outside the range from which the system takes client ports. A client that
/// keeps reconnecting to a stopped server could otherwise get the server's own port, and connect to
/// itself.
fn free_port(number: u32) -> u16 {
    let first = std::process::id().wrapping_mul(31).wrapping_add(number);
    let mut ports = (0..10_000).map(|step| 10_000 + (first.wrapping_add(step) % 20_000) as u16);
    ports.find(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok()).expect("a port is free")
}

/// A password that must not appear anywhere.
pub(crate) const SECRET: &str = "s3cret-of-the-test";

/// Finds a program of the machine, or of the environment that `cargo xtask servers` creates.
fn find(name: &str) -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let beside = test.ancestors().map(|dir| dir.join("python/servers/bin"));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut places = beside.chain(std::env::split_paths(&path)).map(|dir| dir.join(name));
    let found = places.find(|program| Path::new(program).is_file());
    found.unwrap_or_else(|| panic!("there is no `{name}`: `cargo xtask servers` installs it"))
}
