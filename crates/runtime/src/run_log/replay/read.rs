//! Reads what the log has of a run.

use crate::run_log::replay::decoded_log;
use crate::run_log::replay::decoded_log::DecodedLog;
use std::path::Path;
use tiffany_kernel::{TaskError, Tid, Uuid};
use tiffany_log::{Disk, LogError, Payload, RunReader, read_blob};
use tiffany_records::record::Record;

/// Reads a run's log, to its end or as far as it is wanted.
pub(crate) fn read_script(
    disk: &dyn Disk,
    root: &Path,
    uuid: Uuid,
    enough: impl Fn(&DecodedLog) -> bool,
) -> Result<DecodedLog, LogError> {
    let mut reader = RunReader::open(disk, root, uuid, None)?;
    let decoded = add_all(&mut reader, disk, root, enough)?;
    match reader.checker().chain() {
        Some(_) => Ok(decoded),
        // A file without a line is not a run that has done nothing.
        None => Err(reader.ends_elsewhere()),
    }
}

pub(crate) fn add_all(
    reader: &mut RunReader,
    disk: &dyn Disk,
    root: &Path,
    enough: impl Fn(&DecodedLog) -> bool,
) -> Result<DecodedLog, LogError> {
    let mut decoded = DecodedLog::default();
    while let Some(record) = reader.next() {
        let line = record?;
        decoded.blobs.add_line(&line);
        decoded.add(&line, &|payload| fetch(disk, root, payload))?;
        if enough(&decoded) {
            break;
        }
    }
    Ok(decoded)
}

/// How the root of a run ended, if it did: the log is read and checked to its end, and nothing else of it is kept.
pub(crate) fn read_outcome(
    disk: &dyn Disk,
    root: &Path,
    uuid: Uuid,
) -> Result<Option<Result<String, TaskError>>, LogError> {
    let mut reader = RunReader::open(disk, root, uuid, None)?;
    let mut ended = None;
    while let Some(line) = reader.next() {
        let line = line?;
        let record = Record::read(&line);
        if record.is_end() && line.tid == Tid(1) {
            ended = Some(decoded_log::outcome(&record, &|payload| fetch(disk, root, payload))?);
        }
    }
    Ok(ended)
}

/// Reads a payload that is in a file of its own.
pub fn fetch(disk: &dyn Disk, root: &Path, payload: &Payload<'_>) -> Result<String, LogError> {
    match payload {
        Payload::Blob { hash, .. } => {
            let bytes = read_blob(disk, root, *hash)?;
            String::from_utf8(bytes).map_err(|_| LogError::DamagedBlob(*hash))
        }
        _ => Ok("null".to_owned()),
    }
}
