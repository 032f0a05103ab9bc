//! Identifiers of runs and their calls. Run, generation and record identify a call uniquely,
//! however often its run is resumed.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use tiffany_kernel::{ErrorKind, TaskError, Uuid};

use tiffany_log::{BlobHash, Chain};

/// The number of a call: the generation of its run and the number of its record there. Later calls
/// have greater numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Number {
    /// The generation of the run, from 1.
    pub generation: u32,
    /// The number of the record in that generation.
    pub seq: u64,
}

/// A call of any run. As text, it is `<run>/<seq>` in the first generation and
/// `<run>/<generation>.<seq>` in later ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key {
    /// The run that made the call.
    pub run: Uuid,
    /// The number of the call.
    pub number: Number,
}

impl Number {
    /// Parses the text of a number; `None` if it is not one.
    pub fn parse(text: &str) -> Option<Number> {
        let (generation, seq) = match text.split_once('.') {
            Some((generation, seq)) => (generation.parse().ok()?, seq),
            None => (1, text),
        };
        Some(Number { generation, seq: seq.parse().ok()? })
    }
}

impl Key {
    /// Parses the text of a key; `None` if it is not one.
    pub fn parse(text: &str) -> Option<Key> {
        let (run, number) = text.split_once('/')?;
        Some(Key { run: Uuid::parse(run)?, number: Number::parse(number)? })
    }
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.generation {
            1 => write!(f, "{}", self.seq),
            generation => write!(f, "{generation}.{}", self.seq),
        }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.run, self.number)
    }
}

/// The messages that a run has received from other runs: from each of them, all up to a certain
/// one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Received(BTreeMap<Uuid, Number>);

impl Received {
    /// Returns whether the run has received this message.
    pub fn has(&self, key: Key) -> bool {
        self.0.get(&key.run).is_some_and(|last| *last >= key.number)
    }

    /// Records that the run has received this message.
    pub fn add(&mut self, key: Key) {
        let last = self.0.entry(key.run).or_insert(key.number);
        *last = key.number.max(*last);
    }

    /// Removes runs that don't send messages any more.
    pub fn retain(&mut self, sends: impl Fn(Uuid) -> bool) {
        self.0.retain(|run, _| sends(*run));
    }

    /// Returns the key of the last message of each run.
    pub fn keys(&self) -> Vec<String> {
        self.0.iter().map(|(run, number)| Key { run: *run, number: *number }.to_string()).collect()
    }

    /// Parses the result of [`Received::keys`].
    pub fn of_keys(keys: &[String]) -> Received {
        let mut received = Received::default();
        keys.iter().filter_map(|key| Key::parse(key)).for_each(|key| received.add(key));
        received
    }
}

/// The last line of a run's log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogEnd {
    /// The generation of the line.
    pub generation: u32,
    /// Its number in that generation.
    pub seq: u64,
    /// Its checksum.
    pub crc: u32,
}

impl LogEnd {
    /// Returns the last line of a chain.
    pub fn of(chain: &Chain) -> LogEnd {
        LogEnd { generation: chain.generation(), seq: chain.seq(), crc: chain.crc() }
    }

    /// Returns the chain that ends with this line.
    pub fn chain(self, run: Uuid) -> Chain {
        Chain::at(run, self.generation, self.seq, self.crc)
    }
}

/// Computes the UUID of the run with this id, whether that run exists or not.
pub fn run_id(id: &str) -> Uuid {
    identity(id.as_bytes())
}

/// The identity of the run that has this id in a namespace. The empty namespace is that of [`run_id`].
///
/// ```
/// use tiffany_records::key::{run_id, run_id_in};
///
/// assert_eq!(run_id_in("", "order-1"), run_id("order-1"));
/// assert_ne!(run_id_in("shop", "order-1"), run_id("order-1"));
/// ```
pub fn run_id_in(namespace: &str, id: &str) -> Uuid {
    match namespace {
        "" => run_id(id),
        // A byte that is in no text, so that no id without a namespace has the same bytes.
        namespace => identity(&[b"\xff", namespace.as_bytes(), b"\xff", id.as_bytes()].concat()),
    }
}

fn identity(bytes: &[u8]) -> Uuid {
    let BlobHash(hash) = BlobHash::of(bytes);
    let mut bits = [0; 16];
    bits.copy_from_slice(&hash[..16]);
    Uuid::from_random(u128::from_be_bytes(bits))
}

/// Fails if an id is ambiguous: if it is the UUID of another run, or if its own UUID is the id of
/// one. Places that accept a run's name accept ids and UUIDs.
pub fn refuse_ambiguous(id: &str, knows: impl Fn(Uuid) -> bool) -> Result<(), TaskError> {
    let own = run_id(id);
    let message = if Uuid::parse(id).is_some_and(|other| other != own && knows(other)) {
        format!("the id `{id}` is the UUID of another run")
    } else if knows(run_id(&own.to_string())) {
        format!("the id `{id}` has the UUID {own}, and another run has that for its id")
    } else {
        return Ok(());
    };
    Err(TaskError::new(ErrorKind::OtherRun, message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identity_belongs_to_a_namespace_and_an_id_and_to_nothing_else() {
        // As every log has them that was written before there were namespaces.
        assert_eq!(run_id("order-1").to_string(), "0bafe221-56d2-498c-943b-86040446d366");
        assert_eq!(run_id_in("", "order-1"), run_id("order-1"));
        assert_eq!(
            run_id_in("shop", "order-1").to_string(),
            "e6a2b183-bb39-4a9a-b739-c4f4dd1a9d52"
        );
        let all = [("", "ab"), ("a", "b"), ("ab", ""), ("b", "a"), ("", "\u{ff}a\u{ff}b")];
        let all: std::collections::BTreeSet<_> =
            all.iter().map(|(namespace, id)| run_id_in(namespace, id)).collect();
        assert_eq!(all.len(), 5);
    }

    #[test]
    fn keys_round_trip() {
        let run = Uuid::from_random(7);
        for (generation, seq, text) in [(1, 12, "12"), (2, 1, "2.1"), (40, 123, "40.123")] {
            let key = Key { run, number: Number { generation, seq } };
            assert_eq!(key.to_string(), format!("{run}/{text}"));
            assert_eq!(Key::parse(&key.to_string()), Some(key));
        }
        for bad in ["", "7", "x/1", "1.2", &format!("{run}/"), &format!("{run}/1.x")] {
            assert_eq!(Key::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn calls_of_a_later_generation_are_greater() {
        let key = |generation, seq| Key { run: Uuid(1), number: Number { generation, seq } };
        let mut received = Received::default();
        received.add(key(2, 3));
        assert!(received.has(key(1, 900)) && received.has(key(2, 3)));
        assert!(!received.has(key(2, 4)) && !received.has(key(3, 1)));
        assert_eq!(Received::of_keys(&received.keys()), received);
        received.retain(|_| false);
        assert!(!received.has(key(1, 1)));
    }
}
