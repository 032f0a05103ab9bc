//! A daemon as a value: what it is told, opened, driven on the thread that opened it, and ended in good order. It knows no command line.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::{Duration, SystemTime};

use crate::relaunch::Relaunch;
use tiffany::control::{AuditHook, Control, LongTurn, Status};
use tiffany::descriptors;
use tiffany::wal::{LogError, lasting_holder};
use tiffany::{Builder, RunError, Runtime, RuntimeHandle};

use crate::api::router;
use crate::app::{App, Phase};
use crate::audit::Audit;
use crate::auth::AuthError;
use crate::auth::Tokens;
use crate::config::{Config, RULES};
use crate::error::DaemonError;
use crate::http::{Server, bind};
use crate::limits::Limits;
use crate::otlp::OtlpError;
use crate::setup::Making;
use crate::sinks::{SinkError, Sinks};
use crate::tls::Tls;

/// Where a daemon listens if nothing else is said.
pub const LISTEN: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 8787);
/// How long running steps have when a daemon ends, if nothing else is said.
pub const GRACE: Duration = Duration::from_secs(10);
/// How long streams have to come to their end.
const FAREWELL: Duration = Duration::from_millis(200);
/// How long requests that change something have to come to their end.
const LAST_CHANGES: Duration = Duration::from_secs(2);
/// How long sinks have to give on the last events.
const LAST_EVENTS: Duration = Duration::from_secs(2);
/// How long another daemon has to say where it is reached.
const ANSWER: Duration = Duration::from_secs(2);

/// A daemon that is not open yet.
///
/// ```
/// use tiffany::{Runtime, TaskError};
/// use tiffany_daemon::Daemon;
///
/// # let dir = std::env::temp_dir().join(format!("tiffany-doc-daemon-{}", std::process::id()));
/// let functions = Runtime::builder()
///     .register("greet", |name: String| async move { Ok::<_, TaskError>(format!("hello {name}")) });
/// let mut serving = Daemon::new(functions, &dir).listen("127.0.0.1:0".parse()?).open()?;
/// println!("http://{}", serving.address());
/// serving.run_while(|_| false)?; // for as long as this says so
/// serving.close()?;
/// # std::fs::remove_dir_all(&dir)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Daemon {
    builder: Builder,
    dir: PathBuf,
    listen: SocketAddr,
    limits: Option<Limits>,
    grace: Duration,
    config: Config,
    relaunch: Option<Relaunch>,
}

/// Why a daemon does not open, or does not go on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The server.
    #[error(transparent)]
    Daemon(#[from] DaemonError),
    /// Tokens, certificates, the audit file.
    #[error(transparent)]
    Auth(#[from] AuthError),
    /// Where activity is given on to.
    #[error(transparent)]
    Sink(#[from] SinkError),
    /// The runtime or its log.
    #[error(transparent)]
    Run(#[from] RunError),
    /// Where telemetry is sent.
    #[error(transparent)]
    Telemetry(#[from] OtlpError),
}

impl ServeError {
    /// The stable code.
    pub fn code(&self) -> &'static str {
        match self {
            ServeError::Daemon(error) => error.code(),
            ServeError::Auth(error) => error.code(),
            ServeError::Sink(error) => error.code(),
            ServeError::Run(error) => error.code(),
            ServeError::Telemetry(error) => error.code(),
        }
    }
}

impl Daemon {
    /// For these functions, over the log in this directory.
    pub fn new(builder: Builder, dir: impl Into<PathBuf>) -> Daemon {
        Daemon {
            builder,
            dir: dir.into(),
            listen: LISTEN,
            limits: None,
            grace: GRACE,
            config: Config::default(),
            relaunch: None,
        }
    }

    /// Listens there; with port 0, on one that is free.
    #[must_use]
    pub fn listen(self, listen: SocketAddr) -> Daemon {
        Daemon { listen, ..self }
    }

    /// Has these limits, instead of those of its configuration.
    #[must_use]
    pub fn limits(self, limits: Limits) -> Daemon {
        Daemon { limits: Some(limits), ..self }
    }

    /// Gives running steps so much time when it ends.
    #[must_use]
    pub fn grace(self, grace: Duration) -> Daemon {
        Daemon { grace, ..self }
    }

    /// Takes from a configuration who may, certificates, limits, rules about old runs, where activity goes, and what the machine is called. The directory and the address are not taken.
    #[must_use]
    pub fn config(self, config: Config) -> Daemon {
        Daemon { config, ..self }
    }

    /// How this program is started once more, for what runs the code of a run.
    #[must_use]
    pub fn relaunch(self, relaunch: Relaunch) -> Daemon {
        Daemon { relaunch: Some(relaunch), ..self }
    }

    /// Sees that nobody has the log, takes the address, then the log, and brings the runs back. What is asked meanwhile is told to wait. If that fails, nothing
    /// is left behind that was not there before.
    pub fn open(self) -> Result<Serving, ServeError> {
        let Daemon { mut builder, dir, listen, limits, grace, config, relaunch } = self;
        let failed = |error: std::io::Error| DaemonError::Start(error.to_string());
        check_clock(SystemTime::now())?;
        let limits = limits.unwrap_or_else(|| config.limits());
        limits.check().map_err(DaemonError::Start)?;
        let descriptors = descriptors::raise_limit();
        check_descriptors(descriptors)?;
        let limits = limits.within(descriptors);
        let tls = config.tls().map(Tls::new).transpose()?;
        let has_tls = tls.is_some();
        nobody_has(&dir)?;
        let listener = bind(listen)?;
        let made = Making::at(&dir).map_err(|why| cannot_make(&dir, &why))?;
        let dir = dir.canonicalize().map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let gate = config.gate(address, Tokens::at(&dir));
        let audit = Arc::new(Audit::at(&dir)?);
        let this = || std::env::current_exe().map(Relaunch::new).map_err(failed);
        let relaunch = match relaunch {
            Some(relaunch) => relaunch,
            None => this()?,
        };
        let mut relaunch = relaunch.with(["--dir".into(), dir.clone().into_os_string()]);
        // A replay without the rules would not be the same, and would show what they take out.
        if let Some(rules) = config.rules() {
            relaunch = relaunch.env(RULES, rules);
        }
        builder = builder.run_limits(config.run_limits());
        if let Some(slots) = config.step_slots {
            builder = builder.step_slots(slots);
        }
        if let Some(node) = &config.node {
            builder = builder.node(node);
        }
        builder = config.retention().fold(builder, Builder::retention);
        let rules = config.redactions().map_err(|error| DaemonError::Start(error.to_string()))?;
        builder = builder.redact(rules.clone());
        let app = App::new(dir.clone(), limits, gate, audit, (relaunch, rules));
        builder = builder
            .url(&url(address, has_tls))
            .audit_hook(Arc::new(app.clone()) as Arc<dyn AuditHook>);
        let server = Server::start(listener, &app, router(&app), tls)?;
        let runtime = match builder.log_dir(&dir).build() {
            Ok(runtime) => runtime,
            Err(error) => {
                app.become_phase(Phase::Closing);
                server.stop();
                return Err(error.into());
            }
        };
        let node = config.node.as_deref().unwrap_or_default();
        let sinks = Sinks::start(&config.sinks, &runtime.handle(), node, server.handle());
        let sinks = match sinks {
            Ok(sinks) => sinks,
            Err(error) => {
                app.become_phase(Phase::Closing);
                server.stop();
                return Err(error.into());
            }
        };
        app.ready(runtime.handle());
        made.keep();
        Ok(Serving { runtime, server, app, address, grace, has_tls, sinks })
    }
}

/// A daemon that is open. Its runs go on while [`run_while`](Serving::run_while) runs, on this thread; everything of the network is elsewhere.
pub struct Serving {
    runtime: Runtime,
    server: Server,
    app: App,
    address: SocketAddr,
    grace: Duration,
    has_tls: bool,
    sinks: Sinks,
}

/// What any thread can tell a daemon that is to end.
#[derive(Clone)]
pub struct Ending(App);

impl Ending {
    /// Refuses all changes from now on, also those that wait for the loop.
    pub fn begin_nothing_new(&self) {
        self.0.begin_nothing_new();
    }

    /// The turn that keeps the loop, if one does.
    pub fn turn_that_is_kept(&self) -> Option<LongTurn> {
        self.0.turn_that_is_kept()
    }
}

impl Serving {
    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What its handlers share.
    pub(crate) fn app(&self) -> &App {
        &self.app
    }

    /// What another thread can end it by, whatever its loop is doing.
    pub fn ending(&self) -> Ending {
        Ending(self.app.clone())
    }

    /// The address as a URL for people and programs.
    pub fn url(&self) -> String {
        url(self.address, self.has_tls)
    }

    /// Warnings for the person who starts the daemon: that tokens are sent unencrypted, that no client has access, that
    /// there are too few descriptors.
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        if is_in_the_clear(self.address, self.has_tls) {
            warnings.push("other machines can reach this address, and tokens and all other data are sent unencrypted; set a certificate under `[tls]` in a configuration, or listen on 127.0.0.1 behind a proxy that has one".into());
        }
        let (descriptors, minimum) = (descriptors::limit(), descriptors::MINIMUM);
        if descriptors < minimum {
            warnings.push(format!("the process may have only {descriptors} open files, and a daemon should have at least {minimum}; raise the limit with `ulimit -n 4096`, or `LimitNOFILE=` of a service"));
        }
        if !self.app.gate.lets_somebody_in() {
            let dir = self.dir().display();
            warnings.push(format!("no client has access yet: every client needs a token, and none exists; create one with `tiffany --dir {dir} token add NAME --role ROLE`"));
        }
        warnings
    }

    /// The log directory.
    pub fn dir(&self) -> &Path {
        &self.app.dir
    }

    /// How the runtime stands.
    pub fn status(&self) -> Status {
        self.runtime.status()
    }

    /// A way to reach it from other threads.
    pub fn handle(&self) -> RuntimeHandle {
        self.runtime.handle()
    }

    /// Drives everything for as long as this says so: see [`Runtime::serve_while`].
    pub fn run_while(&mut self, goes_on: impl Fn(&Runtime) -> bool) -> Result<(), RunError> {
        self.runtime.serve_while(goes_on)
    }

    /// From now on nothing new is begun.
    pub fn begin_nothing_new(&self) {
        self.app.begin_nothing_new();
    }

    /// Ends in good order: nothing new is begun, running steps have the time that they were given, streams are told, and the log says that this was meant.
    /// `true`: no step was cut off.
    pub fn close(mut self) -> Result<bool, RunError> {
        self.begin_nothing_new();
        let drained = self.runtime.drain(self.grace);
        self.app.become_phase(Phase::Closing);
        // Streams have something to say yet, and who waits for an answer is given it.
        let said = self.runtime.serve_for(FAREWELL);
        drop(self.runtime);
        // What was done is written down before the threads go that do it.
        let written = async { tokio::time::timeout(LAST_CHANGES, self.app.unchanging()).await };
        drop(self.server.handle().block_on(written));
        if let Err(error) = self.app.audit.sync() {
            tracing::error!(target: "tiffany", "{error}");
        }
        // They have until now what happened last.
        self.server.handle().block_on(self.sinks.finish(LAST_EVENTS));
        self.server.stop();
        drained.and_then(|drained| said.map(|()| drained))
    }
}

fn url(address: SocketAddr, has_tls: bool) -> String {
    format!("http{}://{address}", if has_tls { "s" } else { "" })
}

fn cannot_make(dir: &Path, why: &std::io::Error) -> DaemonError {
    DaemonError::Start(format!("cannot make {}: {why}", dir.display()))
}

/// An error that says who has the log, since when and where that is reached, if somebody has it. It comes before anything is taken or made.
fn nobody_has(dir: &Path) -> Result<(), RunError> {
    let Some(holder) = lasting_holder(dir) else { return Ok(()) };
    let url = if holder.pid == std::process::id() { None } else { url_of(dir) };
    let at = url.map_or_else(String::new, |url| format!(", which serves {url}"));
    Err(LogError::Locked { dir: dir.into(), owner: format!("{holder}{at}") }.into())
}

/// Where the process that has a log is reached, if it says so soon.
fn url_of(dir: &Path) -> Option<String> {
    let (dir, (tell, told)) = (dir.to_owned(), channel());
    let asks = move || {
        let url = Control::connect(&dir).ok().flatten().and_then(|mut it| it.status().ok()?.url);
        // Whoever wanted to know may have gone on.
        drop(tell.send(url));
    };
    std::thread::Builder::new().name("tiffany-who".into()).spawn(asks).ok()?;
    told.recv_timeout(ANSWER).ok().flatten()
}

/// An error if there are too few descriptors for the log, the server and the control socket. The daemon would wait for
/// one that never gets free.
fn check_descriptors(limit: usize) -> Result<(), DaemonError> {
    match limit < descriptors::REQUIRED {
        true => Err(DaemonError::FewDescriptors { limit, required: descriptors::REQUIRED }),
        false => Ok(()),
    }
}

/// An error if the clock is before 1970: every answer over HTTP has a date.
fn check_clock(now: SystemTime) -> Result<(), DaemonError> {
    const DAY: u64 = 24 * 60 * 60;
    match now.duration_since(SystemTime::UNIX_EPOCH) {
        Ok(_) => Ok(()),
        Err(error) => Err(DaemonError::Clock(error.duration().as_secs().div_ceil(DAY))),
    }
}

/// Whether others can read what is said.
fn is_in_the_clear(address: SocketAddr, has_tls: bool) -> bool {
    !address.ip().is_loopback() && !has_tls
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_before_1970_is_an_error_at_the_start() {
        let epoch = SystemTime::UNIX_EPOCH;
        assert!(check_clock(epoch).is_ok());
        let error = check_clock(epoch - Duration::from_secs(36 * 60 * 60)).unwrap_err();
        assert_eq!((error.code(), error.status()), ("TFY0231", 500));
        assert!(error.to_string().contains("2 days before 1970"), "{error}");
    }

    #[test]
    fn what_others_can_reach_is_in_the_clear_without_tls() {
        let cases = [
            ("127.0.0.1:1", false, false),
            ("[::1]:1", false, false),
            ("0.0.0.0:1", false, true),
            ("[::]:1", false, true),
            ("192.0.2.1:1", false, true),
            ("0.0.0.0:1", true, false),
        ];
        for (address, has_tls, expected) in cases {
            assert_eq!(is_in_the_clear(address.parse().unwrap(), has_tls), expected, "{address}");
        }
    }
}
