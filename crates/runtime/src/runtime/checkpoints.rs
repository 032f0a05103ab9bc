//! Keeping what the work of a step wants to find again.

use tiffany_kernel::CallRef;

use crate::host::checkpoint::Receipt;
use crate::runtime::Runtime;
use crate::runtime::commit::AfterCommit;

impl Runtime {
    /// How many checkpoints of steps came too late so far: after their attempt's timeout, or when
    /// no task waited for the step any more.
    pub fn late_checkpoints(&self) -> u64 {
        self.effects.late_checkpoints
    }

    /// The work of a step wants this to be kept.
    pub(crate) fn keep_checkpoint(
        &mut self,
        call: CallRef,
        number: u64,
        json: String,
        receipt: Receipt,
    ) {
        if !self.effects.keep(call, number, &json) {
            self.effects.late_checkpoints += 1;
            return receipt.refuse_as_late();
        }
        let is_durable = self.write_effect(call, |journal, page, (tid, clock, _)| {
            journal.effect_checkpoint(page, (tid, clock), call, (number, &json));
        });
        match &mut self.durable {
            Some(durable) if is_durable => {
                durable.after_commit.push(AfterCommit::Checkpoint(receipt))
            }
            _ => receipt.accept(),
        }
        self.hand_in();
    }
}
