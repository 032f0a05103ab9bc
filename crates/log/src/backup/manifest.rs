//! The manifest lists the contents of a backup as lines of JSON: one for the whole backup, one for
//! each run, and a last one with the checksum of all others.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};
use tiffany_kernel::Uuid;

use super::super::blob::BlobHash;
use super::super::disk::{Barrier, Disk, OpenMode, empty, read_from};
use super::super::error::{Doing, LogError};
use super::super::index::{RunEntry, RunState};
use super::error::BackupError;

const VERSION: u32 = 1;

/// The first line of a manifest.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Head {
    tiffany_backup: u32,
    log: String,
    taken: String,
    runs: usize,
}

/// The line of a run. `run`, `state` and `gen` tell how the log has it; `part` is present if not
/// all of it could be copied.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct RunLine {
    run: String,
    state: State,
    #[serde(rename = "gen")]
    generation: u32,
    #[serde(flatten)]
    end: EndLine,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    part: Option<EndLine>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    blobs: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    damaged: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum State {
    Live,
    Finished,
    Removed,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct EndLine {
    seq: u64,
    len: u64,
    crc: String,
}

#[derive(Serialize, Deserialize)]
struct Foot {
    crc: String,
}

/// A position after a line of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct End {
    pub(super) len: u64,
    pub(super) seq: u64,
    pub(super) crc: u32,
}

impl End {
    pub(super) fn of(entry: &RunEntry) -> End {
        End { len: entry.len, seq: entry.seq, crc: entry.crc }
    }

    fn line(&self) -> EndLine {
        EndLine { seq: self.seq, len: self.len, crc: format!("{:08x}", self.crc) }
    }

    fn parse(line: &EndLine) -> Option<End> {
        let crc = u32::from_str_radix(&line.crc, 16).ok()?;
        Some(End { len: line.len, seq: line.seq, crc })
    }
}

/// A run in a backup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Kept {
    /// The state of the run in its log.
    pub(super) entry: RunEntry,
    /// How much of the run the backup has: all of it, unless it is damaged.
    pub(super) end: End,
    /// The blobs that its lines reference, in order.
    pub blobs: Vec<BlobHash>,
    /// The reason why it is incomplete, if it is.
    pub(super) damaged: Option<String>,
}

/// The contents of a backup.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Manifest {
    /// The salt of the log, which identifies it.
    pub(super) salt: u32,
    /// When the backup began, as RFC 3339.
    pub(super) taken: String,
    pub(super) runs: BTreeMap<Uuid, Kept>,
}

impl Manifest {
    /// Returns all blobs in the backup, without duplicates and in order.
    pub(crate) fn blobs(&self) -> std::collections::BTreeSet<BlobHash> {
        self.runs.values().flat_map(|kept| kept.blobs.iter().copied()).collect()
    }

    /// Reads the manifest of a backup; `None` if there is none.
    pub(super) fn load(disk: &dyn Disk, root: &Path) -> Result<Option<Manifest>, BackupError> {
        let path = root.join("manifest");
        let file = match disk.open(&path, OpenMode::Read) {
            Ok(file) => file,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(LogError::io("open", &path, &error).into()),
        };
        let bytes = read_from(&*file, 0).doing("read", &path)?;
        match Manifest::parse(&bytes) {
            Ok(manifest) => Ok(Some(manifest)),
            Err(Flaw::Newer(version)) => {
                Err(LogError::Newer { path, version: u64::from(version) }.into())
            }
            Err(Flaw::Bad(line)) => {
                Err(BackupError::Damaged { path, what: format!("line {line}") })
            }
        }
    }

    /// Replaces the manifest of the backup at `root` atomically.
    pub(super) fn store(&self, disk: &dyn Disk, root: &Path) -> Result<(), LogError> {
        let (path, new) = (root.join("manifest"), root.join("manifest.new"));
        let file = disk.open(&new, OpenMode::Create).doing("make", &new)?;
        empty(&*file).doing("empty", &new)?;
        file.write_at(&self.encode(), 0).doing("write", &new)?;
        file.sync(Barrier::Manifest).doing("sync", &new)?;
        disk.rename(&new, &path).doing("rename", &new)?;
        disk.sync_dir(root, Barrier::ManifestName).doing("sync", root)
    }

    fn encode(&self) -> Vec<u8> {
        let mut text = Vec::new();
        let head = Head {
            tiffany_backup: VERSION,
            log: format!("{:08x}", self.salt),
            taken: self.taken.clone(),
            runs: self.runs.len(),
        };
        push(&mut text, &head);
        for (run, kept) in &self.runs {
            push(&mut text, &RunLine::of(*run, kept));
        }
        let crc = format!("{:08x}", crc32c::crc32c(&text));
        push(&mut text, &Foot { crc });
        text
    }

    fn parse(bytes: &[u8]) -> Result<Manifest, Flaw> {
        let text = std::str::from_utf8(bytes).map_err(|_| Flaw::Bad(1))?;
        let lines: Vec<&str> = text.split_inclusive('\n').collect();
        let head: Head = lines.first().and_then(|line| read(line)).ok_or(Flaw::Bad(1))?;
        if head.tiffany_backup > VERSION {
            return Err(Flaw::Newer(head.tiffany_backup));
        }
        let (last, before) = lines.split_last().ok_or(Flaw::Bad(1))?;
        let foot: Foot = read(last).ok_or(Flaw::Bad(lines.len()))?;
        let covered = &bytes[..bytes.len() - last.len()];
        let bad_end = Flaw::Bad(lines.len());
        if format!("{:08x}", crc32c::crc32c(covered)) != foot.crc {
            return Err(bad_end);
        }
        let salt = u32::from_str_radix(&head.log, 16).map_err(|_| Flaw::Bad(1))?;
        let mut runs = BTreeMap::new();
        for (at, line) in before.iter().enumerate().skip(1) {
            let kept = read::<RunLine>(line).and_then(|line| line.kept());
            let (run, kept) = kept.ok_or(Flaw::Bad(at + 1))?;
            runs.insert(run, kept);
        }
        match runs.len() == head.runs {
            true => Ok(Manifest { salt, taken: head.taken, runs }),
            false => Err(bad_end),
        }
    }
}

/// What is wrong with a manifest: its version is newer, or a line is bad.
enum Flaw {
    Newer(u32),
    Bad(usize),
}

impl RunLine {
    fn of(run: Uuid, kept: &Kept) -> RunLine {
        let whole = End::of(&kept.entry);
        RunLine {
            run: run.to_string(),
            state: match kept.entry.state {
                RunState::Live => State::Live,
                RunState::Finished => State::Finished,
                RunState::Removed => State::Removed,
            },
            generation: kept.entry.generation,
            end: whole.line(),
            part: (kept.end != whole).then(|| kept.end.line()),
            blobs: kept.blobs.iter().map(BlobHash::to_string).collect(),
            damaged: kept.damaged.clone(),
        }
    }

    fn kept(self) -> Option<(Uuid, Kept)> {
        let whole = End::parse(&self.end)?;
        let end = match &self.part {
            Some(part) => End::parse(part)?,
            None => whole,
        };
        let state = match self.state {
            State::Live => RunState::Live,
            State::Finished => RunState::Finished,
            State::Removed => RunState::Removed,
        };
        let End { len, seq, crc } = whole;
        let entry = RunEntry { state, generation: self.generation, len, seq, crc };
        let blobs = self.blobs.iter().map(|hash| BlobHash::parse(hash)).collect::<Option<_>>()?;
        Some((Uuid::parse(&self.run)?, Kept { entry, end, blobs, damaged: self.damaged }))
    }
}

fn push(text: &mut Vec<u8>, line: &impl Serialize) {
    serde_json::to_writer(&mut *text, line).expect("a line of a manifest is JSON");
    text.push(b'\n');
}

fn read<'a, T: Deserialize<'a>>(line: &'a str) -> Option<T> {
    serde_json::from_str(line.strip_suffix('\n')?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Manifest {
        let entry = RunEntry {
            state: RunState::Finished,
            generation: 2,
            len: 512,
            seq: 4,
            crc: 0xa8ee_2ccc,
        };
        let whole =
            Kept { entry, end: End::of(&entry), blobs: vec![BlobHash::of(b"tea")], damaged: None };
        let part = Kept {
            end: End { len: 100, seq: 1, crc: 7 },
            damaged: Some("record 2".into()),
            ..whole.clone()
        };
        let runs = [(Uuid::from_random(1), whole), (Uuid::from_random(2), part)];
        Manifest { salt: 9, taken: "2026-11-05T09:41:00Z".into(), runs: runs.into() }
    }

    #[test]
    fn a_manifest_round_trips() {
        let text = sample().encode();
        assert_eq!(Manifest::parse(&text).ok(), Some(sample()));
        let text = String::from_utf8(text).unwrap();
        assert!(text.starts_with("{\"tiffany_backup\":1,\"log\":\"00000009\","), "{text}");
    }

    #[test]
    fn every_changed_or_missing_byte_is_noticed() {
        let text = sample().encode();
        for at in 0..text.len() {
            assert!(Manifest::parse(&text[..at]).is_err(), "cut at {at}");
            let mut other = text.clone();
            other[at] ^= 1;
            assert!(Manifest::parse(&other).is_err(), "another byte at {at}");
        }
    }

    #[test]
    fn a_newer_version_is_reported_as_such() {
        let text = String::from_utf8(sample().encode()).unwrap();
        let newer = text.replacen("\"tiffany_backup\":1", "\"tiffany_backup\":2", 1);
        assert!(matches!(Manifest::parse(newer.as_bytes()), Err(Flaw::Newer(2))));
    }
}
