//! The daemon: one process that has a log directory, and durable runs over HTTP, WebSocket and SSE for everybody who may. Its loop is that of
//! [`tiffany::Runtime`]; everything of the network is on threads of its own, and reaches runs by way of [`tiffany::control`] alone.

pub mod audit;
pub mod auth;
mod commands;
pub mod config;
pub mod tls;
