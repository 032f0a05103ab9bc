//! The earlier generations of a run, whose files are gone, in the log of a later one.

use serde::{Deserialize, Serialize};
use tiffany_kernel::Time;

use tiffany_log::{BlobHash, Stamp};
use tiffany_records::key::Received;

/// The totals of earlier generations that the run itself needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Earlier {
    /// How many calls it made in them.
    pub(crate) calls: u64,
    /// When the first of all began.
    pub(crate) since: Time,
}

/// The earlier generations in the first line of a generation, in its field `continued`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Continued {
    /// The generation before.
    #[serde(rename = "gen")]
    pub(crate) generation: u32,
    pub(crate) calls: u64,
    since: String,
    /// The hash of the first input, by which a repeated start is recognized.
    input: String,
    /// Whether a snapshot follows, from which the run continues instead of from its function.
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
