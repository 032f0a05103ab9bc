//! What can be asked over HTTP, and what comes of it, a file for each theme.

mod approvals;
mod attributes;
mod daemon;
mod records;
mod runs;
mod values;
