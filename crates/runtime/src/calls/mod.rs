//! The API inside tasks: the context of the thread, the calls, and the handles that they return. A
//! call leaves its request in the port and takes the reply there; nothing here knows the loop or
//! the log.

pub(crate) mod agent_task;
pub(crate) mod annotate;
pub(crate) mod approve;
pub(crate) mod attributes;
pub(crate) mod call;
pub(crate) mod channel;
#[doc(hidden)]
pub mod combine;
pub(crate) mod context;
pub(crate) mod continue_as;
mod current;
pub(crate) mod durable_agent;
pub(crate) mod durable_promise;
pub(crate) mod future_task;
pub(crate) mod group;
pub(crate) mod handler;
pub(crate) mod outside;
mod outward;
pub(crate) mod promise;
pub(crate) mod question;
pub(crate) mod receive;
pub(crate) mod retry;
pub(crate) mod saga;
pub(crate) mod send;
pub(crate) mod show;
pub(crate) mod step;
pub(crate) mod sync;
pub(crate) mod sys;
pub(crate) mod task;
pub(crate) mod waker;
pub(crate) mod work;
pub(crate) mod written;
