//! Measures tiffany beside its peers, in one run, through its public API with default features.

mod counting_alloc;
mod dice;
mod harness;
mod kernel;
mod report;
mod runtimes;

use std::process::ExitCode;

use harness::Mode;

const USAGE: &str = "\
usage: tiffany-bench kernel [--json] [--quick] [--only NAME] [MEASURE...]

  --json    one JSON object a line instead of tables
  --quick   a short run that shows it still works; its figures mean nothing
  --only    one contender alone (tiffany, tokio, …), for a profiler
  MEASURE   which ones; all if none is named
";

enum Format {
    Table,
    Json,
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["kernel", rest @ ..] => kernel_measures(rest),
        [kernel::SERVE_ECHO, name] => kernel::serve_echo(name),
        [] | ["-h" | "--help" | "help"] => {
            print!("{USAGE}\nmeasures: {}\n", names().join(" "));
            ExitCode::SUCCESS
        }
        [other, ..] => refuse(&format!("there is no `{other}`; the only suite is `kernel`")),
    }
}

fn kernel_measures(args: &[&str]) -> ExitCode {
    let (mut mode, mut format, mut wanted) = (Mode::Full, Format::Table, Vec::new());
    let (mut only, mut args) = (None, args.iter());
    while let Some(arg) = args.next() {
        match *arg {
            "--json" => format = Format::Json,
            "--quick" => mode = Mode::Quick,
            "--only" => match args.next() {
                Some(name) => only = Some(*name),
                None => return refuse("`--only` needs the name of a contender"),
            },
            option if option.starts_with('-') => {
                return refuse(&format!("there is no option `{option}`"));
            }
            name if names().contains(&name) => wanted.push(name),
            name => {
                let known = names().join(", ");
                return refuse(&format!("there is no measure `{name}`; there are {known}"));
            }
        }
    }
    if let Some(name) = only
        && !kernel::measures().iter().flat_map(|all| &all.contenders).any(|one| one.name == name)
    {
        return refuse(&format!("there is no contender `{name}`"));
    }
    for mut measure in kernel::measures() {
        if let Some(name) = only {
            measure.contenders.retain(|contender| contender.name == name);
        }
        if !wanted.is_empty() && !wanted.contains(&measure.name) {
            continue;
        }
        let figures = harness::take_turns(&measure, mode);
        match format {
            Format::Json => println!("{}", report::json(&measure, &figures)),
            // A short run has no figures worth a look: it only shows that all contenders still work.
            Format::Table if mode == Mode::Quick => {
                println!("{}", report::worked(&measure, &figures))
            }
            Format::Table => println!("{}", report::table(&measure, &figures)),
        }
    }
    ExitCode::SUCCESS
}

fn names() -> Vec<&'static str> {
    kernel::measures().iter().map(|measure| measure.name).collect()
}

fn refuse(why: &str) -> ExitCode {
    eprint!("tiffany-bench: {why}\n\n{USAGE}");
    ExitCode::from(2)
}
