//! What steps promise: how often they are done, under which key, when they are tried again, how long they may take,
//! and who goes first.

mod checkpoints;
mod elsewhere;
mod kinds;
mod outward;
mod posts;
mod queues;
mod retries;
mod sagas;
mod slots;
mod timeouts;

use crate::durable_kit::{Dir, ms};

/// What the log has of effects: `Start 1`, `Kept 1`, `Failed 1`, `Result`, in order.
fn effects(log: &str) -> Vec<String> {
    let field = |line: &str, name: &str| -> Option<String> {
        let line: serde_json::Value = serde_json::from_str(line).expect("a line is JSON");
        line.get(name).map(ToString::to_string)
    };
    let entries = log.lines().filter_map(|line| {
        let attempt = field(line, "attempt").unwrap_or_default();
        match (field(line, "type")?.trim_matches('"'), field(line, "retry_at")) {
            ("EffectStart", _) => Some(format!("Start {attempt}")),
            ("EffectCheckpoint", _) => Some(format!("Kept {attempt}")),
            ("EffectResult", Some(_)) => Some(format!("Failed {attempt}")),
            ("EffectResult", None) => Some("Result".into()),
            _ => None,
        }
    });
    entries.collect()
}
