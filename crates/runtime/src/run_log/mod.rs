//! The logs of durable runs, as a runtime writes and reads them: the journal of a run that is running, a dormant run that is only written to, a log
//! decoded for replay, a fork copied from its parent, a snapshot. Nothing here runs code or knows the loop.

pub(crate) mod cancel;
pub(crate) mod damage;
pub(crate) mod dormant_run;
pub(crate) mod earlier;
pub(crate) mod fork;
pub(crate) mod hold;
pub(crate) mod journal;
pub(crate) mod log;
pub(crate) mod notes;
pub(crate) mod page;
pub(crate) mod replay;
pub(crate) mod small_map;
pub(crate) mod snapshot;
pub(crate) mod terms;
pub(crate) mod unread;
