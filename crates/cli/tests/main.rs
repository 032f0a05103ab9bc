//! The integration tests of the crate `tiffany-cli`, a module for each topic. They are one binary,
//! which `Cargo.toml` names, because each binary would link the whole crate.

mod attributes;
mod book;
mod capture;
mod changing;
mod demo;
mod errors;
mod events;
mod exhaustion;
mod forking;
mod generations;
mod history;
mod injected_faults;
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
