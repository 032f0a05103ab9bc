//! One line of a run's log while it is written: straight into the bytes of a batch, without a tree and
//! without an allocation. It decides the form of a line, not which fields a record has.

use std::sync::Arc;

use tiffany_kernel::{Tid, Uuid};

use super::batch::Batch;
use super::blob::BlobHash;
use super::json::{
    hex32, is_plain, push_base64, push_i64, push_on_one_line, push_string, push_u64,
};
use super::stamp::Stamp;

/// The version of the line format, `v`.
pub const LINE_VERSION: u64 = 1;

/// What a line ends with: `,"crc":"xxxxxxxx"}` and the line break.
pub(crate) const LINE_END: usize = 19;

macro_rules! record_types {
    ($($(#[$doc:meta])* $name:ident,)+) => {
        /// What a record tells. A log may hold types that are not here; a reader passes over them.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum RecordType { $($(#[$doc])* $name,)+ }

        impl RecordType {
            /// All types.
            pub const ALL: &[RecordType] = &[$(RecordType::$name),+];

            /// The name, as `type` has it.
            pub const fn name(self) -> &'static str {
                match self { $(RecordType::$name => stringify!($name)),+ }
            }

            /// The type of this name, if it is known.
            pub fn parse(name: &str) -> Option<RecordType> {
                match name { $(stringify!($name) => Some(RecordType::$name),)+ _ => None }
            }
        }
    };
}

record_types! {
    /// The first line of a run: its function and its input.
    RunStart,
    /// A task was spawned.
    TaskSpawn,
    /// A task made a call that was answered at once.
    TaskYield,
    /// A task that waited goes on.
    TaskWake,
    /// A task ended with its value.
    TaskExit,
    /// A task ended with an error.
    TaskAbort,
    /// A task was cancelled.
    TaskCancel,
    /// An effect leaves its queue.
    EffectStart,
    /// What an effect's work wants to find again in its next attempt.
    EffectCheckpoint,
    /// An effect's answer.
    EffectResult,
    /// A person answered a question.
    ApprovalDecided,
    /// A question was taken back, or its task is no more.
    ApprovalWithdrawn,
    /// A promise was settled.
    PromiseSettled,
    /// A message came for the run.
    Message,
    /// The first line of a later generation: all that the run was.
    Snapshot,
    /// A person or a limit holds the run.
    RunHeld,
    /// The run continues.
    RunReleased,
    /// The process ended in good order.
    ShutdownMarker,
    /// What stands before is another run's; from here on the run is a fork of it.
    Forked,
    /// A fork needs an effect that its parent has no answer for and that is not allowed.
    EffectRefused,
    /// Effects of a fork were allowed by name.
    EffectAllowed,
    /// What stood between the first record and the last one is gone.
    Compacted,
    /// The last line of a fixture: the log of a run that was captured for a test ends here.
    Captured,
    /// Kept free for agents (ADR-0006).
    InstructionStart,
    /// Kept free for agents (ADR-0006).
    LLMPlan,
    /// Kept free for agents (ADR-0006).
    StepStart,
    /// Kept free for agents (ADR-0006).
    ToolResult,
    /// Kept free for agents (ADR-0006).
    PatchPreview,
    /// Kept free for agents (ADR-0006).
    Commit,
    /// Kept free for agents (ADR-0006).
    TaskComplete,
}

const BEFORE: &[u8] = b"\",\"task_id\":\"";
const AFTER: &[u8] = b"\",\"tid\":";

/// Where a run's log stands: what the next line must follow.
#[derive(Clone)]
pub struct Chain {
    run: Uuid,
    /// The UUID with what stands around it in a line.
    piece: [u8; BEFORE.len() + 36 + AFTER.len()],
    generation: u32,
    seq: u64,
    crc: u32,
    /// How many bytes its lines have, as far as that is known.
    bytes: u64,
}

/// Where a log stands is the same, whatever is known of its length.
impl PartialEq for Chain {
    fn eq(&self, other: &Chain) -> bool {
        let stand = |chain: &Chain| (chain.run, chain.generation, chain.seq, chain.crc);
        stand(self) == stand(other)
    }
}

impl Eq for Chain {}

impl Chain {
    /// A run that has no line yet. Its first generation is 1.
    pub fn new(run: Uuid) -> Chain {
        Chain::beginning(run, 1)
    }

    /// A run that has no line of this generation yet.
    pub fn beginning(run: Uuid, generation: u32) -> Chain {
        Chain::at(run, generation, 0, seed(run, generation))
    }

    /// A run whose last line in `generation` has this number and checksum.
    pub fn at(run: Uuid, generation: u32, seq: u64, crc: u32) -> Chain {
        let text = run.to_string();
        let mut piece = [0; BEFORE.len() + 36 + AFTER.len()];
        piece[..BEFORE.len()].copy_from_slice(BEFORE);
        piece[BEFORE.len()..BEFORE.len() + 36].copy_from_slice(text.as_bytes());
        piece[BEFORE.len() + 36..].copy_from_slice(AFTER);
        Chain { run, piece, generation, seq, crc, bytes: 0 }
    }

    /// The beginning of the run's next generation, which replaces this one.
    pub fn next_generation(&self) -> Chain {
        let generation = self.generation + 1;
        Chain { generation, seq: 0, crc: seed(self.run, generation), ..self.clone() }
    }

    /// The run.
    pub fn run(&self) -> Uuid {
        self.run
    }

    /// The generation its lines belong to.
    pub fn generation(&self) -> u32 {
        self.generation
    }

    /// The number of the last line; 0 before the first.
    pub fn seq(&self) -> u64 {
        self.seq
    }

    /// The checksum of the last line, or what the first one follows.
    pub fn crc(&self) -> u32 {
        self.crc
    }

    pub(crate) fn run_text(&self) -> &[u8] {
        &self.piece[BEFORE.len()..BEFORE.len() + 36]
    }

    /// The chain with a log of this length.
    pub(crate) fn with_bytes(self, bytes: u64) -> Chain {
        Chain { bytes, ..self }
    }

    /// How many bytes its lines have, as far as that is known.
    pub fn bytes(&self) -> u64 {
        self.bytes
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

/// What the first line of a generation follows: the checksum of the run's UUID and the generation, so that a
/// file under another name is found out.
pub(crate) fn seed(run: Uuid, generation: u32) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&run.0.to_be_bytes()), &generation.to_le_bytes())
}

/// A line under way, from [`Batch::line`]. Until [`Line::end`] it does not count: dropped before, it never
/// was.
#[must_use = "a line counts only after `end`"]
pub struct Line<'a> {
    batch: &'a mut Batch,
    chain: &'a mut Chain,
    start: usize,
    /// Where the fields of its type begin.
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

    /// A text.
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

    /// A text that has nothing to escape.
    #[inline]
    pub fn plain(mut self, field: &str, text: &str) -> Line<'a> {
        self.put_plain(field, text);
        self
    }

    /// Adds a text that has nothing to escape.
    #[inline]
    pub fn put_plain(&mut self, field: &str, text: &str) {
        debug_assert!(is_plain(text.as_bytes()), "not plain: {text:?}");
        let out = self.name(field);
        out.push(b'"');
        out.extend_from_slice(text.as_bytes());
        out.push(b'"');
    }

    /// A number as text, because not every reader of JSON keeps 64 bits.
    #[inline]
    pub fn digits(mut self, field: &str, number: u64) -> Line<'a> {
        self.put_digits(field, number);
        self
    }

    /// Adds a number as text, because not every reader of JSON keeps 64 bits.
    #[inline]
    pub fn put_digits(&mut self, field: &str, number: u64) {
        let out = self.name(field);
        out.push(b'"');
        push_u64(out, number);
        out.push(b'"');
    }

    /// A field whose JSON is written as it is.
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

    /// A whole field that was made before, with the comma before it.
    #[inline]
    pub fn piece(self, piece: &str) -> Line<'a> {
        self.batch.lines.extend_from_slice(piece.as_bytes());
        self
    }

    /// A number.
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

    /// A number that may be negative.
    pub fn int(mut self, field: &str, number: i64) -> Line<'a> {
        push_i64(self.name(field), number);
        self
    }

    /// Yes or no.
    #[inline]
    pub fn flag(mut self, field: &str, value: bool) -> Line<'a> {
        self.put_flag(field, value);
        self
    }

    /// Adds a flag.
    #[inline]
    pub fn put_flag(&mut self, field: &str, value: bool) {
        let text: &[u8] = if value { b"true" } else { b"false" };
        self.name(field).extend_from_slice(text);
    }

    /// A value that is JSON already. Above the batch's blob limit it becomes a blob. It must be one whole
    /// value; nothing here looks into it.
    #[inline]
    pub fn json(mut self, field: &str, json: &str) -> Line<'a> {
        self.put_json(field, json);
        self
    }

    /// Adds a JSON value.
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

    /// Bytes: `{"$base64":"…"}`, or a blob above the batch's limit.
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

    /// A value as [`Line::json`] takes it, which is shared and whose hash may be known.
    #[inline]
    pub fn shared_json(mut self, field: &str, json: &Arc<str>, hash: Option<BlobHash>) -> Line<'a> {
        self.put_shared_json(field, json, hash);
        self
    }

    /// Adds a JSON value that is shared, whose hash may be known.
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

    /// What stands for a payload that is about to become a blob, if something is taken out of it.
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

    /// Takes out of the fields what the rules say. This is the only way from a line to its end, and so to the disk.
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
        let out = self.name(field);
        out.extend_from_slice(b"{\"$blob\":\"");
        hash.push_to(out);
        out.extend_from_slice(b"\",\"len\":");
        push_u64(out, len as u64);
        out.extend_from_slice(form.as_bytes());
        out.push(b'}');
    }

    /// The fields of its type so far. The line itself is dropped.
    pub fn into_fields(mut self) -> &'a [u8] {
        if self.batch.rules().is_some() {
            self.redact();
        }
        &self.batch.lines[self.fields..]
    }

    /// Ends the line and gives its number. From here on the batch has it.
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
