//! The records of runs of a daemon, copied into a directory, so that they are read as those of any log. A run in progress is
//! followed by a thread, which appends new records. The directory is removed with the mirror.

use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde::Deserialize;
use tiffany_kernel::{ErrorKind, TaskError, Uuid};

use super::connection::{Connection, Piece, Sent};
use super::rest::escaped;
use super::settings::Remote;

/// How long it is waited for more before it is looked whether anybody still follows.
const LOOK: Duration = Duration::from_millis(200);
/// The pause before a stream that was lost is opened again.
const PAUSE: Duration = Duration::from_millis(300);

pub(crate) struct Mirror {
    remote: Arc<Remote>,
    dir: PathBuf,
    followed: Mutex<BTreeSet<Uuid>>,
    is_over: Arc<AtomicBool>,
}

/// What is read of a line.
#[derive(Deserialize)]
struct Line {
    seq: Option<u64>,
}

fn failed(error: &std::io::Error) -> TaskError {
    TaskError::new(ErrorKind::Host, format!("the records could not be kept: {error}"))
}

impl Mirror {
    pub(crate) fn new(remote: &Arc<Remote>) -> Result<Mirror, TaskError> {
        let mut bits = [0; 8];
        let _ = rustix::rand::getrandom(&mut bits, rustix::rand::GetRandomFlags::empty());
        let name = format!("tiffany-url-{}-{:016x}", std::process::id(), u64::from_le_bytes(bits));
        let dir = std::env::temp_dir().join(name);
        let mut builder = std::fs::DirBuilder::new();
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.create(&dir).map_err(|error| failed(&error))?;
        std::fs::create_dir_all(dir.join("wal/blobs")).map_err(|error| failed(&error))?;
        let (remote, is_over) = (Arc::clone(remote), Arc::default());
        Ok(Mirror { remote, dir, followed: Mutex::default(), is_over })
    }

    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// Copies the run of this name, as far as it is written. The daemon finds it by any of its names.
    pub(crate) fn fetch(&self, name: &str) -> Result<Uuid, TaskError> {
        let mut connection = Connection::new(&self.remote)?;
        let told = connection.json(&Sent::get(format!("/api/v1/runs/{}", escaped(name))))?;
        let run = told["uuid"].as_str().and_then(Uuid::parse);
        let run = run.ok_or_else(|| super::settings::old_daemon("`GET /api/v1/runs/{run}`"))?;
        // What is followed is up to date.
        if !self.lock().contains(&run) {
            copy(&mut connection, &self.dir, run)?;
        }
        Ok(run)
    }

    /// Copies a long value that records name.
    pub(crate) fn blob(&self, run: Uuid, hash: &str) -> Result<Vec<u8>, TaskError> {
        let path = format!("/api/v1/runs/{run}/blobs/{}", escaped(hash));
        Connection::new(&self.remote)?.bytes(&Sent::get(path)).map(|bytes| bytes.to_vec())
    }

    /// Appends from now on what is written of a run.
    pub(crate) fn follow(&self, run: Uuid) {
        if !self.lock().insert(run) {
            return;
        }
        let (remote, dir, is_over) =
            (Arc::clone(&self.remote), self.dir.clone(), Arc::clone(&self.is_over));
        let follows = move || {
            while !is_over.load(Ordering::Relaxed) {
                // Commands ask the daemon now and then, and report its own error.
                let _ = append(&remote, &dir, run, &is_over);
                std::thread::sleep(PAUSE);
            }
        };
        drop(std::thread::Builder::new().name("tiffany-mirror".into()).spawn(follows));
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeSet<Uuid>> {
        self.followed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Mirror {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        drop(std::fs::remove_dir_all(&self.dir));
    }
}

fn file_of(dir: &Path, run: Uuid) -> PathBuf {
    dir.join(format!("wal/{run}.wal"))
}

/// Copies all of a run, and puts it in the place of what was there.
fn copy(connection: &mut Connection, dir: &Path, run: Uuid) -> Result<(), TaskError> {
    let path = format!("/api/v1/runs/{run}/records?follow=false");
    let mut bytes = connection.bytes(&Sent::get(path).accepting("application/x-ndjson"))?.to_vec();
    // The stream says on a last line why it ended, if not because that was all.
    if let Some(at) = bytes.iter().rposition(|byte| *byte == b'\n')
        && let last = bytes[..at].iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1)
        && seq_of(&bytes[last..at]).is_none()
    {
        bytes.truncate(last);
    }
    let file = file_of(dir, run);
    let new = file.with_extension("new");
    let written = std::fs::write(&new, &bytes).and_then(|()| std::fs::rename(&new, &file));
    written.map_err(|error| failed(&error))?;
    fetch_blobs(connection, dir, run, &bytes)
}

fn seq_of(line: &[u8]) -> Option<u64> {
    serde_json::from_slice::<Line>(line).ok()?.seq
}

/// Copies the long values that lines name.
fn fetch_blobs(
    connection: &mut Connection,
    dir: &Path,
    run: Uuid,
    lines: &[u8],
) -> Result<(), TaskError> {
    const NAME: &[u8] = b"\"$blob\":\"";
    for at in memchr::memmem::find_iter(lines, NAME) {
        let rest = &lines[at + NAME.len()..];
        let hash = rest.split(|byte| *byte == b'"').next().unwrap_or_default();
        let is_hash = hash.len() == 64 && hash.iter().all(u8::is_ascii_hexdigit);
        let name = String::from_utf8_lossy(hash).into_owned();
        let file = dir.join("wal/blobs").join(&name);
        if !is_hash || file.exists() {
            continue;
        }
        // A value that is not there any more is missed by who reads it.
        if let Ok(bytes) = connection.bytes(&Sent::get(format!("/api/v1/runs/{run}/blobs/{name}")))
        {
            std::fs::write(file, bytes).map_err(|error| failed(&error))?;
        }
    }
    Ok(())
}

/// Appends lines as they come, until the stream ends or the mirror is dropped.
fn append(
    remote: &Arc<Remote>,
    dir: &Path,
    run: Uuid,
    is_over: &AtomicBool,
) -> Result<(), TaskError> {
    let path = file_of(dir, run);
    let written = std::fs::read(&path).map_err(|error| failed(&error))?;
    let last = written.strip_suffix(b"\n").unwrap_or(&written).rsplit(|byte| *byte == b'\n').next();
    let mut last = last.and_then(seq_of).unwrap_or(0);
    let mut connection = Connection::new(remote)?;
    let from = format!("/api/v1/runs/{run}/records?follow=true&from={}", last + 1);
    let answer = connection.begin(&Sent::get(from).accepting("application/x-ndjson"))?;
    let (mut body, mut bytes) = (answer.into_body(), Vec::new());
    let mut file = OpenOptions::new().append(true).open(&path).map_err(|error| failed(&error))?;
    while !is_over.load(Ordering::Relaxed) {
        match connection.piece(&mut body, LOOK)? {
            Piece::Nothing => continue,
            Piece::End => return Ok(()),
            Piece::Data(data) => bytes.extend_from_slice(&data),
        }
        let Some(end) = bytes.iter().rposition(|byte| *byte == b'\n') else { continue };
        let lines: Vec<u8> = bytes.drain(..=end).collect();
        let mut other = Connection::new(remote)?;
        fetch_blobs(&mut other, dir, run, &lines)?;
        for line in lines.split_inclusive(|byte| *byte == b'\n') {
            let Some(seq) = seq_of(line) else { return Ok(()) };
            // The run began a new generation, in a file of its own.
            if seq <= last {
                copy(&mut other, dir, run)?;
                return Ok(());
            }
            last = seq;
            write(&mut file, line)?;
        }
    }
    Ok(())
}

fn write(file: &mut File, line: &[u8]) -> Result<(), TaskError> {
    file.write_all(line).map_err(|error| failed(&error))
}
