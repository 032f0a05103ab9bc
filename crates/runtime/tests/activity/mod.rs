//! The activity log: what is told of each kind of call, in which order, what is kept and what is lost, and that nobody who watches
//! slows anybody. One file for each threat.

mod ghosts;
mod kit;
mod lost;
mod many;
mod stages;
mod steps;
