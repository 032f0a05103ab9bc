//! The catalogue of all metrics of a runtime: name, kind, labels and meaning. The book's chapter
//! "Metrics" has the same table, and a test compares them.

use super::Kind;

/// The description of a metric.
#[derive(Debug)]
#[non_exhaustive]
pub struct About {
    /// Its name.
    pub name: &'static str,
    /// The kind of its values.
    pub kind: Kind,
    /// The labels of its values.
    pub labels: &'static [&'static str],
    /// Its help text.
    pub help: &'static str,
}

macro_rules! catalogue {
    ($($id:ident: $kind:ident $name:literal [$($label:literal),*] $help:literal;)*) => {
        $(#[doc = $help]
        pub static $id: About =
            About { name: $name, kind: Kind::$kind, labels: &[$($label),*], help: $help };)*

        /// All metrics of a runtime, in the order in which they are printed.
        pub static CATALOGUE: &[&About] = &[$(&$id),*];
    };
}

catalogue! {
    BUILD: Gauge "tiffany_build_info" ["version"] "The version of Tiffany, as a label; always 1.";
    AGE: Gauge "tiffany_metrics_age_seconds" [] "Age of the figures that only the loop knows: 0, unless it has not answered in time.";

    TURNS: Counter "tiffany_turns_total" [] "Turns of tasks.";
    CALLS: Counter "tiffany_calls_total" ["call"] "System calls that durable runs made and recorded, by kind.";
    BUSY: Histogram "tiffany_loop_busy_seconds" [] "How long the loop was busy with tasks without a break, until it waited or had given about 500 turns.";
    WAITS: Counter "tiffany_loop_waits_total" [] "How often the loop waited because no task was ready.";
    WAIT_TIME: Counter "tiffany_loop_wait_seconds_total" [] "How long the loop waited in total.";
    TIMER_LATE: Histogram "tiffany_timer_late_seconds" [] "How much later than requested timers fired.";
    STUCK: Counter "tiffany_stuck_turns_total" [] "Turns that took so long that the watchdog reported them.";
    READY_TASKS: Gauge "tiffany_ready_tasks" [] "Tasks that are ready and wait for their turn.";
    READY_RUNS: Gauge "tiffany_ready_runs" [] "Runs that are in line for a turn.";
    TASKS: Gauge "tiffany_tasks" ["state"] "Unfinished tasks: ready, blocked or cancelling.";
    BLOCKED: Gauge "tiffany_tasks_blocked" ["reason"] "Tasks that wait, by what they wait for.";
    TIMERS: Gauge "tiffany_timers" [] "Calls that wait for a timer.";
    DESCRIPTORS: Gauge "tiffany_descriptors" [] "Calls that wait for a descriptor.";
    PROMISES: Gauge "tiffany_external_promises" [] "External promises that are not settled.";
    POOL_THREADS: Gauge "tiffany_blocking_threads" [] "Threads for blocking work.";
    POOL_WAITING: Gauge "tiffany_blocking_waiting" [] "Blocking work that waits for a thread.";
    STEP_SLOTS: Gauge "tiffany_step_slots" ["state"] "Slots for steps that block a thread: free or taken.";
    STEP_SLOTS_WAITING: Gauge "tiffany_step_slots_waiting" [] "Steps that wait for a slot.";

    RUNS: Gauge "tiffany_runs" ["state"] "Runs: ephemeral ones that are running; durable ones that are live, paused, over (finished) or removed.";
    STARTED: Counter "tiffany_runs_started_total" ["kind"] "Runs that were started in this process, durable or ephemeral.";
    ENDED: Counter "tiffany_runs_ended_total" ["function", "outcome"] "Runs that ended here: completed, failed, cancelled, deadlock or limit. Ephemeral ones have no function.";
    RUN_TIME: Histogram "tiffany_run_seconds" ["function"] "How long runs took from start to end, restarts included.";
    UNOBSERVED: Counter "tiffany_unobserved_failures_total" [] "Failures that no task waited for.";
    RESUMED: Counter "tiffany_runs_resumed_total" ["outcome"] "Runs that were resumed from the log, live or paused.";
    RESUME_TIME: Histogram "tiffany_resume_seconds" [] "How long it took to resume a run.";
    DIVERGENCES: Counter "tiffany_divergences_total" [] "Runs that could not be resumed because the code has changed.";

    ATTEMPTS: Counter "tiffany_effect_attempts_total" ["step", "outcome"] "Attempts at steps: ok, failed, timed_out, in_doubt or cancelled.";
    RETRIES: Counter "tiffany_effect_retries_total" ["step"] "Attempts that failed and are retried.";
    EFFECT_TIME: Histogram "tiffany_effect_seconds" ["step"] "How long attempts at steps took.";
    EFFECTS: Gauge "tiffany_effects" ["state"] "Unfinished steps: queued, retrying, in_doubt, committing or running.";
    LATE: Counter "tiffany_effect_late_total" [] "Results of steps that arrived when no task waited for them any more.";
    IGNORED: Counter "tiffany_promise_ignored_total" [] "Answers to durable promises that were already settled.";
    QUEUE_WAITING: Gauge "tiffany_queue_waiting" ["queue"] "Steps that wait in a named queue.";
    QUEUE_RUNNING: Gauge "tiffany_queue_running" ["queue"] "Steps of a named queue that are running.";
    WAIT_BY: Histogram "tiffany_wait_seconds" ["reason"] "How long tasks waited for the host: effect (a step, from call to answer), queue (a place in a named queue), commit (records that something depends on) or approval (a person, from question to answer).";

    COMMIT_TIME: Histogram "tiffany_commit_seconds" [] "How long it took to make a batch of records durable.";
    COMMIT_RECORDS: Histogram "tiffany_commit_records" [] "Records in a batch.";
    COMMIT_BYTES: Histogram "tiffany_commit_bytes" [] "Bytes in a batch.";
    BACKLOG: Gauge "tiffany_log_backlog_bytes" [] "Bytes that wait for the disk.";
    HELD_BACK: Gauge "tiffany_log_held_back_runs" [] "Runs that get no turns until the disk has caught up.";
    LOG_FAILED: Gauge "tiffany_log_failed" [] "1 if the log has failed and nothing is written any more.";
    LOG_BYTES: Gauge "tiffany_log_bytes" ["part"] "Disk space of the log: runs, blobs and the rest. Measured at most once a minute.";
    DISK_FREE: Gauge "tiffany_disk_free_bytes" [] "Free space on the log's disk for this user.";
    DISK_SIZE: Gauge "tiffany_disk_size_bytes" [] "Size of the log's disk.";

    EVENTS: Counter "tiffany_events_total" [] "Events that were published to the activity log.";
    EVENTS_LOST: Counter "tiffany_events_lost_total" [] "Events that readers lost because they were too slow.";
    EVENT_READERS: Gauge "tiffany_event_readers" [] "Readers of the activity log.";
    EVENT_BYTES: Gauge "tiffany_event_bytes" [] "Bytes of the events that are kept.";

    CPU: Counter "process_cpu_seconds_total" [] "Processor time of this process.";
    START: Gauge "process_start_time_seconds" [] "When this process started, in seconds since 1970.";
    RESIDENT: Gauge "process_resident_memory_bytes" [] "Resident memory of this process.";
    VIRTUAL: Gauge "process_virtual_memory_bytes" [] "Address space of this process.";
    THREADS: Gauge "process_threads" [] "Threads of this process.";
    FDS: Gauge "process_open_fds" [] "Open file descriptors.";
    MAX_FDS: Gauge "process_max_fds" [] "Limit of open file descriptors.";
}
