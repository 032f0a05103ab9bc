//! Reads all meters: each metric of the catalogue, in its order, and then those of other sources.

use tiffany_kernel::{BlockReason, CallKind};

use crate::activity::hub::Counts;
use crate::metrics::disk::Disk;
use crate::metrics::loop_state::Standing;
use crate::metrics::meter::Histogram;
use crate::metrics::meters::{ATTEMPT_OUTCOMES, Meters, RUN_OUTCOMES, Waited};
use crate::metrics::process::Process;
use tiffany_records::metrics::{
    About, CATALOGUE, Family, Kind, Reading, Snapshot, catalogue as about,
};

/// The families of the catalogue, being filled.
struct Sheet(Vec<Family>);

impl Sheet {
    fn family(&mut self, about: &'static About) -> &mut Family {
        let place = CATALOGUE.iter().position(|other| std::ptr::eq(*other, about));
        &mut self.0[place.expect("it is in the catalogue")]
    }

    fn value(&mut self, about: &'static About, labels: &[&str], value: f64) {
        let labels: Vec<(&str, &str)> = zip(about, labels);
        self.family(about).add(&labels, Reading::Value(value));
    }

    fn number(&mut self, about: &'static About, labels: &[&str], number: usize) {
        self.value(about, labels, number as f64);
    }

    fn count(&mut self, about: &'static About, labels: &[&str], count: u64) {
        self.value(about, labels, count as f64);
    }

    fn maybe(&mut self, about: &'static About, value: Option<f64>) {
        if let Some(value) = value {
            self.value(about, &[], value);
        }
    }

    fn histogram(&mut self, about: &'static About, labels: &[&str], histogram: &Histogram) {
        let labels: Vec<(&str, &str)> = zip(about, labels);
        self.family(about).add(&labels, Reading::Histogram(histogram.buckets()));
    }
}

fn zip<'a>(about: &'static About, values: &[&'a str]) -> Vec<(&'static str, &'a str)> {
    debug_assert_eq!(about.labels.len(), values.len(), "{}", about.name);
    about.labels.iter().copied().zip(values.iter().copied()).collect()
}

impl Meters {
    /// The present figures, with the state that the loop last reported.
    pub(crate) fn read(&self) -> Snapshot {
        let mut sheet = Sheet(CATALOGUE.iter().map(|about| Family::about(about)).collect());
        sheet.number(&about::BUILD, &[env!("CARGO_PKG_VERSION")], 1);
        self.read_loop(&mut sheet);
        self.read_runs(&mut sheet);
        self.read_effects(&mut sheet);
        sheet.histogram(&about::COMMIT_TIME, &[], &self.log.time);
        sheet.histogram(&about::COMMIT_RECORDS, &[], &self.log.records);
        sheet.histogram(&about::COMMIT_BYTES, &[], &self.log.bytes);
        if let Some((age, standing)) = self.standing() {
            sheet.value(&about::AGE, &[], if age < AT_ONCE { 0.0 } else { age.as_secs_f64() });
            read_standing(&mut sheet, &standing);
        }
        if let Some(disk) = self.disk.get() {
            read_disk(&mut sheet, disk);
        }
        if let Some(hub) = self.hub.get() {
            read_hub(&mut sheet, hub.counts());
        }
        read_process(&mut sheet, &Process::read());
        let mut families = sheet.0;
        // Outside the lock, because a source may be slow, or read metrics itself.
        let sources = self.sources.lock().clone();
        for source in sources {
            source().into_iter().for_each(|family| join(&mut families, family));
        }
        Snapshot { families }
    }

    fn read_loop(&self, sheet: &mut Sheet) {
        sheet.count(&about::TURNS, &[], self.turns.get());
        for (kind, count) in CallKind::ALL.iter().zip(&self.calls.0) {
            sheet.count(&about::CALLS, &[kind.tag()], count.get());
        }
        sheet.histogram(&about::BUSY, &[], &self.busy.0);
        sheet.count(&about::WAITS, &[], self.waits.get());
        sheet.value(&about::WAIT_TIME, &[], self.wait_time.seconds());
        sheet.histogram(&about::TIMER_LATE, &[], &self.timer_late.0);
        sheet.count(&about::STUCK, &[], self.stuck.get());
        let Waited { effect, queue, commit, approval } = &self.waited;
        for (reason, times) in
            [("effect", effect), ("queue", queue), ("commit", commit), ("approval", approval)]
        {
            sheet.histogram(&about::WAIT_BY, &[reason], &times.0);
        }
    }

    fn read_runs(&self, sheet: &mut Sheet) {
        sheet.count(&about::STARTED, &["durable"], self.started_durable.get());
        sheet.count(&about::STARTED, &["ephemeral"], self.started_ephemeral.get());
        self.runs.for_each(|function, meters| {
            for (outcome, count) in RUN_OUTCOMES.iter().zip(&meters.outcomes) {
                sheet.count(&about::ENDED, &[function, outcome], count.get());
            }
            sheet.histogram(&about::RUN_TIME, &[function], &meters.time.0);
        });
        sheet.count(&about::UNOBSERVED, &[], self.unobserved.get());
        sheet.count(&about::RESUMED, &["live"], self.resumed_live.get());
        sheet.count(&about::RESUMED, &["paused"], self.resumed_paused.get());
        sheet.histogram(&about::RESUME_TIME, &[], &self.resume_time.0);
        sheet.count(&about::DIVERGENCES, &[], self.divergences.get());
    }

    fn read_effects(&self, sheet: &mut Sheet) {
        self.effects.for_each(|step, meters| {
            for (outcome, count) in ATTEMPT_OUTCOMES.iter().zip(&meters.outcomes) {
                sheet.count(&about::ATTEMPTS, &[step, outcome], count.get());
            }
            sheet.count(&about::RETRIES, &[step], meters.retries.get());
            sheet.histogram(&about::EFFECT_TIME, &[step], &meters.time.0);
        });
        sheet.count(&about::LATE, &[], self.late.get());
        sheet.count(&about::IGNORED, &[], self.ignored.get());
    }
}

/// A younger answer was waited for.
const AT_ONCE: std::time::Duration = std::time::Duration::from_millis(250);

fn read_standing(sheet: &mut Sheet, standing: &Standing) {
    let Standing { census, .. } = standing;
    sheet.number(&about::READY_TASKS, &[], census.ready);
    sheet.number(&about::READY_RUNS, &[], standing.ready_runs);
    for (state, tasks) in
        [("ready", census.ready), ("blocked", census.waiting), ("cancelling", census.cancelling)]
    {
        sheet.number(&about::TASKS, &[state], tasks);
    }
    for reason in BlockReason::ALL {
        sheet.number(&about::BLOCKED, &[&reason.to_string()], census.blocked(reason));
    }
    sheet.number(&about::TIMERS, &[], census.timers);
    sheet.number(&about::DESCRIPTORS, &[], census.descriptors);
    sheet.number(&about::PROMISES, &[], standing.promises);
    sheet.number(&about::POOL_THREADS, &[], standing.pool_threads);
    sheet.number(&about::POOL_WAITING, &[], standing.pool_waiting);
    let slots = standing.slots;
    sheet.number(&about::STEP_SLOTS, &["free"], slots.limit - slots.taken);
    sheet.number(&about::STEP_SLOTS, &["taken"], slots.taken);
    sheet.number(&about::STEP_SLOTS_WAITING, &[], slots.waiting);
    sheet.number(&about::RUNS, &["ephemeral"], standing.ephemeral);
    for (state, steps) in standing.effects.named() {
        sheet.number(&about::EFFECTS, &[state], steps);
    }
    for (queue, waiting, running) in &standing.queues {
        sheet.number(&about::QUEUE_WAITING, &[queue], *waiting);
        sheet.number(&about::QUEUE_RUNNING, &[queue], *running);
    }
    if let Some(log) = &standing.log {
        for (state, runs) in log.runs.named() {
            sheet.number(&about::RUNS, &[state], runs);
        }
        sheet.number(&about::BACKLOG, &[], log.backlog);
        sheet.number(&about::HELD_BACK, &[], log.held_back);
        sheet.number(&about::LOG_FAILED, &[], usize::from(log.has_failed));
    }
}

fn read_disk(sheet: &mut Sheet, disk: &Disk) {
    if let Some(used) = disk.used() {
        for (part, bytes) in [("runs", used.runs), ("blobs", used.blobs), ("rest", used.rest)] {
            sheet.count(&about::LOG_BYTES, &[part], bytes);
        }
    }
    if let Some(space) = disk.space() {
        sheet.count(&about::DISK_FREE, &[], space.free);
        sheet.count(&about::DISK_SIZE, &[], space.size);
    }
}

fn read_hub(sheet: &mut Sheet, counts: Counts) {
    sheet.count(&about::EVENTS, &[], counts.published);
    sheet.count(&about::EVENTS_LOST, &[], counts.lost);
    sheet.number(&about::EVENT_READERS, &[], counts.readers);
    sheet.number(&about::EVENT_BYTES, &[], counts.bytes);
}

fn read_process(sheet: &mut Sheet, process: &Process) {
    let number = |number: Option<u64>| number.map(|number| number as f64);
    sheet.maybe(&about::CPU, process.cpu_seconds);
    sheet.maybe(&about::START, process.start_seconds);
    sheet.maybe(&about::RESIDENT, number(process.resident));
    sheet.maybe(&about::VIRTUAL, number(process.virtual_bytes));
    sheet.maybe(&about::THREADS, number(process.threads));
    sheet.maybe(&about::FDS, number(process.open_fds));
    sheet.maybe(&about::MAX_FDS, number(process.max_fds));
}

/// Adds a family of another source. Several sources may use the same name; families that other
/// systems could not read are left out.
fn join(families: &mut Vec<Family>, mut family: Family) {
    let is_word = |text: &str| {
        let mut chars = text.chars();
        chars.next().is_some_and(|first| first.is_ascii_alphabetic() || first == '_')
            && chars.all(|char| char.is_ascii_alphanumeric() || char == '_')
    };
    family.samples.retain(|sample| {
        let is_histogram = matches!(sample.reading, Reading::Histogram(_));
        sample.labels.keys().all(|label| is_word(label))
            && is_histogram == (family.kind == Kind::Histogram)
    });
    if !is_word(&family.name) {
        return;
    }
    match families.iter_mut().find(|other| other.name == family.name) {
        Some(same) if same.kind == family.kind => same.samples.append(&mut family.samples),
        Some(_) => {}
        None => families.push(family),
    }
}
