//! How requests reach a process that owns a log: by the socket in its directory, or another way that a client brings.

use std::time::Duration;

use tiffany_kernel::TaskError;
use tiffany_records::activity::Wanted;
use tiffany_records::request::{Answer, Request};

use super::event_stream::{Next, Watching};

/// A way to the process that owns a log.
pub trait Transport: Send {
    /// Sends a request and waits for its answer.
    fn ask(&mut self, request: &Request) -> Result<Answer, TaskError>;
    /// Makes a stream of events of it.
    fn watch(self: Box<Self>, wanted: Wanted) -> Result<Watching, TaskError>;
    /// The number of the process, if it is known without asking.
    fn peer(&self) -> Option<u32>;
}

/// A stream of events that a [`Transport`] has opened.
pub trait EventSource: Send {
    /// The next event, waiting so long at most.
    fn next(&mut self, time: Duration) -> Result<Next, TaskError>;
}
