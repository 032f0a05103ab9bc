//! How long finished runs are kept: the rules (`rule.rs`), what they need to know about runs (`facts.rs`, `needed.rs`),
//! what they would do (`plan.rs`), and what is left of a run that is compacted (`remains.rs`). Nothing is removed here.

mod facts;
mod needed;
mod plan;
mod remains;
mod rule;

pub use facts::FactCache;
pub use needed::{NeededBy, NeededRuns, ParentRun, parent_of};
pub use plan::{Candidate, Kept, Plan, Why};
pub use remains::Remains;
pub use rule::Retention;
