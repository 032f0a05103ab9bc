//! The threat: who only looks at a log sees something else than its owner will, or changes something. After a crash at
//! any operation a view shows what recovery then finds, to the byte, and the disk is as it was.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::wal_kit::{Act, Play, ROOT, Step, everything, root, run_id, small};
use tiffany::Uuid;
use tiffany::wal::sim::{SimDisk, Survivors};
use tiffany::wal::{
    Barrier, Disk, DiskFile, Locking, LogError, OpenMode, Recovery, RunEntry, RunReader, RunState,
    Settings, View,
};

fn all_files(disk: &SimDisk) -> BTreeMap<PathBuf, Vec<u8>> {
    disk.paths().into_iter().map(|path| (path.clone(), disk.contents(&path).unwrap())).collect()
}

fn lines(mut reader: RunReader) -> Result<Vec<String>, LogError> {
    let mut lines = Vec::new();
    while let Some(record) = reader.next() {
        lines.push(record?.json.to_owned());
    }
    Ok(lines)
}

/// What somebody sees of a log: every run, its entry and its lines.
type Seen = BTreeMap<Uuid, (RunEntry, Result<Vec<String>, String>)>;

fn seen(
    runs: impl Iterator<Item = (Uuid, RunEntry)>,
    read: impl Fn(Uuid, RunEntry) -> Result<RunReader, LogError>,
) -> Seen {
    runs.map(|(run, entry)| {
        let lines = match entry.state {
            RunState::Removed => Ok(Vec::new()),
            _ => read(run, entry).and_then(lines).map_err(|error| error.to_string()),
        };
        (run, (entry, lines))
    })
    .collect()
}

fn told(recovery: &Recovery) -> String {
    // Which of two equal runs comes first is not the point.
    format!("{recovery:?}")
}

/// Looks, then opens, and compares.
fn look_and_open(disk: &SimDisk, play: &Play) -> Result<(), String> {
    let before = all_files(disk);
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    let viewed = View::open(Arc::clone(&shared), root());
    if all_files(disk) != before {
        return Err("looking changed the disk".into());
    }
    let opened = play.open();
    match (viewed, opened) {
        (Ok(view), Ok((writer, recovery))) => {
            let by_view = seen(view.runs(), |run, _| view.reader(run));
            let by_owner = seen(writer.runs(), |run, entry| {
                RunReader::open(&*shared, root(), run, Some(entry))
            });
            if by_view != by_owner {
                return Err(format!("seen {by_view:#?}\nthere is {by_owner:#?}"));
            }
            if told(view.recovery()) != told(&recovery) {
                return Err(format!("told {:?}\nwas {recovery:?}", view.recovery()));
            }
            Ok(())
        }
        // A log that was never there, or is damaged: both say so. A log that is about to be made has no directory yet.
        (Err(LogError::Vanished { .. }), Ok(_)) if before.is_empty() => Ok(()),
        (Err(a), Err(b)) if a.to_string() == b.to_string() => Ok(()),
        (a, b) => Err(format!("seen {:?}, there is {:?}", a.map(|_| ()), b.map(|_| ()))),
    }
}

#[test]
fn a_view_shows_what_recovery_will_find_after_a_crash_anywhere() {
    let steps = everything();
    let disk = SimDisk::new();
    drop(Play::new(disk.clone(), small()).play(&steps).unwrap());
    let operations = disk.operations().len();
    let mut looked = 0;
    for at in 0..operations {
        for (torn, survivors) in [
            (0, Survivors::Nothing),
            (700, Survivors::All),
            (0, Survivors::Some(at as u64)),
            (5000, Survivors::Some(at as u64 * 7 + 1)),
        ] {
            let disk = SimDisk::new();
            disk.crash_at(at, torn);
            let mut play = Play::new(disk.clone(), small());
            drop(play.play(&steps));
            disk.crash(survivors);
            looked += 1;
            look_and_open(&disk, &play)
                .unwrap_or_else(|error| panic!("operation {at}, {torn}, {survivors:?}: {error}"));
        }
    }
    assert!(looked > 300, "{looked}");
}

#[test]
fn damage_is_seen_as_it_will_be_found() {
    let steps = [
        Step::Commit(vec![Act::Lines(1, 3, 40), Act::Lines(2, 2, 300)]),
        Step::Reopen,
        Step::Commit(vec![Act::Lines(1, 2, 10), Act::Lines(3, 2, 10)]),
        Step::Commit(vec![Act::Lines(2, 1, 10), Act::Finish(3)]),
    ];
    let disk = SimDisk::new();
    let mut play = Play::new(disk.clone(), small());
    drop(play.play(&steps).unwrap());
    disk.crash(Survivors::All);
    let whole = all_files(&disk);
    let mut refused = 0;
    for (path, bytes) in &whole {
        for at in (0..bytes.len().min(9000)).step_by(97) {
            let copy = SimDisk::new();
            let mut play = Play::new(copy.clone(), small());
            drop(play.play(&steps).unwrap());
            copy.crash(Survivors::All);
            let mut changed = bytes.clone();
            changed[at] ^= 0x10;
            copy.tamper(path, changed);
            refused += usize::from(View::open(Arc::new(copy.clone()), root()).is_err());
            look_and_open(&copy, &play)
                .unwrap_or_else(|error| panic!("byte {at} of {}: {error}", path.display()));
        }
    }
    assert!(refused > 0, "no byte mattered");
}

#[test]
fn the_files_alone_can_be_read_when_the_index_cannot() {
    let disk = SimDisk::new();
    let mut play = Play::new(disk.clone(), small());
    drop(play.play(&[Step::Commit(vec![Act::Lines(1, 3, 40), Act::Lines(2, 1, 4)])]).unwrap());
    let index = std::path::Path::new(ROOT).join("commit/index");
    disk.tamper(&index, b"nonsense".to_vec());
    assert!(matches!(
        View::open(Arc::new(disk.clone()), root()),
        Err(LogError::DamagedIndex { .. })
    ));
    let before = all_files(&disk);
    let view = View::of_files(Arc::new(disk.clone()), root()).unwrap();
    assert_eq!(view.runs().count(), 2);
    assert_eq!(lines(view.reader(run_id(1)).unwrap()).unwrap().len(), 3);
    assert!(all_files(&disk) == before);
}

#[test]
fn a_blob_that_is_only_in_the_commit_log_is_found() {
    let settings = Settings { blob_limit: 100, ..small() };
    let disk = SimDisk::new();
    let mut play = Play::new(disk.clone(), settings);
    drop(play.play(&[Step::Commit(vec![Act::Lines(1, 1, 300)])]).unwrap());
    disk.crash(Survivors::Nothing);
    let view = View::open(Arc::new(disk.clone()), root()).unwrap();
    let mut reader = view.reader(run_id(1)).unwrap();
    let mut blobs = 0;
    while let Some(record) = reader.next() {
        let record = record.unwrap();
        for (name, _) in record.fields() {
            if let Some(tiffany::wal::Payload::Blob { hash, len, .. }) = record.payload(name) {
                assert_eq!(view.blob(hash).unwrap().len() as u64, len);
                blobs += 1;
            }
        }
    }
    assert!(blobs > 0, "the payload is no blob");
}

/// A disk that counts what is opened and listed.
struct Counting {
    disk: SimDisk,
    opened: AtomicUsize,
    listed: AtomicUsize,
}

impl Disk for Counting {
    fn create_dir(&self, path: &Path) -> io::Result<()> {
        self.disk.create_dir(path)
    }

    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn DiskFile>> {
        self.opened.fetch_add(1, Ordering::Relaxed);
        self.disk.open(path, mode)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.disk.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.disk.remove(path)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<(String, u64)>> {
        let files = self.disk.list(dir)?;
        self.listed.fetch_add(files.len(), Ordering::Relaxed);
        Ok(files)
    }

    fn others(&self, dir: &Path) -> io::Result<Vec<String>> {
        self.disk.others(dir)
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        self.disk.remove_dir(path)
    }

    fn resolve(&self, path: &Path) -> io::Result<PathBuf> {
        self.disk.resolve(path)
    }

    fn sync_dir(&self, dir: &Path, barrier: Barrier) -> io::Result<()> {
        self.disk.sync_dir(dir, barrier)
    }

    fn random(&self) -> io::Result<u32> {
        self.disk.random()
    }

    fn lock(&self, path: &Path, owner: &str) -> io::Result<Locking> {
        self.disk.lock(path, owner)
    }
}

/// How many files are opened, and how many are listed, to see one run of this many.
fn effort(runs: u128) -> (usize, usize) {
    let mut play = Play::new(SimDisk::new(), small());
    let acts = (0..runs).flat_map(|run| [Act::Lines(run, 1, 4), Act::Finish(run)]).collect();
    play.play(&[Step::Commit(acts)]).unwrap().close().unwrap();
    let (opened, listed) = Default::default();
    let disk = Arc::new(Counting { disk: play.disk.clone(), opened, listed });
    let chosen = run_id(runs / 2);
    let view = View::open_chosen(disk.clone(), root(), &|known| {
        assert_eq!(known.count() as u128, runs);
        vec![chosen]
    })
    .unwrap();
    assert_eq!(lines(view.reader(chosen).unwrap()).unwrap().len(), 2);
    (disk.opened.load(Ordering::Relaxed), disk.listed.load(Ordering::Relaxed))
}

#[test]
fn looking_at_one_run_takes_the_same_however_many_there_are() {
    assert_eq!(effort(3), effort(300));
}

#[test]
fn a_chosen_run_is_seen_as_among_all() {
    let mut play = Play::new(SimDisk::new(), small());
    let writer = play.play(&everything()).unwrap();
    drop(writer);
    let disk: Arc<dyn Disk> = Arc::new(play.disk.clone());
    let all = View::open(Arc::clone(&disk), root()).unwrap();
    for (run, entry) in all.runs() {
        let one = View::open_chosen(Arc::clone(&disk), root(), &|_| vec![run]).unwrap();
        assert_eq!(one.run(run), Some(entry));
        if entry.state != RunState::Removed {
            let [a, b] = [&all, &one].map(|view| lines(view.reader(run).unwrap()).unwrap());
            assert_eq!(a, b, "{run}");
        }
    }
}
