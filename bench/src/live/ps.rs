//! `ps`: how long `tiffany ls --active` takes while a daemon has 10,000 live runs, from the start
//! of its process to the last byte of its table. It connects to the socket in the directory, sends
//! a request, and formats the answer. A sample is the median of several calls; `first` is the first
//! call to a daemon, and `http` is a complete list of the same runs from `GET /api/v1/runs`.
//!
//! `raw` is a process of this program that prints a line and ends.

use std::ffi::OsString;
use std::rc::Rc;
use std::time::Instant;

use tiffany_cli::CommandLine;

use super::house::{House, read, text};
use crate::durable::{Place, functions, output, settle};
use crate::harness::{Better, Contender, Measure, Mode, Sample, Taken, Target};

pub(super) fn measure(place: &Rc<Place>) -> Measure {
    let place = Rc::clone(place);
    Measure {
        name: "ps",
        what: "`tiffany ls --active` of 10,000 live runs, from process start to the last byte",
        unit: "ms",
        better: Better::Lower,
        targets: vec![Target::Figure(100.0), Target::Beside("http", 100.0)],
        rounds: 3,
        contenders: vec![
            Contender::fallible("tiffany", move |mode| tiffany(&place, mode)),
            Contender::fallible("raw", |mode| {
                let taken = (0..mode.pick(9, 1)).map(|_| timed(|| output(&["nothing"])));
                median(taken.map(|taken| taken.map(|(took, _)| took))).map(Sample::of)
            }),
        ],
    }
}

fn tiffany(place: &Place, mode: Mode) -> Taken {
    let house = House::open(place)?;
    let (runs, times) = mode.pick((10_000, 9), (200, 1));
    house.submit("sleeper", "sleeper", runs)?;
    settle();
    let log = house.scratch.log();
    let log = text(&log)?;
    let ps = || {
        let (took, printed) = timed(|| output(&["ps", log]))?;
        let lines = printed.iter().filter(|byte| **byte == b'\n').count();
        // The first line of the table is the header.
        (lines == runs + 1).then_some(took).ok_or_else(|| format!("it printed {lines} lines"))
    };
    let first = ps()?;
    let told = median((0..times).map(|_| ps()))?;
    let list = || {
        let path = format!("/api/v1/runs?state=live&limit={runs}");
        let (took, page) = timed(|| house.ask("GET", &path, "", 200))?;
        let page: serde_json::Value = read(&page)?;
        let listed = page["runs"].as_array().map_or(0, Vec::len);
        (listed == runs).then_some(took).ok_or_else(|| format!("{listed} runs were listed"))
    };
    let http = median((0..times).map(|_| list()))?;
    Ok(Sample::of(told).beside("first", first).beside("http", http))
}

/// Calls a function, and returns its duration in milliseconds and its result.
fn timed<T>(act: impl FnOnce() -> Result<T, String>) -> Result<(f64, T), String> {
    let start = Instant::now();
    let came = act()?;
    Ok((start.elapsed().as_secs_f64() * 1e3, came))
}

fn median(taken: impl Iterator<Item = Result<f64, String>>) -> Result<f64, String> {
    let mut taken = taken.collect::<Result<Vec<f64>, String>>()?;
    taken.sort_by(f64::total_cmp);
    Ok(taken[taken.len() / 2])
}

/// Runs the command in the form that users have.
pub(crate) fn serve(log: &str) -> Result<(), String> {
    let arguments: Vec<OsString> =
        ["tiffany", "--dir", log, "ls", "--active"].map(Into::into).into();
    match CommandLine::new(functions()).run(&arguments) {
        0 => Ok(()),
        code => Err(format!("`ls --active` ended with {code}")),
    }
}
