//! `doctor --verify --erased`: searches every byte of the directory for remains of removed or
//! compacted runs.

use std::collections::BTreeSet;
use std::fs::OpenOptions;
use std::io::Read;
use std::path::{Path, PathBuf};

use memchr::memmem::Finder;
use serde_json::json;
use tiffany_kernel::Uuid;

use super::Done;
use super::error::{CliError, Ending};
use super::out::{Out, Style};
use super::place::{Place, find};
use super::summary::count;
use tiffany::units::size;
use tiffany_log::{BlobHash, LogError, RunState, SymbolicLink, View, blob_names, open_regular};

/// The number of bytes of a file that are read at once.
const PIECE: usize = 1 << 20;
/// The overlap of two reads: no blob hash and no mark of a run is longer.
const OVERLAP: usize = 128;

/// A run to search for, and the marks of its lines.
struct Wanted {
    run: Uuid,
    mark: Finder<'static>,
    /// The file that the run may still have.
    own: Option<PathBuf>,
}

/// The progress of a search, and its findings.
#[derive(Default)]
struct Search {
    files: u64,
    bytes: u64,
    /// The files with remains, and the runs that these belong to.
    left: BTreeSet<(PathBuf, Uuid)>,
    /// Blobs that some run names, and all blobs in the directory.
    named: BTreeSet<BlobHash>,
    blobs: BTreeSet<BlobHash>,
}

pub(super) fn erased(place: &Place, mut out: Out, names: &[String]) -> Done {
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let view = place.look_for(&names)?;
    let wanted = names.iter().map(|name| wanted(place, &view, name));
    let wanted = wanted.collect::<Result<Vec<Wanted>, Ending>>()?;
    let mut search = Search::default();
    search.dir(&place.dir, &wanted)?;
    let unerased = wanted.iter().filter(|wanted| view.is_unerased(wanted.run));
    let unerased: BTreeSet<Uuid> = unerased.map(|wanted| wanted.run).collect();
    let unnamed = search.blobs.difference(&search.named).count() as u64;
    for (path, run) in &search.left {
        let path = path.strip_prefix(&place.dir).unwrap_or(path).display().to_string();
        match out.json {
            true => out.json(&json!({ "run": run.to_string(), "left_in": path }))?,
            false => out.text(Style::Bad, &format!("{path} still has data of run {run}"))?,
        }
    }
    if unnamed > 0 && !out.json {
        let line =
            format!("no run names {}, which may belong to a removed run", count(unnamed, "blob"));
        out.text(Style::Bad, &line)?;
    }
    let is_erased = search.left.is_empty() && unerased.is_empty() && unnamed == 0;
    let (files, bytes) = (search.files, search.bytes);
    if out.json {
        out.json(&json!({ "summary": {
            "erased": is_erased, "files": files, "bytes": bytes, "unnamed_blobs": unnamed,
            "pending": unerased.iter().map(Uuid::to_string).collect::<Vec<_>>(),
        } }))?;
    }
    out.flush()?;
    if !is_erased {
        let runs = count(wanted.len() as u64, "run");
        return Err(CliError::NotErased(format!("data of {runs} may remain")).into());
    }
    if !out.json {
        let runs = count(wanted.len() as u64, "run");
        let searched = format!("{}, {}", count(files, "file"), size(bytes));
        out.text(Style::Good, &format!("erased: nothing is left of {runs} in {searched}"))?;
    }
    out.end(0)
}

/// Returns the search for a run that should be gone, except for what compacting keeps.
fn wanted(place: &Place, view: &View, name: &str) -> Result<Wanted, Ending> {
    let run = find(view, name)?;
    let own = place.dir.join(format!("wal/{run}.wal"));
    let mark = Finder::new(&format!("\"task_id\":\"{run}\"")).into_owned();
    match view.run(run) {
        Some(entry) if entry.state == RunState::Removed => Ok(Wanted { run, mark, own: None }),
        Some(entry) if entry.state == RunState::Finished && entry.generation > 1 => {
            Ok(Wanted { run, mark, own: Some(own) })
        }
        _ => Err(CliError::Usage(format!("run `{name}` was neither removed nor compacted")).into()),
    }
}

impl Search {
    fn dir(&mut self, dir: &Path, wanted: &[Wanted]) -> Result<(), Ending> {
        let failed = |error: &std::io::Error| LogError::io("read", dir, error);
        for entry in std::fs::read_dir(dir).map_err(|error| failed(&error))? {
            let entry = entry.map_err(|error| failed(&error))?;
            let path = entry.path();
            let kind = entry.file_type().map_err(|error| failed(&error))?;
            if kind.is_dir() {
                self.dir(&path, wanted)?;
            } else if kind.is_file() {
                self.file(&path, wanted)?;
            }
        }
        Ok(())
    }

    fn file(&mut self, path: &Path, wanted: &[Wanted]) -> Result<(), Ending> {
        let read = OpenOptions::new().read(true).clone();
        let mut file = match open_regular(&read, path, SymbolicLink::Refused) {
            // The process that owns the directory removed it in the meantime.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
            opened => opened.map_err(|error| LogError::io("open", path, &error))?,
        };
        self.files += 1;
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        self.blobs.extend(BlobHash::parse(name));
        for one in wanted.iter().filter(|one| one.own.as_deref() != Some(path)) {
            if name.contains(&one.run.to_string()) {
                self.left.insert((path.to_path_buf(), one.run));
            }
        }
        let mut piece = vec![0; OVERLAP + PIECE];
        let mut kept = 0;
        loop {
            let read = file.read(&mut piece[kept..]);
            let read = read.map_err(|error| LogError::io("read", path, &error))?;
            if read == 0 {
                return Ok(());
            }
            self.bytes += read as u64;
            self.piece(path, &piece[..kept + read], wanted);
            let from = (kept + read).saturating_sub(OVERLAP);
            piece.copy_within(from..kept + read, 0);
            kept = kept + read - from;
        }
    }

    fn piece(&mut self, path: &Path, piece: &[u8], wanted: &[Wanted]) {
        for one in wanted.iter().filter(|one| one.own.as_deref() != Some(path)) {
            if one.mark.find(piece).is_some() {
                self.left.insert((path.to_path_buf(), one.run));
            }
        }
        if path.extension().is_some_and(|extension| extension == "wal") {
            blob_names(piece, |hash| {
                self.named.insert(hash);
            });
        }
    }
}
