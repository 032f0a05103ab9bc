//! Predicts what would happen to a waiting call if its run continued now. It uses the records
//! alone, without the code.

use tiffany_log::{Stamp, to_the_second};
use tiffany_records::wait_reason::{About, Waiting};

/// Returns the current time in the format of records.
pub(super) fn now() -> String {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let nanos = since.map_or(0, |since| u64::try_from(since.as_nanos()).unwrap_or(u64::MAX));
    Stamp::from_unix_nanos(nanos).as_str().to_owned()
}

/// Describes what would happen to a waiting call, and returns whether it would happen at once.
pub(super) fn would_happen(waiting: &Waiting, tid: u64, now: &str) -> (String, bool) {
    let perhaps = if waiting.maybe_over { ", unless it was taken back" } else { "" };
    let (what, at_once) = match (&waiting.step, &waiting.about) {
        (Some(step), _) => {
            let name = waiting.name.as_deref().unwrap_or("?");
            if step.is_refused {
                let refused = "is refused: the fork waits until `fork FORK --allow` permits it";
                return (format!("task {tid}: step `{name}` {refused}{perhaps}"), false);
            }
            match (&step.retry_at, step.would_be_in_doubt(), step.attempt) {
                (_, true, _) => {
                    (format!("step `{name}` would be in doubt: it began and has no result"), true)
                }
                (Some(at), ..) if at.as_str() > now => {
                    let at = to_the_second(at);
                    (format!("step `{name}` would be tried again at {at}"), false)
                }
                (_, _, 0) => (format!("step `{name}` would begin"), true),
                (.., attempt) => {
                    (format!("step `{name}` would be done again, attempt {}", attempt + 1), true)
                }
            }
        }
        (None, About::Until(time)) if time.as_str() <= now => {
            (format!("{} ended at {}", waiting.call, to_the_second(time)), true)
        }
        _ => (waiting.what(), false),
    };
    (format!("task {tid}: {what}{perhaps}"), at_once)
}
