//! The binary `tiffany`. It has no program, so it reads records, and serves a log whose runs it
//! cannot continue.

use std::process::ExitCode;

fn main() -> ExitCode {
    tiffany_cli::main(tiffany::Runtime::builder())
}
