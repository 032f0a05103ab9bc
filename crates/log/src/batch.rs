//! A batch of lines, of any number of runs, that becomes durable as a whole or not at all. It
//! accesses no files.

use std::sync::Arc;

use tiffany_kernel::{Tid, Uuid};

use super::blob::BlobHash;
use super::line::{Chain, LINE_END, Line, RecordType};
use super::redactor::Redactor;
use super::stamp::Stamp;

/// The default number of bytes above which payloads become blobs.
pub const BLOB_LIMIT: usize = 16 * 1024;

/// Consecutive lines of one run.
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

/// The end of a run once a batch is durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunEnd {
    /// The run.
    pub run: Uuid,
    /// The generation of the run.
    pub generation: u32,
    /// The sequence number of its last line.
    pub seq: u64,
}

/// Lines of many runs in one buffer, which is reused after [`Batch::clear`].
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
    /// Blobs, shared with their creators so that large values are not copied.
    pub blobs: Vec<(BlobHash, Arc<[u8]>)>,
    pub(crate) blob_bytes: usize,
    pub(crate) removed: Vec<Uuid>,
    /// The number of bytes and blobs that belong to ended lines. Anything beyond them belongs to a
    /// line that was begun and dropped.
    whole: Whole,
    blob_limit: usize,
    /// The rules that redact lines and blobs before they are stored here.
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
    /// Makes an empty batch with the default blob limit.
    pub fn new() -> Batch {
        Batch::with_blob_limit(BLOB_LIMIT)
    }

    /// Makes an empty batch in which payloads of more than `blob_limit` bytes become blobs.
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

    /// Makes an empty batch with this one's blob limit and redaction rules.
    pub fn another(&self) -> Batch {
        Batch { rules: self.rules.clone(), ..Batch::with_blob_limit(self.blob_limit) }
    }

    /// Makes an empty batch with another blob limit and this one's redaction rules.
    pub fn another_with_blob_limit(&self, blob_limit: usize) -> Batch {
        Batch { rules: self.rules.clone(), ..Batch::with_blob_limit(blob_limit) }
    }

    /// Redacts all lines and blobs that are added from now on, according to these rules.
    pub fn redact<R: Redactor + 'static>(&mut self, rules: Option<Arc<R>>) {
        self.rules = rules.map(|rules| rules as Arc<dyn Redactor>);
    }

    /// Returns the rules for redaction, if there are any.
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

    /// Marks a run as finished, so that it is not resumed when the log is opened again. This has no
    /// effect unless the run's last line is in this batch. After that, the log accepts only one
    /// thing for the run: a new generation that is complete in one batch and finished as well.
    pub fn finish(&mut self, chain: &Chain) {
        let last = self.parts.iter_mut().rev().find(|part| part.run == chain.run());
        if let Some(last) = last {
            last.finishes = true;
        }
    }

    /// Removes a run's file. The log remembers the UUID and refuses to use it again.
    pub fn remove(&mut self, run: Uuid) {
        self.removed.push(run);
    }

    /// Returns whether the batch replaces or removes existing files, whose contents would then only
    /// be in the commit log.
    pub(crate) fn replaces(&self) -> bool {
        let starts_over = |part: &LinesPart| part.generation > 1 && part.first_seq == 1;
        !self.removed.is_empty() || self.parts.iter().any(starts_over)
    }

    /// Returns true if there is nothing to make durable.
    pub fn is_empty(&self) -> bool {
        self.parts.is_empty() && self.removed.is_empty()
    }

    /// Returns the number of bytes of its lines and blobs.
    pub fn len(&self) -> usize {
        self.whole.lines + self.whole.blob_bytes
    }

    /// Returns all lines in the order in which they were written.
    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.lines[..self.whole.lines]).expect("lines are UTF-8")
    }

    /// Returns the ends of its runs; if a run has several entries, the last one counts.
    pub fn ends(&self) -> impl Iterator<Item = RunEnd> + '_ {
        self.parts.iter().map(|part| RunEnd {
            run: part.run,
            generation: part.generation,
            seq: part.last_seq,
        })
    }

    /// Removes all contents. Keeps the memory for reuse, except what is unlikely to be needed
    /// again.
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

    /// Moves the contents of another batch to the end of this one. If this one is empty, the two
    /// swap their contents.
    pub fn append(&mut self, other: &mut Batch) {
        if self.is_empty() {
            std::mem::swap(self, other);
            // The settings of each batch stay with it.
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
