//! `doctor --verify`: checks every checksum of a directory. It reads everything and changes
//! nothing.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use tiffany_kernel::Uuid;

use super::Done;
use super::args::Doctor;
use super::error::{CliError, Ending, Shown};
use super::out::{Out, Style};
use super::place::{Place, find_all};
use super::progress::Progress;
use super::summary::count;
use tiffany_log::{BlobHash, LogError, Payload, View};

/// The progress of a check, and its findings.
#[derive(Default)]
struct Check {
    runs: u64,
    records: u64,
    blobs: u64,
    blocks: u64,
    damaged: Vec<(Option<Uuid>, Shown)>,
    notes: Vec<String>,
}

pub(super) fn verify(place: &Place, mut out: Out, options: &Doctor) -> Done {
    if options.erased {
        return super::erased::erased(place, out, &options.runs);
    }
    let sight = place.look_anyhow()?;
    let view = &sight.view;
    let mut check = Check::default();
    if let Some(trouble) = sight.trouble.clone() {
        check.damaged.push((None, trouble.into()));
    }
    let runs = find_all(view, &options.runs)?;
    let total = runs.iter().filter_map(|run| view.run(*run)).map(|entry| entry.len).sum();
    let mut progress = Progress::new(&out, "checking", total);
    // Each blob is read once, however many lines name it.
    let mut blobs: BTreeMap<BlobHash, bool> = BTreeMap::new();
    for run in &runs {
        check.run(view, *run, &mut blobs, &mut progress);
    }
    if options.runs.is_empty() {
        check.directory(view);
        check.other_blobs(place, view, &mut blobs);
    }
    check.blobs = blobs.len() as u64;
    drop(progress);
    match out.json {
        true => check.json(&mut out)?,
        false => check.print(&mut out)?,
    }
    out.flush()?;
    match check.damaged.len() {
        0 => out.end(0),
        1 => Err(CliError::Damage("1 thing is damaged".into()).into()),
        many => Err(CliError::Damage(format!("{many} things are damaged")).into()),
    }
}

impl Check {
    fn run(
        &mut self,
        view: &View,
        run: Uuid,
        blobs: &mut BTreeMap<BlobHash, bool>,
        progress: &mut Progress,
    ) {
        self.runs += 1;
        if let Err(error) = self.read(view, run, blobs, progress) {
            self.damaged.push((Some(run), error.into()));
        } else if let Some(error) = view.refused(run) {
            self.damaged.push((Some(run), error.clone().into()));
        }
    }

    fn read(
        &mut self,
        view: &View,
        run: Uuid,
        blobs: &mut BTreeMap<BlobHash, bool>,
        progress: &mut Progress,
    ) -> Result<(), LogError> {
        let mut reader = view.reader(run)?;
        let mut named = Vec::new();
        while let Some(record) = reader.next() {
            let record = record?;
            self.records += 1;
            progress.add(record.json.len() as u64 + 1);
            if !record.json.contains("{\"$blob\":") {
                continue;
            }
            let fields = record.fields().map(|(name, _)| name);
            named.extend(fields.filter_map(|name| match record.payload(name) {
                Some(Payload::Blob { hash, .. }) => Some(hash),
                _ => None,
            }));
        }
        for hash in named {
            match blobs.get(&hash) {
                Some(true) => {}
                Some(false) => return Err(LogError::MissingBlob(hash)),
                None => {
                    let found = view.blob(hash);
                    blobs.insert(hash, found.is_ok());
                    found?;
                }
            }
        }
        Ok(())
    }

    /// Adds what opening the directory would find.
    fn directory(&mut self, view: &View) {
        let recovery = view.recovery();
        self.blocks = recovery.blocks as u64;
        for hash in &recovery.missing_blobs {
            self.damaged.push((None, LogError::MissingBlob(*hash).into()));
        }
        // While a process writes, such records are about to be written.
        if view.holder().is_none() {
            self.damaged.extend(recovery.losses.iter().map(|loss| (None, loss.clone().into())));
            self.notes.extend(super::dry_run::mending(recovery));
        }
        self.notes.extend(
            recovery.stray.iter().map(|name| format!("wal/{name} is not the file of a run")),
        );
    }

    /// Checks blobs that no line names: they are left over, but must be intact in case a line names
    /// them again.
    fn other_blobs(&mut self, place: &Place, view: &View, blobs: &mut BTreeMap<BlobHash, bool>) {
        let Ok(files) = std::fs::read_dir(place.dir.join("wal/blobs")) else { return };
        let mut unnamed = 0;
        for file in files.flatten() {
            let name = file.file_name();
            let Some(hash) = name.to_str().and_then(BlobHash::parse) else { continue };
            if blobs.contains_key(&hash) {
                continue;
            }
            unnamed += 1;
            let found = view.blob(hash);
            blobs.insert(hash, found.is_ok());
            if let Err(error) = found {
                self.damaged.push((None, error.into()));
            }
        }
        if unnamed > 0 {
            self.notes.push(format!("no run that is there names {}", count(unnamed, "blob")));
        }
    }

    fn summary(&self) -> Value {
        json!({
            "ok": self.damaged.is_empty(),
            "runs": self.runs,
            "records": self.records,
            "blobs": self.blobs,
            "blocks": self.blocks,
            "damaged": self.damaged.len(),
            "notes": self.notes,
        })
    }

    fn json(&self, out: &mut Out) -> Result<(), Ending> {
        for (run, error) in &self.damaged {
            let run = run.map(|run| run.to_string());
            out.json(&json!({ "run": run, "error": error.json() }))?;
        }
        out.json(&json!({ "summary": self.summary() }))
    }

    fn print(&self, out: &mut Out) -> Result<(), Ending> {
        for (_, error) in &self.damaged {
            out.text(Style::Bad, &format!("damaged: {} [{}]", error.message, error.code))?;
            out.text(Style::Plain, &format!("  next: {}", error.next))?;
        }
        for note in &self.notes {
            out.text(Style::Busy, &format!("note: {note}"))?;
        }
        let Check { runs, records, blobs, blocks, .. } = self;
        let counts = [(*runs, "run"), (*records, "record"), (*blobs, "blob"), (*blocks, "block")];
        let looked = counts.map(|(number, what)| count(number, what)).join(", ");
        match self.damaged.is_empty() {
            true => out.text(Style::Good, &format!("ok: {looked}")),
            false => out.text(Style::Plain, &format!("checked {looked}")),
        }
    }
}
