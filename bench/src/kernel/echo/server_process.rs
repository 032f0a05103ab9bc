//! A server in a process of its own: starts it, and measures its CPU time and its system calls.

use std::fs;
use std::io::{self, BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use rustix::process::{Pid, Resource, Rlimit, Signal, getrlimit, kill_process, setrlimit};

/// The tool that counts the server's system calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Counter {
    Nothing,
    Perf,
    Strace,
}

impl Counter {
    /// Returns the best tool that works on this machine.
    pub(super) fn available() -> Option<Counter> {
        static FOUND: OnceLock<Option<Counter>> = OnceLock::new();
        *FOUND.get_or_init(|| [Counter::Perf, Counter::Strace].into_iter().find(|c| c.works()))
    }

    fn works(self) -> bool {
        let report = report_file();
        let mut command = self.wrap("true", &report);
        let quiet = command.stdout(Stdio::null()).stderr(Stdio::null());
        let ran = quiet.status().is_ok_and(|status| status.success());
        let counted = fs::read_to_string(&report).is_ok_and(|text| self.read(&text).is_some());
        let _ = fs::remove_file(report);
        ran && counted
    }

    /// Makes a command that runs the program and writes the count to a file.
    fn wrap(self, program: &str, report: &PathBuf) -> Command {
        let mut command = match self {
            Counter::Nothing => return Command::new(program),
            Counter::Perf => Command::new("perf"),
            Counter::Strace => Command::new("strace"),
        };
        if self == Counter::Perf {
            command.args(["stat", "-x", ",", "-e", "raw_syscalls:sys_enter", "-o"]);
        } else {
            command.args(["-f", "-c", "-o"]);
        }
        command.arg(report).arg("--").arg(program);
        command
    }

    fn read(self, report: &str) -> Option<u64> {
        match self {
            Counter::Nothing => None,
            // 143,,raw_syscalls:sys_enter,…
            Counter::Perf => report
                .lines()
                .find(|line| line.contains("raw_syscalls:sys_enter"))
                .and_then(|line| line.split(',').next()?.parse().ok()),
            // 100.00    0.000629           4       144        18 total
            Counter::Strace => report
                .lines()
                .find(|line| line.ends_with("total"))
                .and_then(|line| line.split_whitespace().nth(3)?.parse().ok()),
        }
    }
}

fn report_file() -> PathBuf {
    std::env::temp_dir().join(format!("tiffany-bench-{}.count", std::process::id()))
}

/// A server that runs until this is dropped.
pub(super) struct Server {
    child: Child,
    pid: Pid,
    counter: Counter,
    pub(super) port: u16,
}

impl Server {
    pub(super) fn start(name: &str, counter: Counter) -> io::Result<Server> {
        let program = std::env::current_exe()?;
        let mut command = counter.wrap(&program.to_string_lossy(), &report_file());
        command.args([super::super::SERVE_ECHO, name]);
        if counter != Counter::Nothing {
            command.stderr(Stdio::null()); // It would report that the server was ended.
        }
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
        let mut line = String::new();
        if let Some(output) = child.stdout.take() {
            BufReader::new(output).read_line(&mut line)?;
        }
        let mut words = line.split_whitespace().map(|word| word.parse::<u32>().ok());
        let pid = words.next().flatten().and_then(|pid| Pid::from_raw(pid as i32));
        let port = words.next().flatten().and_then(|port| u16::try_from(port).ok());
        match pid.zip(port) {
            Some((pid, port)) => Ok(Server { child, pid, counter, port }),
            None => {
                let _ = child.kill();
                let _ = child.wait();
                Err(io::Error::other(format!("the {name} server did not start")))
            }
        }
    }

    /// Returns the CPU time of all of its threads so far.
    pub(super) fn cpu_time(&self) -> io::Result<Duration> {
        let mut nanos = 0;
        for thread in fs::read_dir(format!("/proc/{}/task", self.pid.as_raw_nonzero()))? {
            let text = fs::read_to_string(thread?.path().join("schedstat"))?;
            let on_cpu = text.split_whitespace().next().and_then(|word| word.parse::<u64>().ok());
            nanos += on_cpu.ok_or_else(|| io::Error::other("cannot read the CPU time"))?;
        }
        Ok(Duration::from_nanos(nanos))
    }

    /// Ends the server, and returns the number of system calls it made.
    pub(super) fn system_calls(mut self) -> io::Result<u64> {
        self.end();
        let report = fs::read_to_string(report_file())?;
        let _ = fs::remove_file(report_file());
        self.counter.read(&report).ok_or_else(|| io::Error::other("nothing was counted"))
    }

    /// Ends the server itself; the tool that counts its calls then ends too.
    fn end(&mut self) {
        let _ = kill_process(self.pid, Signal::TERM);
        let _ = self.child.wait();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end();
    }
}

/// Raises the limit of descriptors, because 1,000 connections need more than some systems allow by
/// default.
pub(super) fn allow_many_descriptors() {
    let limit = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
}
