//! A daemon in a real process, and a client with a connection per request.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::{Home, LIMIT, Ran, clean_env, finish_within};

/// Options for a free port.
pub(crate) const FREE: [&str; 2] = ["--listen", "127.0.0.1:0"];

/// A daemon in a separate process.
pub(crate) struct Served {
    pub(crate) child: Child,
    pub(crate) lines: BufReader<ChildStdout>,
    pub(crate) said: Value,
    pub(crate) address: String,
}

impl Served {
    pub(crate) fn start(home: &Home, program: &Path, arguments: &[&str]) -> Served {
        Served::with(home, program, arguments, |_| {})
    }

    /// Starts a daemon with further arguments and environment variables.
    pub(crate) fn with(
        home: &Home,
        program: &Path,
        arguments: &[&str],
        tell: impl FnOnce(&mut Command),
    ) -> Served {
        let mut command = home.command(program, &["serve", "--json"]);
        tell(&mut command);
        command.args(arguments);
        Served::by(command)
    }

    /// Starts a daemon with the limits of this `ulimit` command.
    pub(crate) fn limited(home: &Home, program: &Path, ulimit: &str) -> Served {
        let mut command = limited(home, program, ulimit);
        command.arg("--json");
        Served::by(command)
    }

    /// Runs a daemon that is expected not to start, and returns its output.
    pub(crate) fn refused(home: &Home, program: &Path, ulimit: &str) -> Ran {
        finish_within(limited(home, program, ulimit), Duration::from_secs(20))
    }

    /// Starts a daemon with a command that prints its greeting as JSON.
    pub(crate) fn by(command: Command) -> Served {
        Served::logging_to(command, Stdio::null())
    }

    /// Starts a daemon with its standard error redirected.
    pub(crate) fn logging_to(mut command: Command, log: Stdio) -> Served {
        command.stdout(Stdio::piped()).stderr(log);
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap());
        let said = read_line(&mut lines);
        let address = said["url"].as_str().unwrap().strip_prefix("http://").unwrap().to_owned();
        Served { child, lines, said, address }
    }

    pub(crate) fn signal(&self, signal: &str) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args([signal, &pid]).status().unwrap().success());
    }

    /// Waits until it ends, and returns its exit code.
    pub(crate) fn end(mut self) -> Option<i32> {
        let begun = Instant::now();
        loop {
            match self.child.try_wait().unwrap() {
                Some(status) => return status.code(),
                None => assert!(begun.elapsed() < LIMIT, "it does not end"),
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    pub(crate) fn ask(&self, method: &str, path: &str, body: &str) -> (u16, Value) {
        ask(&self.address, method, path, body).unwrap()
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn limited(home: &Home, program: &Path, ulimit: &str) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", &format!("{ulimit}; exec \"$0\" \"$@\"")]).arg(program);
    command.args(["--dir", "orders", "serve"]).args(FREE).current_dir(&home.0);
    clean_env(&mut command);
    command
}

pub(crate) fn read_line(lines: &mut impl BufRead) -> Value {
    let mut line = String::new();
    lines.read_line(&mut line).unwrap();
    serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:?}"))
}

/// Sends one request on its own connection.
pub(crate) fn ask(
    address: &str,
    method: &str,
    path: &str,
    body: &str,
) -> std::io::Result<(u16, Value)> {
    let mut line = TcpStream::connect(address)?;
    line.set_read_timeout(Some(LIMIT))?;
    let length = body.len();
    write!(
        line,
        "{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
    )?;
    let mut text = String::new();
    line.read_to_string(&mut text)?;
    let broken = || std::io::Error::other(format!("broken off: {text:?}"));
    let (head, body) = text.split_once("\r\n\r\n").ok_or_else(broken)?;
    let status =
        head.split(' ').nth(1).and_then(|status| status.parse().ok()).ok_or_else(broken)?;
    if body.is_empty() {
        return Ok((status, Value::Null));
    }
    Ok((status, serde_json::from_str(body).map_err(|_| broken())?))
}

/// A connection for many requests.
pub(crate) struct Line(BufReader<TcpStream>);

impl Line {
    pub(crate) fn open(address: &str) -> Line {
        let line = TcpStream::connect(address).unwrap();
        line.set_read_timeout(Some(LIMIT)).unwrap();
        Line(BufReader::new(line))
    }

    pub(crate) fn ask(&mut self, method: &str, path: &str, body: &str) -> (u16, Value) {
        let length = body.len();
        let asked = format!(
            "{method} {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
        );
        self.0.get_mut().write_all(asked.as_bytes()).unwrap();
        let head: Vec<String> = std::iter::from_fn(|| {
            let mut line = String::new();
            self.0.read_line(&mut line).unwrap();
            Some(line.trim_end().to_lowercase()).filter(|line| !line.is_empty())
        })
        .collect();
        let status = head[0].split(' ').nth(1).unwrap().parse().unwrap();
        let length = head.iter().find_map(|line| line.strip_prefix("content-length: "));
        let mut body = vec![0; length.map_or(0, |length| length.parse().unwrap())];
        self.0.read_exact(&mut body).unwrap();
        (status, serde_json::from_slice(&body).unwrap_or(Value::Null))
    }
}

/// Builds a library to be preloaded into a daemon.
pub(crate) fn preloaded(home: &Home, text: &str) -> std::path::PathBuf {
    let (source, library) = (home.0.join("disk.c"), home.0.join("disk.so"));
    std::fs::write(&source, text).unwrap();
    let mut made = Command::new("cc");
    made.args(["-shared", "-fPIC", "-o"]).arg(&library).arg(&source).arg("-ldl");
    assert!(made.status().unwrap().success());
    library
}
