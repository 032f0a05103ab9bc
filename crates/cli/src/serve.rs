//! `serve`: the daemon on the command line. It reads the arguments, prints a greeting, and stops on
//! a signal.

use std::ffi::OsString;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::args::serve::{self as args, Serve};
use crate::daemon_commands;
use crate::{GuestError, Invocation, clean};
use clap::{self, FromArgMatches};
use serde_json::json;
use signal_hook::consts::{SIGINT, SIGTERM};
use tiffany::Builder;
use tiffany::binding::{KeptHandler, keep_handler_from_children};
use tiffany::logging::{self, Format, Level};

use crate::notify;
use tiffany_daemon::DaemonError;
use tiffany_daemon::telemetry::Telemetry;
use tiffany_daemon::{Daemon, Ending, GRACE, LISTEN, ServeError, Serving};

pub(crate) const NAME: &str = "serve";

pub(crate) fn command() -> clap::Command {
    args::serve(NAME)
}

pub(crate) fn serve(asked: Invocation<'_>) -> Result<u8, GuestError> {
    let typed = Serve::from_arg_matches(asked.matches).map_err(|error| GuestError {
        code: "TFY0067".into(),
        text: format!("{error} [TFY0067]; `--help` lists the options"),
        exit: Some(2),
    })?;
    let config = daemon_commands::typed_config(asked.matches)?;
    let is_configured = config.is_some();
    let mut config = config.unwrap_or_default().with_rules_of_env()?;
    config.step_slots = typed.step_slots.map(|slots| slots as usize).or(config.step_slots);
    let app = config.app.clone().map(PathBuf::into_os_string);
    let theirs = app.as_ref().and_then(|file| asked.functions_of(file)).transpose()?;
    // Installed after the program is loaded, since loading it may install other signal handlers.
    let grace = typed.grace.or(config.grace()).unwrap_or(GRACE);
    let stop = Stop::on_signals(grace)
        .map_err(|error| told(&DaemonError::Start(error.to_string()).into()))?;
    let mut relaunch = asked.relaunch.clone();
    if let (Some(file), true) = (&app, theirs.is_some()) {
        relaunch = relaunch.with(["--app".into(), OsString::clone(file)]);
    }
    let dir = asked.dir.clone();
    let builder: Builder = theirs.unwrap_or(asked.builder);
    let listen = typed.listen.or(config.listen).unwrap_or(LISTEN);
    // The rest of the grace period is for closing the log.
    let drain = grace - (grace / 4).min(Duration::from_secs(1));
    let daemon = Daemon::new(builder, dir).listen(listen).relaunch(relaunch).grace(drain);
    if !is_configured {
        let format = if asked.json { Format::Json } else { Format::Text };
        logging::init(format, Level::ERROR);
    }
    let telemetry = is_configured.then(|| Telemetry::start(&config)).transpose();
    let telemetry = telemetry.map_err(|error| told(&error.into()))?;
    let serving = daemon.config(config).open().map_err(|error| told(&error))?;
    if let Some(telemetry) = &telemetry {
        telemetry.watch(&serving.handle());
    }
    let ended = run(serving, &stop, asked.json).map_err(|error| told(&error));
    if let Some(telemetry) = telemetry {
        telemetry.finish();
    }
    match ended? {
        Ended::InOrder => Ok(0),
        // The threads of such steps cannot be ended one by one, and a service manager that waits
        // for them would wait for long.
        Ended::StepsCutOff => stop.exit(),
    }
}

/// How a daemon ended.
enum Ended {
    InOrder,
    /// Steps outlasted the grace period.
    StepsCutOff,
}

fn run(mut serving: Serving, stop: &Stop, json: bool) -> Result<Ended, ServeError> {
    stop.tells(serving.ending());
    greet(&serving, json);
    notify::ready(&serving.url());
    let ran = serving.run_while(|_| !stop.is_wanted());
    notify::stopping();
    serving.begin_nothing_new();
    say(json, "ending", "ending: running steps finish; a second signal ends it at once");
    let drained = serving.close()?;
    ran?;
    if drained {
        say(json, "ended", "ended");
        return Ok(Ended::InOrder);
    }
    match json {
        true => print(&json!({ "event": "ended", "cut_off": true }).to_string()),
        false => print("ended; steps that were cut off are done again, or are in doubt"),
    }
    Ok(Ended::StepsCutOff)
}

/// Prints the greeting.
fn greet(serving: &Serving, json: bool) {
    let status = serving.status();
    let socket = serving.dir().join("control.sock");
    let paused = status.paused.iter();
    if json {
        let paused = paused.map(|one| {
            json!({ "run": one.run.to_string(), "code": one.error.code(), "message": one.error.message() })
        });
        print(
            &json!({
                "event": "serving",
                "url": serving.url(),
                "dir": serving.dir(),
                "socket": socket,
                "pid": status.pid,
                "functions": status.functions.iter().map(|one| &one.name).collect::<Vec<_>>(),
                "live": status.live,
                "paused": paused.collect::<Vec<_>>(),
                "warnings": serving.warnings(),
            })
            .to_string(),
        );
        return;
    }
    let (live, stand_still) = (status.live, status.paused.len());
    print(&format!("serving {} as process {}", serving.dir().display(), status.pid));
    print(&format!("  http    {0}  (API documentation: {0}/docs)", serving.url()));
    print(&format!("  socket  {}", socket.display()));
    print(&format!("  runs    {live} live, {stand_still} paused"));
    for one in paused.take(MANY) {
        print(&format!("  paused  {}: {}", one.run, one.error));
    }
    if stand_still > MANY {
        print(&format!(
            "  paused  and {} more; `tiffany ls --state paused` lists them",
            stand_still - MANY
        ));
    }
    for warning in serving.warnings() {
        print(&format!("  warning {warning}"));
    }
    if status.functions.is_empty() {
        print(
            "  no functions: nothing can be started here; pass a Python file whose functions are marked with `@workflow` with `--app`, or use a program that registers its own",
        );
    }
}

/// The most paused runs that are named at the start.
const MANY: usize = 10;

fn say(json: bool, event: &str, text: &str) {
    match json {
        true => print(&json!({ "event": event }).to_string()),
        false => print(text),
    }
}

/// Prints a line. The reader may have closed standard output.
fn print(line: &str) {
    let mut out = std::io::stdout().lock();
    drop(writeln!(out, "{}", clean(line)).and_then(|()| out.flush()));
}

fn told(error: &ServeError) -> GuestError {
    GuestError { code: error.code().into(), text: error.to_string(), exit: None }
}

/// How often the daemon checks that its signal handlers are still installed.
const LOOK_AT_HANDLERS: Duration = Duration::from_millis(250);

/// The state of stopping the daemon by signals. A second signal ends the process at once, and so
/// does the end of the grace period, even if a task keeps its turn.
struct Stop {
    wanted: Arc<AtomicBool>,
    /// The signal that was received.
    signal: Arc<AtomicUsize>,
    daemon: Arc<Mutex<Option<Ending>>>,
}

impl Stop {
    fn on_signals(grace: Duration) -> std::io::Result<Stop> {
        let wanted = Arc::new(AtomicBool::new(false));
        let asked = Arc::new(AtomicUsize::new(0));
        let (mut pipe, told) = UnixStream::pair()?;
        for signal in [SIGINT, SIGTERM] {
            // The order matters: at the first signal, `wanted` is still false.
            signal_hook::flag::register_conditional_shutdown(
                signal,
                128 + signal,
                Arc::clone(&wanted),
            )?;
            signal_hook::flag::register_usize(signal, Arc::clone(&asked), signal as usize)?;
            signal_hook::flag::register(signal, Arc::clone(&wanted))?;
            signal_hook::low_level::pipe::register(signal, told.try_clone()?)?;
            // A forked child would report its own signals to its parent.
            keep_handler_from_children(signal)?;
        }
        let daemon: Arc<Mutex<Option<Ending>>> = Arc::default();
        let (told_daemon, signal) = (Arc::clone(&daemon), Arc::clone(&asked));
        let handlers = [KeptHandler::of(SIGINT)?, KeptHandler::of(SIGTERM)?];
        pipe.set_read_timeout(Some(LOOK_AT_HANDLERS))?;
        let waits = move || {
            if wait_for_signal(&mut pipe, &handlers) {
                let ending = told_daemon.lock().unwrap_or_else(PoisonError::into_inner).clone();
                // A task may block the loop, and requests that wait for it must not begin.
                ending.iter().for_each(Ending::begin_nothing_new);
                std::thread::sleep(grace);
                end_now(grace, &told_daemon, &signal);
            }
        };
        std::thread::Builder::new().name("tiffany-signals".into()).spawn(waits)?;
        Ok(Stop { wanted, signal: asked, daemon })
    }

    /// Ends the process as a signal would.
    fn exit(&self) -> ! {
        signal_hook::low_level::exit(code_of(&self.signal))
    }

    fn is_wanted(&self) -> bool {
        self.wanted.load(Ordering::SeqCst)
    }

    /// Sets the daemon that a signal stops, whatever its loop is doing.
    fn tells(&self, ending: Ending) {
        *self.daemon.lock().unwrap_or_else(PoisonError::into_inner) = Some(ending.clone());
        if self.is_wanted() {
            ending.begin_nothing_new();
        }
    }
}

/// Waits until a handler has written to the pipe. The program's code may replace the handlers, for
/// example with Python's `signal.signal`; they are restored, so that the daemon can always be
/// stopped.
fn wait_for_signal(pipe: &mut UnixStream, handlers: &[KeptHandler]) -> bool {
    loop {
        match pipe.read(&mut [0]) {
            Ok(count) => return count > 0,
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                for kept in handlers.iter().filter(|kept| kept.put_back().unwrap_or(false)) {
                    tracing::warn!(
                        target: "tiffany",
                        "code of the program replaced the handler of signal {}; it is the daemon's again",
                        kept.signal(),
                    );
                }
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(_) => return false,
        }
    }
}

/// Returns the exit code of a daemon that a signal stopped before it had ended in order.
fn code_of(signal: &AtomicUsize) -> i32 {
    let signal = i32::try_from(signal.load(Ordering::SeqCst)).ok().filter(|signal| *signal > 0);
    128 + signal.unwrap_or(SIGTERM)
}

/// Ends the process although its loop has not ended. Everything that was acknowledged is in the
/// log.
fn end_now(grace: Duration, daemon: &Mutex<Option<Ending>>, signal: &AtomicUsize) -> ! {
    let ending = daemon.lock().unwrap_or_else(PoisonError::into_inner).take();
    let kept = ending.and_then(|ending| ending.turn_that_is_kept());
    let why = kept.map_or_else(|| "it did not end".into(), |turn| turn.to_string());
    eprintln!(
        "tiffany: ended after the grace period of {grace:?}: {why}; nothing that was acknowledged is lost"
    );
    signal_hook::low_level::exit(code_of(signal))
}
