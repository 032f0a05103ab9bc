//! A cache of open run files, limited to those used last, so that ten thousand runs don't need ten
//! thousand descriptors. Any thread may close all of them when descriptors are scarce.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use tiffany_kernel::Uuid;

use super::disk::DiskFile;
use crate::sync::Mutex;

/// Open files by run. When the cache is full, the file that was not used for longest is closed.
pub(crate) struct Handles {
    capacity: usize,
    open: Mutex<Open>,
}

#[derive(Default)]
struct Open {
    files: HashMap<Uuid, (u64, Arc<dyn DiskFile>)>,
    by_use: BTreeMap<u64, Uuid>,
    uses: u64,
    /// Whether files were closed to free descriptors, possibly with bytes that are not synced.
    were_closed: bool,
}

impl Handles {
    pub(crate) fn new(capacity: usize) -> Handles {
        Handles { capacity: capacity.max(1), open: Mutex::default() }
    }

    pub(crate) fn len(&self) -> usize {
        self.open.lock().files.len()
    }

    /// Returns the file of a run, and opens it if necessary.
    pub(crate) fn get<E>(
        &self,
        run: Uuid,
        open: impl FnOnce() -> Result<Arc<dyn DiskFile>, E>,
    ) -> Result<Arc<dyn DiskFile>, E> {
        if let Some(file) = self.open.lock().used(run) {
            return Ok(file);
        }
        // The lock is not held meanwhile, because `open` may call `close_all`.
        let file = open()?;
        self.put(run, Arc::clone(&file));
        Ok(file)
    }

    /// Adds a file, replacing the run's previous one.
    pub(crate) fn put(&self, run: Uuid, file: Arc<dyn DiskFile>) {
        let mut open = self.open.lock();
        open.forget(run);
        if open.files.len() >= self.capacity
            && let Some((_, oldest)) = open.by_use.pop_first()
        {
            open.files.remove(&oldest);
        }
        open.uses += 1;
        let used = open.uses;
        open.by_use.insert(used, run);
        open.files.insert(run, (used, file));
    }

    pub(crate) fn forget(&self, run: Uuid) {
        self.open.lock().forget(run);
    }

    /// Closes all files, except those that are in use at this moment. Returns `false` if there were
    /// none.
    pub(crate) fn close_all(&self) -> bool {
        let mut open = self.open.lock();
        let files = std::mem::take(&mut open.files);
        open.by_use.clear();
        open.were_closed |= !files.is_empty();
        !files.is_empty()
    }

    /// Returns whether files were closed to free descriptors since the last call.
    pub(crate) fn take_were_closed(&self) -> bool {
        std::mem::take(&mut self.open.lock().were_closed)
    }
}

impl Open {
    fn used(&mut self, run: Uuid) -> Option<Arc<dyn DiskFile>> {
        let (used, file) = self.files.get_mut(&run)?;
        self.uses += 1;
        self.by_use.remove(used);
        *used = self.uses;
        self.by_use.insert(self.uses, run);
        Some(Arc::clone(file))
    }

    fn forget(&mut self, run: Uuid) {
        if let Some((used, _)) = self.files.remove(&run) {
            self.by_use.remove(&used);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::path::Path;

    use super::*;
    use crate::disk::{Disk, OpenMode};
    use crate::sim::SimDisk;

    #[test]
    fn the_file_not_used_for_longest_is_closed() {
        let disk = SimDisk::new();
        let opened = Cell::new(0);
        let handles = Handles::new(2);
        let use_run = |run: u128| {
            let before = opened.get();
            let open = || {
                opened.set(before + 1);
                disk.open(Path::new("/f"), OpenMode::Create)
            };
            handles.get(Uuid(run), open).unwrap();
            assert!(handles.len() <= 2);
            opened.get() > before
        };
        // 1 and 2 are opened; 1 is used again; 3 displaces 2.
        let uses = [(1, true), (2, true), (1, false), (3, true), (1, false), (2, true), (3, true)];
        for (at, (run, opens)) in uses.into_iter().enumerate() {
            assert_eq!(use_run(run), opens, "use {at} of run {run}");
        }
    }
}
