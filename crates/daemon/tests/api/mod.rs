//! The HTTP API, a file for each topic.

mod approvals;
mod attributes;
mod daemon;
mod records;
mod runs;
mod values;
