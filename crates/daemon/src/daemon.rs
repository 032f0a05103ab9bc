//! The daemon as a value: configured, opened, driven on the thread that opened it, and shut down in
//! order. It doesn't parse the command line.

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

/// The default address to listen on.
pub const LISTEN: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 8787);
/// How long running steps have by default to finish when a daemon ends.
pub const GRACE: Duration = Duration::from_secs(10);
/// How long streams have to end when the daemon ends.
const FAREWELL: Duration = Duration::from_millis(200);
/// How long requests that change something have to finish when the daemon ends.
const LAST_CHANGES: Duration = Duration::from_secs(2);
/// How long sinks have to forward the last events when the daemon ends.
const LAST_EVENTS: Duration = Duration::from_secs(2);
/// How long another daemon has to report its address.
const ANSWER: Duration = Duration::from_secs(2);

/// A daemon that has not been opened yet.
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

/// Why a daemon cannot open, or cannot keep running.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// An error of the server.
    #[error(transparent)]
    Daemon(#[from] DaemonError),
    /// An error with tokens, certificates or the audit file.
    #[error(transparent)]
    Auth(#[from] AuthError),
    /// An error of a sink.
    #[error(transparent)]
    Sink(#[from] SinkError),
    /// An error of the runtime or its log.
    #[error(transparent)]
    Run(#[from] RunError),
    /// An error of telemetry.
    #[error(transparent)]
    Telemetry(#[from] OtlpError),
}

impl ServeError {
    /// Returns the stable error code.
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
    /// Creates a daemon that runs these functions, with its log in this directory.
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

    /// Sets the address to listen on. Port 0 means any free port.
    #[must_use]
    pub fn listen(self, listen: SocketAddr) -> Daemon {
        Daemon { listen, ..self }
    }

    /// Sets limits that take precedence over those of the configuration.
    #[must_use]
    pub fn limits(self, limits: Limits) -> Daemon {
        Daemon { limits: Some(limits), ..self }
    }

    /// Sets how long running steps have to finish when the daemon ends.
    #[must_use]
    pub fn grace(self, grace: Duration) -> Daemon {
        Daemon { grace, ..self }
    }

    /// Applies a configuration: access, certificates, limits, retention rules, sinks and the name
    /// of the machine. Its directory and address are ignored.
    #[must_use]
    pub fn config(self, config: Config) -> Daemon {
        Daemon { config, ..self }
    }

    /// Sets the command that starts this program again, for processes that run the code of a run.
    #[must_use]
    pub fn relaunch(self, relaunch: Relaunch) -> Daemon {
        Daemon { relaunch: Some(relaunch), ..self }
    }

    /// Checks that no process owns the log, binds the address, opens the log, and resumes the runs.
    /// Requests in the meantime are told to wait. After an error, everything that this created is
    /// removed.
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
        // Without the rules a replay would give another result, and would show what they redact.
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

/// An open daemon. Its runs progress while [`run_while`](Serving::run_while) runs on this thread;
/// the network is served by other threads.
pub struct Serving {
    runtime: Runtime,
    server: Server,
    app: App,
    address: SocketAddr,
    grace: Duration,
    has_tls: bool,
    sinks: Sinks,
}

/// A handle with which any thread can end a daemon.
#[derive(Clone)]
pub struct Ending(App);

impl Ending {
    /// Refuses all changes from now on, also those that wait for the loop.
    pub fn begin_nothing_new(&self) {
        self.0.begin_nothing_new();
    }

    /// Returns the turn that blocks the loop, if there is one.
    pub fn turn_that_is_kept(&self) -> Option<LongTurn> {
        self.0.turn_that_is_kept()
    }
}

impl Serving {
    /// Returns the address that the daemon listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the state that handlers share.
    pub(crate) fn app(&self) -> &App {
        &self.app
    }

    /// Returns a handle with which another thread can end the daemon, even while its loop is
    /// blocked.
    pub fn ending(&self) -> Ending {
        Ending(self.app.clone())
    }

    /// Returns the address as a URL.
    pub fn url(&self) -> String {
        url(self.address, self.has_tls)
    }

    /// Returns warnings for the person who starts the daemon: that tokens are sent unencrypted,
    /// that no client has access, that there are too few descriptors.
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

    /// Returns the log directory.
    pub fn dir(&self) -> &Path {
        &self.app.dir
    }

    /// Returns the status of the runtime.
    pub fn status(&self) -> Status {
        self.runtime.status()
    }

    /// Returns a handle for other threads.
    pub fn handle(&self) -> RuntimeHandle {
        self.runtime.handle()
    }

    /// Drives the runs while the condition holds; see [`Runtime::serve_while`].
    pub fn run_while(&mut self, goes_on: impl Fn(&Runtime) -> bool) -> Result<(), RunError> {
        self.runtime.serve_while(goes_on)
    }

    /// Refuses all changes from now on.
    pub fn begin_nothing_new(&self) {
        self.app.begin_nothing_new();
    }

    /// Shuts down in order: refuses changes, lets running steps finish within their grace period,
    /// closes streams, and records in the log that the end was intended. Returns `true` if no step
    /// was cut off.
    pub fn close(mut self) -> Result<bool, RunError> {
        self.begin_nothing_new();
        let drained = self.runtime.drain(self.grace);
        self.app.become_phase(Phase::Closing);
        // Streams send their last message, and pending requests get their answers.
        let said = self.runtime.serve_for(FAREWELL);
        drop(self.runtime);
        // Outcomes are recorded before the threads that record them end.
        let written = async { tokio::time::timeout(LAST_CHANGES, self.app.unchanging()).await };
        drop(self.server.handle().block_on(written));
        if let Err(error) = self.app.audit.sync() {
            tracing::error!(target: "tiffany", "{error}");
        }
        // The sinks have received the last events by now.
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

/// Returns an error if a process owns the log. It names the process, its start and its address. The
/// check comes before anything is created.
fn nobody_has(dir: &Path) -> Result<(), RunError> {
    let Some(holder) = lasting_holder(dir) else { return Ok(()) };
    let url = if holder.pid == std::process::id() { None } else { url_of(dir) };
    let at = url.map_or_else(String::new, |url| format!(", which serves {url}"));
    Err(LogError::Locked { dir: dir.into(), owner: format!("{holder}{at}") }.into())
}

/// Returns the address of the process that owns a log, if it answers in time.
fn url_of(dir: &Path) -> Option<String> {
    let (dir, (tell, told)) = (dir.to_owned(), channel());
    let asks = move || {
        let url = Control::connect(&dir).ok().flatten().and_then(|mut it| it.status().ok()?.url);
        // The receiver may have stopped waiting.
        drop(tell.send(url));
    };
    std::thread::Builder::new().name("tiffany-who".into()).spawn(asks).ok()?;
    told.recv_timeout(ANSWER).ok().flatten()
}

/// Returns an error if there are too few descriptors for the log, the server and the control
/// socket. The daemon would otherwise wait forever for a free one.
fn check_descriptors(limit: usize) -> Result<(), DaemonError> {
    match limit < descriptors::REQUIRED {
        true => Err(DaemonError::FewDescriptors { limit, required: descriptors::REQUIRED }),
        false => Ok(()),
    }
}

/// Returns an error if the clock is before 1970: every HTTP answer has a date.
fn check_clock(now: SystemTime) -> Result<(), DaemonError> {
    const DAY: u64 = 24 * 60 * 60;
    match now.duration_since(SystemTime::UNIX_EPOCH) {
        Ok(_) => Ok(()),
        Err(error) => Err(DaemonError::Clock(error.duration().as_secs().div_ceil(DAY))),
    }
}

/// Returns whether other machines can read the traffic.
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
