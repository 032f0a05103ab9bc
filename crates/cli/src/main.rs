//! The binary `tiffany`. It knows no program, so it works on the level of records.

use std::process::ExitCode;

fn main() -> ExitCode {
    tiffany::cli::main(tiffany::Runtime::builder())
}
