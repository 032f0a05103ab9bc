//! The daemon: one process that owns a log directory and serves durable runs over HTTP, WebSocket
//! and SSE. Its loop is that of [`tiffany::Runtime`]; the network is served by other threads, which
//! reach runs through [`tiffany::control`] alone.
//!
//! The commands, including `serve`, are in the crate `tiffany-cli`. This crate has the daemon as a
//! value:
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
//! `daemon.rs` is the entry point. `http/` handles connections, requests and errors, independent of
//! runs; `api/` has the requests, and `api/routes.rs` their table. Each row names the
//! [`Role`](auth::Role) that it requires and whether it changes something. `http/door.rs` runs
//! before each route: it asks the [`Gate`](auth::Gate) to identify the client, compares roles, and
//! records changes in the [audit file](audit).

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
