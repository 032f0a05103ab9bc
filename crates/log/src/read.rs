//! Parses a run's lines and checks version, form, number, run and checksum. It opens and changes no
//! files.

use std::borrow::Cow;

use tiffany_kernel::{Tid, Uuid};

use super::blob::BlobHash;
use super::json::{Fields, parse_base64, parse_hex32, parse_string};
use super::line::{Chain, LINE_END, LINE_VERSION, RecordType};
use super::stamp::Stamp;

/// One line that was checked.
#[derive(Clone, Copy, Debug)]
pub struct LogLine<'a> {
    /// The version of its form.
    pub version: u64,
    /// Its sequence number.
    pub seq: u64,
    /// Its timestamp, as text.
    pub ts: &'a str,
    /// Its type, as text.
    pub kind: &'a str,
    /// The task it is about.
    pub tid: Tid,
    /// Where the line begins in its file.
    pub offset: u64,
    /// The whole line without its line break: one JSON object.
    pub json: &'a str,
    fields: &'a str,
}

impl<'a> LogLine<'a> {
    /// Parses a line that was checked before, given with its line break.
    pub fn of_checked(line: &'a str) -> Option<LogLine<'a>> {
        let parts = Parts::split(line.as_bytes()).ok()?;
        (parts.version <= LINE_VERSION).then(|| parts.record(0))?
    }

    /// The version of a line, if it is newer than this program.
    pub fn newer(line: &str) -> Option<u64> {
        let (version, rest) = number(line.as_bytes().strip_prefix(b"{\"v\":")?)?;
        (version > LINE_VERSION && rest.starts_with(b",\"seq\":")).then_some(version)
    }

    /// Returns its type, if this version knows it.
    pub fn record_type(&self) -> Option<RecordType> {
        RecordType::parse(self.kind)
    }

    /// Returns its timestamp.
    pub fn stamp(&self) -> Option<Stamp> {
        Stamp::parse(self.ts)
    }

    /// Returns the generation, which only the first line of a generation has.
    pub fn generation(&self) -> Option<u32> {
        self.uint("gen").and_then(|number| u32::try_from(number).ok())
    }

    /// Returns an iterator over the fields of its type, in order, each with its value as JSON.
    pub fn fields(&self) -> Fields<'a> {
        Fields { rest: self.fields }
    }

    /// Returns the value of a field as JSON.
    pub fn get(&self, field: &str) -> Option<&'a str> {
        self.fields().find(|(name, _)| *name == field).map(|(_, value)| value)
    }

    /// Returns the value of a field that is a text.
    pub fn str(&self, field: &str) -> Option<Cow<'a, str>> {
        parse_string(self.get(field)?)
    }

    /// Returns the value of a field that is a number.
    pub fn uint(&self, field: &str) -> Option<u64> {
        self.get(field)?.parse().ok()
    }

    /// Returns the value of a field that is a payload: inline, or a reference to a blob.
    pub fn payload(&self, field: &str) -> Option<Payload<'a>> {
        Payload::parse(self.get(field)?)
    }
}

/// The value of a field that may be stored outside the line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Payload<'a> {
    /// JSON in the line.
    Json(&'a str),
    /// Bytes in the line.
    Bytes(Vec<u8>),
    /// A reference to a blob, which is a file of its own.
    Blob {
        /// Its name.
        hash: BlobHash,
        /// Its length in bytes.
        len: u64,
        /// The kind of data in it.
        form: BlobForm,
    },
}

impl<'a> Payload<'a> {
    /// Parses the value of a field.
    pub fn parse(json: &'a str) -> Option<Payload<'a>> {
        let mut fields = Fields { rest: json.strip_prefix('{').unwrap_or("") };
        let Some((mark, value)) = fields.next().filter(|(name, _)| name.starts_with('$')) else {
            return Some(Payload::Json(json));
        };
        let text = parse_string(value);
        match (mark, text) {
            ("$base64", Some(text)) => parse_base64(&text).map(Payload::Bytes),
            ("$blob", Some(text)) => {
                let hash = BlobHash::parse(&text)?;
                let len = fields.next().filter(|(name, _)| *name == "len")?.1.parse().ok()?;
                let form = match fields.next() {
                    Some(("as", "\"bytes\"")) => BlobForm::Bytes,
                    _ => BlobForm::Json,
                };
                Some(Payload::Blob { hash, len, form })
            }
            _ => Some(Payload::Json(json)),
        }
    }
}

/// The kind of data in a blob.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlobForm {
    /// A JSON text.
    Json,
    /// Arbitrary bytes.
    Bytes,
}

/// A bad line, and what is wrong with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("record {record} at byte {offset}: {flaw}")]
pub struct Broken {
    /// The number the line should have.
    pub record: u64,
    /// The offset of its beginning in the file.
    pub offset: u64,
    /// What is wrong with it.
    pub flaw: Flaw,
}

/// What can be wrong with a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Flaw {
    /// The file ends before the line does.
    #[error("the line is cut off")]
    Torn,
    /// The checksum does not match.
    #[error("the checksum does not match")]
    Checksum,
    /// It does not have the form of a line.
    #[error("not a line of this format")]
    Form,
    /// A line is missing, duplicated or in the wrong place.
    #[error("its number is {0}")]
    Order(u64),
    /// The line belongs to another run.
    #[error("it belongs to another run")]
    OtherRun,
    /// The line was written by a newer version.
    #[error("it has format version {0}")]
    Newer(u64),
    /// The file ends before the last line that was committed.
    #[error("the file ends here, but more was committed")]
    Missing,
    /// The file is of an earlier generation than one that was committed.
    #[error("the file has generation {0}, but a later one was committed")]
    Earlier(u32),
}

/// Checks the lines of one run in order.
#[derive(Clone, Debug)]
pub struct Checker {
    chain: Option<Chain>,
    run: Option<Uuid>,
    offset: u64,
}

impl Checker {
    /// Starts at the first line of a file. Without a run, the first line determines whose file it
    /// is.
    pub fn new(run: Option<Uuid>) -> Checker {
        Checker { chain: None, run, offset: 0 }
    }

    /// Starts after the line that `chain` ends with, `offset` bytes into the file.
    pub fn after(chain: Chain, offset: u64) -> Checker {
        Checker { run: Some(chain.run()), chain: Some(chain), offset }
    }

    /// Returns the chain after the lines checked so far; `None` before the first.
    pub fn chain(&self) -> Option<&Chain> {
        self.chain.as_ref()
    }

    /// Returns the number of bytes of the file that have been checked.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    pub(crate) fn broken(&self, flaw: Flaw) -> Broken {
        let record = self.chain.as_ref().map_or(0, Chain::seq) + 1;
        Broken { record, offset: self.offset, flaw }
    }

    /// Checks the next line, which must include its line break.
    #[inline]
    pub fn check<'a>(&mut self, line: &'a [u8]) -> Result<LogLine<'a>, Broken> {
        let parts = Parts::split(line).map_err(|flaw| self.broken(flaw))?;
        let (expected, crc_before, first) = match &self.chain {
            Some(chain) => {
                if parts.run != chain.run_text() {
                    return Err(self.mismatch(line, chain.crc(), parts.crc, Flaw::OtherRun));
                }
                (chain.seq() + 1, chain.crc(), None)
            }
            None => {
                let (chain, flaw) = self.first_chain(&parts).map_err(|flaw| self.broken(flaw))?;
                (1, chain.crc(), Some((chain, flaw)))
            }
        };
        let crc = crc32c::crc32c_append(crc_before, parts.body);
        if crc != parts.crc {
            let shown = if parts.seq == expected { Flaw::Checksum } else { Flaw::Order(parts.seq) };
            return Err(self.broken(shown));
        }
        if parts.seq != expected {
            return Err(self.broken(Flaw::Order(parts.seq)));
        }
        if let Some((_, Some(flaw))) = first {
            return Err(self.broken(flaw));
        }
        // Only now it is known that the number is not a damaged one.
        if parts.version > LINE_VERSION {
            return Err(self.broken(Flaw::Newer(parts.version)));
        }
        if let Some((chain, _)) = first {
            self.chain = Some(chain);
        }
        let record = parts.record(self.offset).ok_or_else(|| self.broken(Flaw::Form))?;
        self.offset += line.len() as u64;
        if let Some(chain) = &mut self.chain {
            chain.went_on(parts.seq, crc);
        }
        Ok(record)
    }

    /// Returns the chain that the first line of a file must follow, according to the run and
    /// generation that it names.
    fn first_chain(&self, parts: &Parts<'_>) -> Result<(Chain, Option<Flaw>), Flaw> {
        let text = std::str::from_utf8(parts.run).map_err(|_| Flaw::Form)?;
        let run = Uuid::parse(text).ok_or(Flaw::Form)?;
        let generation = parts.generation().ok_or(Flaw::Form)?;
        let chain = Chain::beginning(run, generation);
        let foreign = self.run.is_some_and(|expected| expected != run);
        Ok((chain, foreign.then_some(Flaw::OtherRun)))
    }

    /// Returns the error for a line of another run. If the line's own checksum does not match
    /// either, a byte of its UUID was changed, and the flaw is the checksum.
    fn mismatch(&self, line: &[u8], before: u32, crc: u32, flaw: Flaw) -> Broken {
        let whole = crc32c::crc32c_append(before, &line[..line.len() - LINE_END]) == crc;
        self.broken(if whole { flaw } else { Flaw::Checksum })
    }
}

/// The parts of a line, none of which has been verified yet.
struct Parts<'a> {
    line: &'a [u8],
    version: u64,
    body: &'a [u8],
    seq: u64,
    ts: &'a [u8],
    kind: &'a [u8],
    run: &'a [u8],
    tid: u64,
    rest: &'a [u8],
    crc: u32,
}

impl<'a> Parts<'a> {
    #[inline]
    fn split(line: &'a [u8]) -> Result<Parts<'a>, Flaw> {
        let Some(rest) = line.strip_prefix(b"{\"v\":") else { return Err(Flaw::Form) };
        let (version, rest) = number(rest).ok_or(Flaw::Form)?;
        if version < 1 || line.len() <= LINE_END {
            return Err(Flaw::Form);
        }
        let (body, end) = line.split_at(line.len() - LINE_END);
        let crc = end
            .strip_prefix(b",\"crc\":\"")
            .and_then(|end| end.strip_suffix(b"\"}\n"))
            .and_then(parse_hex32)
            .ok_or(Flaw::Form)?;
        // The part of the body after the version, without the end of the line.
        let rest = &body[(line.len() - rest.len()).min(body.len())..];
        let parts = Parts::split_head(line, body, rest, crc).ok_or(Flaw::Form)?;
        Ok(Parts { version, ..parts })
    }

    #[inline]
    fn split_head(line: &'a [u8], body: &'a [u8], rest: &'a [u8], crc: u32) -> Option<Parts<'a>> {
        let (seq, rest) = number(rest.strip_prefix(b",\"seq\":")?)?;
        let rest = rest.strip_prefix(b",\"ts\":\"")?;
        let (ts, rest) = rest.split_at_checked(memchr::memchr(b'"', rest)?)?;
        let rest = rest.strip_prefix(b"\",\"type\":\"")?;
        let (kind, rest) = rest.split_at_checked(memchr::memchr(b'"', rest)?)?;
        let rest = rest.strip_prefix(b"\",\"task_id\":\"")?;
        let (run, rest) = rest.split_at_checked(36)?;
        let (tid, rest) = number(rest.strip_prefix(b"\",\"tid\":")?)?;
        Some(Parts { line, version: 0, body, seq, ts, kind, run, tid, rest, crc })
    }

    /// Returns the generation, which the first line of a file has.
    fn generation(&self) -> Option<u32> {
        let (generation, _) = number(self.rest.strip_prefix(b",\"gen\":")?)?;
        u32::try_from(generation).ok()
    }

    /// Returns whether it was written after a line with this checksum.
    fn follows(&self, crc_before: u32) -> bool {
        crc32c::crc32c_append(crc_before, self.body) == self.crc
    }

    #[inline]
    fn record(&self, offset: u64) -> Option<LogLine<'a>> {
        let json = std::str::from_utf8(&self.line[..self.line.len() - 1]).ok()?;
        // The parts were cut at ASCII characters, so they are valid text; `get` checks that instead
        // of assuming it.
        let text = |part: &[u8]| {
            let from = part.as_ptr() as usize - self.line.as_ptr() as usize;
            json.get(from..from + part.len())
        };
        Some(LogLine {
            version: self.version,
            seq: self.seq,
            ts: text(self.ts)?,
            kind: text(self.kind)?,
            tid: Tid(self.tid),
            offset,
            json,
            fields: text(self.rest)?,
        })
    }
}

/// The generation and validity of the first line of a run's file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Head {
    /// The generation of the file.
    pub(crate) generation: u32,
    /// Whether the line is what was written, by whatever version.
    pub(crate) is_good: bool,
}

impl Head {
    /// Parses the first line of a run's file; `None` if it is not a first line.
    pub(crate) fn read(line: &[u8], run: Uuid) -> Option<Head> {
        let generation = Parts::split(line).ok()?.generation()?;
        let checked = Checker::new(Some(run)).check(line);
        let is_good = match checked {
            Ok(_) => true,
            Err(broken) => matches!(broken.flaw, Flaw::Newer(_)),
        };
        Some(Head { generation, is_good })
    }

    pub(crate) fn is_newer_than(self, generation: u32) -> bool {
        self.is_good && self.generation > generation
    }
}

/// Returns whether these bytes contain complete lines, good or damaged. A line that was still being
/// written is not complete.
pub(crate) fn has_lines(bytes: &[u8]) -> bool {
    bytes.split_inclusive(|byte| *byte == b'\n').any(is_whole)
}

/// Returns whether a piece is a complete line. One changed byte can hide the beginning, the end or
/// the line break of a line, but not two of these.
fn is_whole(piece: &[u8]) -> bool {
    let ends = piece.len().checked_sub(LINE_END).is_some_and(|at| {
        let crc = piece[at..piece.len() - 1].strip_prefix(b",\"crc\":\"");
        crc.and_then(|crc| crc.strip_suffix(b"\"}")).and_then(parse_hex32).is_some()
    });
    let begins = || {
        let version = piece.strip_prefix(b"{\"v\":").and_then(number);
        version.is_some_and(|(_, rest)| rest.starts_with(b",\"seq\":"))
    };
    ends || (piece.ends_with(b"\n") && begins())
}

/// Finds the first line in `bytes` that was written after the line before it but differs from the
/// line at that offset in `known`. Bytes beyond the end of `known` are ignored.
pub(crate) fn foreign_line(bytes: &[u8], crc_before: u32, known: &[u8]) -> Option<usize> {
    let (mut before, mut at) = (Some(crc_before), 0);
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        let expected = known.get(at..).filter(|rest| !rest.is_empty())?;
        let parts = Parts::split(line).ok();
        let is_linked = parts.as_ref().zip(before).is_some_and(|(parts, crc)| parts.follows(crc));
        if is_linked && !expected.starts_with(line) {
            return Some(at);
        }
        before = parts.map(|parts| parts.crc);
        at += line.len();
    }
    None
}

/// Parses a decimal number without leading zeros, and returns the rest.
#[inline]
fn number(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let mut value = 0_u64;
    let mut at = 0;
    while let Some(digit) = bytes.get(at).filter(|byte| byte.is_ascii_digit()) {
        value = value.checked_mul(10)?.checked_add(u64::from(digit - b'0'))?;
        at += 1;
    }
    let leading = at > 1 && bytes[0] == b'0';
    (at > 0 && !leading).then(|| (value, &bytes[at..]))
}

/// Iterates over the records of a run in memory. It stops after an error.
///
/// ```
/// # use tiffany_log::{Batch, Chain, Reader, RecordType, Stamp};
/// # use tiffany_kernel::{Tid, Uuid};
/// # let mut batch = Batch::new();
/// # let mut chain = Chain::new(Uuid::from_random(7));
/// # let now = Stamp::from_unix_nanos(0);
/// batch.line(&mut chain, &now, RecordType::Message, Tid(1)).str("text", "hi\n").end();
/// let mut reader = Reader::new(batch.text().as_bytes(), None);
/// let record = reader.next().unwrap()?;
/// assert_eq!(record.record_type(), Some(RecordType::Message));
/// assert_eq!(record.str("text").unwrap(), "hi\n");
/// assert!(reader.next().is_none());
/// # Ok::<(), tiffany_log::Broken>(())
/// ```
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    rest: &'a [u8],
    checker: Checker,
}

impl<'a> Reader<'a> {
    /// Reads all lines of a file. Without a run, the first line determines whose file it is.
    pub fn new(bytes: &'a [u8], run: Option<Uuid>) -> Reader<'a> {
        Reader { rest: bytes, checker: Checker::new(run) }
    }

    /// Reads the lines after a known position, `offset` bytes into the file.
    pub fn after(bytes: &'a [u8], chain: Chain, offset: u64) -> Reader<'a> {
        Reader { rest: bytes, checker: Checker::after(chain, offset) }
    }

    /// Returns the checker, whose position is after the last good line.
    pub fn checker(&self) -> &Checker {
        &self.checker
    }
}

impl<'a> Iterator for Reader<'a> {
    type Item = Result<LogLine<'a>, Broken>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let line = match memchr::memchr(b'\n', self.rest) {
            Some(at) => {
                let (line, rest) = self.rest.split_at(at + 1);
                self.rest = rest;
                line
            }
            None => {
                self.rest = &[];
                return Some(Err(self.checker.broken(Flaw::Torn)));
            }
        };
        let record = self.checker.check(line);
        if record.is_err() {
            self.rest = &[];
        }
        Some(record)
    }
}
