//! How long finished runs are kept: the rules, and what is left of a run that is compacted. It removes nothing itself.

mod remains;
mod rule;

pub use remains::Remains;
pub use rule::Retention;
