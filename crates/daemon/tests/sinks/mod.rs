//! The threat: a server that is unavailable, slow or full slows down runs, exhausts memory, or
//! loses events unnoticed.

mod nats;
mod redis;
mod server;
mod watched;
