//! What can be asked over HTTP, and what comes of it, a file for each theme.

mod approvals;
mod daemon;
#[path = "../kit/mod.rs"]
mod kit;
mod records;
mod runs;
mod values;
