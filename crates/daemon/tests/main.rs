//! The integration tests of the crate `tiffany-daemon`, a module for each theme. They are one binary because each
//! binary would be linked with all of the crate: `Cargo.toml` names this file as the only one.

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
