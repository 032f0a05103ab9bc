//! The daemon: one process that has a log directory, and durable runs over HTTP, WebSocket and SSE for everybody who may. Its loop is that of
//! [`tiffany::Runtime`]; everything of the network is on threads of its own, and reaches runs by way of [`tiffany::control`] alone.
//!
//! The commands, `serve` among them, are in the crate `tiffany-cli`. Here is a daemon as a value:
//!
//! ```no_run
//! use tiffany::{Runtime, TaskError};
//! use tiffany_daemon::Daemon;
//!
//! let functions = Runtime::builder().register("order", |item: String| async move {
//!     Ok::<_, TaskError>(format!("ordered {item}"))
//! });
//! let mut serving = Daemon::new(functions, ".tiffany").open()?;
//! println!("serving at {}", serving.url());
//! serving.run_while(|_| true)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! `daemon.rs` is the way in. `http/` knows connections, requests and errors and nothing of runs; `api/` has what can
//! be asked, and `api/routes.rs` the one table of it. Every row there says which [`Role`](auth::Role) it takes and whether it changes something: `http/door.rs`
//! stands before each route, asks the [`Gate`](auth::Gate) who it is, compares, and writes what was changed into the [audit file](audit).

mod api;
mod app;
pub mod audit;
pub mod audit_hook;
pub mod auth;
pub mod config;
mod daemon;
mod error;
mod file_lock;
#[doc(hidden)]
pub mod fuzzing;
mod http;
mod limits;
pub mod otlp;
pub mod private;
mod relaunch;
mod run_indexes;
#[cfg(test)]
mod scratch;
mod setup;
pub mod sinks;
pub mod stuck;
pub mod telemetry;
pub mod tls;

pub use daemon::{Daemon, Ending, GRACE, LISTEN, ServeError, Serving};
pub use error::{Crowd, DaemonError};
pub use limits::Limits;
pub use relaunch::{Relaunch, shell_word};
