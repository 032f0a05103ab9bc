//! `demo`: a daemon with some workflows, killed again and again while a ledger in a separate
//! process records what is done. At the end the ledger is compared with the log, and the daemon
//! keeps running for visitors of its page.

mod ledger;
mod others;
mod proof;
mod show;
mod timeline;
mod trip;

use std::io::{self, IsTerminal, Read};
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::args::serve::{self as args, Demo};
use crate::{GuestError, Invocation};
use clap::{self, FromArgMatches};
use tiffany::Runtime;
use tiffany_daemon::Relaunch;

use tiffany_daemon::DaemonError;
use tiffany_daemon::{Daemon, LISTEN};

/// The name of the command.
pub(crate) const NAME: &str = "demo";
/// The environment variable that tells a process of this program its part in a demo, its directory
/// and its address.
const PART: &str = "TIFFANY_DEMO_PART";
const PLACE: &str = "TIFFANY_DEMO_DIR";
const ADDRESS: &str = "TIFFANY_DEMO_ADDRESS";

pub(crate) fn command() -> clap::Command {
    args::demo(NAME)
}

/// Plays a part in a demo if this process was started for that; otherwise shows a demo.
pub(crate) fn run(asked: &Invocation<'_>) -> Result<u8, GuestError> {
    if let (Ok(part), Some(dir)) = (std::env::var(PART), std::env::var_os(PLACE)) {
        let played = match part.as_str() {
            "ledger" => ledger::serve(Path::new(&dir)).map_err(failed),
            _ => serve(Path::new(&dir), asked.relaunch.clone()),
        };
        return played.map(|()| 0).map_err(|error| told(&error));
    }
    let typed = Demo::from_arg_matches(asked.matches).map_err(|error| usage(&error.to_string()))?;
    let temporary = || std::env::temp_dir().join(format!("tiffany-demo-{}", std::process::id()));
    let dir = typed.place.clone().unwrap_or_else(temporary);
    if std::fs::read_dir(&dir).is_ok_and(|mut entries| entries.next().is_some()) {
        return Err(usage(&format!("{} is not empty; give `demo` a new directory", dir.display())));
    }
    let made = || {
        std::fs::create_dir_all(&dir)?;
        Ok((dir.canonicalize()?, free(typed.listen)?))
    };
    let (dir, address) = made().map_err(|error| told(&failed(error)))?;
    let headless = typed.headless || asked.json || !io::stdout().is_terminal();
    show::play(asked, &dir, address, headless).map_err(|error| told(&error))?;
    Ok(0)
}

/// Returns an address that stays the same when one daemon replaces another.
fn free(wanted: Option<SocketAddr>) -> io::Result<SocketAddr> {
    let taken = match wanted {
        Some(wanted) => TcpListener::bind(wanted)?,
        None => TcpListener::bind(LISTEN).or_else(|_| TcpListener::bind("127.0.0.1:0"))?,
    };
    taken.local_addr()
}

/// Runs the daemon that is killed. It ends when its standard input closes.
fn serve(dir: &Path, relaunch: Relaunch) -> Result<(), DaemonError> {
    let address = std::env::var(ADDRESS).ok().and_then(|text| text.parse().ok()).unwrap_or(LISTEN);
    let functions = others::register(trip::register(Runtime::builder(), dir));
    let daemon = Daemon::new(functions, dir).listen(address).relaunch(relaunch);
    let mut serving = daemon.open().map_err(|error| DaemonError::Demo(error.to_string()))?;
    let (held, handle) = (Arc::new(AtomicBool::new(true)), serving.handle());
    let holds = Arc::clone(&held);
    std::thread::spawn(move || {
        drop(io::stdin().read_to_end(&mut Vec::new()));
        holds.store(false, Ordering::SeqCst);
        handle.nudge();
    });
    let served = serving.run_while(|_| held.load(Ordering::SeqCst));
    let closed = serving.close();
    served.and(closed.map(drop)).map_err(|error| DaemonError::Demo(error.to_string()))
}

fn failed(error: io::Error) -> DaemonError {
    DaemonError::Demo(error.to_string())
}

fn told(error: &DaemonError) -> GuestError {
    GuestError { code: error.code().into(), text: error.to_string(), exit: None }
}

fn usage(message: &str) -> GuestError {
    let text = format!("{message} [TFY0067]; `--help` lists the options");
    GuestError { code: "TFY0067".into(), text, exit: Some(2) }
}
