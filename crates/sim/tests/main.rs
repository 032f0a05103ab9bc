//! The integration tests of the crate `tiffany-sim`, one module for each topic. They are a single
//! binary, because every binary would be linked with the whole crate; `Cargo.toml` names only this
//! file.

mod approvals;
mod corpus;
mod effects;
mod generated;
mod generations;
mod inward;
mod kit;
mod snapshots;
mod workflows;
