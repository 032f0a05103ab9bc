//! A replay that halts in the middle: where all that a script has has happened, and nothing more than the turn in which it did.

use std::collections::BTreeMap;

use tiffany_kernel::{RunId, TaskError, Tid};

use crate::durable::resume::script::Script;
use crate::runtime::Runtime;
use crate::wal::Chain;

impl Runtime {
    /// Replays a run as far as the script goes, and leaves it there. Tells what its tasks failed with on the way.
    pub(super) fn replay_to(
        &mut self,
        chain: &Chain,
        script: Script,
    ) -> Result<(RunId, BTreeMap<Tid, TaskError>), TaskError> {
        let (id, stopped) = self.try_replay(chain, script.halting())?;
        let replay = self.runs[self.places[&id]].hosting.as_mut();
        let replay = replay.and_then(|hosting| hosting.replay.as_mut());
        let failed = replay.map(|replay| std::mem::take(&mut replay.failed)).unwrap_or_default();
        match stopped {
            None => Ok((id, failed)),
            Some(divergence) => {
                self.forget_run(id);
                let language = self.settings.registry.language.as_deref();
                Err(divergence.into_plain_error(language))
            }
        }
    }
}
