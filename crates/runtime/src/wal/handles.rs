//! Open run files, the ones used last: ten thousand runs do not need ten thousand descriptors.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use tiffany_kernel::Uuid;

use super::disk::DiskFile;

/// Files by run. The one that was not used for longest goes first.
pub(crate) struct Handles {
    capacity: usize,
    files: HashMap<Uuid, (u64, Arc<dyn DiskFile>)>,
    by_use: BTreeMap<u64, Uuid>,
    uses: u64,
}

impl Handles {
    pub(crate) fn new(capacity: usize) -> Handles {
        let (files, by_use) = (HashMap::new(), BTreeMap::new());
        Handles { capacity: capacity.max(1), files, by_use, uses: 0 }
    }

    pub(crate) fn len(&self) -> usize {
        self.files.len()
    }

    /// The file of a run, opened if it is not.
    pub(crate) fn get<E>(
        &mut self,
        run: Uuid,
        open: impl FnOnce() -> Result<Arc<dyn DiskFile>, E>,
    ) -> Result<Arc<dyn DiskFile>, E> {
        self.uses += 1;
        if let Some((used, file)) = self.files.get_mut(&run) {
            self.by_use.remove(used);
            *used = self.uses;
            self.by_use.insert(self.uses, run);
            return Ok(Arc::clone(file));
        }
        let file = open()?;
        self.put(run, Arc::clone(&file));
        Ok(file)
    }

    /// Keeps a file, in place of what the run had.
    pub(crate) fn put(&mut self, run: Uuid, file: Arc<dyn DiskFile>) {
        self.forget(run);
        if self.files.len() >= self.capacity
            && let Some((_, oldest)) = self.by_use.pop_first()
        {
            self.files.remove(&oldest);
        }
        self.uses += 1;
        self.by_use.insert(self.uses, run);
        self.files.insert(run, (self.uses, file));
    }

    pub(crate) fn forget(&mut self, run: Uuid) {
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
    use crate::wal::sim::SimDisk;
    use crate::wal::{Disk, OpenMode};

    #[test]
    fn the_file_not_used_for_longest_is_closed() {
        let disk = SimDisk::new();
        let opened = Cell::new(0);
        let mut handles = Handles::new(2);
        let mut use_run = |run: u128| {
            let before = opened.get();
            let open = || {
                opened.set(before + 1);
                disk.open(Path::new("/f"), OpenMode::Create)
            };
            handles.get(Uuid(run), open).unwrap();
            assert!(handles.len() <= 2);
            opened.get() > before
        };
        // 1 and 2 are opened; 1 is used again; 3 pushes out 2.
        let uses = [(1, true), (2, true), (1, false), (3, true), (1, false), (2, true), (3, true)];
        for (at, (run, opens)) in uses.into_iter().enumerate() {
            assert_eq!(use_run(run), opens, "use {at} of run {run}");
        }
    }
}
