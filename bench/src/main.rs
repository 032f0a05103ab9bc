//! Measures tiffany and its peers in one run, through tiffany's public API with default features.

mod counting_alloc;
mod dice;
mod durable;
mod harness;
mod history;
mod kernel;
mod live;
mod report;
mod runtimes;

use std::process::ExitCode;
use std::rc::Rc;

use harness::{Measure, Mode};

const USAGE: &str = "\
usage: tiffany-bench kernel [--json] [--quick] [--only NAME] [MEASURE...]
       tiffany-bench durable [--json] [--quick] [--only NAME] [--dir D] [MEASURE...]
       tiffany-bench history [--json] [--quick] [--only NAME] [--dir D] [MEASURE...]
       tiffany-bench live [--json] [--quick] [--only NAME] [--dir D] [MEASURE...]

  --json    one JSON object a line instead of tables
  --quick   a short run that shows it still works; its figures mean nothing
  --only    one contender alone (tiffany, tokio, …), for a profiler
  --dir     where the logs are written; the system's directory for temporary files if not given
  MEASURE   which ones; all if none is named
";

#[derive(Clone, Copy, PartialEq, Eq)]
enum Format {
    Table,
    Json,
}

/// What to do if a figure cannot be measured on this machine.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Missing {
    IsFine,
    /// Fail, because durable runs need only a disk.
    Fails,
}

/// The parsed command line.
struct Asked<'a> {
    mode: Mode,
    format: Format,
    only: Option<&'a str>,
    dir: Option<&'a str>,
    measures: Vec<&'a str>,
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["kernel", rest @ ..] => match read_arguments(rest) {
            Ok(Asked { dir: Some(_), .. }) => {
                refuse("`--dir` is for `durable`, `history` and `live`")
            }
            Ok(asked) => take(&asked, kernel::measures(), Missing::IsFine),
            Err(why) => refuse(&why),
        },
        ["durable", rest @ ..] => match read_arguments(rest) {
            Ok(asked) => {
                let place = Rc::new(durable::Place::new(asked.dir.map(Into::into)));
                take(&asked, durable::measures(&place), Missing::Fails)
            }
            Err(why) => refuse(&why),
        },
        ["history", rest @ ..] => match read_arguments(rest) {
            Ok(asked) => {
                let place = Rc::new(durable::Place::new(asked.dir.map(Into::into)));
                take(&asked, history::measures(&place), Missing::Fails)
            }
            Err(why) => refuse(&why),
        },
        ["live", rest @ ..] => match read_arguments(rest) {
            Ok(asked) => {
                let place = Rc::new(durable::Place::new(asked.dir.map(Into::into)));
                take(&asked, live::measures(&place), Missing::Fails)
            }
            Err(why) => refuse(&why),
        },
        [kernel::SERVE_ECHO, name] => kernel::serve_echo(name),
        [durable::CHILD, rest @ ..] => durable::serve_child(rest),
        [] | ["-h" | "--help" | "help"] => {
            let place = Rc::new(durable::Place::new(None));
            let (kernel, durable) = (names(&kernel::measures()), names(&durable::measures(&place)));
            let history = names(&history::measures(&place)).join(" ");
            let live = names(&live::measures(&place)).join(" ");
            let (kernel, durable) = (kernel.join(" "), durable.join(" "));
            print!(
                "{USAGE}\nkernel: {kernel}\ndurable: {durable}\nhistory: {history}\nlive: {live}\n"
            );
            ExitCode::SUCCESS
        }
        [other, ..] => refuse(&format!(
            "there is no `{other}`; the suites are `kernel`, `durable`, `history` and `live`"
        )),
    }
}

fn read_arguments<'a>(args: &[&'a str]) -> Result<Asked<'a>, String> {
    let (mode, format) = (Mode::Full, Format::Table);
    let mut asked = Asked { mode, format, only: None, dir: None, measures: Vec::new() };
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        match *arg {
            "--json" => asked.format = Format::Json,
            "--quick" => asked.mode = Mode::Quick,
            "--only" => {
                asked.only = Some(args.next().ok_or("`--only` needs the name of a contender")?);
            }
            "--dir" => asked.dir = Some(args.next().ok_or("`--dir` needs a directory")?),
            option if option.starts_with('-') => {
                return Err(format!("there is no option `{option}`"));
            }
            name => asked.measures.push(name),
        }
    }
    Ok(asked)
}

/// Takes the requested measures, and prints them.
fn take(asked: &Asked<'_>, measures: Vec<Measure>, missing: Missing) -> ExitCode {
    let known = names(&measures);
    if let Some(name) = asked.measures.iter().find(|name| !known.contains(name)) {
        return refuse(&format!("there is no measure `{name}`; there are {}", known.join(", ")));
    }
    if let Some(name) = asked.only
        && !measures.iter().flat_map(|all| &all.contenders).any(|one| one.name == name)
    {
        return refuse(&format!("there is no contender `{name}`"));
    }
    let mut failed = false;
    for mut measure in measures {
        if let Some(name) = asked.only {
            measure.contenders.retain(|contender| contender.name == name);
        }
        if !asked.measures.is_empty() && !asked.measures.contains(&measure.name) {
            continue;
        }
        let figures = harness::take_turns(&measure, asked.mode);
        for figures in figures.iter().filter(|_| missing == Missing::Fails) {
            if let Some(why) = &figures.missing {
                eprintln!("tiffany-bench: {} of {}: {why}", measure.name, figures.name);
                failed = true;
            }
        }
        match asked.format {
            Format::Json => println!("{}", report::json(&measure, &figures)),
            // The figures of a short run mean nothing; it only shows that all contenders work.
            Format::Table if asked.mode == Mode::Quick => {
                println!("{}", report::worked(&measure, &figures))
            }
            Format::Table => println!("{}", report::table(&measure, &figures)),
        }
    }
    if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

fn names(measures: &[Measure]) -> Vec<&'static str> {
    measures.iter().map(|measure| measure.name).collect()
}

fn refuse(why: &str) -> ExitCode {
    eprint!("tiffany-bench: {why}\n\n{USAGE}");
    ExitCode::from(2)
}
