//! Counts the bytes of the blobs that the lines of a run refer to. It reads no blob.

use super::blob::BlobHash;
use super::read::{LogLine, Payload};

/// A blob that is used again counts again only after this many others.
const REMEMBERED: usize = 256;

/// The bytes of the blobs that some lines refer to. A value that is passed from step to step is one
/// blob, and counts once.
#[derive(Clone, Debug, Default)]
pub struct BlobTotal {
    bytes: u64,
    /// The last blobs, by the first bytes of their hashes.
    recent: Vec<u64>,
    next: usize,
}

impl BlobTotal {
    /// Returns the total so far.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Adds the blobs that one line refers to.
    pub fn add_line(&mut self, line: &LogLine<'_>) {
        if memchr::memmem::find(line.json.as_bytes(), b"{\"$blob\":\"").is_none() {
            return;
        }
        for (_, value) in line.fields() {
            if let Some(Payload::Blob { hash, len, .. }) = Payload::parse(value) {
                self.add(hash, len);
            }
        }
    }

    pub(crate) fn add(&mut self, hash: BlobHash, len: u64) {
        let name = hash.first_bytes();
        if self.recent.contains(&name) {
            return;
        }
        self.bytes = self.bytes.saturating_add(len);
        if self.recent.len() < REMEMBERED {
            self.recent.push(name);
        } else {
            self.recent[self.next] = name;
            self.next = (self.next + 1) % REMEMBERED;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_blob_that_is_named_again_soon_counts_once() {
        let hash = |number: usize| BlobHash::of(&number.to_le_bytes());
        let mut total = BlobTotal::default();
        for _ in 0..10 {
            total.add(hash(0), 5);
        }
        assert_eq!(total.bytes(), 5);
        (1..=REMEMBERED).for_each(|number| total.add(hash(number), 1));
        assert_eq!(total.bytes(), 5 + REMEMBERED as u64);
        total.add(hash(REMEMBERED), 1);
        assert_eq!(total.bytes(), 5 + REMEMBERED as u64);
        total.add(hash(0), 5);
        assert_eq!(total.bytes(), 10 + REMEMBERED as u64);
    }
}
