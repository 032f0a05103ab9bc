//! Checkpoints of steps, for their next attempts.

use tiffany_kernel::CallRef;

use crate::host::checkpoint::Receipt;
use crate::runtime::commit::AfterCommit;
use crate::runtime::parts::Parts;
use crate::runtime::steps::Effects;

impl Effects {
    /// Keeps a checkpoint of a step.
    pub(crate) fn keep_checkpoint(
        &mut self,
        parts: &mut Parts<'_>,
        (call, number): (CallRef, u64),
        json: &str,
        receipt: Receipt,
    ) {
        if !self.keep(call, number, json) {
            self.late_checkpoints += 1;
            return receipt.refuse_as_late();
        }
        let is_durable = parts.write(call, |lines, tid| {
            lines.effect_checkpoint(tid, call, (number, json));
        });
        match &mut parts.durable {
            Some(durable) if is_durable => {
                durable.after_commit.push(AfterCommit::Checkpoint(receipt));
            }
            _ => receipt.accept(),
        }
    }
}
