//! Compares the ledger with the log.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;
use tiffany::Uuid;

use super::ledger::Entry;
use tiffany_daemon::DaemonError;

/// The figures of a successful demo.
#[derive(Debug, Serialize)]
#[serde(tag = "event", rename = "proof")]
pub(super) struct Proof {
    processes: usize,
    killed: usize,
    /// The number of distinct entries.
    entries: usize,
    /// The number of steps that a kill interrupted after they were done: requested again with their
    /// key, and not done again.
    asked_again: usize,
    /// The number of steps with a result in the log.
    results: usize,
}

impl Proof {
    /// Returns an error if something was done twice, or is in the log without having been done.
    pub(super) fn new(
        run: Uuid,
        entries: &[Entry],
        log: &str,
        processes: usize,
    ) -> Result<Proof, DaemonError> {
        let mut done: BTreeMap<&str, usize> = BTreeMap::new();
        for entry in entries.iter().filter(|entry| !entry.repeated) {
            *done.entry(&entry.key).or_default() += 1;
        }
        if let Some((key, times)) = done.iter().find(|(_, times)| **times > 1) {
            return Err(DaemonError::Demo(format!("step {key} was done {times} times")));
        }
        let results = results(run, log);
        if let Some(key) = results.iter().find(|key| !done.contains_key(key.as_str())) {
            let message = format!("the log has a result of step {key}, which the ledger never saw");
            return Err(DaemonError::Demo(message));
        }
        let asked_again = entries.iter().filter(|entry| entry.repeated).count();
        let (entries, results) = (done.len(), results.len());
        Ok(Proof { processes, killed: processes - 1, entries, asked_again, results })
    }

    /// Returns the proof as lines of text.
    pub(super) fn lines(&self) -> Vec<String> {
        let Proof { processes, killed, entries, asked_again, results } = self;
        let mut lines = vec![
            format!("{processes:3} processes, {killed} of them killed with SIGKILL"),
            format!("{entries:3} steps in the ledger, none of them done twice"),
            format!("{results:3} results in the log, each of a step in the ledger"),
        ];
        if *asked_again > 0 {
            lines.push(format!(
                "{asked_again:3} asked for again after a kill, under the key that the ledger knew"
            ));
        }
        if entries > results {
            let lost = entries - results;
            lines.push(format!("{lost:3} by a task that lost its race before it had the result"));
        }
        lines
    }
}

/// Returns the keys of the steps that have a result.
fn results(run: Uuid, log: &str) -> Vec<String> {
    let records = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let results =
        records.filter(|record| record["type"] == "EffectResult" && record["error"].is_null());
    results.map(|record| format!("{run}/{}", record["of"])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const RUN: Uuid = Uuid(7);

    fn entry(of: u64, repeated: bool) -> Entry {
        Entry { key: format!("{RUN}/{of}"), what: "pay".into(), pid: 1, repeated }
    }

    fn result(of: u64) -> String {
        format!("{{\"type\":\"EffectResult\",\"of\":{of},\"value\":1}}\n")
    }

    #[test]
    fn what_does_not_agree_is_noticed() {
        let log = result(3) + &result(5);
        let once = [entry(3, false), entry(5, false), entry(5, true), entry(9, false)];
        let proof = Proof::new(RUN, &once, &log, 4).expect("all is well");
        assert_eq!((proof.entries, proof.asked_again, proof.results), (3, 1, 2));
        let twice = [entry(3, false), entry(5, false), entry(5, false)];
        assert!(Proof::new(RUN, &twice, &log, 4).is_err());
        assert!(Proof::new(RUN, &[entry(3, false)], &log, 4).is_err());
    }
}
