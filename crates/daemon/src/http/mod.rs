//! HTTP independent of runs: connections and their limits, reading requests, and error responses.

mod bare;
pub(crate) mod change;
mod connection;
mod door;
mod head;
mod peers;
mod problem;
mod read;
mod server;
mod values;
mod who_has;

pub(crate) use door::{Takes, guarded};
pub(crate) use peers::Peer;
pub(crate) use problem::{Answered, Problem};
pub(crate) use read::{Given, Json, Named, Query, given, whole};
pub(crate) use server::{Server, bind, serve_line};
pub(crate) use values::Values;
