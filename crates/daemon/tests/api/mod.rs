//! The HTTP API, a file for each topic.

mod approvals;
mod daemon;
mod records;
mod runs;
mod values;
