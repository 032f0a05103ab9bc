//! The semantics of DESIGN, sentence by sentence. Each test begins with the words it checks; expected
//! results are written from those words, not from what the code does.

/// Whether runs are watched. `semantics_unwatched` has the same rows with this turned off, because a
/// task that nobody watches takes other ways through the kernel.
const WATCHED: bool = true;

mod calls;
mod calls_errors;
mod cancel;
mod common;
mod gather;
mod order;
mod policies;
mod race;
mod runs;
mod spawn;
mod states;
mod targets;
mod unwind;
mod wait;
