//! `echo_64` and `echo_1000`: a server sends 64 bytes back, on 64 or 1,000 connections with one
//! request in progress each. Each server is alone in a process of its own (this program again, with
//! a hidden command); this process generates the load. The figure is requests per second of CPU
//! time of the server's process, for all of its threads, so it does not depend on how much of the
//! machine others use.
//!
//! `syscalls` counts all system calls of the server per request, in separate runs: with `perf stat`
//! where it is allowed to count them, which slows nothing down, and otherwise with `strace -c`. A
//! run that only connects and warms up is subtracted, so that starting is not counted. Both runs
//! batch events a little differently each time, so one count is accurate to a few percent; the
//! median of the rounds is shown.

mod load;
mod server_process;
mod servers;

use std::io;
use std::process::ExitCode;

use crate::harness::{Better, Contender, Measure, Mode, Sample, Target};
use load::Load;
use server_process::{Counter, Server};

pub(crate) fn few() -> Measure {
    measure("echo_64", "a 64-byte echo, 64 connections", 64)
}

pub(crate) fn many() -> Measure {
    measure("echo_1000", "a 64-byte echo, 1,000 connections", 1_000)
}

/// Runs the hidden command: serves until it is killed.
pub(crate) fn serve(name: &str) -> ExitCode {
    match servers::serve(name) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("tiffany-bench: the echo server `{name}` failed: {error}");
            ExitCode::FAILURE
        }
    }
}

fn measure(name: &'static str, what: &'static str, connections: usize) -> Measure {
    let contender = |server: &'static str| {
        let take = move |mode| -> io::Result<Sample> {
            let sample = Sample::of(per_cpu_second(mode, server, connections)?);
            Ok(match system_calls(mode, server, connections)? {
                Some(calls) => sample.beside("syscalls", calls),
                None => sample,
            })
        };
        Contender::fallible(server, move |mode| take(mode).map_err(|error| error.to_string()))
    };
    Measure {
        name,
        what,
        unit: "requests/cpu-s",
        better: Better::Higher,
        targets: vec![
            Target::Of("tokio", 0.9),
            Target::Of("raw", 0.9),
            Target::BesideNoMoreThan("syscalls", "tokio"),
            Target::BesideNoMoreThan("syscalls", "raw"),
        ],
        rounds: 5,
        contenders: servers::NAMES.map(contender).into_iter().collect(),
    }
}

fn requests(mode: Mode) -> usize {
    mode.pick(40_000, 2_000)
}

fn per_cpu_second(mode: Mode, server: &str, connections: usize) -> io::Result<f64> {
    let server = Server::start(server, Counter::Nothing)?;
    let mut load = Load::connect(server.port, connections)?;
    load.requests(2 * connections)?;
    let before = server.cpu_time()?;
    load.requests(requests(mode))?;
    Ok(requests(mode) as f64 / (server.cpu_time()? - before).as_secs_f64())
}

/// Returns the number of system calls per request; `None` if this machine has no way to count them.
fn system_calls(mode: Mode, server: &str, connections: usize) -> io::Result<Option<f64>> {
    let Some(counter) = Counter::available() else { return Ok(None) };
    let counted = |requests: usize| -> io::Result<f64> {
        let server = Server::start(server, counter)?;
        let mut load = Load::connect(server.port, connections)?;
        load.requests(2 * connections + requests)?;
        Ok(server.system_calls()? as f64)
    };
    let requests = requests(mode);
    let (all, starting) = (counted(requests)?, counted(0)?);
    Ok(Some((all - starting) / requests as f64))
}
