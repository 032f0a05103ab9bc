//! The rows of `semantics_tasks` once more, in runs that nobody watches: these take the short ways of the
//! kernel that production takes. Rows that read a trace are watched here too.

#![allow(clippy::duplicate_mod, reason = "the same files with another `WATCHED`")]

const WATCHED: bool = false;

#[path = "../semantics_tasks/calls.rs"]
mod calls;
#[path = "../semantics_tasks/calls_errors.rs"]
mod calls_errors;
#[path = "../semantics_tasks/cancel.rs"]
mod cancel;
#[path = "../semantics_tasks/common.rs"]
mod common;
#[path = "../semantics_tasks/gather.rs"]
mod gather;
#[path = "../semantics_tasks/order.rs"]
mod order;
#[path = "../semantics_tasks/policies.rs"]
mod policies;
#[path = "../semantics_tasks/race.rs"]
mod race;
#[path = "../semantics_tasks/runs.rs"]
mod runs;
#[path = "../semantics_tasks/spawn.rs"]
mod spawn;
#[path = "../semantics_tasks/states.rs"]
mod states;
#[path = "../semantics_tasks/targets.rs"]
mod targets;
#[path = "../semantics_tasks/unwind.rs"]
mod unwind;
#[path = "../semantics_tasks/wait.rs"]
mod wait;
