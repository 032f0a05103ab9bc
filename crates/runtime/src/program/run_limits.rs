//! The limits of one durable run, beyond which it is held. It knows no loop: it compares usage with
//! limits.

use std::time::Duration;

use tiffany_kernel::{ErrorKind, TaskError, Uuid};

/// The limits of one durable run; `None` is without limit. A run that exceeds a limit is held: it
/// gets no turns until a person releases or cancels it, and nothing it has done is lost. Each
/// release doubles the limits of the run.
///
/// A runtime has no such limits unless
/// [`Builder::run_limits`](crate::runtime::builder::Builder::run_limits) sets them; the daemon has
/// [`RunLimits::for_services`]. Limits that end a run with an error are
/// [`Limits`](tiffany_kernel::Limits).
///
/// ```
/// use tiffany::Runtime;
/// use tiffany::durable::RunLimits;
///
/// let limits = RunLimits { tasks: Some(10_000), ..RunLimits::for_services() };
/// let runtime = Runtime::builder().run_limits(limits).build()?;
/// # drop(runtime);
/// # Ok::<(), tiffany::RunError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RunLimits {
    /// Live tasks at a time.
    pub tasks: Option<u64>,
    /// System calls since the run's generation began.
    pub calls: Option<u64>,
    /// Records of the run's generation.
    pub records: Option<u64>,
    /// Bytes of the log of the run's generation: its lines, and the large values (blobs) that they
    /// name. A value that is passed on from step to step counts once.
    pub log_bytes: Option<u64>,
    /// An estimate of the memory that the run uses: its tasks, its unread messages, and whatever
    /// its code keeps.
    pub memory_bytes: Option<u64>,
    /// Unread messages. Senders of more are refused (TFY0237); the run is not held.
    pub messages: Option<u64>,
    /// Bytes of these messages.
    pub message_bytes: Option<u64>,
    /// How long a task may keep its turn without a call.
    pub turn: Option<Duration>,
    /// How many processes in a row may die in turns of the run without the run making progress.
    pub deaths: Option<u64>,
}

impl RunLimits {
    /// The limits of the daemon by default: 100,000 tasks, 100,000,000 calls, 2,000,000 records, 1
    /// GB of log, 1 GB of memory, 10,000 unread messages with 64 MB, turns of 30 seconds, and 3
    /// deaths of the process.
    pub const fn for_services() -> RunLimits {
        RunLimits {
            tasks: Some(100_000),
            calls: Some(100_000_000),
            records: Some(2_000_000),
            log_bytes: Some(1_000_000_000),
            memory_bytes: Some(1_000_000_000),
            messages: Some(10_000),
            message_bytes: Some(64_000_000),
            turn: Some(Duration::from_secs(30)),
            deaths: Some(3),
        }
    }
}

/// The present usage of a run.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Usage {
    pub(crate) tasks: u64,
    pub(crate) calls: u64,
    pub(crate) records: u64,
    pub(crate) log_bytes: u64,
    /// Measured from time to time only.
    pub(crate) memory_bytes: u64,
}

/// A limit that a run has exceeded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Overrun {
    pub(crate) limit: &'static str,
    pub(crate) used: u64,
    pub(crate) allowed: u64,
}

/// How often releases may double a limit.
const MAX_DOUBLINGS: u32 = 32;

/// A limit after this number of releases.
fn doubled(allowed: u64, releases: u32) -> u64 {
    allowed.saturating_mul(1 << releases.min(MAX_DOUBLINGS))
}

impl RunLimits {
    /// Whether a run may have no more turns after this number of deaths.
    pub(crate) fn forbids_deaths(&self, deaths: u64, releases: u32) -> bool {
        self.deaths.is_some_and(|allowed| deaths >= doubled(allowed, releases))
    }

    /// The first limit that a run has exceeded. Each of its releases doubled the limits.
    pub(crate) fn overrun(&self, usage: Usage, releases: u32) -> Option<Overrun> {
        let limits = [
            ("tasks", usage.tasks, self.tasks),
            ("calls", usage.calls, self.calls),
            ("records", usage.records, self.records),
            ("log_bytes", usage.log_bytes, self.log_bytes),
            ("memory_bytes", usage.memory_bytes, self.memory_bytes),
        ];
        limits.into_iter().find_map(|(limit, used, allowed)| {
            let allowed = doubled(allowed?, releases);
            (used > allowed).then_some(Overrun { limit, used, allowed })
        })
    }

    /// The number of releases, at least this one, after which the limits allow this usage.
    pub(crate) fn releases_for(&self, usage: Usage, releases: u32) -> u32 {
        let fits = |releases: &u32| self.overrun(usage, *releases).is_none();
        (releases..MAX_DOUBLINGS).find(fits).unwrap_or(MAX_DOUBLINGS)
    }

    /// Fails if a run with this number and size of unread messages may not be sent another one of
    /// this length.
    pub(crate) fn refuse_message(
        &self,
        run: Uuid,
        length: usize,
        count: usize,
        bytes: impl FnOnce() -> usize,
    ) -> Result<(), TaskError> {
        let full = |has: String| {
            let message = format!("run {run} has {has}");
            Err(TaskError::new(ErrorKind::InboxFull, message))
        };
        if let Some(allowed) = self.messages.filter(|allowed| count as u64 >= *allowed) {
            let has = format!("{count} messages that it has not received, and may have {allowed}");
            return full(has);
        }
        let Some(allowed) = self.message_bytes else { return Ok(()) };
        if length as u64 > allowed {
            // There will never be room for this message, however long the sender waits.
            let message = format!(
                "the message has {length} bytes, and run {run} may have {allowed} bytes of messages that it has not received; send less, or raise `message_bytes` of the run limits"
            );
            return Err(TaskError::new(ErrorKind::BadArgument, message));
        }
        // Counting the bytes requires a look at each message.
        let bytes = if count > 0 { bytes() } else { 0 };
        match bytes.saturating_add(length) as u64 > allowed {
            true => full(format!(
                "{bytes} bytes of messages that it has not received, and may have {allowed}: one of {length} bytes does not fit"
            )),
            false => Ok(()),
        }
    }
}

impl Overrun {
    /// The reason as text.
    pub(crate) fn why(&self) -> String {
        let Overrun { limit, used, allowed } = self;
        let what = match *limit {
            "tasks" => "tasks alive",
            "calls" => "system calls",
            "records" => "records in its log",
            "log_bytes" => "bytes of log, with large values",
            _ => "bytes of memory, as estimated",
        };
        format!("it has {used} {what}, more than the {allowed} that one run may have")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_release_doubles_what_is_allowed() {
        let limits = RunLimits { tasks: Some(100), ..RunLimits::default() };
        let usage = |tasks| Usage { tasks, ..Usage::default() };
        assert_eq!(limits.overrun(usage(100), 0), None);
        let over = limits.overrun(usage(101), 0).unwrap();
        assert_eq!((over.limit, over.used, over.allowed), ("tasks", 101, 100));
        assert_eq!(limits.overrun(usage(101), 1), None);
        assert!(limits.overrun(usage(401), 2).is_some());
        assert_eq!(limits.releases_for(usage(401), 0), 3);
        assert_eq!(limits.releases_for(usage(401), 5), 5);
        assert_eq!(limits.overrun(usage(u64::MAX), 0).unwrap().used, u64::MAX);
        assert_eq!(RunLimits::default().overrun(usage(u64::MAX), 0), None);
    }

    #[test]
    fn messages_are_counted_and_weighed() {
        let limits = RunLimits { messages: Some(2), message_bytes: Some(10), ..Default::default() };
        let refused = |length, count, bytes| {
            limits.refuse_message(Uuid(1), length, count, || bytes).err().map(|error| error.kind())
        };
        let (full, too_long) = (Some(ErrorKind::InboxFull), Some(ErrorKind::BadArgument));
        assert_eq!([refused(10, 0, 0), refused(1, 1, 9), refused(0, 1, 10)], [None; 3]);
        assert_eq!([refused(2, 1, 9), refused(10, 1, 1), refused(0, 2, 0)], [full; 3]);
        assert_eq!([refused(11, 0, 0), refused(11, 1, 9)], [too_long; 2]);
    }
}
