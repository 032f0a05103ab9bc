//! The dashboard: its checks, its build compared with what is kept in `crates/daemon/assets`, and its tests in a real browser.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{Shop, install_packages, is_installed};

/// Checks all of it.
pub(crate) fn check(shop: &Shop) -> Result<(), String> {
    install(shop)?;
    shop.step("types of the dashboard", &mut npm(shop, &["run", "check"]))?;
    shop.step("tests of the dashboard", &mut npm(shop, &["test"]))?;
    is_fresh(shop)?;
    browser(shop, &[])
}

/// The tests in a browser; arguments go to node's test runner.
pub(crate) fn browse(shop: &Shop, arguments: &[String]) -> Result<(), String> {
    install(shop)?;
    browser(shop, arguments)
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
    let mut command = Command::new("npm");
    command.current_dir(place(shop)).args(arguments);
    command
}

fn install(shop: &Shop) -> Result<(), String> {
    if !is_installed("npm") {
        return Err("the dashboard is checked with Node 20.19 or later, and `npm` is not there; the binary itself is built without it".into());
    }
    let install = ["ci", "--no-audit", "--no-fund", "--loglevel=error"];
    shop.step("what the dashboard is built with", &mut npm(shop, &install))
}

/// Whether what is kept is what the sources give.
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

/// The files of a directory with their contents, in order.
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
    if !is_installed("chromium") {
        install_packages(shop, "Chromium", &["chromium"])?;
    }
    let program = ["build", "--quiet", "-p", "tiffany-cli", "--example", "kitchen"];
    shop.step("the program that the browser looks at", &mut shop.cargo(program))?;
    let mut tests = npm(shop, &["run", "e2e"]);
    if !arguments.is_empty() {
        tests.arg("--").args(arguments);
    }
    shop.step("tests in a browser", &mut tests)
}
