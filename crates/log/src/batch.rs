//! Lines of many runs on their way to the disk, which become durable together or not at all. It touches no
//! file.

use std::sync::Arc;

use tiffany_kernel::{Tid, Uuid};

use super::blob::BlobHash;
use super::line::{Chain, LINE_END, Line, RecordType};
use super::redactor::Redactor;
use super::stamp::Stamp;

/// Payloads of more bytes than this become blobs, unless the settings say otherwise.
pub const BLOB_LIMIT: usize = 16 * 1024;

/// Lines of one run that follow each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LinesPart {
    pub run: Uuid,
    pub(crate) generation: u32,
    pub(crate) len: usize,
    pub(crate) first_seq: u64,
    pub(crate) last_seq: u64,
    pub(crate) crc_before: u32,
    pub(crate) crc_after: u32,
    pub(crate) finishes: bool,
}

/// Where a run stands once a batch is durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunEnd {
    /// The run.
    pub run: Uuid,
    /// Its generation.
    pub generation: u32,
    /// The number of its last line.
    pub seq: u64,
}

/// Lines of many runs, one after the other in one piece of memory that is used again.
///
/// ```
/// # use tiffany_log::{Batch, Chain, RecordType, Stamp};
/// # use tiffany_kernel::{Tid, Uuid};
/// let mut batch = Batch::new();
/// let mut chain = Chain::new(Uuid::from_random(7));
/// let now = Stamp::from_unix_nanos(0);
/// batch.line(&mut chain, &now, RecordType::RunStart, Tid(1)).str("name", "greet").end();
/// assert_eq!(chain.seq(), 1);
/// assert!(batch.text().starts_with(r#"{"v":1,"seq":1,"ts":"1970-01-01T00:00:00.000000000Z","type":"RunStart""#));
/// ```
#[derive(Clone, Debug)]
pub struct Batch {
    pub(crate) lines: Vec<u8>,
    pub(crate) parts: Vec<LinesPart>,
    /// Shared with who made them, so that large values are not copied on their way.
    pub blobs: Vec<(BlobHash, Arc<[u8]>)>,
    pub(crate) blob_bytes: usize,
    pub(crate) removed: Vec<Uuid>,
    /// How many bytes and blobs belong to ended lines. What is beyond was begun and dropped.
    whole: Whole,
    blob_limit: usize,
    /// What is taken out of lines and blobs before they are here.
    rules: Option<Arc<dyn Redactor>>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Whole {
    lines: usize,
    blob_bytes: usize,
    blobs: usize,
}

impl Default for Batch {
    fn default() -> Batch {
        Batch::new()
    }
}

impl Batch {
    /// An empty batch with the usual blob limit.
    pub fn new() -> Batch {
        Batch::with_blob_limit(BLOB_LIMIT)
    }

    /// An empty batch in which payloads of more bytes than this become blobs.
    pub fn with_blob_limit(blob_limit: usize) -> Batch {
        Batch {
            lines: Vec::new(),
            parts: Vec::new(),
            blobs: Vec::new(),
            blob_bytes: 0,
            removed: Vec::new(),
            whole: Whole::default(),
            blob_limit,
            rules: None,
        }
    }

    /// An empty one with the same limit and rules.
    pub fn another(&self) -> Batch {
        Batch { rules: self.rules.clone(), ..Batch::with_blob_limit(self.blob_limit) }
    }

    /// An empty one with another limit and the same rules.
    pub fn another_with_blob_limit(&self, blob_limit: usize) -> Batch {
        Batch { rules: self.rules.clone(), ..Batch::with_blob_limit(blob_limit) }
    }

    /// From here on secrets are taken out of the lines and blobs that are written here, by these rules.
    pub fn redact<R: Redactor + 'static>(&mut self, rules: Option<Arc<R>>) {
        self.rules = rules.map(|rules| rules as Arc<dyn Redactor>);
    }

    /// The rules for redaction, if there are any.
    #[inline]
    pub fn rules(&self) -> Option<&Arc<dyn Redactor>> {
        self.rules.as_ref()
    }

    /// Begins the next line of a run.
    #[inline]
    pub fn line<'a>(
        &'a mut self,
        chain: &'a mut Chain,
        stamp: &Stamp,
        kind: RecordType,
        tid: Tid,
    ) -> Line<'a> {
        Line::begin(self, chain, stamp, kind.name(), tid)
    }

    /// Says that the run is over: it will not be among the live ones when the log is opened again. Its last
    /// line must be in this batch; if it is not, nothing is said. A run that is over takes one thing more: a new generation
    /// that is whole in one batch, and over too.
    pub fn finish(&mut self, chain: &Chain) {
        let last = self.parts.iter_mut().rev().find(|part| part.run == chain.run());
        if let Some(last) = last {
            last.finishes = true;
        }
    }

    /// Removes a run's file. Its UUID stays known, and is refused afterwards.
    pub fn remove(&mut self, run: Uuid) {
        self.removed.push(run);
    }

    /// Does it take the place of files that are there, or remove some? What was in them is then in the commit log only.
    pub(crate) fn replaces(&self) -> bool {
        let begins_anew = |part: &LinesPart| part.generation > 1 && part.first_seq == 1;
        !self.removed.is_empty() || self.parts.iter().any(begins_anew)
    }

    /// True if there is nothing to make durable.
    pub fn is_empty(&self) -> bool {
        self.parts.is_empty() && self.removed.is_empty()
    }

    /// How many bytes of lines and blobs it has.
    pub fn len(&self) -> usize {
        self.whole.lines + self.whole.blob_bytes
    }

    /// All lines, in the order they were written.
    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.lines[..self.whole.lines]).expect("lines are UTF-8")
    }

    /// The last records of its runs; if a run has several entries, the last one counts.
    pub fn ends(&self) -> impl Iterator<Item = RunEnd> + '_ {
        self.parts.iter().map(|part| RunEnd {
            run: part.run,
            generation: part.generation,
            seq: part.last_seq,
        })
    }

    /// Empties it and keeps its memory, but not more than it is likely to need again.
    pub fn clear(&mut self) {
        const KEEP: usize = 256 << 10;
        self.lines.clear();
        self.lines.shrink_to(KEEP);
        self.parts.clear();
        self.parts.shrink_to(KEEP / size_of::<LinesPart>());
        self.blobs.clear();
        self.blob_bytes = 0;
        self.removed.clear();
        self.whole = Whole::default();
    }

    /// Moves all of another batch behind what is here. If this one is empty, they just change places.
    pub fn append(&mut self, other: &mut Batch) {
        if self.is_empty() {
            std::mem::swap(self, other);
            // How one writes stays its own.
            std::mem::swap(&mut self.blob_limit, &mut other.blob_limit);
            std::mem::swap(&mut self.rules, &mut other.rules);
        } else {
            self.drop_unfinished();
            other.drop_unfinished();
            self.lines.extend_from_slice(&other.lines);
            self.blobs.append(&mut other.blobs);
            self.blob_bytes += other.blob_bytes;
            self.removed.append(&mut other.removed);
            for part in other.parts.drain(..) {
                match self.parts.last_mut() {
                    Some(last) if last.continued_by(&part) => last.join(&part),
                    _ => self.parts.push(part),
                }
            }
            self.note_whole();
        }
        other.clear();
    }

    pub(crate) fn blob_limit(&self) -> usize {
        self.blob_limit
    }

    pub(crate) fn begin_line(&mut self) -> usize {
        if self.lines.len() != self.whole.lines || self.blobs.len() != self.whole.blobs {
            self.drop_unfinished();
        }
        self.whole.lines
    }

    pub(crate) fn drop_unfinished(&mut self) {
        self.lines.truncate(self.whole.lines);
        self.blobs.truncate(self.whole.blobs);
        self.blob_bytes = self.whole.blob_bytes;
    }

    fn note_whole(&mut self) {
        self.whole =
            Whole { lines: self.lines.len(), blob_bytes: self.blob_bytes, blobs: self.blobs.len() };
    }

    pub(crate) fn add_blob(&mut self, hash: BlobHash, content: impl FnOnce() -> Arc<[u8]>) {
        if !self.blobs.iter().rev().take(64).any(|(known, _)| *known == hash) {
            let content = content();
            self.blob_bytes += content.len();
            self.blobs.push((hash, content));
        }
    }

    pub(crate) fn end_line(&mut self, chain: &Chain, crc: u32, start: usize) {
        let len = self.lines.len() - start;
        debug_assert!(
            len > LINE_END && memchr::memchr(b'\n', &self.lines[start..]) == Some(len - 1)
        );
        let seq = chain.seq() + 1;
        let part = LinesPart {
            run: chain.run(),
            generation: chain.generation(),
            len,
            first_seq: seq,
            last_seq: seq,
            crc_before: chain.crc(),
            crc_after: crc,
            finishes: false,
        };
        match self.parts.last_mut() {
            Some(last) if last.continued_by(&part) => last.join(&part),
            _ => self.parts.push(part),
        }
        self.note_whole();
    }
}

impl LinesPart {
    fn continued_by(&self, next: &LinesPart) -> bool {
        self.run == next.run
            && self.generation == next.generation
            && self.last_seq + 1 == next.first_seq
            && self.crc_after == next.crc_before
            && !self.finishes
    }

    fn join(&mut self, next: &LinesPart) {
        self.len += next.len;
        self.last_seq = next.last_seq;
        self.crc_after = next.crc_after;
        self.finishes = next.finishes;
    }
}
