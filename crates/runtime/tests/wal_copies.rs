//! The threat: files that don't belong together. Run files without an index or a commit log, run files that are newer
//! or older than the commit log, and copies of a live directory made file by file. A run comes back as new as its file,
//! or it is refused and its file stays as it is. It is never rolled back in silence.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::wal_kit::{Act, Model, Play, Step, everything, keeping, root, run_id, run_path, small};
use tiffany::durable::{continue_as, step};
use tiffany::wal::sim::{SimDisk, Survivors};
use tiffany::wal::{
    Disk, LogError, OpenMode, Reader, RealDisk, RunReader, RunState, Settings, View, Writer,
};
use tiffany::{Runtime, TaskError, Uuid};

/// Puts a file onto a simulated disk.
fn put(disk: &SimDisk, path: &Path, bytes: &[u8]) {
    let dirs: Vec<PathBuf> = path.ancestors().skip(1).map(Path::to_path_buf).collect();
    dirs.iter().rev().for_each(|dir| disk.create_dir(dir).unwrap());
    disk.open(path, OpenMode::Create).unwrap().write_at(bytes, 0).unwrap();
}

/// A directory with nothing but this file of run 1.
fn alone(bytes: &[u8]) -> SimDisk {
    let disk = SimDisk::new();
    put(&disk, &run_path(run_id(1)), bytes);
    disk
}

/// The file of a run with four lines.
fn four_lines() -> Vec<u8> {
    let disk = SimDisk::new();
    let steps = [Step::Commit(vec![Act::Lines(1, 3, 4)]), Step::Commit(vec![Act::Lines(1, 1, 9)])];
    Play::new(disk.clone(), small()).play(&steps).unwrap().close().unwrap();
    disk.contents(&run_path(run_id(1))).unwrap()
}

fn open(disk: &SimDisk) -> (Writer, tiffany::wal::Recovery) {
    Writer::open(Arc::new(disk.clone()), root(), small()).unwrap()
}

#[test]
fn a_flipped_bit_in_a_file_that_is_alone_refuses_its_run_and_changes_nothing() {
    let (original, run) = (four_lines(), run_id(1));
    for bit in 0..original.len() * 8 {
        let mut changed = original.clone();
        changed[bit / 8] ^= 1 << (bit % 8);
        let disk = alone(&changed);
        let view = View::open(Arc::new(disk.clone()), root()).unwrap();
        assert!(view.refused(run).is_some(), "bit {bit}: the view shows a shorter run");
        let files = View::of_files(Arc::new(disk.clone()), root()).unwrap();
        assert!(files.refused(run).is_some(), "bit {bit}: the view of files shows a shorter run");
        for opening in 0..2 {
            let (writer, recovery) = open(&disk);
            let [(refused, error)] = &recovery.refused[..] else {
                panic!("bit {bit}, opening {opening}: {recovery:?}");
            };
            assert_eq!(*refused, run);
            assert!(["TFY0107", "TFY0110"].contains(&error.code()), "bit {bit}: {error}");
            writer.close().unwrap();
            let there = disk.contents(&run_path(run)).unwrap();
            assert_eq!(there, changed, "bit {bit}: the file was changed");
        }
        // Restored from a copy, the run continues.
        disk.tamper(&run_path(run), original.clone());
        let (writer, recovery) = open(&disk);
        assert!(recovery.refused.is_empty(), "bit {bit}: {recovery:?}");
        assert_eq!(writer.run(run).unwrap().seq, 4);
    }
}

#[test]
fn a_reader_of_a_refused_run_gives_its_good_records_and_then_the_error() {
    let mut changed = four_lines();
    let third =
        changed.split_inclusive(|byte| *byte == b'\n').take(2).map(<[u8]>::len).sum::<usize>();
    changed[third + 60] ^= 1;
    let disk = alone(&changed);
    let views = [
        View::open(Arc::new(disk.clone()), root()).unwrap(),
        View::of_files(Arc::new(disk), root()).unwrap(),
    ];
    for view in views {
        let mut reader = view.reader(run_id(1)).unwrap();
        assert_eq!(reader.next().unwrap().unwrap().seq, 1);
        assert_eq!(reader.next().unwrap().unwrap().seq, 2);
        assert_eq!(reader.next().unwrap().unwrap_err().code(), "TFY0107");
        assert!(reader.next().is_none());
    }
}

#[test]
fn a_torn_end_of_a_file_that_is_alone_is_cut_off() {
    let original = four_lines();
    for len in 0..original.len() {
        let disk = alone(&original[..len]);
        let whole = original[..len].iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let (writer, recovery) = open(&disk);
        assert!(recovery.refused.is_empty(), "cut at {len}: {recovery:?}");
        let there = disk.contents(&run_path(run_id(1))).unwrap();
        match writer.run(run_id(1)) {
            Some(entry) => assert_eq!((entry.len, there.len()), (whole as u64, whole)),
            // Nothing in it was ever a line.
            None => assert_eq!((whole, there.len()), (0, len)),
        }
    }
}

#[test]
fn zeros_over_the_middle_of_a_file_that_is_alone_refuse_its_run() {
    let original = four_lines();
    for from in (0..original.len() - 200).step_by(7) {
        let mut changed = original.clone();
        changed[from..from + 180].fill(0);
        let disk = alone(&changed);
        let (_writer, recovery) = open(&disk);
        assert_eq!(recovery.refused.len(), 1, "zeros from {from}: {recovery:?}");
        assert_eq!(disk.contents(&run_path(run_id(1))).unwrap(), changed);
    }
}

/// A directory with the commit log of one moment and each run file of another.
fn mixture(commit: &SimDisk, runs: impl Fn(&Path) -> SimDisk, names: &[PathBuf]) -> SimDisk {
    let disk = SimDisk::new();
    for dir in ["/log", "/log/commit", "/log/wal", "/log/wal/blobs"] {
        disk.create_dir(Path::new(dir)).unwrap();
    }
    for path in commit.paths().iter().filter(|path| path.starts_with("/log/commit")) {
        put(&disk, path, &commit.contents(path).unwrap());
    }
    for path in names {
        if let Some(bytes) = runs(path).contents(path) {
            put(&disk, path, &bytes);
        }
    }
    disk
}

/// The disk after each step of a script, and the model that belongs to it.
fn moments(steps: &[Step]) -> Vec<(SimDisk, Model)> {
    let disk = SimDisk::new();
    let mut play = Play::new(disk.clone(), small());
    let (mut writer, _) = play.open().unwrap();
    let mut moments = Vec::new();
    for step in steps {
        match step {
            Step::Commit(acts) => play.commit(&mut writer, acts).unwrap(),
            Step::Background => writer.background().unwrap(),
            Step::Collect => drop(writer.collect_blobs().unwrap()),
            Step::Reopen => {
                writer.close().unwrap();
                writer = play.open().unwrap().0;
            }
            Step::Crash(_) => {
                drop(writer);
                disk.crash(Survivors::All);
                writer = play.open().unwrap().0;
            }
        }
        moments.push((disk.copy(), play.models.last().unwrap().clone()));
    }
    moments
}

/// The generation and the number of lines of a file.
fn age(bytes: &[u8]) -> (u32, u64) {
    let mut reader = Reader::new(bytes, None);
    assert!(reader.by_ref().all(|record| record.is_ok()), "a file of the script is good");
    reader.checker().chain().map_or((0, 0), |chain| (chain.generation(), chain.seq()))
}

/// Opens a mixture twice: every run that has a file is as new as that, or refused with its file left alone.
fn is_never_rolled_back(disk: &SimDisk, what: &str) -> Option<usize> {
    let files = |disk: &SimDisk| -> BTreeMap<Uuid, Vec<u8>> {
        let runs = (1..10).map(run_id);
        runs.filter_map(|run| Some((run, disk.contents(&run_path(run))?))).collect()
    };
    let before = files(disk);
    let mut refused = 0;
    for opening in 0..2 {
        let opened = Writer::open(Arc::new(disk.clone()), root(), small());
        let (writer, recovery) = match opened {
            Ok(opened) => opened,
            Err(error) => {
                assert_eq!(error.code(), "TFY0108", "{what}: {error}");
                return None;
            }
        };
        for (run, bytes) in &before {
            let what = format!("{what}, opening {opening}, run {run}");
            let there = disk.contents(&run_path(*run));
            if recovery.refused.iter().any(|(known, _)| known == run) {
                assert_eq!(there.as_ref(), Some(bytes), "{what}: refused, and its file changed");
                refused += 1;
                continue;
            }
            let entry = writer.run(*run).unwrap_or_else(|| panic!("{what}: unknown"));
            if entry.state == RunState::Removed {
                continue;
            }
            let there = there.unwrap();
            let mut reader = RunReader::open(disk, root(), *run, Some(entry)).unwrap();
            let error = loop {
                match reader.next() {
                    Some(Ok(_)) => {}
                    Some(Err(error)) => break Some(error),
                    None => break None,
                }
            };
            match error {
                // A file that just happens to have the length in the index is refused when it is read.
                Some(LogError::DamagedRun { .. }) => {
                    assert_eq!(&there, bytes, "{what}: damaged, and its file changed");
                    refused += 1;
                }
                Some(error) => panic!("{what}: {error}"),
                None => {
                    let (old, new) = (age(bytes), age(&there));
                    assert!(new >= old, "{what}: rolled back from {old:?} to {new:?}");
                    if new == old {
                        assert_eq!(&there, bytes, "{what}: other lines");
                    }
                }
            }
        }
        writer.close().unwrap();
    }
    Some(refused)
}

#[test]
fn a_commit_log_that_is_older_or_newer_than_the_run_files_rolls_no_run_back() {
    let mut opened = 0;
    for steps in [everything(), keeping()] {
        let moments = moments(&steps);
        let names: Vec<PathBuf> = (1..10).map(|run| run_path(run_id(run))).collect();
        for (at, (commit, _)) in moments.iter().enumerate() {
            for (other, (runs, model)) in moments.iter().enumerate() {
                let disk = mixture(commit, |_| runs.clone(), &names);
                let what = format!("commit log of step {at}, run files of step {other}");
                let refused = is_never_rolled_back(&disk, &what);
                opened += usize::from(refused.is_some());
                if at == other {
                    assert_eq!(refused, Some(0), "{what}");
                }
                // Run files that are newer are kept where nothing is missing from them.
                if at < other && refused.is_some() {
                    let (writer, recovery) = open(&disk);
                    let there = model.iter().filter(|(_, known)| known.state != RunState::Removed);
                    for (run, _) in there {
                        let is_refused = recovery.refused.iter().any(|(known, _)| known == run);
                        assert!(!is_refused && writer.run(*run).is_some(), "{what}: {run}");
                    }
                }
            }
            // Each file of another moment.
            for seed in 0..6_usize {
                let pick = |path: &Path| {
                    let sum = path.to_string_lossy().bytes().map(usize::from).sum::<usize>();
                    moments[(sum * 31 + seed * 17) % moments.len()].0.clone()
                };
                let disk = mixture(commit, pick, &names);
                is_never_rolled_back(&disk, &format!("commit log of step {at}, seed {seed}"));
            }
        }
    }
    assert!(opened > 400, "{opened} mixtures could be opened");
}

#[test]
fn a_damaged_newer_file_beside_an_old_commit_log_is_left_as_it_is() {
    let steps = [
        Step::Commit(vec![Act::Lines(1, 6, 4)]),
        Step::Commit(vec![Act::Generation(1), Act::Lines(1, 3, 4)]),
    ];
    let moments = moments(&steps);
    let path = run_path(run_id(1));
    let newer = moments[1].0.contents(&path).unwrap();
    for at in 0..newer.len() {
        let mut changed = newer.clone();
        changed[at] ^= 1 << (at % 8);
        let disk = mixture(&moments[0].0, |_| moments[1].0.clone(), std::slice::from_ref(&path));
        disk.tamper(&path, changed.clone());
        let (_writer, recovery) = open(&disk);
        assert_eq!(recovery.refused.len(), 1, "byte {at}: {recovery:?}");
        assert_eq!(disk.contents(&path).unwrap(), changed, "byte {at}");
    }
}

#[test]
fn lines_that_are_not_those_of_the_commit_log_are_left_as_they_are() {
    // Two lives of one run that part after their second line.
    let moments = moments(&[Step::Commit(vec![Act::Lines(1, 2, 4)])]);
    let lives = [5, 9].map(|size| {
        let disk = moments[0].0.copy();
        disk.crash(Survivors::All);
        let (mut writer, _) = open(&disk);
        let mut play = Play::resumed(disk.clone(), small(), &moments[0].1, &writer);
        play.commit(&mut writer, &[Act::Lines(1, 2, size)]).unwrap();
        disk
    });
    let path = run_path(run_id(1));
    let disk = mixture(&lives[0], |_| lives[1].clone(), std::slice::from_ref(&path));
    let (writer, recovery) = open(&disk);
    let [(_, error)] = &recovery.refused[..] else { panic!("{recovery:?}") };
    assert_eq!(error.code(), "TFY0200", "{error}");
    assert_eq!(disk.contents(&path), lives[1].contents(&path));
    let aside = disk.contents(&path.with_extension("wal.unplaced")).unwrap();
    assert!(lives[0].contents(&path).unwrap().ends_with(&aside));
    writer.close().unwrap();
}

/// Two lives of one run: they begin its second generation alike and then differ. The first one
/// finishes.
fn parted_lives() -> [SimDisk; 2] {
    let moments = moments(&[Step::Commit(vec![Act::Lines(1, 2, 4)])]);
    let begun = vec![Act::Generation(1), Act::Lines(1, 1, 4)];
    let lives = [
        [vec![Act::Lines(1, 1, 5)], vec![Act::Finish(1)]],
        [vec![Act::Lines(1, 1, 9)], vec![Act::Lines(1, 18, 9)]],
    ];
    lives.map(|acts| {
        let disk = moments[0].0.copy();
        disk.crash(Survivors::All);
        let (mut writer, _) = open(&disk);
        let mut play = Play::resumed(disk.clone(), small(), &moments[0].1, &writer);
        play.commit(&mut writer, &begun).unwrap();
        acts.iter().for_each(|acts| play.commit(&mut writer, acts).unwrap());
        disk
    })
}

#[test]
fn a_finished_run_of_a_later_generation_does_not_overwrite_the_lines_of_another_life() {
    let [finished, other] = parted_lives();
    let path = run_path(run_id(1));
    let file = other.contents(&path).unwrap();
    assert_eq!(age(&file), (2, 21));
    let lines: Vec<usize> = file.split_inclusive(|byte| *byte == b'\n').map(<[u8]>::len).collect();
    // The whole file, with each of its lines damaged, and cut after each line that differs.
    let mut files = vec![file.clone()];
    let mut from = 0;
    for (at, line) in lines.iter().enumerate() {
        let mut damaged = file.clone();
        damaged[from + line / 2] ^= 1;
        files.push(damaged);
        from += line;
        if at >= 2 {
            files.push(file[..from].to_vec());
        }
    }
    for (at, file) in files.iter().enumerate() {
        let disk = mixture(&finished, |_| other.clone(), std::slice::from_ref(&path));
        disk.tamper(&path, file.clone());
        for opening in 0..2 {
            let what = format!("file {at}, opening {opening}");
            let view = View::open(Arc::new(disk.clone()), root()).unwrap();
            assert!(view.refused(run_id(1)).is_some(), "{what}: the view shows the run");
            let (writer, recovery) = open(&disk);
            let [(_, error)] = &recovery.refused[..] else { panic!("{what}: {recovery:?}") };
            assert!(["TFY0107", "TFY0200"].contains(&error.code()), "{what}: {error}");
            assert_eq!(disk.contents(&path).as_ref(), Some(file), "{what}: the file was changed");
            writer.close().unwrap();
        }
    }
}

#[test]
fn a_damaged_file_beside_a_stale_commit_log_that_begins_a_generation_is_left_as_it_is() {
    let steps = [
        Step::Commit(vec![Act::Lines(1, 6, 4)]),
        Step::Commit(vec![Act::Generation(1), Act::Lines(1, 3, 4)]),
        Step::Commit(vec![Act::Lines(1, 4, 4)]),
        Step::Commit(vec![Act::Generation(1), Act::Lines(1, 3, 7)]),
    ];
    let moments = moments(&steps);
    let path = run_path(run_id(1));
    let length = |bytes: &[u8]| bytes.iter().position(|byte| *byte == b'\n').unwrap() + 1;
    // The commit log has the beginning of generation 2; the file has more of it, or generation 3.
    for newer in &moments[2..] {
        let newer = newer.0.contents(&path).unwrap();
        for at in 0..length(&newer) {
            let mut changed = newer.clone();
            changed[at] ^= 1 << (at % 8);
            let disk =
                mixture(&moments[1].0, |_| moments[1].0.clone(), std::slice::from_ref(&path));
            disk.tamper(&path, changed.clone());
            for opening in 0..2 {
                let what = format!("byte {at}, opening {opening}");
                let (writer, recovery) = open(&disk);
                let [(_, error)] = &recovery.refused[..] else { panic!("{what}: {recovery:?}") };
                assert!(["TFY0107", "TFY0110"].contains(&error.code()), "{what}: {error}");
                assert_eq!(disk.contents(&path).as_ref(), Some(&changed), "{what}");
                writer.close().unwrap();
            }
        }
    }
}

/// A run that begins new generations, and some that do not.
async fn count(at: u64) -> Result<u64, TaskError> {
    for turn in 0..5 + at % 7 {
        step("turn", move || Ok::<u64, String>(turn)).await?;
    }
    continue_as(&(at + 1)).await
}

fn copy_files(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for file in fs::read_dir(from).unwrap().map(Result::unwrap) {
        // What goes while it is copied is not copied.
        if file.file_type().is_ok_and(|kind| kind.is_file()) {
            drop(fs::copy(file.path(), to.join(file.file_name())));
        }
    }
}

#[test]
fn copies_of_a_live_directory_made_file_by_file_roll_no_run_back() {
    let scratch = std::env::temp_dir().join(format!("tiffany-copies-{}", std::process::id()));
    let _ = fs::remove_dir_all(&scratch);
    let dir = scratch.join("log");
    let is_over = Arc::new(AtomicBool::new(false));
    fs::create_dir_all(&scratch).unwrap();
    let (there, over) = (dir.clone(), Arc::clone(&is_over));
    let lives = std::thread::spawn(move || {
        let settings = Settings { segment_bytes: 1 << 16, ..Settings::default() };
        let builder = Runtime::builder().log_dir(&there).log_settings(settings);
        let mut runtime = builder.register("count", count).build().unwrap();
        for run in 0..8 {
            runtime.submit::<u64>("count", &format!("run {run}"), &0_u64).unwrap();
        }
        runtime.serve_while(move |_| !over.load(Ordering::SeqCst)).unwrap();
    });
    let mut newer = 0;
    for round in 0..25 {
        let copy = scratch.join(format!("copy-{round}"));
        while fs::read_dir(dir.join("wal")).map_or(0, |files| files.count()) < 5 {
            std::thread::yield_now();
        }
        copy_files(&dir.join("commit"), &copy.join("commit"));
        std::thread::sleep(std::time::Duration::from_millis(20));
        copy_files(&dir.join("wal"), &copy.join("wal"));
        let files: Vec<(Uuid, (u32, u64))> = fs::read_dir(copy.join("wal"))
            .unwrap()
            .filter_map(|file| {
                let path = file.unwrap().path();
                let run = Uuid::parse(path.file_name()?.to_str()?.strip_suffix(".wal")?)?;
                let bytes = fs::read(&path).unwrap();
                let mut reader = Reader::new(&bytes, Some(run));
                let _ = reader.by_ref().take_while(Result::is_ok).count();
                let chain = reader.checker().chain()?;
                Some((run, (chain.generation(), chain.seq())))
            })
            .collect();
        // A commit log of several moments may be refused as a whole.
        let Ok((writer, recovery)) = Writer::open(Arc::new(RealDisk), &copy, small()) else {
            continue;
        };
        for (run, age) in files {
            if recovery.refused.iter().any(|(known, _)| *known == run) {
                continue;
            }
            let entry = writer.run(run).unwrap();
            // A file that is as long as the index says and has another end is refused when it is read.
            let reader = RunReader::open(&RealDisk, &copy, run, Some(entry));
            let is_whole = |mut reader: RunReader| {
                std::iter::from_fn(|| reader.next().map(|record| record.is_ok())).all(|good| good)
            };
            if !reader.is_ok_and(is_whole) {
                continue;
            }
            let stands = (entry.generation, entry.seq);
            assert!(stands >= age, "copy {round}: run {run} went back from {age:?} to {stands:?}");
            newer += 1;
        }
        drop(writer);
        fs::remove_dir_all(&copy).unwrap();
    }
    is_over.store(true, Ordering::SeqCst);
    lives.join().unwrap();
    assert!(newer > 0, "every copy was refused, so this shows nothing");
    fs::remove_dir_all(&scratch).unwrap();
}
