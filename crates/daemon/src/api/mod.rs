//! What can be asked over HTTP. The table of all routes is in `routes.rs`; each file here has what some of them do, and knows nothing of who may.

mod actions;
mod approvals;
mod blobs;
mod diff;
mod doubts;
mod events;
mod health;
mod keep;
mod look;
mod me;
mod openapi;
mod outcome;
mod page;
mod pages;
mod records;
mod rerun;
mod routes;
mod run_index;
mod run_logs;
mod stuck;
mod submit;
mod texts;

pub(crate) use routes::router;
pub(crate) use texts::Texts;
