//! The demo's ledger: a separate process that enters what steps did into a file, and syncs it
//! before it answers. It outlives the workers that are killed, and doesn't know their log.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use serde::{Deserialize, Serialize};

/// A step's entry, as it is sent and as it is stored in the file.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Entry {
    pub(super) key: String,
    pub(super) what: String,
    pub(super) pid: u32,
    /// Whether an entry with this key existed, so that the work was not done a second time.
    #[serde(default)]
    pub(super) repeated: bool,
}

fn socket(dir: &Path) -> PathBuf {
    dir.join("ledger.sock")
}

fn file(dir: &Path) -> PathBuf {
    dir.join("ledger.jsonl")
}

/// Sends an entry, and returns once it is durable. An entry with a known key is not entered again.
pub(super) fn enter(dir: &Path, key: &str, what: &str) -> io::Result<()> {
    let entry =
        Entry { key: key.into(), what: what.into(), pid: std::process::id(), repeated: false };
    let mut stream = UnixStream::connect(socket(dir))?;
    stream.write_all(&line(&entry)?)?;
    let mut answer = String::new();
    BufReader::new(stream).read_line(&mut answer)?;
    match answer.trim() {
        "entered" => Ok(()),
        other => Err(io::Error::other(format!("the ledger says: {other}"))),
    }
}

/// Reads everything that was entered or requested again.
pub(super) fn read(dir: &Path) -> Vec<Entry> {
    let text = std::fs::read_to_string(file(dir)).unwrap_or_default();
    // The last line may be incomplete.
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

fn line(entry: &Entry) -> io::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(entry)?;
    line.push(b'\n');
    Ok(line)
}

/// Serves until standard input closes, which is when the demo ends.
pub(super) fn serve(dir: &Path) -> io::Result<()> {
    let book = OpenOptions::new().create(true).append(true).open(file(dir))?;
    let book = Arc::new(Mutex::new(Book { file: book, keys: BTreeMap::new() }));
    let listener = UnixListener::bind(socket(dir))?;
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let book = Arc::clone(&book);
            std::thread::spawn(move || {
                // The worker may be killed at any moment.
                drop(answer(&stream, &book));
            });
        }
    });
    io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}

struct Book {
    file: File,
    keys: BTreeMap<String, String>,
}

fn answer(mut stream: &UnixStream, book: &Mutex<Book>) -> io::Result<()> {
    let mut asked = String::new();
    BufReader::new(stream).read_line(&mut asked)?;
    let mut entry: Entry = serde_json::from_str(&asked)?;
    let mut book = book.lock().unwrap_or_else(PoisonError::into_inner);
    entry.repeated = book.keys.insert(entry.key.clone(), entry.what.clone()).is_some();
    book.file.write_all(&line(&entry)?)?;
    book.file.sync_data()?;
    drop(book);
    stream.write_all(b"entered\n")
}
