//! Starts a test of this binary again, in a process of its own.

use std::process::Command;

/// A process that runs exactly this test. `module` is the `module_path!()` of the test.
pub(crate) fn command(module: &str, test: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("it has a name"));
    command.args(arguments(module, test));
    command
}

/// The arguments with which this binary runs exactly this test.
pub(crate) fn arguments(module: &str, test: &str) -> [String; 3] {
    // A test's name begins after the name of its crate.
    let (_, module) = module.split_once("::").expect("tests are in modules");
    ["--exact".into(), format!("{module}::{test}"), "--nocapture".into()]
}
