//! Shared code of the command line's tests: the real binaries, directories of their own, and
//! timeouts.

pub(crate) mod served;

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

pub(crate) const LIMIT: Duration = Duration::from_secs(60);

/// Returns the path of the plain binary.
pub(crate) fn tiffany() -> PathBuf {
    env!("CARGO_BIN_EXE_tiffany").into()
}

/// Returns the path of the program with its own command line.
pub(crate) fn orders() -> PathBuf {
    let path = tiffany().with_file_name("examples").join("orders");
    assert!(path.exists(), "build it first: cargo build -p tiffany-cli --example orders");
    path
}

/// Returns the directory that is kept in the repository.
pub(crate) fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/orders")
}

/// A test's own directory, removed at its end. The log is in `orders`.
pub(crate) struct Home(pub(crate) PathBuf);

impl Home {
    pub(crate) fn new() -> Home {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("tiffany-cli-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Home(path)
    }

    /// Creates a directory with a copy of the golden directory.
    pub(crate) fn golden() -> Home {
        let home = Home::new();
        copy(&golden(), &home.log());
        home
    }

    pub(crate) fn log(&self) -> PathBuf {
        self.0.join("orders")
    }

    /// Returns a command whose arguments are passed as a shell would pass them.
    pub(crate) fn command(&self, program: &Path, arguments: &[&str]) -> Command {
        let mut command = Command::new(program);
        command.current_dir(&self.0).args(["--dir", "orders"]).args(arguments);
        clean_env(&mut command);
        command
    }

    /// Runs the plain binary.
    pub(crate) fn run(&self, arguments: &[&str]) -> Ran {
        finish(self.command(&tiffany(), arguments))
    }

    /// Runs the program with its own command line.
    pub(crate) fn orders(&self, arguments: &[&str]) -> Ran {
        finish(self.command(&orders(), arguments))
    }

    /// Starts the plain binary with its output in a pipe.
    pub(crate) fn watch(&self, arguments: &[&str]) -> Watched {
        let mut command = self.command(&tiffany(), arguments);
        let mut child = Holder(command.stdout(Stdio::piped()).spawn().unwrap());
        let text = Arc::new(Mutex::new(String::new()));
        let (out, to) = (child.0.stdout.take().unwrap(), Arc::clone(&text));
        let reads = std::thread::spawn(move || {
            for line in BufReader::new(out).lines() {
                let line = line.unwrap();
                to.lock().unwrap().push_str(&(line + "\n"));
            }
        });
        Watched { child, reads, text }
    }

    /// Starts a run and drives it until it ends, or for some seconds.
    pub(crate) fn start(&self, function: &str, id: &str, input: &str, seconds: &str) -> Ran {
        finish(self.start_command(function, id, input, seconds))
    }

    /// Starts a run in a process that drives it, and doesn't wait.
    pub(crate) fn hold(&self, function: &str, id: &str, input: &str, seconds: &str) -> Holder {
        let mut command = self.start_command(function, id, input, seconds);
        Holder(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
    }

    pub(crate) fn start_command(
        &self,
        function: &str,
        id: &str,
        input: &str,
        seconds: &str,
    ) -> Command {
        let mut command = Command::new(orders());
        clean_env(&mut command);
        command
            .current_dir(&self.0)
            .env("TIFFANY_DIR", "orders")
            .args(["start", function, id, input]);
        if !seconds.is_empty() {
            command.arg(seconds);
        }
        command
    }

    /// Waits until a run's log has a record of this type.
    pub(crate) fn wait_for(&self, id: &str, kind: &str) {
        self.until(&format!("{id} has no {kind}"), || {
            !self.run(&["log", id, "--type", kind, "--json"]).stdout.is_empty()
        });
    }

    pub(crate) fn until(&self, what: &str, is_so: impl Fn() -> bool) {
        let begun = Instant::now();
        while !is_so() {
            assert!(begun.elapsed() < LIMIT, "{what}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Returns the file of the run with this id.
    pub(crate) fn run_file(&self, id: &str) -> PathBuf {
        self.log().join(format!("wal/{}.wal", self.uuid(id)))
    }

    pub(crate) fn uuid(&self, id: &str) -> String {
        let shown = self.run(&["show", id, "--json"]);
        let shown: serde_json::Value = serde_json::from_str(&shown.stdout).unwrap();
        shown["run"].as_str().unwrap().to_owned()
    }

    /// Returns all files and their content.
    pub(crate) fn contents(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        contents(&self.log())
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A running command, and its output so far.
pub(crate) struct Watched {
    child: Holder,
    reads: std::thread::JoinHandle<()>,
    text: Arc<Mutex<String>>,
}

impl Watched {
    /// Waits until the output contains this.
    #[track_caller]
    pub(crate) fn until(&self, wanted: &str) {
        let begun = Instant::now();
        while !self.text.lock().unwrap().contains(wanted) {
            assert!(begun.elapsed() < LIMIT, "no {wanted} in {}", self.text.lock().unwrap());
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Waits until it ends, and returns the exit code and the output.
    #[track_caller]
    pub(crate) fn end(mut self) -> (Option<i32>, String) {
        let begun = Instant::now();
        let status = loop {
            if let Some(status) = self.child.0.try_wait().unwrap() {
                break status;
            }
            assert!(begun.elapsed() < LIMIT, "it goes on: {}", self.text.lock().unwrap());
            std::thread::sleep(Duration::from_millis(2));
        };
        self.reads.join().unwrap();
        let text = self.text.lock().unwrap().clone();
        (status.code(), text)
    }
}

/// A process that is killed when this is dropped, if it is still running.
pub(crate) struct Holder(pub(crate) Child);

impl Holder {
    pub(crate) fn kill(mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub(crate) fn contents(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut all = BTreeMap::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => all.extend(contents(&path)),
            false => drop(all.insert(path.clone(), fs::read(&path).unwrap_or_default())),
        }
    }
    all
}

pub(crate) fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let target = to.join(path.file_name().unwrap());
        match path.is_dir() {
            true => copy(&path, &target),
            false => drop(fs::copy(&path, &target).unwrap()),
        }
    }
    // Git doesn't store empty directories.
    if to.join("commit").exists() {
        fs::create_dir_all(to.join("wal/blobs")).unwrap();
    }
}

pub(crate) fn clean_env(command: &mut Command) {
    for name in ["TIFFANY_DIR", "NO_COLOR", "ORDERS_VERSION"] {
        command.env_remove(name);
    }
    command.env("TERM", "xterm").stdin(Stdio::null());
}

/// The result of a command.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    pub(crate) code: i32,
}

impl Ran {
    /// Parses the output as JSON lines.
    pub(crate) fn lines(&self) -> Vec<serde_json::Value> {
        let parse = |line: &str| serde_json::from_str(line).unwrap_or_else(|_| panic!("{line}"));
        self.stdout.lines().map(parse).collect()
    }

    #[track_caller]
    pub(crate) fn ok(self) -> Ran {
        assert_eq!(self.code, 0, "{self:?}");
        self
    }

    /// Asserts this exit code, and an error with this code and a next step.
    #[track_caller]
    pub(crate) fn failed(self, exit: i32, code: &str) -> Ran {
        assert_eq!(self.code, exit, "{self:?}");
        assert!(self.stderr.contains(&format!("error[{code}]: ")), "{self:?}");
        assert!(self.stderr.contains("\n  next: ") || code == "TFY0067", "{self:?}");
        self
    }
}

impl Ran {
    /// Asserts this exit code, and an error with this code as a JSON object.
    #[track_caller]
    pub(crate) fn failed_json(self, exit: i32, code: &str) -> Ran {
        let error: serde_json::Value =
            serde_json::from_str(self.stderr.trim()).unwrap_or_else(|_| panic!("{self:?}"));
        assert_eq!((self.code, &error["exit"]), (exit, &exit.into()), "{self:?}");
        assert_eq!(error["error"]["code"], code, "{self:?}");
        assert!(error["error"]["next"].as_str().is_some_and(|next| !next.is_empty()), "{self:?}");
        self
    }
}

/// Runs a command to its end, within the usual time limit.
pub(crate) fn finish(command: Command) -> Ran {
    finish_within(command, LIMIT)
}

/// Runs a command to its end, within this time limit.
pub(crate) fn finish_within(mut command: Command, limit: Duration) -> Ran {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let (mut out, mut err) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
    let read_out = std::thread::spawn(move || read(&mut out));
    let read_err = std::thread::spawn(move || read(&mut err));
    let begun = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if begun.elapsed() > limit {
            let _ = child.kill();
            panic!("{command:?} does not come to its end");
        }
        std::thread::sleep(Duration::from_millis(2));
    };
    let (stdout, stderr) = (read_out.join().unwrap(), read_err.join().unwrap());
    Ran { stdout, stderr, code: status.code().unwrap_or(-1) }
}

fn read(from: &mut impl Read) -> String {
    let mut bytes = Vec::new();
    from.read_to_end(&mut bytes).unwrap();
    String::from_utf8_lossy(&bytes).into_owned()
}
