//! Checks the dashboard, compares its build with the files kept in `crates/daemon/assets`, and runs
//! its tests in a real browser.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{Shop, install_packages, is_installed, python};

/// The oldest Node version that can build the page.
const OLDEST_NODE: (u32, u32) = (20, 19);

/// Runs all checks of the dashboard.
pub(crate) fn check(shop: &Shop) -> Result<(), String> {
    install(shop)?;
    shop.step("types of the dashboard", &mut npm(shop, &["run", "check"]))?;
    shop.step("tests of the dashboard", &mut npm(shop, &["test"]))?;
    is_fresh(shop)?;
    browser(shop, &[])
}

/// Runs the tests in a browser; arguments are passed to Node's test runner. With `--measure`,
/// measures the page at full size in a release build instead.
pub(crate) fn browse(shop: &Shop, arguments: &[String]) -> Result<(), String> {
    install(shop)?;
    match arguments.split_first() {
        Some((first, rest)) if first == "--measure" => measure(shop, rest),
        _ => browser(shop, arguments),
    }
}

/// Measures the page with a daemon in a release build; arguments are passed to `e2e/measure.mjs`.
fn measure(shop: &Shop, arguments: &[String]) -> Result<(), String> {
    install_chromium(shop)?;
    shop.step("the programs that are measured", shop.cargo(PROGRAMS).arg("--release"))?;
    let mut measure = npm(shop, &["run", "--silent", "measure", "--"]);
    let program = shop.root.join("target/release/examples/kitchen");
    crate::run(measure.args(arguments).env("TIFFANY_PROGRAM", program))
}

/// The arguments for building the programs that the browser needs, with the features that they have
/// in tests.
const PROGRAMS: [&str; 9] = [
    "build",
    "--quiet",
    "--workspace",
    "--example",
    "kitchen",
    "--example",
    "big_run",
    "--example",
    "many_runs",
];

fn install_chromium(shop: &Shop) -> Result<(), String> {
    match is_installed("chromium") {
        true => Ok(()),
        false => install_packages(shop, "Chromium", &["chromium"]),
    }
}

/// Builds the page into the assets that the daemon embeds.
pub(crate) fn build(shop: &Shop, _: &[String]) -> Result<(), String> {
    install(shop)?;
    shop.step("the dashboard", &mut npm(shop, &["run", "build"]))
}

fn place(shop: &Shop) -> PathBuf {
    shop.root.join("dashboard")
}

fn npm(shop: &Shop, arguments: &[&str]) -> Command {
    npm_in(shop, &place(shop), arguments)
}

/// The machine's own Node, or the one that [`install_node`] has brought.
pub(crate) fn npm_in(shop: &Shop, place: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new("npm");
    command.current_dir(place).args(arguments);
    if !has_node() {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let places = [python::node_place(shop)].into_iter().chain(std::env::split_paths(&path));
        command.env("PATH", std::env::join_paths(places).unwrap_or(path.clone()));
    }
    command
}

/// Returns whether the machine has npm and a recent enough Node.
fn has_node() -> bool {
    let new_enough = |version: &str| {
        let mut parts = version.trim().trim_start_matches('v').split('.').map(str::parse);
        matches!((parts.next(), parts.next()), (Some(Ok(major)), Some(Ok(minor))) if (major, minor) >= OLDEST_NODE)
    };
    let said = Command::new("node").arg("--version").output();
    is_installed("npm") && said.is_ok_and(|said| new_enough(&String::from_utf8_lossy(&said.stdout)))
}

fn install(shop: &Shop) -> Result<(), String> {
    install_node(shop)?;
    shop.step("what the dashboard is built with", &mut npm(shop, &INSTALL))
}

/// What npm is told to install the packages of a lock file.
pub(crate) const INSTALL: [&str; 4] = ["ci", "--no-audit", "--no-fund", "--loglevel=error"];

/// Sees to it that there is a Node that is new enough.
pub(crate) fn install_node(shop: &Shop) -> Result<(), String> {
    match has_node() {
        true => Ok(()),
        false => python::node(shop),
    }
}

/// Checks that the files kept in the repository equal a new build.
fn is_fresh(shop: &Shop) -> Result<(), String> {
    let built = shop.root.join("target/dashboard");
    let mut build = npm(shop, &["run", "build", "--", "--emptyOutDir", "--outDir"]);
    shop.step("the dashboard", build.arg(&built))?;
    match files(&built)? == files(&shop.root.join("crates/daemon/assets"))? {
        true => Ok(()),
        false => {
            Err("crates/daemon/assets is stale; run `cargo xtask dashboard` and commit it".into())
        }
    }
}

/// Reads the files of a directory, in order.
fn files(dir: &Path) -> Result<Vec<(PathBuf, Vec<u8>)>, String> {
    let said = |error: std::io::Error| format!("{}: {error}", dir.display());
    let mut all = Vec::new();
    for entry in std::fs::read_dir(dir).map_err(said)? {
        let path = entry.map_err(said)?.path();
        let name = path.file_name().map(PathBuf::from).unwrap_or_default();
        all.push((name, std::fs::read(&path).map_err(said)?));
    }
    all.sort();
    Ok(all)
}

fn browser(shop: &Shop, arguments: &[String]) -> Result<(), String> {
    install_chromium(shop)?;
    shop.step("the programs that the browser looks at", &mut shop.cargo(PROGRAMS))?;
    let mut tests = match arguments.is_empty() {
        true => npm(shop, &["run", "e2e"]),
        false => npm(shop, &["exec", "--", "node", "--test", "--test-concurrency=1"]),
    };
    tests.args(arguments);
    shop.step("tests in a browser", &mut tests)
}
