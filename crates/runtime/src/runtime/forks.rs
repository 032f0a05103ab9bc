//! Copying a run for a fork, with the log of the process that has it open.

use std::sync::Arc;

use tiffany_kernel::{TaskError, Time, Uuid};
use tiffany_log::{BlobHash, Chain, LogError};
use tiffany_records::errors::{log_failed, no_such_run, run_removed};
use tiffany_records::key::refuse_ambiguous;
use tiffany_records::request::Fork;

use crate::host::entropy::Entropy;
use crate::run_log::fork::copy::{Copied, Source, copy};
use crate::run_log::replay::decoded_log::DecodedLog;
use crate::runtime::durable::Durable;
use crate::runtime::durable_runs::Known;

/// A fork that is written and not durable yet. It may be resumed.
pub(crate) struct Forked {
    pub(crate) id: String,
    pub(crate) chain: Chain,
    lines: String,
    blobs: Vec<(BlobHash, Arc<[u8]>)>,
}

impl Forked {
    /// Its log. Its file doesn't exist before the log is durable.
    pub(crate) fn read(&self, durable: &Durable) -> Result<DecodedLog, LogError> {
        let (disk, root) = (&*durable.disk, &*durable.root);
        Source { disk, root, run: self.chain.run() }.script_of(&self.lines, &self.blobs)
    }
}

impl Durable {
    /// An error if a run can't be forked.
    pub(crate) fn check_parent(&self, parent: Uuid) -> Result<(), TaskError> {
        match self.runs.get(&parent) {
            None => Err(no_such_run(parent)),
            Some(Known::Removed) => Err(run_removed(parent)),
            Some(Known::Paused(error, None)) => Err(error.clone()),
            Some(_) => Ok(()),
        }
    }

    /// Copies a run up to a record. The lines before were handed in.
    pub(crate) fn copy_fork(
        &mut self,
        (parent, at): (Uuid, u64),
        fork: &Fork,
        (now, entropy): (Time, &Entropy),
    ) -> Result<Forked, TaskError> {
        self.log.catch_up().map_err(log_failed)?;
        let source = Source { disk: &*self.disk, root: &self.root, run: parent };
        let empty = self.page.batch.another();
        let Copied { id, chain, mut batch } = copy(&source, at, fork, now, empty, |uuid, id| {
            let knows = |run: Uuid| self.runs.contains_key(&run);
            let is_free = !knows(uuid) && refuse_ambiguous(id, knows).is_ok();
            is_free.then(|| entropy.seed_of(uuid))
        })?;
        let (lines, blobs) = (batch.text().to_owned(), batch.blobs.clone());
        self.page.batch.append(&mut batch);
        Ok(Forked { id, chain, lines, blobs })
    }
}
