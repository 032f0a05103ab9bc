//! The binary `tiffany`. It knows no program, so it works on the level of records, and serves a log whose runs stand still.

use std::process::ExitCode;

fn main() -> ExitCode {
    tiffany_cli::main(tiffany::Runtime::builder())
}
