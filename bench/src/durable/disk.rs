//! Measures the disk without tiffany: appends with an fdatasync, alone or shared by many threads.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant};

/// The number of threads that share one fdatasync in a group commit.
pub(crate) const WAITERS: usize = 64;

/// The size of a file whose blocks are overwritten again and again, like the segments of a log.
const SIZE: u64 = 64 << 20;

/// A file full of zeros that is written in a circle, so that a sync has no metadata to write.
pub(crate) struct Ring {
    file: File,
    at: u64,
}

impl Ring {
    pub(crate) fn make(dir: &Path) -> io::Result<Ring> {
        let path = dir.join("raw");
        let file = OpenOptions::new().create_new(true).write(true).open(&path)?;
        // The file exists as long as it is open.
        std::fs::remove_file(path)?;
        let zeros = vec![0; 1 << 20];
        for at in (0..SIZE).step_by(zeros.len()) {
            file.write_all_at(&zeros, at)?;
        }
        file.sync_all()?;
        Ok(Ring { file, at: 0 })
    }

    pub(super) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.at + bytes.len() as u64 > SIZE {
            self.at = 0;
        }
        self.file.write_all_at(bytes, self.at)?;
        self.at += bytes.len() as u64;
        Ok(())
    }

    pub(super) fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    /// Appends data this many times, each with an fdatasync.
    pub(super) fn one_by_one(&mut self, bytes: usize, count: usize) -> io::Result<Duration> {
        let data = vec![b'x'; bytes];
        let start = Instant::now();
        for _ in 0..count {
            self.write(&data)?;
            self.sync()?;
        }
        Ok(start.elapsed())
    }

    /// Appends data from many threads, each of which waits until its bytes are safe. The last
    /// thread to arrive in each group writes and syncs for all.
    pub(crate) fn by_group(self, bytes: usize, groups: usize) -> io::Result<Duration> {
        let group =
            Mutex::new(Group { ring: self, data: Vec::new(), here: 0, safe: 0, error: None });
        let all_safe = Condvar::new();
        let start = Instant::now();
        thread::scope(|scope| {
            for _ in 0..WAITERS {
                scope.spawn(|| {
                    let data = vec![b'x'; bytes];
                    for number in 0..groups {
                        let mut group = group.lock().expect("nobody panics");
                        group.data.extend_from_slice(&data);
                        group.here += 1;
                        if group.here == WAITERS {
                            group.commit();
                            all_safe.notify_all();
                        }
                        while group.safe <= number {
                            group = all_safe.wait(group).expect("nobody panics");
                        }
                    }
                });
            }
        });
        let elapsed = start.elapsed();
        match group.into_inner().expect("nobody panics").error {
            Some(error) => Err(error),
            None => Ok(elapsed),
        }
    }
}

struct Group {
    ring: Ring,
    data: Vec<u8>,
    here: usize,
    /// The number of groups that are safe.
    safe: usize,
    error: Option<io::Error>,
}

impl Group {
    fn commit(&mut self) {
        let written = self.ring.write(&self.data).and_then(|()| self.ring.sync());
        self.error = self.error.take().or(written.err());
        self.data.clear();
        self.here = 0;
        self.safe += 1;
    }
}
