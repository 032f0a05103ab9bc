//! Live activity: what runs are doing, for watchers. Events are published to a hub, which keeps the
//! most recent ones and wakes readers. Nothing here is recorded, and no reader slows a task.

pub(crate) mod hub;
pub(crate) mod lane;
#[cfg(test)]
pub(crate) mod model;
pub(crate) mod ring;
pub(crate) mod settings;
pub(crate) mod sleeper;
pub(crate) mod state;
pub(crate) mod subscription;
pub(crate) mod waker_thread;

pub use hub::{Counts, Hub};
pub use settings::Settings;
pub use subscription::{Subscription, Timeout, Told};
