//! What can go wrong with the daemon itself and with what it is asked over HTTP. Errors of runs and of the log have codes of their own, and keep them.

use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

use tiffany::Uuid;

/// Why the daemon could not do it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DaemonError {
    /// The address cannot be listened on.
    #[error(
        "cannot listen on {address}: {why} [TFY0155]; choose another one with `--listen`, or stop the process that uses it"
    )]
    Listen {
        /// The address.
        address: SocketAddr,
        /// What the system said, and who has it.
        why: String,
    },
    /// The demo did not come to its end.
    #[error(
        "the demo failed: {0} [TFY0080]; its log and its ledger are still there, to be looked at"
    )]
    Demo(String),
    /// The request cannot be read.
    #[error("{0} [TFY0156]; `/docs` shows what this path takes")]
    BadRequest(String),
    /// The body is longer than it may be.
    #[error(
        "the body has more than {most} bytes [TFY0157]; send less, or raise `body_bytes` under `[limits]`"
    )]
    TooLarge {
        /// How many it may have.
        most: usize,
    },
    /// The head of a request, its path and its headers, is longer than it may be.
    #[error(
        "the path and the headers have more than {most} bytes, or are too many [TFY0168]; send less, or raise `header_bytes` under `[limits]`"
    )]
    HeadTooLarge {
        /// How many bytes they may have.
        most: usize,
    },
    /// Somebody asks too often, or too many are connected.
    #[error("{what} [TFY0158]; wait {} s, and do it again", .wait.as_secs_f64().ceil().max(1.0))]
    TooMany {
        /// Of what.
        what: String,
        /// How long it takes until it makes sense again.
        wait: Duration,
    },
    /// The daemon does not do it now.
    #[error("the daemon {0} [TFY0159]; wait a little, and do it again")]
    NotNow(&'static str),
    /// The runtime has not answered.
    #[error(
        "the runtime has not answered for {patience:?}{} [TFY0160]; {}; if the request was to change something, that may still happen: see with `GET` whether it did, before you repeat it",
        .turn.iter().map(|turn| format!(": {turn}")).collect::<String>(),
        if .turn.is_some() { "move long work into a step" } else { "a task may keep its turn: see the log of the daemon" }
    )]
    NoAnswer {
        /// How long it was waited for.
        patience: Duration,
        /// The turn that keeps it, if that is known.
        turn: Option<String>,
    },
    /// More is asked for than is answered.
    #[error("more than {1} {0} [TFY0161]; wait a little, and do it again")]
    Busy(Crowd, usize),
    /// There is no such path.
    #[error("there is no path `{0}` [TFY0162]; `/docs` lists those that there are")]
    NoPath(String),
    /// The path takes another method.
    #[error("`{0}` cannot be done there [TFY0163]; see the header `Allow`, or `/docs`")]
    NoMethod(String),
    /// The process that was to run a program's code did not do it.
    #[error(
        "the code of the run could not be run: {0} [TFY0164]; do it by the command line, which shows more"
    )]
    Child(String),
    /// The process that was to run a program's code took too long.
    #[error(
        "the code of the run took longer than {0:?}, and was stopped [TFY0165]; do it by the command line, which has no limit"
    )]
    ChildSlow(Duration),
    /// The body has a type that is not understood.
    #[error(
        "the type of the body is {0} [TFY0166]; send JSON, with `Content-Type: application/json`"
    )]
    NotJson(String),
    /// The server's threads could not be started, or stopped.
    #[error("the server could not be started: {0} [TFY0167]; see the system's message")]
    Start(String),
    /// A run has more records than there is memory for an index of them.
    #[error(
        "run {run} has too many records to be indexed: {records} take {bytes} bytes [TFY0169]; read them as lines, with `Accept: application/x-ndjson`, or by `tiffany log`"
    )]
    TooLong {
        /// The run.
        run: Uuid,
        /// So many were read.
        records: u64,
        /// And took this.
        bytes: usize,
    },
    /// The system's clock says that it is before 1970, which no date in HTTP can say.
    #[error(
        "the system's clock says that it is {0} days before 1970 [TFY0231]; set it, and start again"
    )]
    Clock(u64),
    /// No file descriptor is left for a connection.
    #[error(
        "no file descriptor is left for this connection [TFY0250]; wait a little, and try again; if this persists, raise the limit of open files (`ulimit -n`, `LimitNOFILE=`)"
    )]
    NoDescriptor,
    /// The process may have too few files open for a daemon.
    #[error(
        "the process may have only {limit} open files, and a daemon needs at least {required} [TFY0260]; raise the limit with `ulimit -n 4096`, or with `LimitNOFILE=` in the unit of a service"
    )]
    FewDescriptors {
        /// How many it may have.
        limit: usize,
        /// How many a daemon needs.
        required: usize,
    },
}

/// Of what there is more than is allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Crowd {
    /// Requests that the runtime has to answer.
    Requests,
    /// WebSockets, SSE, and records that are followed.
    Streams,
    /// Processes for `step` and `replay`.
    Children,
    /// Questions that read the log of a run.
    Readers,
}

impl fmt::Display for Crowd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Crowd::Requests => "requests wait for their answers",
            Crowd::Streams => "streams are open",
            Crowd::Children => "runs are run again for `step` and `replay`",
            Crowd::Readers => "logs are read for others",
        })
    }
}

impl DaemonError {
    /// All codes, in order.
    pub const CODES: &[&str] = &[
        "TFY0080", "TFY0155", "TFY0156", "TFY0157", "TFY0158", "TFY0159", "TFY0160", "TFY0161",
        "TFY0162", "TFY0163", "TFY0164", "TFY0165", "TFY0166", "TFY0167", "TFY0168", "TFY0169",
        "TFY0231", "TFY0250", "TFY0260",
    ];

    /// The stable code.
    pub fn code(&self) -> &'static str {
        match self {
            DaemonError::Demo(_) => "TFY0080",
            DaemonError::Listen { .. } => "TFY0155",
            DaemonError::BadRequest(_) => "TFY0156",
            DaemonError::TooLarge { .. } => "TFY0157",
            DaemonError::TooMany { .. } => "TFY0158",
            DaemonError::NotNow(_) => "TFY0159",
            DaemonError::NoAnswer { .. } => "TFY0160",
            DaemonError::Busy(..) => "TFY0161",
            DaemonError::NoPath(_) => "TFY0162",
            DaemonError::NoMethod(_) => "TFY0163",
            DaemonError::Child(_) => "TFY0164",
            DaemonError::ChildSlow(_) => "TFY0165",
            DaemonError::NotJson(_) => "TFY0166",
            DaemonError::Start(_) => "TFY0167",
            DaemonError::HeadTooLarge { .. } => "TFY0168",
            DaemonError::TooLong { .. } => "TFY0169",
            DaemonError::Clock(_) => "TFY0231",
            DaemonError::NoDescriptor => "TFY0250",
            DaemonError::FewDescriptors { .. } => "TFY0260",
        }
    }

    /// The status of HTTP that says the same.
    pub fn status(&self) -> u16 {
        match self {
            DaemonError::BadRequest(_) => 400,
            DaemonError::NoPath(_) => 404,
            DaemonError::NoMethod(_) => 405,
            DaemonError::TooLarge { .. } => 413,
            DaemonError::NotJson(_) => 415,
            DaemonError::TooLong { .. } => 422,
            DaemonError::TooMany { .. } => 429,
            DaemonError::HeadTooLarge { .. } => 431,
            DaemonError::Child(_) => 502,
            DaemonError::NotNow(_) | DaemonError::Busy(..) | DaemonError::NoDescriptor => 503,
            DaemonError::NoAnswer { .. } | DaemonError::ChildSlow(_) => 504,
            DaemonError::Demo(_)
            | DaemonError::Listen { .. }
            | DaemonError::Start(_)
            | DaemonError::Clock(_)
            | DaemonError::FewDescriptors { .. } => 500,
        }
    }

    /// When it makes sense to try again.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            DaemonError::TooMany { wait, .. } => Some(*wait),
            DaemonError::NotNow(_) | DaemonError::Busy(..) | DaemonError::NoDescriptor => {
                Some(Duration::from_secs(1))
            }
            _ => None,
        }
    }
}
