//! Errors of the daemon itself and of HTTP requests. Errors of runs and of the log have their own
//! codes, and keep them.

use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

use tiffany::Uuid;

/// An error of the daemon.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DaemonError {
    /// The address cannot be listened on.
    #[error(
        "cannot listen on {address}: {why} [TFY0155]; choose another one with `--listen`, or stop the process that uses it"
    )]
    Listen {
        /// The address to listen on.
        address: SocketAddr,
        /// The error from the operating system, and the process that uses the port.
        why: String,
    },
    /// The demo failed.
    #[error(
        "the demo failed: {0} [TFY0080]; its log and its ledger are still there, to be looked at"
    )]
    Demo(String),
    /// The request cannot be read.
    #[error("{0} [TFY0156]; `/docs` shows what this path takes")]
    BadRequest(String),
    /// The body of the request is too long.
    #[error(
        "the body has more than {most} bytes [TFY0157]; send less, or raise `body_bytes` under `[limits]`"
    )]
    TooLarge {
        /// The most bytes that are allowed.
        most: usize,
    },
    /// The head of the request, which is its path and headers, is too long.
    #[error(
        "the path and the headers have more than {most} bytes, or are too many [TFY0168]; send less, or raise `header_bytes` under `[limits]`"
    )]
    HeadTooLarge {
        /// The most bytes that are allowed.
        most: usize,
    },
    /// A client sends too many requests, or too many clients are connected.
    #[error("{what} [TFY0158]; wait {} s, and do it again", .wait.as_secs_f64().ceil().max(1.0))]
    TooMany {
        /// The first part of the message, which names the exceeded limit.
        what: String,
        /// How long the client should wait.
        wait: Duration,
    },
    /// The daemon cannot do this in its current phase.
    #[error("the daemon {0} [TFY0159]; wait a little, and do it again")]
    NotNow(&'static str),
    /// The runtime did not answer in time.
    #[error(
        "the runtime has not answered for {patience:?}{} [TFY0160]; {}; if the request was to change something, that may still happen: see with `GET` whether it did, before you repeat it",
        .turn.iter().map(|turn| format!(": {turn}")).collect::<String>(),
        if .turn.is_some() { "move long work into a step" } else { "a task may keep its turn: see the log of the daemon" }
    )]
    NoAnswer {
        /// How long the daemon waited.
        patience: Duration,
        /// The turn that blocks the loop, if known.
        turn: Option<String>,
    },
    /// Too many requests of this kind are in progress; the number is the limit.
    #[error("more than {1} {0} [TFY0161]; wait a little, and do it again")]
    Busy(Crowd, usize),
    /// The path is unknown.
    #[error("there is no path `{0}` [TFY0162]; `/docs` lists those that there are")]
    NoPath(String),
    /// The path takes another method.
    #[error("`{0}` cannot be done there [TFY0163]; see the header `Allow`, or `/docs`")]
    NoMethod(String),
    /// The process that runs a program's code failed.
    #[error(
        "the code of the run could not be run: {0} [TFY0164]; do it by the command line, which shows more"
    )]
    Child(String),
    /// The process that runs a program's code took too long.
    #[error(
        "the code of the run took longer than {0:?}, and was stopped [TFY0165]; do it by the command line, which has no limit"
    )]
    ChildSlow(Duration),
    /// The body has an unknown media type.
    #[error(
        "the type of the body is {0} [TFY0166]; send JSON, with `Content-Type: application/json`"
    )]
    NotJson(String),
    /// The server's threads could not be started or stopped.
    #[error("the server could not be started: {0} [TFY0167]; see the system's message")]
    Start(String),
    /// A run has more records than fit in memory as an index.
    #[error(
        "run {run} has too many records to be indexed: {records} take {bytes} bytes [TFY0169]; read them as lines, with `Accept: application/x-ndjson`, or by `tiffany log`"
    )]
    TooLong {
        /// The run.
        run: Uuid,
        /// The number of records that were read.
        records: u64,
        /// The memory that the records take, in bytes.
        bytes: usize,
    },
    /// The system's clock is before 1970, which an HTTP date cannot express.
    #[error(
        "the system's clock says that it is {0} days before 1970 [TFY0231]; set it, and start again"
    )]
    Clock(u64),
    /// No file descriptor is left for a connection.
    #[error(
        "no file descriptor is left for this connection [TFY0250]; wait a little, and try again; if this persists, raise the limit of open files (`ulimit -n`, `LimitNOFILE=`)"
    )]
    NoDescriptor,
    /// The limit of open files is too low for a daemon.
    #[error(
        "the process may have only {limit} open files, and a daemon needs at least {required} [TFY0260]; raise the limit with `ulimit -n 4096`, or with `LimitNOFILE=` in the unit of a service"
    )]
    FewDescriptors {
        /// The number of open files that the process may have.
        limit: usize,
        /// The number of open files that a daemon needs.
        required: usize,
    },
}

/// A kind of request whose number is limited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Crowd {
    /// Requests that wait for the runtime.
    Requests,
    /// WebSockets, SSE streams, and followed records.
    Streams,
    /// Processes for `step` and `replay`.
    Children,
    /// Requests that read the log of a run.
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
    /// All error codes, in order.
    pub const CODES: &[&str] = &[
        "TFY0080", "TFY0155", "TFY0156", "TFY0157", "TFY0158", "TFY0159", "TFY0160", "TFY0161",
        "TFY0162", "TFY0163", "TFY0164", "TFY0165", "TFY0166", "TFY0167", "TFY0168", "TFY0169",
        "TFY0231", "TFY0250", "TFY0260",
    ];

    /// Returns the stable error code.
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

    /// Returns the HTTP status of the error.
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

    /// Returns how long the client should wait before it tries again.
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
