//! The rows of `semantics` once more, in runs that nobody watches: these take the short ways of the
//! kernel that production takes. Rows that read a trace are watched here too.

const WATCHED: bool = false;

#[path = "../semantics/calls.rs"]
mod calls;
#[path = "../semantics/calls_errors.rs"]
mod calls_errors;
#[path = "../semantics/cancel.rs"]
mod cancel;
#[path = "../semantics/common.rs"]
mod common;
#[path = "../semantics/gather.rs"]
mod gather;
#[path = "../semantics/order.rs"]
mod order;
#[path = "../semantics/policies.rs"]
mod policies;
#[path = "../semantics/race.rs"]
mod race;
#[path = "../semantics/runs.rs"]
mod runs;
#[path = "../semantics/spawn.rs"]
mod spawn;
#[path = "../semantics/states.rs"]
mod states;
#[path = "../semantics/targets.rs"]
mod targets;
#[path = "../semantics/unwind.rs"]
mod unwind;
#[path = "../semantics/wait.rs"]
mod wait;
