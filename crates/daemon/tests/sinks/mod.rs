//! The threat: a server that is away, slow or full slows runs, eats memory, or loses events without a word.

mod nats;
mod redis;
mod server;
mod watched;
