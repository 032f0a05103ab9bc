//! The integration tests of the crate `tiffany-cli`, a module for each theme. They are one binary because each
//! binary would be linked with all of the crate: `Cargo.toml` names this file as the only one.

mod book;
mod capture;
mod changing;
mod demo;
mod errors;
mod events;
mod forking;
mod generations;
mod history;
mod keeping;
mod kit;
mod live;
mod looking;
mod measuring;
mod notify;
mod openapi;
mod program;
mod remote;
mod rerunning;
mod scale;
mod serving;
mod sinks;
mod terminal;
mod top;
mod trying;
