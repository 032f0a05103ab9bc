//! Arguments of the commands around the daemon. It knows nothing of what the commands do.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Arg, Args as ClapArgs, Command, value_parser};
use tiffany::Builder;
use tiffany::units;
use tiffany_daemon::auth::Role;
use tiffany_daemon::config::{MAX_STEP_SLOTS, check_grace};
use tiffany_daemon::{GRACE, LISTEN};

/// Host the runs of a directory over HTTP, with the dashboard
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Examples:
  tiffany --app orders.py serve
  tiffany serve --config tiffany.toml")]
pub(crate) struct Serve {
    /// Address to listen on; port 0 takes a free one
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = address)]
    pub(crate) listen: Option<SocketAddr>,
    /// Time that running steps have to finish when the daemon is told to stop
    #[arg(long, value_name = "TIME", value_parser = grace)]
    pub(crate) grace: Option<Duration>,
    /// Number of steps that may block a thread at the same time; further steps wait
    #[arg(long, value_name = "NUMBER", value_parser = value_parser!(u32).range(1..=MAX_STEP_SLOTS.into()))]
    pub(crate) step_slots: Option<u32>,
}

/// Kill a daemon in the middle of its work, and prove that nothing is lost
#[derive(Debug, ClapArgs)]
pub(crate) struct Demo {
    /// New directory for its log and its ledger. [default: a temporary one]
    #[arg(value_name = "DIR")]
    pub(crate) place: Option<PathBuf>,
    /// Exit at the end instead of keeping the dashboard open until Ctrl-C; the default if standard output is not a terminal
    #[arg(long)]
    pub(crate) headless: bool,
    /// Address of its daemon. [default: port 8787, or a free one]
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = address)]
    pub(crate) listen: Option<SocketAddr>,
}

/// An address as people type it.
fn address(text: &str) -> Result<SocketAddr, String> {
    let numbers = match text.strip_prefix("localhost:") {
        Some(port) => format!("127.0.0.1:{port}"),
        None => text.to_owned(),
    };
    numbers.parse().map_err(|_| {
        "expected an address and a port, such as 127.0.0.1:8787, or 0.0.0.0:8787 for all interfaces"
            .into()
    })
}

/// How long running steps have, as people type it.
fn grace(text: &str) -> Result<Duration, String> {
    let grace = units::time(text)?;
    check_grace(grace).map(|()| grace)
}

pub(crate) fn serve(name: &'static str) -> Command {
    // A configuration may set these, so they are not clap's defaults.
    let with = |text: String| {
        move |arg: Arg| {
            let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
            arg.help(format!("{help} [default: {text}]"))
        }
    };
    Serve::augment_args(Command::new(name))
        .mut_arg("listen", with(LISTEN.to_string()))
        .mut_arg("grace", with(format!("{}s", GRACE.as_secs())))
        .mut_arg("step_slots", with(Builder::DEFAULT_STEP_SLOTS.to_string()))
}

pub(crate) fn demo(name: &'static str) -> Command {
    Demo::augment_args(Command::new(name))
}

pub(crate) fn token(name: &'static str) -> Command {
    let owner = || Arg::new("name").value_name("NAME").required(true);
    let role = Arg::new("role").long("role").value_name("ROLE").required(true);
    let role = role.value_parser(value_parser!(Role)).help(
        "What the token allows: a viewer reads, an operator also starts and steers runs, an admin also removes them",
    );
    let expires = Arg::new("expires").long("expires").value_name("TIME");
    let expires = expires.value_parser(units::time).help(
        "How long the token is valid: 90s, 15m, 12h, 30d or 2w. [default: until it is removed]",
    );
    let add = Command::new("add")
        .about("Create a token and print it; it is not shown again")
        .arg(owner().help("Name of its owner, which is recorded with every change"))
        .arg(role)
        .arg(expires)
        .after_help("Example:\n  tiffany token add alice --role operator --expires 30d");
    let rm = Command::new("rm")
        .about("Remove a token, which is refused from then on")
        .arg(owner().help("Name of its owner, or of the token as `token ls` lists it"));
    Command::new(name)
        .about("Create, list and remove access tokens of the daemon")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(add)
        .subcommand(Command::new("ls").about("List the tokens by owner, without their secrets"))
        .subcommand(rm)
}

pub(crate) fn audit(name: &'static str) -> Command {
    Command::new(name)
        .about("Show who changed what, and check that the audit log is intact")
        .arg(Arg::new("who").long("who").value_name("NAME").help("Only changes made by this user"))
        .after_help("Example:\n  tiffany audit --who alice")
}

pub(crate) fn config(name: &'static str) -> Command {
    let file = Arg::new("file").value_name("FILE").value_parser(value_parser!(PathBuf));
    let file = file.help("The file. [default: the one named with `--config`]");
    Command::new(name)
        .about("Print an example configuration of the daemon, or check one")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(
            Command::new("example")
                .about("Print a configuration with every setting and its meaning"),
        )
        .subcommand(
            Command::new("check")
                .about("Check a configuration and the certificates it names, as `serve` would")
                .arg(file),
        )
}
