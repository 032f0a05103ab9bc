//! Rates, computed from counters at two moments.

use std::time::Instant;

use tiffany::metrics::{Reading, Snapshot};

/// The figures in the head of the screen.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Gauges {
    pub(super) live: f64,
    pub(super) paused: f64,
    pub(super) ready: f64,
    pub(super) blocked: f64,
    pub(super) effects: f64,
    pub(super) in_doubt: f64,
    pub(super) turns: Option<f64>,
    pub(super) records: Option<f64>,
    pub(super) commits: Option<f64>,
    /// The average duration of a commit, in seconds.
    pub(super) commit_seconds: Option<f64>,
    pub(super) backlog: f64,
    pub(super) log_bytes: f64,
    pub(super) disk_free: f64,
    pub(super) lost_events: f64,
    pub(super) memory: f64,
}

/// Counters, and when they were read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Counted {
    at: Instant,
    turns: f64,
    records: f64,
    commits: f64,
    commit_seconds: f64,
}

/// Returns the gauges, with rates since the last reading.
pub(super) fn read(metrics: &Snapshot, before: Option<Counted>, at: Instant) -> (Gauges, Counted) {
    let value = |name: &str, labels: &[(&str, &str)]| metrics.value(name, labels).unwrap_or(0.0);
    let now = Counted {
        at,
        turns: value("tiffany_turns_total", &[]),
        records: sum(metrics, "tiffany_commit_records"),
        commits: value("tiffany_commit_seconds", &[]),
        commit_seconds: sum(metrics, "tiffany_commit_seconds"),
    };
    let passed = before.map(|before| at.duration_since(before.at).as_secs_f64());
    let rate = |of: fn(&Counted) -> f64| {
        let (before, passed) = (before.as_ref()?, passed.filter(|passed| *passed > 0.0)?);
        // A new process starts to count at 0.
        Some((of(&now) - of(before)).max(0.0) / passed)
    };
    let commits = rate(|counted| counted.commits);
    let busy = rate(|counted| counted.commit_seconds);
    let gauges = Gauges {
        live: value("tiffany_runs", &[("state", "live")]),
        paused: value("tiffany_runs", &[("state", "paused")]),
        ready: value("tiffany_ready_tasks", &[]),
        blocked: value("tiffany_tasks", &[("state", "blocked")]),
        effects: value("tiffany_effects", &[("state", "running")]),
        in_doubt: value("tiffany_effects", &[("state", "in_doubt")]),
        turns: rate(|counted| counted.turns),
        records: rate(|counted| counted.records),
        commit_seconds: commits
            .zip(busy)
            .filter(|(many, _)| *many > 0.0)
            .map(|(many, busy)| busy / many),
        commits,
        backlog: value("tiffany_log_backlog_bytes", &[]),
        log_bytes: sum(metrics, "tiffany_log_bytes"),
        disk_free: value("tiffany_disk_free_bytes", &[]),
        lost_events: value("tiffany_events_lost_total", &[]),
        memory: value("process_resident_memory_bytes", &[]),
    };
    (gauges, now)
}

/// Returns the sum of all samples of a metric: of a histogram the numbers of observations,
/// otherwise the values.
fn sum(metrics: &Snapshot, name: &str) -> f64 {
    let samples = metrics.family(name).into_iter().flat_map(|family| &family.samples);
    let sums = samples.map(|sample| match &sample.reading {
        Reading::Histogram(buckets) => buckets.sum,
        Reading::Value(value) => *value,
    });
    sums.sum()
}
