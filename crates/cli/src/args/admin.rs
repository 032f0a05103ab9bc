//! Arguments of the commands for administrators. It knows nothing of what the commands do.

use clap::Args as ClapArgs;

#[derive(Debug, ClapArgs)]
#[command(override_usage = "tiffany doctor [OPTIONS]
       tiffany doctor [OPTIONS] --verify [RUN]...
       tiffany doctor [OPTIONS] --verify --erased <RUN>...")]
#[command(after_help = "\
Examples:
  tiffany doctor                             check the directory and the machine
  tiffany doctor --verify                    check every checksum in the directory
  tiffany doctor --verify --erased order-17  prove that nothing is left of a removed run")]
pub(crate) struct Doctor {
    /// Check every checksum: index, commit log, runs, blobs
    #[arg(long)]
    pub(crate) verify: bool,
    /// With `--verify`: only these runs
    #[arg(value_name = "RUN", requires = "verify")]
    pub(crate) runs: Vec<String>,
    /// With `--verify`: search every byte of the directory for remains of these runs, which were removed or compacted
    #[arg(long, requires = "runs")]
    pub(crate) erased: bool,
}

#[derive(Debug, ClapArgs)]
#[command(after_help = "Example:\n  source <(tiffany completions bash)")]
pub(crate) struct Completions {
    /// The shell
    pub(crate) shell: clap_complete::Shell,
}
