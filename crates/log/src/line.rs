//! Writes one line of a run's log directly into the bytes of a batch, without a tree or an
//! allocation. It defines the form of a line, not which fields a record has.

use std::sync::Arc;

use tiffany_kernel::{Tid, Uuid};

use super::batch::Batch;
use super::blob::BlobHash;
use super::blob_total::BlobTotal;
use super::json::{
    hex32, is_plain, push_base64, push_i64, push_on_one_line, push_string, push_u64,
};
use super::stamp::Stamp;

/// The highest version of the line format, `v`, that this program knows. A line has the lowest version whose programs
/// understand it: 1, unless an older program must not pass over it.
pub const LINE_VERSION: u64 = 2;

/// The first version, which most lines have.
const FIRST_VERSION: u64 = 1;
/// Where a line has its version: after `{"v":`.
const VERSION_AT: usize = 5;

/// The length of the end of a line: `,"crc":"xxxxxxxx"}` and the line break.
pub(crate) const LINE_END: usize = 19;

macro_rules! record_types {
    ($($(#[$doc:meta])* $name:ident,)+) => {
        /// The type of a record. A log may contain types that are not listed here; readers skip
        /// them.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum RecordType { $($(#[$doc])* $name,)+ }

        impl RecordType {
            /// All types.
            pub const ALL: &[RecordType] = &[$(RecordType::$name),+];

            /// Returns the name, as in the `type` field.
            pub const fn name(self) -> &'static str {
                match self { $(RecordType::$name => stringify!($name)),+ }
            }

            /// Returns the type with this name, if it is known.
            pub fn parse(name: &str) -> Option<RecordType> {
                match name { $(stringify!($name) => Some(RecordType::$name),)+ _ => None }
            }
        }
    };
}

record_types! {
    /// The first line of a run, with its function and input.
    RunStart,
    /// A task was spawned.
    TaskSpawn,
    /// A task made a call that returned at once.
    TaskYield,
    /// A waiting task continues.
    TaskWake,
    /// A task returned a value.
    TaskExit,
    /// A task failed with an error.
    TaskAbort,
    /// A task was cancelled.
    TaskCancel,
    /// An effect was taken from its queue and started.
    EffectStart,
    /// State that an effect's work saves for its next attempt.
    EffectCheckpoint,
    /// The result of an effect.
    EffectResult,
    /// A person answered a question.
    ApprovalDecided,
    /// A question was withdrawn, or the task that asked it has ended.
    ApprovalWithdrawn,
    /// A promise was settled.
    PromiseSettled,
    /// The run received a message.
    Message,
    /// The first line of a later generation, with the entire state of the run.
    Snapshot,
    /// The run was paused, by a person or by a limit.
    RunHeld,
    /// The run was released, and continues.
    RunReleased,
    /// The run has other tags and attributes.
    Attributes,
    /// The process shut down cleanly.
    ShutdownMarker,
    /// All lines before this one are from another run; from here on, the run is a fork of it.
    Forked,
    /// A fork needs an effect that its parent has no result for and that it is not allowed to
    /// perform.
    EffectRefused,
    /// A person allowed effects of a fork, by their names.
    EffectAllowed,
    /// The run was compacted: all records between the first and the last one were dropped.
    Compacted,
    /// The last line of a fixture: the log of a run that was captured for a test ends here.
    Captured,
    /// An agent was given an instruction (ADR-0006).
    InstructionStart,
    /// An agent made or revised its plan (ADR-0006).
    LLMPlan,
    /// A step of an agent's plan begins (ADR-0006).
    StepStart,
    /// A tool of an agent has ended (ADR-0006).
    ToolResult,
    /// An agent is about to change files (ADR-0006).
    PatchPreview,
    /// An agent has changed files (ADR-0006).
    Commit,
    /// An agent is done with its instruction (ADR-0006).
    TaskComplete,
}

const BEFORE: &[u8] = b"\",\"task_id\":\"";
const AFTER: &[u8] = b"\",\"tid\":";

/// The end of a run's log, which the next line must follow.
#[derive(Clone)]
pub struct Chain {
    run: Uuid,
    /// The UUID of the run, with the text around it in a line.
    piece: [u8; BEFORE.len() + 36 + AFTER.len()],
    generation: u32,
    seq: u64,
    crc: u32,
    /// The number of bytes of its lines, as far as known.
    bytes: u64,
    /// The blobs that its lines refer to, as far as that is known.
    blobs: Option<Box<BlobTotal>>,
}

/// Two chains are equal if they end at the same line, whatever is known of their length.
impl PartialEq for Chain {
    fn eq(&self, other: &Chain) -> bool {
        let stand = |chain: &Chain| (chain.run, chain.generation, chain.seq, chain.crc);
        stand(self) == stand(other)
    }
}

impl Eq for Chain {}

impl Chain {
    /// Makes the chain of a run without lines. Its first generation is 1.
    pub fn new(run: Uuid) -> Chain {
        Chain::beginning(run, 1)
    }

    /// Makes the chain of a run that has no line of this generation yet.
    pub fn beginning(run: Uuid, generation: u32) -> Chain {
        Chain::at(run, generation, 0, seed(run, generation))
    }

    /// Makes the chain of a run whose last line in `generation` has this number and checksum.
    pub fn at(run: Uuid, generation: u32, seq: u64, crc: u32) -> Chain {
        let text = run.to_string();
        let mut piece = [0; BEFORE.len() + 36 + AFTER.len()];
        piece[..BEFORE.len()].copy_from_slice(BEFORE);
        piece[BEFORE.len()..BEFORE.len() + 36].copy_from_slice(text.as_bytes());
        piece[BEFORE.len() + 36..].copy_from_slice(AFTER);
        Chain { run, piece, generation, seq, crc, bytes: 0, blobs: None }
    }

    /// Returns the beginning of the run's next generation, which replaces this one.
    pub fn next_generation(&self) -> Chain {
        let generation = self.generation + 1;
        Chain {
            generation,
            seq: 0,
            crc: seed(self.run, generation),
            piece: self.piece,
            bytes: 0,
            blobs: None,
            run: self.run,
        }
    }

    /// Returns the UUID of the run.
    pub fn run(&self) -> Uuid {
        self.run
    }

    /// Returns the generation that its lines belong to.
    pub fn generation(&self) -> u32 {
        self.generation
    }

    /// Returns the sequence number of the last line; 0 before the first.
    pub fn seq(&self) -> u64 {
        self.seq
    }

    /// Returns the checksum of the last line, or the seed before the first.
    pub fn crc(&self) -> u32 {
        self.crc
    }

    pub(crate) fn run_text(&self) -> &[u8] {
        &self.piece[BEFORE.len()..BEFORE.len() + 36]
    }

    /// Sets the known length of the log, in bytes.
    pub(crate) fn with_bytes(self, bytes: u64) -> Chain {
        Chain { bytes, ..self }
    }

    /// Returns the number of bytes of its lines, as far as known.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns a chain whose lines refer to these blobs.
    #[must_use]
    pub fn with_blobs(self, blobs: BlobTotal) -> Chain {
        let blobs = (blobs.bytes() > 0).then(|| Box::new(blobs));
        Chain { blobs, ..self }
    }

    /// Returns the bytes of the blobs that its lines refer to, as far as that is known.
    pub fn blob_bytes(&self) -> u64 {
        self.blobs.as_ref().map_or(0, |blobs| blobs.bytes())
    }

    pub(crate) fn went_on(&mut self, seq: u64, crc: u32) {
        self.seq = seq;
        self.crc = crc;
    }
}

impl std::fmt::Debug for Chain {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{} after {} ({:08x})", self.run, self.generation, self.seq, self.crc)
    }
}

/// Computes the checksum that the first line of a generation follows, from the run's UUID and the
/// generation. It reveals a file that was renamed to another run's name.
pub(crate) fn seed(run: Uuid, generation: u32) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&run.0.to_be_bytes()), &generation.to_le_bytes())
}

/// A line in progress, made by [`Batch::line`]. It becomes part of the batch with [`Line::end`]; if
/// it is dropped before that, it leaves no trace.
#[must_use = "a line counts only after `end`"]
pub struct Line<'a> {
    batch: &'a mut Batch,
    chain: &'a mut Chain,
    start: usize,
    /// Where the fields of its type begin in the batch.
    fields: usize,
}

impl<'a> Line<'a> {
    /// Begins a line whose type is given as text.
    #[inline]
    pub fn begin(
        batch: &'a mut Batch,
        chain: &'a mut Chain,
        stamp: &Stamp,
        kind: &str,
        tid: Tid,
    ) -> Line<'a> {
        let start = batch.begin_line();
        let out = &mut batch.lines;
        out.reserve(192);
        out.extend_from_slice(b"{\"v\":1,\"seq\":");
        push_u64(out, chain.seq + 1);
        out.extend_from_slice(stamp.piece());
        out.extend_from_slice(kind.as_bytes());
        out.extend_from_slice(&chain.piece);
        push_u64(out, tid.0);
        if chain.seq == 0 {
            out.extend_from_slice(b",\"gen\":");
            push_u64(out, u64::from(chain.generation));
        }
        let fields = batch.lines.len();
        Line { batch, chain, start, fields }
    }

    /// Gives the line a version: programs that don't know it refuse the line.
    pub fn of_version(self, version: u64) -> Line<'a> {
        assert!(
            (FIRST_VERSION..=LINE_VERSION).contains(&version),
            "nobody reads version {version}"
        );
        self.batch.lines[self.start + VERSION_AT] = b'0' + version as u8;
        self
    }

    #[inline]
    fn name(&mut self, field: &str) -> &mut Vec<u8> {
        debug_assert!(
            field.bytes().all(|b| b.is_ascii_graphic() && b != b'"' && b != b'\\'),
            "the name of a field must be plain: {field:?}"
        );
        let out = &mut self.batch.lines;
        out.extend_from_slice(b",\"");
        out.extend_from_slice(field.as_bytes());
        out.extend_from_slice(b"\":");
        out
    }

    /// Adds a text and returns the line.
    #[inline]
    pub fn str(mut self, field: &str, text: &str) -> Line<'a> {
        self.put_str(field, text);
        self
    }

    /// Adds a text.
    #[inline]
    pub fn put_str(&mut self, field: &str, text: &str) {
        push_string(self.name(field), text);
    }

    /// Adds a text that needs no escaping, and returns the line.
    #[inline]
    pub fn plain(mut self, field: &str, text: &str) -> Line<'a> {
        self.put_plain(field, text);
        self
    }

    /// Adds a text that needs no escaping.
    #[inline]
    pub fn put_plain(&mut self, field: &str, text: &str) {
        debug_assert!(is_plain(text.as_bytes()), "not plain: {text:?}");
        let out = self.name(field);
        out.push(b'"');
        out.extend_from_slice(text.as_bytes());
        out.push(b'"');
    }

    /// Adds a number as text, because some JSON readers don't keep 64 bits, and returns the line.
    #[inline]
    pub fn digits(mut self, field: &str, number: u64) -> Line<'a> {
        self.put_digits(field, number);
        self
    }

    /// Adds a number as text, because some JSON readers don't keep 64 bits.
    #[inline]
    pub fn put_digits(&mut self, field: &str, number: u64) {
        let out = self.name(field);
        out.push(b'"');
        push_u64(out, number);
        out.push(b'"');
    }

    /// Adds a field whose JSON is written as it is, and returns the line.
    #[inline]
    pub fn verbatim(mut self, field: &str, json: &str) -> Line<'a> {
        self.put_verbatim(field, json);
        self
    }

    /// Adds a field whose JSON is written as it is.
    #[inline]
    pub fn put_verbatim(&mut self, field: &str, json: &str) {
        self.name(field).extend_from_slice(json.as_bytes());
    }

    /// Adds a complete field that was formatted before, including the comma before it.
    #[inline]
    pub fn piece(self, piece: &str) -> Line<'a> {
        self.batch.lines.extend_from_slice(piece.as_bytes());
        self
    }

    /// Adds a number and returns the line.
    #[inline]
    pub fn uint(mut self, field: &str, number: u64) -> Line<'a> {
        self.put_uint(field, number);
        self
    }

    /// Adds a number.
    #[inline]
    pub fn put_uint(&mut self, field: &str, number: u64) {
        push_u64(self.name(field), number);
    }

    /// Adds a signed number and returns the line.
    pub fn int(mut self, field: &str, number: i64) -> Line<'a> {
        push_i64(self.name(field), number);
        self
    }

    /// Adds a Boolean and returns the line.
    #[inline]
    pub fn flag(mut self, field: &str, value: bool) -> Line<'a> {
        self.put_flag(field, value);
        self
    }

    /// Adds a Boolean.
    #[inline]
    pub fn put_flag(&mut self, field: &str, value: bool) {
        let text: &[u8] = if value { b"true" } else { b"false" };
        self.name(field).extend_from_slice(text);
    }

    /// Adds a value that is already JSON, and returns the line. Above the batch's blob limit, it
    /// becomes a blob. It must be one complete value; it is not parsed.
    #[inline]
    pub fn json(mut self, field: &str, json: &str) -> Line<'a> {
        self.put_json(field, json);
        self
    }

    /// Adds a value that is already JSON, or a blob above the batch's limit.
    #[inline]
    pub fn put_json(&mut self, field: &str, json: &str) {
        if json.len() > self.batch.blob_limit() {
            if let Some(cleaned) = self.cleaned(field, json) {
                return self.put_clean_json(field, &cleaned);
            }
            self.blob(field, json.as_bytes(), "");
        } else {
            push_on_one_line(self.name(field), json);
        }
    }

    /// Adds bytes as `{"$base64":"…"}`, or as a blob above the batch's limit.
    pub fn bytes(mut self, field: &str, bytes: &[u8]) -> Line<'a> {
        if bytes.len() > self.batch.blob_limit() {
            let cleaned = self.batch.rules().and_then(|rules| rules.bytes(bytes));
            self.blob(field, cleaned.as_deref().unwrap_or(bytes), ",\"as\":\"bytes\"");
        } else {
            let out = self.name(field);
            out.extend_from_slice(b"{\"$base64\":\"");
            push_base64(out, bytes);
            out.extend_from_slice(b"\"}");
        }
        self
    }

    /// Adds a shared value that is already JSON, with its hash if that is known, and returns the
    /// line.
    #[inline]
    pub fn shared_json(mut self, field: &str, json: &Arc<str>, hash: Option<BlobHash>) -> Line<'a> {
        self.put_shared_json(field, json, hash);
        self
    }

    /// Adds a shared value that is already JSON, with its hash if that is known.
    #[inline]
    pub fn put_shared_json(&mut self, field: &str, json: &Arc<str>, hash: Option<BlobHash>) {
        if json.len() > self.batch.blob_limit() {
            if let Some(cleaned) = self.cleaned(field, json) {
                return self.put_clean_json(field, &cleaned);
            }
            let hash = hash.unwrap_or_else(|| BlobHash::of(json.as_bytes()));
            self.batch.add_blob(hash, || Arc::clone(json).into());
            self.blob_name(field, hash, json.len(), "");
        } else {
            push_on_one_line(self.name(field), json);
        }
    }

    /// Returns the redacted form of a payload that is about to become a blob; `None` if nothing is
    /// redacted.
    #[cold]
    fn cleaned(&self, field: &str, json: &str) -> Option<String> {
        let before = std::str::from_utf8(&self.batch.lines[self.fields..]).unwrap_or_default();
        self.batch.rules().and_then(|rules| rules.payload(before, field, json))
    }

    fn put_clean_json(&mut self, field: &str, json: &str) {
        match json.len() > self.batch.blob_limit() {
            true => self.blob(field, json.as_bytes(), ""),
            false => push_on_one_line(self.name(field), json),
        }
    }

    /// Redacts the fields according to the rules of the batch. Every line passes through here
    /// before it ends, and so before it reaches the disk.
    #[cold]
    fn redact(&mut self) {
        let (head, fields) = self.batch.lines[self.start..].split_at(self.fields - self.start);
        let fields = std::str::from_utf8(fields).unwrap_or_default();
        let cleaned = self.batch.rules().and_then(|rules| rules.fields(head, fields));
        if let Some(cleaned) = cleaned {
            self.batch.lines.truncate(self.fields);
            push_on_one_line(&mut self.batch.lines, &cleaned);
        }
    }

    fn blob(&mut self, field: &str, content: &[u8], form: &str) {
        let hash = BlobHash::of(content);
        self.batch.add_blob(hash, || content.into());
        self.blob_name(field, hash, content.len(), form);
    }

    fn blob_name(&mut self, field: &str, hash: BlobHash, len: usize, form: &str) {
        self.chain.blobs.get_or_insert_default().add(hash, len as u64);
        let out = self.name(field);
        out.extend_from_slice(b"{\"$blob\":\"");
        hash.push_to(out);
        out.extend_from_slice(b"\",\"len\":");
        push_u64(out, len as u64);
        out.extend_from_slice(form.as_bytes());
        out.push(b'}');
    }

    /// Returns the fields of its type so far. The line itself is dropped.
    pub fn into_fields(mut self) -> &'a [u8] {
        if self.batch.rules().is_some() {
            self.redact();
        }
        &self.batch.lines[self.fields..]
    }

    /// Ends the line, makes it part of the batch, and returns its sequence number.
    pub fn end(mut self) -> u64 {
        if self.batch.rules().is_some() {
            self.redact();
        }
        let out = &mut self.batch.lines;
        let crc = crc32c::crc32c_append(self.chain.crc, &out[self.start..]);
        let mut end = *b",\"crc\":\"00000000\"}\n";
        end[8..16].copy_from_slice(&hex32(crc));
        out.extend_from_slice(&end);
        self.chain.bytes += (self.batch.lines.len() - self.start) as u64;
        self.batch.end_line(self.chain, crc, self.start);
        self.chain.went_on(self.chain.seq + 1, crc);
        self.chain.seq
    }
}
