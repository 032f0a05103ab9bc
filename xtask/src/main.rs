//! The commands of this repository: `cargo xtask` lists them, `cargo xtask NAME` runs one.

mod dashboard;
mod modules;
mod mutations;
mod packaging;
mod prose;
mod python;
mod python_rows;
mod rows;
#[cfg(test)]
mod source_rules;
mod specification;
mod test_files;
mod typescript;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

/// A command.
struct Chore {
    name: &'static str,
    what: &'static str,
    run: fn(&Shop, &[String]) -> Result<(), String>,
}

/// The maximum duration of one step of a test. A step that takes longer counts as hanging.
const MAX_STEP: Duration = Duration::from_secs(40 * 60);

const CHORES: &[Chore] = &[
    Chore {
        name: "demo",
        what: "shows a daemon that is killed in the middle of its work (--headless: ends by itself)",
        run: demo,
    },
    Chore { name: "test", what: "everything CI checks", run: test },
    Chore {
        name: "bench",
        what: "measures beside the peers (arguments are passed on)",
        run: bench,
    },
    Chore {
        name: "wheel",
        what: "the Python package, as a wheel in target/wheels (arguments: x86_64, aarch64, for portable ones)",
        run: python::wheel,
    },
    Chore {
        name: "python",
        what: "what CI checks of the Python package (arguments are passed to pytest)",
        run: python::check,
    },
    Chore {
        name: "servers",
        what: "what tests of Rust talk to: PostgreSQL, Redis, NATS, schemathesis",
        run: servers,
    },
    Chore {
        name: "mutations",
        what: "shows that the tests notice mistakes in the runtime and its log",
        run: mutations::check,
    },
    Chore {
        name: "dashboard",
        what: "builds the page into crates/daemon/assets",
        run: dashboard::build,
    },
    Chore {
        name: "typescript",
        what: "the types of the TypeScript client, from the OpenAPI document",
        run: typescript::generate,
    },
    Chore {
        name: "browser",
        what: "the tests of the page in a real browser (arguments are passed to node; --measure: its figures)",
        run: dashboard::browse,
    },
    Chore {
        name: "modules",
        what: "which modules of a crate need which, and their circles (arguments: crates)",
        run: modules,
    },
    Chore {
        name: "prose",
        what: "lists retired words and long lines in pages, comments and messages (arguments: paths)",
        run: |shop, paths| prose::check(&shop.root, paths),
    },
    Chore { name: "rows", what: "writes docs/src/rows.md anew from the semantic tests", run: rows },
    Chore {
        name: "sanitize",
        what: "all tests under AddressSanitizer and ThreadSanitizer (nightly)",
        run: sanitize,
    },
    Chore {
        name: "sim",
        what: "generated workflows crashed at drawn places (--seconds 60 --seed 0)",
        run: sim,
    },
    Chore {
        name: "kill",
        what: "real processes killed with SIGKILL, against a ledger (--times 300)",
        run: kill,
    },
    Chore {
        name: "race",
        what: "random schedules of the cross-thread path (seconds: 60)",
        run: race,
    },
];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let Some(name) = arguments.first() else {
        menu();
        return ExitCode::SUCCESS;
    };
    let Some(chore) = CHORES.iter().find(|chore| chore.name == name) else {
        eprintln!("xtask: there is no `{name}`; this is what there is:");
        menu();
        return ExitCode::from(2);
    };
    let longest = if name == "test" { MAX_STEP } else { Duration::MAX };
    match (chore.run)(&Shop::new(longest), &arguments[1..]) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask {name}: {error}");
            ExitCode::FAILURE
        }
    }
}

fn menu() {
    for chore in CHORES {
        println!("cargo xtask {:<9} {}", chore.name, chore.what);
    }
}

/// The repository, and how its tools are run.
struct Shop {
    root: PathBuf,
    /// The maximum duration of a step.
    longest: Duration,
}

impl Shop {
    fn new(longest: Duration) -> Shop {
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        Shop { root: here.parent().unwrap_or(here).to_path_buf(), longest }
    }

    fn cargo<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> Command {
        let mut command = Command::new("cargo");
        command.current_dir(&self.root).args(arguments);
        forget_cargo(&mut command);
        command
    }

    /// Runs a step of a command, and prints a headline and the time it took. A step that takes too
    /// long is killed and named.
    fn step(&self, title: &str, command: &mut Command) -> Result<(), String> {
        println!("\n── {title}");
        let start = Instant::now();
        let failed = |error: std::io::Error| format!("{title}: {error}");
        let mut child = command.spawn().map_err(failed)?;
        let status = loop {
            if let Some(status) = child.try_wait().map_err(failed)? {
                break status;
            }
            if start.elapsed() > self.longest {
                child.kill().map_err(failed)?;
                return Err(format!(
                    "{title} came to no end in {:?}; the command was {command:?}",
                    self.longest
                ));
            }
            std::thread::sleep(Duration::from_millis(20));
        };
        if !status.success() {
            return Err(format!("{title} failed ({status}); the command was {command:?}"));
        }
        println!("── {title}: done in {:.1?}", start.elapsed());
        Ok(())
    }

    /// Makes a command for a program that cargo has built for tests.
    fn built(&self, name: &str) -> Command {
        let mut command = Command::new(self.target().join("debug").join(name));
        command.current_dir(&self.root);
        command
    }

    /// Returns cargo's target directory.
    fn target(&self) -> PathBuf {
        match std::env::var_os("CARGO_TARGET_DIR") {
            Some(target) => self.root.join(target),
            None => self.root.join("target"),
        }
    }

    fn rows_file(&self) -> PathBuf {
        self.root.join("docs/src/rows.md")
    }

    /// Returns the names of the examples of the crate `tiffany`.
    fn examples(&self) -> Result<Vec<String>, String> {
        let folder = self.root.join("crates/runtime/examples");
        let entries = std::fs::read_dir(&folder).map_err(|error| error.to_string())?;
        let names = entries.flatten().filter_map(|entry| {
            let path = entry.path();
            let is_example =
                path.extension() == Some(OsStr::new("rs")) || path.join("main.rs").exists();
            is_example.then(|| path.file_stem()?.to_str().map(String::from)).flatten()
        });
        let mut names: Vec<String> = names.collect();
        names.sort();
        Ok(names)
    }
}

/// Removes the variables that `cargo run` sets for this program. Some build scripts depend on them
/// (that of `ring` does), so that a build by hand and a build from here would each invalidate the
/// other.
fn forget_cargo(command: &mut Command) {
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("CARGO_PKG_") || text.starts_with("CARGO_MANIFEST_") {
            command.env_remove(&name);
        }
    }
}

fn demo(shop: &Shop, arguments: &[String]) -> Result<(), String> {
    let mut command = shop.cargo(["run", "--release", "-p", "tiffany-cli", "--", "demo"]);
    run(command.args(arguments))
}

fn bench(shop: &Shop, arguments: &[String]) -> Result<(), String> {
    let mut command = shop.cargo(["run", "--release", "-p", "tiffany-bench", "--"]);
    run(command.args(arguments))
}

fn rows(shop: &Shop, _: &[String]) -> Result<(), String> {
    let rows = rows::generate(&shop.root);
    std::fs::write(shop.rows_file(), &rows.page).map_err(|error| error.to_string())?;
    no_gaps(&rows)
}

/// Fails if a clause of the specification has no test and is not listed as untested.
fn no_gaps(rows: &rows::Rows) -> Result<(), String> {
    match rows.gaps.is_empty() {
        true => Ok(()),
        false => Err(format!("the rows have gaps\n  {}", rows.gaps.join("\n  "))),
    }
}

fn modules(shop: &Shop, crates: &[String]) -> Result<(), String> {
    for name in crates {
        let needs = modules::needs(&shop.root.join("crates").join(name).join("src"));
        for (module, needed) in &needs {
            let needed: Vec<&str> = needed.iter().map(String::as_str).collect();
            println!("{name}: {module} needs {}", needed.join(" "));
        }
        for circle in modules::circles(&needs) {
            let circle: Vec<String> = circle.into_iter().collect();
            println!("{name}: a circle of {}: {}", circle.len(), circle.join(" "));
        }
    }
    Ok(())
}

fn test(shop: &Shop, _: &[String]) -> Result<(), String> {
    python::install(shop)?;
    shop.step("format", &mut shop.cargo(["fmt", "--all", "--check"]))?;
    python::style(shop)?;
    let clippy = ["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"];
    shop.step("lints", &mut shop.cargo(clippy))?;
    // The workspace builds the crate with its command line, but most programs use it without.
    let bare = ["clippy", "-p", "tiffany", "--no-default-features", "--", "-D", "warnings"];
    shop.step("lints without features", &mut shop.cargo(bare))?;
    let mut doc = shop.cargo(["doc", "--workspace", "--no-deps"]);
    shop.step("documentation", doc.env("RUSTDOCFLAGS", "-D warnings"))?;
    let fresh = rows::generate(&shop.root);
    if std::fs::read_to_string(shop.rows_file()).unwrap_or_default() != fresh.page {
        return Err("docs/src/rows.md is stale; run `cargo xtask rows` and commit it".into());
    }
    no_gaps(&fresh)?;
    test_files::all_declared(&shop.root)?;
    install_nextest(shop)?;
    servers(shop, &[])?;
    shop.step("tests", &mut shop.cargo(["nextest", "run", "--workspace", "--no-fail-fast"]))?;
    shop.step("tests of telemetry", &mut with_feature(shop, "tiffany-daemon/otlp", "otlp"))?;
    packaging::check(shop)?;
    dashboard::check(shop)?;
    typescript::check(shop)?;
    mutations::check(shop, &[])?;
    // Illegal state transitions of a task are asserted in release builds too.
    let released = ["test", "--release", "--quiet", "-p", "tiffany-kernel", "--lib"];
    shop.step("the kernel's own tests, as released", &mut shop.cargo(released))?;
    shop.step("documentation tests", &mut shop.cargo(["test", "--workspace", "--doc"]))?;
    // `cargo run` would select one crate, whose dependencies have other features than those of the
    // workspace, and rebuild them.
    let programs = ["build", "--quiet", "--workspace", "--bins", "--examples"];
    shop.step("programs", &mut shop.cargo(programs))?;
    for example in shop.examples()? {
        let mut program = shop.built(&format!("examples/{example}"));
        shop.step(&format!("example {example}"), &mut program)?;
    }
    for suite in ["kernel", "durable", "history", "live"] {
        let mut bench = shop.built("tiffany-bench");
        shop.step(&format!("benchmark {suite}, short"), bench.args([suite, "--quick"]))?;
    }
    python::check(shop, &[])?;
    println!("\nall checks passed");
    Ok(())
}

/// Makes a command for the tests of a binary that needs a feature. It selects the binary from the
/// whole workspace, not from its crate, so that dependencies keep their features and are not
/// rebuilt.
fn with_feature(shop: &Shop, feature: &str, binary: &str) -> Command {
    let mut command = shop.cargo(["nextest", "run", "--workspace", "--no-fail-fast"]);
    command.args(["--features", feature, "--test", binary]);
    command
}

/// Builds the test runner from its crate if the machine does not have it.
fn install_nextest(shop: &Shop) -> Result<(), String> {
    let there = shop.cargo(["nextest", "--version"]).output();
    if there.is_ok_and(|output| output.status.success()) {
        return Ok(());
    }
    let install = ["install", "--locked", "cargo-nextest"];
    shop.step("installing the test runner, once", &mut shop.cargo(install))
}

/// Installs all servers that the tests use, if the machine does not have them.
fn servers(shop: &Shop, _: &[String]) -> Result<(), String> {
    install_postgres(shop)?;
    install_redis(shop)?;
    install_tmux(shop)?;
    python::servers(shop)
}

/// Installs the terminal in which the tests run `top`.
fn install_tmux(shop: &Shop) -> Result<(), String> {
    if is_installed("tmux") {
        return Ok(());
    }
    install_packages(shop, "tmux", &["tmux"])
}

/// Returns whether a program is in the search path.
fn is_installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|place| place.join(program).exists())
}

/// Installs the server that the tests of Redis Streams start.
fn install_redis(shop: &Shop) -> Result<(), String> {
    if is_installed("redis-server") {
        return Ok(());
    }
    install_packages(shop, "Redis", &["redis-server"])
        .map_err(|error| format!("{error}; the tests need `redis-server`"))
}

/// Installs the server that the tests of `tiffany-postgres` start from the system's packages, if
/// the machine does not have it.
fn install_postgres(shop: &Shop) -> Result<(), String> {
    let debian = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut places =
        debian.map(|version| version.path().join("bin")).chain(std::env::split_paths(&path));
    if places.any(|place| place.join("initdb").exists()) {
        return Ok(());
    }
    install_packages(shop, "PostgreSQL", &["postgresql"])
        .map_err(|error| format!("{error}; the tests need `initdb` and `postgres`"))
}

/// Installs packages of the system, which must be Debian or a derivative.
fn install_packages(shop: &Shop, what: &str, packages: &[&str]) -> Result<(), String> {
    let install = ["install", "--yes", "--no-install-recommends"];
    for arguments in [vec!["update"], [&install, packages].concat()] {
        let mut command = Command::new("apt-get");
        command.args(arguments).env("DEBIAN_FRONTEND", "noninteractive");
        shop.step(&format!("installing {what}, once"), &mut command)
            .map_err(|error| format!("{error}; install {what} by hand"))?;
    }
    Ok(())
}

/// Tests that don't work under ThreadSanitizer. It holds signals back until the program calls libc
/// to wait, which the runtime does not do. And it slows down the start of a process so much that
/// one which is killed again and again never finishes.
const NOT_UNDER_THREAD: &str = "every_signal|a_signal_before|ctrl_c_wakes|killed_at_random_moments";

/// Runs all tests under AddressSanitizer and ThreadSanitizer, which only the nightly compiler has.
/// Tests with simulated threads are left out, because the sanitizers can't check them.
fn sanitize(shop: &Shop, _: &[String]) -> Result<(), String> {
    let suppressions = shop.root.join("xtask/tsan-suppressions.txt");
    for sanitizer in ["address", "thread"] {
        let mut left_out = "random_schedules|nasty_switches".to_string();
        if sanitizer == "thread" {
            left_out = format!("{left_out}|{NOT_UNDER_THREAD}");
        }
        let mut command = shop.cargo(["+nightly", "nextest", "run", "-p", "tiffany"]);
        command
            .args(["--lib", "--tests", "--profile", "sanitize", "--no-fail-fast"])
            .args(["--target", "x86_64-unknown-linux-gnu", "--target-dir"])
            .arg(shop.root.join("target").join(format!("sanitize-{sanitizer}")))
            .args(["-E", &format!("not test(/{left_out}/)")])
            // Unfinished durable coroutines are leaked on purpose, so leaks are not errors here.
            .env("ASAN_OPTIONS", "detect_leaks=0")
            .env("TSAN_OPTIONS", format!("suppressions={}", suppressions.display()))
            .env(
                "RUSTFLAGS",
                format!("-Zsanitizer={sanitizer} -Cunsafe-allow-abi-mismatch=sanitizer"),
            );
        shop.step(&format!("{sanitizer} sanitizer"), &mut command)?;
    }
    Ok(())
}

/// Runs generated workflows on simulated machines for any length of time.
fn sim(shop: &Shop, arguments: &[String]) -> Result<(), String> {
    let example =
        ["run", "--release", "--quiet", "-p", "tiffany-sim", "--example", "forever", "--"];
    run(shop.cargo(example).args(arguments))
}

/// Runs the tests that kill real processes any number of times; each test prints what it checked.
fn kill(shop: &Shop, arguments: &[String]) -> Result<(), String> {
    let times = match arguments {
        [] => 300,
        [name, times] if name == "--times" => {
            times.parse().map_err(|_| "--times takes a number")?
        }
        _ => return Err("usage: kill [--times N]".into()),
    };
    for test in ["durable_kill", "durable_kill_kinds"] {
        let mut command = shop.cargo(["test", "--release", "-p", "tiffany", "--test", "all"]);
        command.arg(format!("{test}::")).args(["--", "--nocapture"]);
        let half = usize::div_ceil(times, 2).to_string();
        shop.step(test, command.env("TIFFANY_KILLS", half))?;
    }
    Ok(())
}

/// Runs random schedules of senders and the reader of the mailbox for any length of time.
fn race(shop: &Shop, arguments: &[String]) -> Result<(), String> {
    let seconds = arguments.first().map_or("60", String::as_str);
    let test = ["test", "--release", "-p", "tiffany", "--test", "all", "mailbox_schedules::"];
    let mut command = shop.cargo(test);
    shop.step("random schedules", command.env("TIFFANY_SCHEDULES_SECONDS", seconds))
}

fn run(command: &mut Command) -> Result<(), String> {
    let status = command.status().map_err(|error| format!("{command:?}: {error}"))?;
    status.success().then_some(()).ok_or_else(|| format!("{command:?} ended with {status}"))
}
