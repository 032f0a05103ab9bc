//! Retention of finished runs: the rules (`rule.rs`), the facts they need about runs (`facts.rs`,
//! `needed.rs`), their effect (`plan.rs`), and the remains of a run that is compacted
//! (`remains.rs`). Nothing is removed here.

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
