//! Turns that took so long that the watchdog reported them. They are told without asking the loop, because such a turn is what keeps it.

use std::time::{Duration, SystemTime};

use crate::host::inbox::Inbox;
use crate::watchdog::Long;
use tiffany_log::Stamp;
use tiffany_records::redact::shown;
use tiffany_records::request::LongTurn;

/// A turn as clients see it.
fn shown_turn(Long { task, since, is_over, .. }: Long) -> LongTurn {
    let since = since.duration_since(SystemTime::UNIX_EPOCH).unwrap_or(Duration::ZERO);
    let nanos = u64::try_from(since.as_nanos()).unwrap_or(u64::MAX);
    LongTurn {
        run: task.uuid,
        tid: task.tid.0,
        name: task.name.map(|name| shown(&name).to_string()),
        at: task.last_call.or(task.spawned_at).map(|site| site.to_string()),
        since: Stamp::from_unix_nanos(nanos).as_str().to_owned(),
        seconds: task.running_for.as_secs_f64(),
        is_over,
    }
}

/// The last ones, the oldest first.
pub(crate) fn long_turns(inbox: &Inbox) -> Vec<LongTurn> {
    inbox.meters.long_turns.list().into_iter().map(shown_turn).collect()
}

/// The turn that occupies the loop now, as the end of a sentence.
pub(super) fn who_keeps_it(inbox: &Inbox) -> Option<String> {
    long_turns(inbox).pop().filter(|turn| !turn.is_over).map(|turn| turn.to_string())
}
