//! The integration tests of the crate `tiffany-sim`, a module for each theme. They are one binary because each
//! binary would be linked with all of the crate: `Cargo.toml` names this file as the only one.

mod approvals;
mod corpus;
mod effects;
mod generated;
mod generations;
mod inward;
mod kit;
mod snapshots;
mod workflows;
