//! The parts of the loop that it lends a subsystem for one call: everything that the subsystem may
//! use besides its own state. A subsystem gives no turns and completes no calls: it returns the
//! answer, and the loop passes it to the task.

use tiffany_kernel::{CallRef, Stage, Tid};

use crate::host::Host;
use crate::run_log::journal::OwnLines;
use crate::runtime::durable::Durable;
use crate::runtime::feed::Feed;
use crate::runtime::hosted_runs::HostedRuns;
use std::borrow::Cow;
use tiffany_records::activity::{Data, TaskId};

pub(crate) struct Parts<'a> {
    pub(crate) host: &'a Host,
    pub(crate) runs: &'a mut HostedRuns,
    pub(crate) durable: Option<&'a mut Durable>,
    pub(crate) feed: &'a mut Feed,
}

impl Parts<'_> {
    /// Writes to the log of the run that makes a call, in the name of its task. `false`: the run
    /// isn't durable.
    pub(crate) fn write(
        &mut self,
        call: CallRef,
        write: impl FnOnce(&mut OwnLines<'_>, Tid),
    ) -> bool {
        let now = self.host.clock.now();
        let (Some(hosted), Some(durable)) = (self.runs.of_mut(call.run), &mut self.durable) else {
            return false;
        };
        let Some(durable_state) = &mut hosted.durable_state else { return false };
        let tid = hosted.run.caller(call).unwrap_or(Tid(1));
        let mut lines = durable_state.journal.lines_now(&mut durable.page, &mut hosted.run, now);
        write(&mut lines, tid);
        true
    }

    /// Publishes an event of a run, or of one of its tasks.
    pub(crate) fn tell(
        &mut self,
        of: (TaskId, Option<Tid>),
        what: (Stage, impl Into<Cow<'static, str>>),
        data: Data,
    ) {
        self.feed.tell(self.host, of, what, data);
    }
}
