//! The threat: the directory itself. Two processes on one, one that goes away, one that may not be written, more
//! runs than descriptors, a log that is opened again and again. On the real disk.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use crate::test_process;
use crate::wal_kit::{run_id, small};
use tiffany::wal::{
    Batch, Chain, LogError, LogThread, Notice, RealDisk, RecordType, Recovery, RunReader, RunState,
    Settings, Stamp, Writer,
};
use tiffany::{Tid, Uuid};

/// A directory that goes when it is dropped.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Scratch {
        let path = std::env::temp_dir().join(format!("tiffany-wal-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir(&path).unwrap();
        Scratch(path)
    }

    fn log(&self) -> PathBuf {
        self.0.join("log")
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn open(dir: &Path, settings: Settings) -> Result<(Writer, Recovery), LogError> {
    Writer::open(Arc::new(RealDisk), dir, settings)
}

fn add_line(writer: &mut Writer, chain: &mut Chain) -> Result<(), LogError> {
    let mut batch = Batch::new();
    let now = Stamp::from_unix_nanos(0);
    batch.line(chain, &now, RecordType::Message, Tid(1)).str("text", "hello").end();
    writer.commit(&mut batch, |_| {})
}

/// Not a test: the other process of the next one.
#[test]
fn holder() {
    let Ok(dir) = std::env::var("WAL_HOLD") else { return };
    let (_writer, _) = open(Path::new(&dir), small()).unwrap();
    println!("\nholding");
    std::thread::sleep(std::time::Duration::from_secs(30));
}

#[test]
fn a_second_process_is_told_who_has_the_directory() {
    let scratch = Scratch::new("lock");
    let mut other = test_process::command(module_path!(), "holder")
        .env("WAL_HOLD", scratch.log())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(other.stdout.take().unwrap()).lines();
    assert!(lines.map_while(Result::ok).any(|line| line == "holding"));
    let error = open(&scratch.log(), small()).map(|_| ()).unwrap_err();
    let pid = other.id();
    other.kill().unwrap();
    other.wait().unwrap();
    assert_eq!(error.code(), "TFY0101");
    assert!(error.to_string().contains(&format!("process {pid} on ")), "{error}");
    // A killed process holds nothing.
    open(&scratch.log(), small()).unwrap();
}

/// Not a test: a process of the next one, which forks a child that outlives it.
#[test]
fn forker() {
    let Ok(dir) = std::env::var("WAL_FORK") else { return };
    let (_writer, _) = open(Path::new(&dir), small()).unwrap();
    // SAFETY: the child only sleeps, and ends without unwinding anything.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: both may be called in a forked child.
        unsafe {
            libc::sleep(60);
            libc::_exit(0);
        }
    }
    println!("\nforked {child}");
    std::thread::sleep(std::time::Duration::from_secs(60));
}

/// Runs a test that opens the log and forks, kills its process, and returns the ids of that process and of its child.
fn killed_parent(test: &str, variable: &str, scratch: &Scratch) -> (u32, u32) {
    let mut parent = test_process::command(module_path!(), test)
        .env(variable, scratch.log())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(parent.stdout.take().unwrap()).lines().map_while(Result::ok);
    let child = lines.find_map(|line| line.strip_prefix("forked ")?.parse::<u32>().ok()).unwrap();
    parent.kill().unwrap();
    parent.wait().unwrap();
    (parent.id(), child)
}

#[test]
fn a_forked_child_does_not_keep_the_directory() {
    let scratch = Scratch::new("fork");
    let (_, child) = killed_parent("forker", "WAL_FORK", &scratch);
    let lives = Path::new("/proc").join(child.to_string()).exists();
    let opened = open(&scratch.log(), small()).map(drop);
    Command::new("kill").args(["-9", &child.to_string()]).status().unwrap();
    assert!(lives, "the child outlives its parent");
    opened.unwrap();
}

/// Not a test: a process of the next one. It forks without the handlers that give the lock up in children.
#[test]
fn raw_forker() {
    let Ok(dir) = std::env::var("WAL_RAW_FORK") else { return };
    let (_writer, _) = open(Path::new(&dir), small()).unwrap();
    // SAFETY: this is `fork` without handlers; the child only sleeps, and ends without unwinding anything.
    let child = unsafe { libc::syscall(libc::SYS_clone, libc::SIGCHLD, 0, 0, 0, 0) };
    if child == 0 {
        // SAFETY: both may be called in a forked child.
        unsafe {
            libc::sleep(60);
            libc::_exit(0);
        }
    }
    println!("\nforked {child}");
    std::thread::sleep(std::time::Duration::from_secs(60));
}

#[test]
fn a_lock_that_a_child_of_a_dead_process_keeps_is_told_with_that_child() {
    let scratch = Scratch::new("heir");
    let (parent, child) = killed_parent("raw_forker", "WAL_RAW_FORK", &scratch);
    let error = open(&scratch.log(), small()).map(drop).unwrap_err();
    Command::new("kill").args(["-9", &child.to_string()]).status().unwrap();
    assert_eq!(error.code(), "TFY0101");
    let origin = format!("which inherited it from process {parent}, which has ended");
    let text = error.to_string();
    assert!(text.contains(&format!("in use by process {child} (")), "{text}");
    assert!(text.contains(&origin), "{text}");
}

/// A process that took the lock itself is nobody's child, and one that only reads the file has no lock.
#[test]
fn a_process_that_took_the_lock_is_told_apart_from_one_that_reads_the_file() {
    let scratch = Scratch::new("taken");
    drop(open(&scratch.log(), small()).unwrap());
    let mut gone = Command::new("true").spawn().unwrap();
    gone.wait().unwrap();
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    let (pid, host) = (gone.id(), host.trim());
    let note =
        format!("{{\"pid\":{pid},\"host\":\"{host}\",\"started\":\"2026-11-18T00:00:00Z\"}}\n");
    let path = scratch.log().join("lock");
    fs::write(&path, note).unwrap();
    let file = fs::File::open(&path).unwrap();
    let mut reader = Command::new("sleep").arg("60").stdin(file).spawn().unwrap();
    let mut locker =
        Command::new("flock").arg("--no-fork").arg(&path).args(["sleep", "60"]).spawn().unwrap();
    let is_locked = || fs::File::open(&path).unwrap().try_lock().is_err();
    while !is_locked() {
        std::thread::yield_now();
    }
    let error = open(&scratch.log(), small()).map(drop).unwrap_err();
    for process in [&mut reader, &mut locker] {
        process.kill().unwrap();
        process.wait().unwrap();
    }
    let expected = format!("is in use by process {} (sleep) [TFY0101]", locker.id());
    assert!(error.to_string().contains(&expected), "{error}");
}

/// Not a test: the process that the next one kills. It says each line that is durable.
#[test]
fn scribe() {
    let Ok(dir) = std::env::var("WAL_SCRIBE") else { return };
    let (writer, _) = open(Path::new(&dir), small()).unwrap();
    let stands = |run| writer.run(run).map_or_else(|| Chain::new(run), |entry| entry.chain(run));
    let mut chains: Vec<Chain> = (0..3).map(|run| stands(run_id(run))).collect();
    let (tell, told) = std::sync::mpsc::channel();
    let log = LogThread::start(writer, move |notice| drop(tell.send(notice))).unwrap();
    let mut batch = Batch::with_blob_limit(100);
    let mut handed = std::collections::VecDeque::new();
    println!();
    for at in 0.. {
        let chain = &mut chains[at % 3];
        let line = batch.line(chain, &Stamp::from_unix_nanos(0), RecordType::Message, Tid(1));
        line.json("value", &format!("\"{}\"", "x".repeat(at % 200))).end();
        handed.push_back((log.submit(&mut batch), at % 3, chain.seq()));
        // Some lines run ahead, so that commits have company.
        while handed.len() > 4 {
            let Ok(Notice::Durable(durable)) = told.recv() else { return };
            while handed.front().is_some_and(|(ticket, ..)| *ticket <= durable) {
                let (_, run, seq) = handed.pop_front().unwrap();
                println!("{run} {seq}");
            }
        }
    }
}

#[test]
fn a_killed_process_loses_nothing_it_reported() {
    let scratch = Scratch::new("kill");
    let mut reported = [0_u64; 3];
    for round in 0..12 {
        let mut scribe = test_process::command(module_path!(), "scribe")
            .env("WAL_SCRIBE", scratch.log())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(scribe.stdout.take().unwrap()).lines().map_while(Result::ok);
        let mut left = 5 + round * 37 % 150;
        for line in lines {
            let mut words = line.split(' ').map(str::parse::<u64>);
            if let (Some(Ok(run)), Some(Ok(seq))) = (words.next(), words.next()) {
                reported[run as usize] = reported[run as usize].max(seq);
                left -= 1;
            }
            // What is still in the pipe counts too.
            if left == 0 {
                scribe.kill().unwrap();
            }
        }
        scribe.wait().unwrap();
        let (writer, recovery) = open(&scratch.log(), small()).unwrap();
        assert!(recovery.refused.is_empty() && recovery.missing_blobs.is_empty(), "{recovery:?}");
        for (run, seq) in reported.iter().enumerate() {
            let run = run_id(run as u128);
            let entry = writer.run(run).unwrap();
            assert!(entry.seq >= *seq, "round {round}: {} of {seq} lines of {run}", entry.seq);
            let mut reader = RunReader::open(&RealDisk, &scratch.log(), run, Some(entry)).unwrap();
            while let Some(record) = reader.next() {
                record.unwrap();
            }
        }
    }
}

#[test]
fn the_same_process_cannot_open_it_twice() {
    let scratch = Scratch::new("twice");
    let (writer, _) = open(&scratch.log(), small()).unwrap();
    assert_eq!(open(&scratch.log(), small()).map(|_| ()).unwrap_err().code(), "TFY0101");
    writer.close().unwrap();
    open(&scratch.log(), small()).unwrap();
}

#[test]
fn a_directory_whose_parent_is_missing_is_not_made() {
    let scratch = Scratch::new("parent");
    let error = open(&scratch.0.join("no/log"), small()).map(|_| ()).unwrap_err();
    assert_eq!(error.code(), "TFY0105", "{error}");
}

#[test]
fn a_directory_that_goes_away_stops_the_log() {
    let scratch = Scratch::new("gone");
    let (mut writer, _) = open(&scratch.log(), small()).unwrap();
    let mut chain = Chain::new(run_id(1));
    add_line(&mut writer, &mut chain).unwrap();
    fs::remove_dir_all(scratch.log()).unwrap();
    // At the latest when a segment is full.
    let errors: Vec<LogError> =
        (0..20).filter_map(|_| add_line(&mut writer, &mut chain).err()).collect();
    assert_eq!(errors.first().map(LogError::code), Some("TFY0105"), "{errors:?}");
    assert!(errors[1..].iter().all(|error| error.code() == "TFY0106"));
}

#[test]
fn more_runs_than_descriptors() {
    let scratch = Scratch::new("many");
    let settings = Settings { open_files: 8, single_syncs: 8, ..small() };
    let (mut writer, _) = open(&scratch.log(), settings.clone()).unwrap();
    let mut chains: Vec<Chain> = (0..200).map(|run| Chain::new(run_id(run))).collect();
    let descriptors = || fs::read_dir("/proc/self/fd").unwrap().count();
    let before = descriptors();
    for _ in 0..3 {
        for chain in &mut chains {
            add_line(&mut writer, chain).unwrap();
            assert!(writer.open_files() <= 8);
        }
    }
    // Other tests open files too, but not hundreds.
    assert!(descriptors() < before + 100, "{} descriptors", descriptors());
    drop(writer);
    let (writer, recovery) = open(&scratch.log(), settings).unwrap();
    assert!(recovery.refused.is_empty());
    for (run, entry) in writer.runs() {
        assert_eq!((entry.seq, entry.state), (3, RunState::Live));
        let mut reader = RunReader::open(&RealDisk, &scratch.log(), run, Some(entry)).unwrap();
        let mut count = 0;
        while let Some(record) = reader.next() {
            record.unwrap();
            count += 1;
        }
        assert_eq!(count, 3);
    }
}

#[test]
fn segments_are_used_again_and_again_and_opening_twice_changes_nothing() {
    let scratch = Scratch::new("again");
    let mut chain = Chain::new(run_id(1));
    for round in 0..6 {
        let (mut writer, _) = open(&scratch.log(), small()).unwrap();
        assert_eq!(writer.run(run_id(1)).map_or(0, |entry| entry.seq), round * 40);
        for _ in 0..40 {
            add_line(&mut writer, &mut chain).unwrap();
            writer.background().unwrap();
        }
        drop(writer);
        let (writer, first) = open(&scratch.log(), small()).unwrap();
        drop(writer);
        let (writer, second) = open(&scratch.log(), small()).unwrap();
        assert!(first.blocks > 0 && second.is_clean(), "{second:?}");
        drop(writer);
    }
    let files = fs::read_dir(scratch.log().join("commit")).unwrap().count();
    assert_eq!(files, 3, "an index and two segments");
}

/// Not a test: the process of the next one, which may have few descriptors.
#[test]
fn miser() {
    let Ok(dir) = std::env::var("WAL_MISER") else { return };
    let (mut writer, _) =
        open(Path::new(&dir), Settings { blob_limit: 100, ..Settings::default() }).unwrap();
    let mut chains: Vec<Chain> = (0..300).map(|run| Chain::new(run_id(run))).collect();
    for chain in chains.iter_mut().take(10) {
        add_line(&mut writer, chain).unwrap();
    }
    // Another thread takes all that are left, and gives them back after a while.
    let others: Vec<fs::File> = std::iter::from_fn(|| fs::File::open("/dev/null").ok()).collect();
    assert!(others.len() > 20, "{} descriptors", others.len());
    let gives_back = std::thread::spawn(move || {
        std::thread::sleep(std::time::Duration::from_millis(100));
        drop(others);
    });
    for chain in &mut chains {
        add_line(&mut writer, chain).unwrap();
        writer.background().unwrap();
    }
    gives_back.join().unwrap();
    writer.close().unwrap();
}

#[test]
fn a_process_with_few_descriptors_loses_none_to_others_for_good() {
    let scratch = Scratch::new("miser");
    // The soft limit only, and both.
    for (limit, name) in [("ulimit -Sn 64", "soft"), ("ulimit -n 64", "hard")] {
        let log = scratch.0.join(name);
        let miser = Command::new("sh")
            .args(["-c", &format!("{limit}; exec \"$0\" \"$@\"")])
            .arg(std::env::current_exe().unwrap())
            .args(test_process::arguments(module_path!(), "miser"))
            .env("WAL_MISER", &log)
            .output()
            .unwrap();
        assert!(miser.status.success(), "{}", String::from_utf8_lossy(&miser.stderr));
        let (writer, recovery) = open(&log, small()).unwrap();
        assert!(recovery.is_clean(), "{recovery:?}");
        assert_eq!(writer.runs().map(|(_, entry)| entry.seq).sum::<u64>(), 310);
    }
}

#[test]
fn run_files_alone_make_a_log() {
    let scratch = Scratch::new("adopt");
    let (mut writer, _) = open(&scratch.log(), small()).unwrap();
    let mut chain = Chain::new(run_id(1));
    add_line(&mut writer, &mut chain).unwrap();
    add_line(&mut writer, &mut chain).unwrap();
    writer.close().unwrap();
    let copy = scratch.0.join("copy");
    fs::create_dir_all(copy.join("wal")).unwrap();
    let name = format!("wal/{}.wal", run_id(1));
    fs::copy(scratch.log().join(&name), copy.join(&name)).unwrap();
    fs::write(copy.join("wal/notes.txt"), "mine").unwrap();
    let (writer, recovery) = open(&copy, small()).unwrap();
    assert_eq!(recovery.adopted, [run_id(1)]);
    assert_eq!(recovery.stray, ["notes.txt"]);
    assert_eq!(writer.run(run_id(1)).unwrap().chain(run_id(1)), chain);
    assert!(copy.join("wal/notes.txt").exists());
}

#[test]
fn lines_out_of_order_are_refused() {
    let scratch = Scratch::new("order");
    let (mut writer, _) = open(&scratch.log(), small()).unwrap();
    let mut chain = Chain::new(run_id(1));
    add_line(&mut writer, &mut chain).unwrap();
    let mut copy = chain.clone();
    add_line(&mut writer, &mut chain).unwrap();
    let error = add_line(&mut writer, &mut copy).unwrap_err();
    assert_eq!(error.code(), "TFY0114", "{error}");
}

#[test]
fn a_removed_run_does_not_come_back() {
    let scratch = Scratch::new("removed");
    let (mut writer, _) = open(&scratch.log(), small()).unwrap();
    let mut chain = Chain::new(run_id(1));
    add_line(&mut writer, &mut chain).unwrap();
    let mut batch = Batch::new();
    batch.remove(run_id(1));
    writer.commit(&mut batch, |_| {}).unwrap();
    drop(writer);
    let (mut writer, _) = open(&scratch.log(), small()).unwrap();
    assert_eq!(writer.run(run_id(1)).unwrap().state, RunState::Removed);
    let gone = RunReader::open(&RealDisk, &scratch.log(), run_id(1), None).map(|_| ());
    assert_eq!(gone.unwrap_err().code(), "TFY0113");
    assert_eq!(add_line(&mut writer, &mut Chain::new(run_id(1))).unwrap_err().code(), "TFY0114");
    let unknown: Uuid = run_id(5);
    drop(writer);
    let (mut writer, _) = open(&scratch.log(), small()).unwrap();
    batch.clear();
    batch.remove(unknown);
    assert_eq!(writer.commit(&mut batch, |_| {}).unwrap_err().code(), "TFY0113");
}

#[test]
fn a_segment_that_was_lengthened_for_a_large_block_shrinks_again() {
    let scratch = Scratch::new("large-block");
    let sizes = || {
        let files = fs::read_dir(scratch.log().join("commit")).unwrap().flatten();
        let segments = files.filter(|file| file.path().extension().is_some_and(|e| e == "seg"));
        segments.map(|file| file.metadata().unwrap().len()).collect::<Vec<u64>>()
    };
    let (mut writer, _) = open(&scratch.log(), small()).unwrap();
    let mut chain = Chain::new(run_id(1));
    let mut batch = Batch::new();
    let now = Stamp::from_unix_nanos(0);
    let line = batch.line(&mut chain, &now, RecordType::Message, Tid(1));
    line.str("text", &"x".repeat(1 << 20)).end();
    writer.commit(&mut batch, |_| {}).unwrap();
    assert!(sizes().iter().any(|size| *size > 1 << 20), "{:?}", sizes());
    for _ in 0..20 {
        add_line(&mut writer, &mut chain).unwrap();
        writer.background().unwrap();
    }
    assert!(sizes().iter().all(|size| *size == small().segment_bytes), "{:?}", sizes());
    drop(writer);
    // One that a process left behind shrinks when the log is opened.
    let (mut writer, _) = open(&scratch.log(), small()).unwrap();
    let line = batch.line(&mut chain, &now, RecordType::Message, Tid(1));
    line.str("text", &"x".repeat(1 << 20)).end();
    writer.commit(&mut batch, |_| {}).unwrap();
    drop(writer);
    assert!(sizes().iter().any(|size| *size > 1 << 20), "{:?}", sizes());
    drop(open(&scratch.log(), small()).unwrap());
    assert!(sizes().iter().all(|size| *size == small().segment_bytes), "{:?}", sizes());
}

/// A file of the log that is a symbolic link is not followed: the lock of a log is emptied when it is taken, and
/// whoever else can write the directory could have any file emptied with a link. A directory may be elsewhere, if its
/// owner or root says so.
#[test]
fn links_to_other_files_are_not_followed() {
    let scratch = Scratch::new("links");
    let (log, victim) = (scratch.log(), scratch.0.join("victim"));
    let (writer, _) = open(&log, small()).unwrap();
    writer.close().unwrap();
    let segment = fs::read_dir(log.join("commit")).unwrap().map(|entry| entry.unwrap().path());
    let segment = segment.filter(|path| !path.ends_with("index")).min().unwrap();
    for name in [log.join("lock"), log.join("commit/index"), segment.clone()] {
        fs::rename(&name, &victim).unwrap();
        let before = fs::read(&victim).unwrap();
        std::os::unix::fs::symlink(&victim, &name).unwrap();
        let refused = open(&log, small()).map(drop).unwrap_err();
        assert_eq!(refused.code(), "TFY0211", "{refused}");
        assert_eq!(fs::read(&victim).unwrap(), before, "{}", name.display());
        fs::remove_file(&name).unwrap();
        fs::rename(&victim, &name).unwrap();
    }
    fs::rename(log.join("wal"), &victim).unwrap();
    std::os::unix::fs::symlink(&victim, log.join("wal")).unwrap();
    drop(open(&log, small()).unwrap());
    if rustix::process::geteuid().is_root() {
        std::os::unix::fs::lchown(log.join("wal"), Some(4711), None).unwrap();
        assert_eq!(open(&log, small()).map(drop).unwrap_err().code(), "TFY0211");
    }
}
