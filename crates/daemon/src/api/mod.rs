//! The HTTP API. `routes.rs` has the table of all routes; each other file here has the handlers of
//! a few routes. Access control is elsewhere.

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
