//! The integration tests of the crate `tiffany-daemon`, a module for each topic. They are one
//! binary, which `Cargo.toml` names, because each binary would link the whole crate.

mod access;
mod api;
mod audit;
mod corpus;
mod dashboard;
mod errors;
mod events;
mod forked_children;
mod full_disk;
mod kit;
mod limits;
mod sinks;
