//! The threat: the format changes without anybody meaning it. A log of this version is kept as files; the same
//! commits must make the same bytes, today's code must open it, and a reader that shares no code with this one (in
//! Python, written from the book) must find every checksum right.
//!
//! `WAL_BLESS=1 cargo nextest run -p tiffany wal_golden` writes the files anew.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use crate::wal_kit::{Act, Play, ROOT, Step, root, run_id, small};
use tiffany::wal::sim::{SimDisk, Survivors};
use tiffany::wal::{
    Batch, Chain, LogThread, Notice, RealDisk, RecordType, Settings, Stamp, Writer,
};
use tiffany::{Tid, Uuid};

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/v1")
}

/// A killed process left a bit of everything: a run that was checkpointed and went on, one with a blob, one in its
/// second generation, one that ended, one that was removed.
fn made() -> (SimDisk, Play) {
    let disk = SimDisk::new();
    let mut play = Play::new(disk.clone(), small());
    let steps = [
        Step::Commit(vec![Act::Lines(1, 2, 10), Act::Lines(2, 1, 300)]),
        Step::Commit(vec![Act::Lines(3, 2, 4), Act::Lines(4, 1, 4), Act::Lines(5, 1, 4)]),
        Step::Commit(vec![Act::Remove(5), Act::Lines(1, 1, 4)]),
        Step::Reopen,
        Step::Commit(vec![Act::Finish(4), Act::Lines(1, 2, 250)]),
        Step::Commit(vec![Act::Generation(3), Act::Lines(3, 1, 7)]),
        Step::Commit(vec![Act::Remove(2), Act::Lines(1, 1, 4)]),
    ];
    drop(play.play(&steps).unwrap());
    disk.crash(Survivors::All);
    (disk, play)
}

fn files_below(dir: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { files.extend(files_below(&path)) } else { files.push(path) }
    }
    files.sort();
    files
}

fn read_with_python(path: &Path) -> Result<String, String> {
    let reader = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/wal_reader.py");
    let output = Command::new("python3").arg(reader).arg(path).output().expect("python3");
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).trim().to_string();
    if output.status.success() { Ok(text(output.stdout)) } else { Err(text(output.stderr)) }
}

#[test]
fn the_same_commits_make_the_same_bytes() {
    let (disk, _) = made();
    if std::env::var_os("WAL_BLESS").is_some() {
        let _ = fs::remove_dir_all(golden());
        for path in disk.paths() {
            let to = golden().join(path.strip_prefix(ROOT).unwrap());
            fs::create_dir_all(to.parent().unwrap()).unwrap();
            fs::write(to, disk.contents(&path).unwrap()).unwrap();
        }
    }
    let kept = files_below(&golden());
    let names = |paths: &[PathBuf], base: &Path| {
        let mut names: Vec<_> =
            paths.iter().map(|path| path.strip_prefix(base).unwrap().to_path_buf()).collect();
        names.sort();
        names
    };
    assert_eq!(names(&disk.paths(), root()), names(&kept, &golden()));
    for path in kept {
        let made = disk.contents(&root().join(path.strip_prefix(golden()).unwrap())).unwrap();
        assert!(fs::read(&path).unwrap() == made, "{} has changed", path.display());
    }
}

#[test]
fn a_log_of_this_version_opens() {
    let (disk, play) = made();
    for path in files_below(&golden()) {
        let bytes = fs::read(&path).unwrap();
        disk.tamper(&root().join(path.strip_prefix(golden()).unwrap()), bytes);
    }
    let (writer, recovery) = play.open().unwrap();
    assert_eq!(recovery.blocks, 3);
    play.check(&writer, &recovery).unwrap();
}

#[test]
fn another_reader_finds_every_checksum_right() {
    assert_eq!(read_with_python(&golden()).unwrap(), "5 runs, 10 lines, 2 blobs, 3 blocks");
}

#[test]
fn another_reader_finds_a_changed_byte() {
    let copy = std::env::temp_dir().join(format!("tiffany-wal-golden-{}", std::process::id()));
    fs::create_dir_all(&copy).unwrap();
    let file = golden().join(format!("wal/{}.wal", run_id(1)));
    let mut bytes = fs::read(&file).unwrap();
    let at = bytes.iter().position(|byte| *byte == b'\n').unwrap() + 60;
    bytes[at] ^= 1;
    let changed = copy.join("changed.wal");
    fs::write(&changed, bytes).unwrap();
    let told = read_with_python(&changed).unwrap_err();
    fs::remove_dir_all(copy).unwrap();
    assert!(told.starts_with("record 2 at byte "), "{told}");
}

#[test]
fn another_reader_reads_what_the_threads_wrote_to_a_real_disk() {
    let base = std::env::temp_dir().join(format!("tiffany-wal-python-{}", std::process::id()));
    let _ = fs::remove_dir_all(&base);
    fs::create_dir(&base).unwrap();
    let settings = Settings { segment_bytes: 1 << 16, ..small() };
    let (writer, _) = Writer::open(Arc::new(RealDisk), &base, settings).unwrap();
    let log = LogThread::start(writer, |notice| {
        assert!(matches!(notice, Notice::Durable(_)), "{notice:?}");
    })
    .unwrap();
    let mut chains: Vec<Chain> = (0..5).map(|run| Chain::new(Uuid::from_random(run))).collect();
    let mut batch = Batch::with_blob_limit(200);
    for at in 0..400_usize {
        let now = Stamp::from_unix_nanos(1_800_000_000_000_000_000 + at as u64);
        let line = batch.line(&mut chains[at % 5], &now, RecordType::ToolResult, Tid(at as u64));
        let text = "odd \"text\"\n\u{1F600}\u{7}".repeat(at % 3);
        line.str("text", &text).json("value", &format!("[{}]", "7,".repeat(at % 150) + "0")).end();
        log.submit(&mut batch);
    }
    log.close().unwrap();
    let told = read_with_python(&base);
    assert!(told.as_ref().is_ok_and(|told| told.starts_with("5 runs, 400 lines, ")), "{told:?}");
    // One that was not closed says in its index which block it has at least.
    let (writer, _) = Writer::open(Arc::new(RealDisk), &base, small()).unwrap();
    let log = LogThread::start(writer, |_| {}).unwrap();
    let line = batch.line(&mut chains[0], &Stamp::from_unix_nanos(0), RecordType::Message, Tid(1));
    line.end();
    log.submit(&mut batch);
    // The block goes to the index with the lines to the file, before a reader is let in.
    while fs::read(base.join("commit/index")).unwrap().iter().rev().nth(47) != Some(&2) {
        log.catch_up().unwrap();
    }
    drop(log);
    let told = read_with_python(&base);
    assert!(told.as_ref().is_ok_and(|told| told.ends_with(", 1 blocks")), "{told:?}");
    for file in fs::read_dir(base.join("commit")).unwrap() {
        let path = file.unwrap().path();
        if path.extension().is_some_and(|end| end == "seg") {
            fs::write(&path, vec![0; fs::metadata(&path).unwrap().len() as usize]).unwrap();
        }
    }
    let told = read_with_python(&base).unwrap_err();
    let refused = Writer::open(Arc::new(RealDisk), &base, small()).map(drop).unwrap_err();
    fs::remove_dir_all(&base).unwrap();
    assert!(told.starts_with("block ") && told.ends_with(" is missing"), "{told}");
    assert_eq!(refused.code(), "TFY0108", "{refused}");
}
