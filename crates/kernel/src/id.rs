//! The identifiers of runs, tasks, calls and objects. They are small, ordered, given in sequence,
//! and never reused within their run, so that a stale one is an error and never refers to another
//! object.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The number of a run in its process. (Durable runs also have a UUID.)
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct RunId(pub u32);

/// A task's number: small, given in order, unique in its run. The root is 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Tid(pub u64);

/// A system call's number, unique in its run and given in the order the calls were made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct CallId(pub u64);

/// A random identifier, drawn by the host. External promises are settled by their UUID.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Uuid(pub u128);

/// A reference to a task: its run, its slot in that run's table, and its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskRef {
    /// The run the task belongs to.
    pub run: RunId,
    pub(crate) slot: u32,
    /// The task's number.
    pub tid: Tid,
}

impl TaskRef {
    /// A placeholder that refers to no task.
    pub const NONE: TaskRef = TaskRef { run: RunId(0), slot: 0, tid: Tid(0) };
}

/// A reference to another object of a run: a promise, a channel, a semaphore or a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectRef {
    /// The run the object belongs to.
    pub run: RunId,
    pub(crate) slot: u32,
    /// The object's number, unique in its run.
    pub id: u64,
}

/// An item that Wait, Gather and Race can wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Waitable {
    /// A task: ready when it is Completed, Failed or Cancelled.
    Task(TaskRef),
    /// The read side of a promise: ready when it is settled.
    Future(ObjectRef),
}

impl Waitable {
    /// Returns the run that the task or promise belongs to.
    pub fn run(&self) -> RunId {
        match self {
            Waitable::Task(task) => task.run,
            Waitable::Future(promise) => promise.run,
        }
    }
}

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "run {}", self.0)
    }
}

impl fmt::Display for Tid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

impl fmt::Display for Waitable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Waitable::Task(task) => write!(f, "task {}", task.tid),
            Waitable::Future(promise) => write!(f, "promise {}", promise.id),
        }
    }
}

impl Uuid {
    /// A version 4 UUID made of the given random bits.
    pub fn from_random(bits: u128) -> Uuid {
        let version = (bits & !(0xf << 76)) | (0x4 << 76);
        Uuid((version & !(0x3 << 62)) | (0x2 << 62))
    }

    /// Parses the usual form, with or without hyphens.
    ///
    /// ```
    /// # use tiffany_kernel::Uuid;
    /// let uuid = Uuid::from_random(7);
    /// assert_eq!(Uuid::parse(&uuid.to_string()), Some(uuid));
    /// assert_eq!(Uuid::parse("not one"), None);
    /// ```
    pub fn parse(text: &str) -> Option<Uuid> {
        let (mut bits, mut count) = (0, 0);
        for byte in text.bytes().filter(|byte| *byte != b'-') {
            bits = bits << 4 | u128::from(char::from(byte).to_digit(16)?);
            count += 1;
        }
        (count == 32).then_some(Uuid(bits))
    }
}

impl fmt::Display for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Lists, records and answers contain one for each run, so it is formatted without an
        // allocation.
        let mut text = [b'-'; 36];
        let mut bits = self.0;
        for place in (0..text.len()).rev().filter(|at| !matches!(at, 8 | 13 | 18 | 23)) {
            text[place] = b"0123456789abcdef"[(bits & 0xf) as usize];
            bits >>= 4;
        }
        f.write_str(std::str::from_utf8(&text).map_err(|_| fmt::Error)?)
    }
}

impl fmt::Debug for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::Uuid;

    #[test]
    fn a_uuid_is_written_and_read_in_its_usual_form() {
        let uuid = Uuid(0x0123_4567_89ab_cdef_0f1e_2d3c_4b5a_6978);
        let text = "01234567-89ab-cdef-0f1e-2d3c4b5a6978";
        assert_eq!(uuid.to_string(), text);
        assert_eq!(Uuid(0).to_string(), "00000000-0000-0000-0000-000000000000");
        let plain = text.replace('-', "");
        for good in [text, &plain, &text.to_uppercase()] {
            assert_eq!(Uuid::parse(good), Some(uuid), "{good}");
        }
        for bad in ["", "-", &plain[1..], &format!("{plain}0"), &text.replace('a', "g"), "é"] {
            assert_eq!(Uuid::parse(bad), None, "{bad}");
        }
    }
}
