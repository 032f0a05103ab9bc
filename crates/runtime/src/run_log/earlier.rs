//! What a generation of a run's log knows of those before it, whose files are gone.

use serde::{Deserialize, Serialize};
use tiffany_kernel::Time;

use tiffany_log::{BlobHash, Stamp};
use tiffany_records::key::Received;

/// The earlier generations of a run, as the run itself has to know them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Earlier {
    /// How many calls it made in them.
    pub(crate) calls: u64,
    /// When the first of all began.
    pub(crate) since: Time,
}

/// The same as the first line of a generation has it, in its field `continued`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Continued {
    /// The generation before.
    #[serde(rename = "gen")]
    pub(crate) generation: u32,
    pub(crate) calls: u64,
    since: String,
    /// The hash of what the run was started with, by which the same start is known again.
    input: String,
    /// A snapshot follows, and the run goes on from it and not from its function.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) snapshot: bool,
    /// The last message of each run that may send one again.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    received: Vec<String>,
}

impl Continued {
    pub(crate) fn new(
        generation: u32,
        earlier: Earlier,
        input: BlobHash,
        received: &Received,
    ) -> Continued {
        let Earlier { calls, since } = earlier;
        let since = Stamp::from_unix_nanos(since.as_nanos()).as_str().to_owned();
        let (input, received) = (input.to_string(), received.keys());
        Continued { generation, calls, since, input, snapshot: false, received }
    }

    /// The end of the previous generation, for a generation that begins with a snapshot.
    pub(crate) fn with_snapshot(self) -> Continued {
        Continued { snapshot: true, ..self }
    }

    /// When the run began.
    pub(crate) fn since(&self) -> Option<Time> {
        Stamp::parse(&self.since).map(|stamp| Time::from_nanos(stamp.unix_nanos()))
    }

    pub(crate) fn input(&self) -> Option<BlobHash> {
        BlobHash::parse(&self.input)
    }

    pub(crate) fn received(&self) -> Received {
        Received::of_keys(&self.received)
    }
}
