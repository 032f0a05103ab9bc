//! Records which run has the current turn, in a memory-mapped page of a file. Writing to it costs
//! no system call, and the page outlives the process: if the process dies during a turn, the next
//! one finds out which run it was. Truncating the file kills the process; see
//! `docs/src/wal-format.md`.
//!
//! This file has `unsafe` code because mapped memory is accessed by address.

use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::OFlags;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use tiffany_kernel::Uuid;

pub(super) const NAME: &str = "turn";
const BYTES: usize = 4096;

/// The contents of the page, as 64-bit numbers.
#[repr(C)]
struct Words {
    has_turn: AtomicU64,
    run: [AtomicU64; 2],
    /// The run in whose turns the last processes died, its progress, and the number of these
    /// deaths.
    deadly: [AtomicU64; 2],
    generation: AtomicU64,
    progress: AtomicU64,
    deaths: AtomicU64,
}

/// The mapped page.
pub struct CurrentTurn(NonNull<Words>);

impl CurrentTurn {
    /// Maps the page of a directory that this process has locked.
    pub fn open(root: &Path) -> io::Result<CurrentTurn> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        options.custom_flags((OFlags::NOFOLLOW | OFlags::CLOEXEC).bits() as i32);
        let file = options.open(root.join(NAME))?;
        let mut page = [0; BYTES];
        match file.metadata()?.size() == BYTES as u64 {
            true => file.read_exact_at(&mut page, 0)?,
            false => file.set_len(0)?,
        }
        // The page is written even if nothing changes: a copy may have a hole here, and a full disk
        // must be noticed now, not when the memory is accessed.
        file.write_all_at(&page, 0)?;
        // SAFETY: the system chooses the address, and the file is at least as long as the mapping.
        let page = unsafe {
            mmap(null_mut(), BYTES, ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED, &file, 0)?
        };
        let page = NonNull::new(page.cast()).ok_or_else(|| io::Error::other("no address"))?;
        Ok(CurrentTurn(page))
    }

    /// Records that a turn of this run begins.
    #[inline]
    pub fn begins(&self, run: Uuid) {
        let words = self.words();
        store(&words.run, run);
        words.has_turn.store(1, Ordering::Release);
    }

    /// Records that the turn has ended.
    #[inline]
    pub fn ends(&self) {
        self.words().has_turn.store(0, Ordering::Release);
    }

    /// Returns the run in whose turn the last process died, and clears it.
    pub fn take_interrupted(&self) -> Option<Uuid> {
        let words = self.words();
        let died = words.has_turn.swap(0, Ordering::AcqRel) == 1;
        if !died {
            words.deaths.store(0, Ordering::Relaxed);
        }
        died.then(|| load(&words.run))
    }

    /// Counts the death of a process in a turn of this run, whose progress is given as
    /// `(generation, progress)`. Returns the number of consecutive deaths without any progress.
    pub fn count_death(&self, run: Uuid, (generation, progress): (u64, u64)) -> u64 {
        let words = self.words();
        let is_same = load(&words.deadly) == run
            && words.generation.load(Ordering::Relaxed) == generation
            && words.progress.load(Ordering::Relaxed) == progress;
        let before = if is_same { words.deaths.load(Ordering::Relaxed) } else { 0 };
        store(&words.deadly, run);
        words.generation.store(generation, Ordering::Relaxed);
        words.progress.store(progress, Ordering::Relaxed);
        let deaths = before.saturating_add(1);
        words.deaths.store(deaths, Ordering::Relaxed);
        deaths
    }

    fn words(&self) -> &Words {
        // SAFETY: the page is mapped until `self` is dropped, is page-aligned, and any bits are
        // valid numbers.
        unsafe { self.0.as_ref() }
    }
}

impl Drop for CurrentTurn {
    fn drop(&mut self) {
        // SAFETY: no other value has the address.
        let _ = unsafe { munmap(self.0.as_ptr().cast(), BYTES) };
    }
}

fn store(words: &[AtomicU64; 2], run: Uuid) {
    words[0].store((run.0 >> 64) as u64, Ordering::Relaxed);
    words[1].store(run.0 as u64, Ordering::Relaxed);
}

fn load(words: &[AtomicU64; 2]) -> Uuid {
    let [high, low] = words.each_ref().map(|word| u128::from(word.load(Ordering::Relaxed)));
    Uuid(high << 64 | low)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deaths_in_a_row_are_counted_until_the_run_makes_progress() {
        let dir = std::env::temp_dir().join(format!("tiffany-turn-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let (a, b) = (Uuid(7 << 100 | 1), Uuid(2));
        let dies_in = |run: Uuid, end: (u64, u64)| {
            CurrentTurn::open(&dir).unwrap().begins(run);
            let turn = CurrentTurn::open(&dir).unwrap();
            assert_eq!(turn.take_interrupted(), Some(run));
            turn.count_death(run, end)
        };
        assert_eq!([dies_in(a, (1, 5)), dies_in(a, (1, 5)), dies_in(a, (1, 6))], [1, 2, 1]);
        assert_eq!([dies_in(a, (1, 6)), dies_in(b, (1, 6)), dies_in(a, (1, 6))], [2, 1, 1]);
        assert_eq!(dies_in(a, (2, 6)), 1);
        // A process that ends between turns did not die in one.
        let turn = CurrentTurn::open(&dir).unwrap();
        turn.begins(a);
        turn.ends();
        assert_eq!(CurrentTurn::open(&dir).unwrap().take_interrupted(), None);
        assert_eq!(dies_in(a, (2, 6)), 1);
        std::fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn a_page_of_another_size_is_replaced() {
        let dir = std::env::temp_dir().join(format!("tiffany-turn-cut-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        std::fs::write(dir.join(NAME), "x").unwrap();
        assert_eq!(CurrentTurn::open(&dir).unwrap().take_interrupted(), None);
        std::fs::remove_file(dir.join(NAME)).unwrap();
        std::os::unix::fs::symlink("/dev/null", dir.join(NAME)).unwrap();
        assert!(CurrentTurn::open(&dir).is_err());
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
