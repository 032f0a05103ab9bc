//! Metrics: they say what happened, in a text that others can read, and neither a busy loop nor many names break that.

use std::collections::BTreeSet;
use std::future::IntoFuture;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use crate::metrics_kit::{check_histograms, parse};
use tiffany::control::Control;
use tiffany::durable::{QueueSettings, Retry, receive, step, step_with};
use tiffany::metrics::{CATALOGUE, Reading, Snapshot};
use tiffany::testing::TestScheduler;
use tiffany::{ErrorKind, Runtime, TaskError, approve, sleep, spawn, timeout, yield_now};

/// A directory of a test's own, removed at its end.
struct Dir(PathBuf);

impl Dir {
    fn new(name: &str) -> Dir {
        let name = format!("tiffany-metrics-{name}-{}", std::process::id());
        let dir = std::env::temp_dir().join(name);
        let _ = std::fs::remove_dir_all(&dir);
        Dir(dir)
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Orders wait for a message after a step in a queue.
fn orders(dir: &Dir) -> Runtime {
    Runtime::builder()
        .log_dir(&dir.0)
        .queue("mail", QueueSettings { concurrency: Some(1), rate: None })
        .register("order", |item: String| async move {
            step("pack", move || Ok::<_, TaskError>(item.clone())).queue("mail").await?;
            receive::<String>("address").await
        })
        .build()
        .unwrap()
}

fn value(metrics: &Snapshot, name: &str, labels: &[(&str, &str)]) -> f64 {
    metrics.value(name, labels).unwrap_or_else(|| panic!("no {name} {labels:?} in\n{metrics}"))
}

#[test]
fn a_runtime_with_a_log_tells_all_of_the_catalogue_and_nothing_else() {
    let dir = Dir::new("all");
    let mut runtime = orders(&dir);
    let run = runtime.submit::<String>("order", "tea", &"tea").unwrap();
    runtime.run(async { sleep(Duration::from_millis(1)).await }).unwrap();
    runtime.send(&run, "address", &"here").unwrap();
    assert_eq!(runtime.wait_for(&run).unwrap(), "here");
    let begun = Instant::now();
    let mut metrics = runtime.metrics();
    // The directory is looked at on another thread.
    while metrics.family("tiffany_log_bytes").unwrap().samples.is_empty() {
        assert!(begun.elapsed() < Duration::from_secs(30), "{metrics}");
        metrics = runtime.metrics();
    }
    let told: Vec<&str> = metrics.families.iter().map(|family| &*family.name).collect();
    let known: Vec<&str> = CATALOGUE.iter().map(|about| about.name).collect();
    assert_eq!(told, known);
    for (family, about) in metrics.families.iter().zip(CATALOGUE) {
        assert!(!family.samples.is_empty(), "{} has no values", about.name);
        let labels: BTreeSet<&str> = about.labels.iter().copied().collect();
        for sample in &family.samples {
            let has: BTreeSet<&str> = sample.labels.keys().map(String::as_str).collect();
            assert_eq!(has, labels, "{}", about.name);
        }
    }
    for (name, labels, expected) in [
        ("tiffany_runs_started_total", vec![("kind", "durable")], 1.0),
        ("tiffany_runs_started_total", vec![("kind", "ephemeral")], 1.0),
        ("tiffany_runs_ended_total", vec![("function", "order"), ("outcome", "completed")], 1.0),
        ("tiffany_runs_ended_total", vec![("function", ""), ("outcome", "completed")], 1.0),
        ("tiffany_run_seconds", vec![("function", "order")], 1.0),
        ("tiffany_effect_attempts_total", vec![("step", "pack"), ("outcome", "ok")], 1.0),
        ("tiffany_effect_seconds", vec![("step", "pack")], 1.0),
        ("tiffany_wait_seconds", vec![("reason", "effect")], 1.0),
        ("tiffany_wait_seconds", vec![("reason", "queue")], 1.0),
        ("tiffany_timer_late_seconds", vec![], 1.0),
        ("tiffany_calls_total", vec![("call", "effect")], 1.0),
        ("tiffany_calls_total", vec![("call", "race")], 0.0),
        ("tiffany_runs", vec![("state", "over")], 1.0),
        ("tiffany_runs", vec![("state", "live")], 0.0),
        ("tiffany_queue_waiting", vec![("queue", "mail")], 0.0),
        ("tiffany_log_backlog_bytes", vec![], 0.0),
        ("tiffany_log_failed", vec![], 0.0),
        ("tiffany_tasks_blocked", vec![("reason", "message")], 0.0),
    ] {
        assert_eq!(value(&metrics, name, &labels), expected, "{name} {labels:?}");
    }
    for more in ["tiffany_turns_total", "tiffany_commit_seconds", "tiffany_commit_records"] {
        assert!(value(&metrics, more, &[]) > 0.0, "{more}");
    }
    for bytes in ["process_resident_memory_bytes", "tiffany_disk_size_bytes"] {
        assert!(value(&metrics, bytes, &[]) > 1e6, "{bytes}");
    }
    assert!(value(&metrics, "tiffany_log_bytes", &[("part", "rest")]) > 0.0);
}

#[test]
fn what_waits_is_counted_while_it_waits() {
    let dir = Dir::new("waits");
    let mut runtime = orders(&dir);
    let _run = runtime.submit::<String>("order", "tea", &"tea").unwrap();
    let other = runtime.start(async {
        let sleeper = spawn(async { sleep(Duration::from_secs(3600)).await }).await;
        sleeper.await
    });
    // It is driven until both wait.
    runtime.try_run(async { step("last", || Ok::<_, TaskError>(())).await }).unwrap();
    let until = |runtime: &mut Runtime| {
        runtime.run(async { sleep(Duration::from_millis(5)).await }).unwrap();
        runtime.metrics()
    };
    let begun = Instant::now();
    let mut metrics = until(&mut runtime);
    let waits =
        |metrics: &Snapshot, reason| value(metrics, "tiffany_tasks_blocked", &[("reason", reason)]);
    while waits(&metrics, "message") < 1.0 {
        assert!(begun.elapsed() < Duration::from_secs(20), "{metrics}");
        metrics = until(&mut runtime);
    }
    assert_eq!(waits(&metrics, "sleep"), 1.0);
    assert_eq!(waits(&metrics, "join"), 1.0);
    assert_eq!(value(&metrics, "tiffany_timers", &[]), 1.0);
    assert_eq!(value(&metrics, "tiffany_tasks", &[("state", "blocked")]), 3.0);
    assert_eq!(value(&metrics, "tiffany_runs", &[("state", "live")]), 1.0);
    assert_eq!(value(&metrics, "tiffany_runs", &[("state", "ephemeral")]), 1.0);
    drop(other);
}

#[test]
fn how_long_people_are_waited_for_is_measured_whatever_comes_of_it() {
    let mut test = TestScheduler::new();
    test.run(async {
        let asked = approve("Ship?").timeout(Duration::from_secs(3600)).await;
        assert_eq!(asked.unwrap_err().kind(), ErrorKind::ApprovalTimedOut);
        let asked = timeout(Duration::from_secs(60), approve("Now?").into_future()).await;
        assert!(asked.is_err());
    })
    .unwrap();
    let metrics = test.runtime().metrics();
    let family = metrics.family("tiffany_wait_seconds").unwrap();
    let people = family.samples.iter().find(|one| one.labels["reason"] == "approval").unwrap();
    let Reading::Histogram(times) = &people.reading else { panic!("{people:?}") };
    assert_eq!((times.count(), times.sum.round()), (2, 3660.0), "{people:?}");
}

#[test]
fn the_text_is_what_the_format_says_whatever_steps_are_called() {
    let mut runtime = Runtime::new().unwrap();
    let odd = "say \"hi\"\n\\ {le=\"1\"} \u{1b}[2J ä";
    runtime.try_run(async move { step(odd, || Ok::<_, String>(1)).await }).unwrap();
    let metrics = runtime.metrics();
    let read = parse(&metrics.to_string());
    check_histograms(&read);
    let mut samples = 0;
    for family in &metrics.families {
        for sample in &family.samples {
            // What a terminal might obey is replaced.
            let clean = |(label, value): (&String, &String)| {
                (label.clone(), value.replace('\u{1b}', "\u{fffd}"))
            };
            let labels = sample.labels.iter().map(clean).collect();
            let (name, expected) = match &sample.reading {
                Reading::Value(value) => (family.name.to_string(), *value),
                Reading::Histogram(buckets) => (format!("{}_sum", family.name), buckets.sum),
            };
            assert_eq!(read.get(&(name.clone(), labels)), Some(&expected), "{name}");
            samples += 1;
        }
    }
    assert!(samples > 50, "{samples}");
    let steps: BTreeSet<&str> =
        read.keys().filter_map(|(_, labels)| labels.get("step").map(String::as_str)).collect();
    assert_eq!(steps, BTreeSet::from(["say \"hi\"\n\\ {le=\"1\"} \u{fffd}[2J ä"]));
}

#[test]
fn attempts_are_counted_by_what_came_of_them() {
    static TRIES: AtomicU32 = AtomicU32::new(0);
    let mut runtime = Runtime::new().unwrap();
    runtime
        .run(async {
            let flaky = || match TRIES.fetch_add(1, Ordering::Relaxed) {
                0 | 1 => Err("not yet"),
                _ => Ok(1),
            };
            let retry = Retry::times(5).first(Duration::from_millis(1));
            assert_eq!(step("flaky", flaky).retry(retry).await, Ok(1));
            step("broken", || Err::<(), _>("no")).await.unwrap_err();
            let slow = step_with("slow", |attempt| {
                while !attempt.is_given_up() {
                    std::thread::sleep(Duration::from_millis(1));
                }
                Ok::<_, tiffany::durable::StepError>(())
            });
            slow.timeout(Duration::from_millis(10)).await.unwrap_err();
        })
        .unwrap();
    let metrics = runtime.metrics();
    let attempts = |step, outcome| {
        value(&metrics, "tiffany_effect_attempts_total", &[("step", step), ("outcome", outcome)])
    };
    assert_eq!((attempts("flaky", "ok"), attempts("flaky", "failed")), (1.0, 2.0));
    assert_eq!(value(&metrics, "tiffany_effect_retries_total", &[("step", "flaky")]), 2.0);
    assert_eq!((attempts("broken", "ok"), attempts("broken", "failed")), (0.0, 1.0));
    assert_eq!((attempts("slow", "timed_out"), attempts("slow", "failed")), (1.0, 0.0));
}

#[test]
fn names_beyond_a_hundred_are_other() {
    let mut runtime = Runtime::new().unwrap();
    runtime
        .try_run(async {
            for number in 0..130 {
                let name: &'static str = Box::leak(format!("step-{number}").into_boxed_str());
                step(name, || Ok::<_, String>(())).await?;
            }
            Ok::<_, TaskError>(())
        })
        .unwrap();
    let metrics = runtime.metrics();
    let retries = metrics.family("tiffany_effect_retries_total").unwrap();
    assert_eq!(retries.samples.len(), 101);
    let other = [("step", "other"), ("outcome", "ok")];
    assert_eq!(value(&metrics, "tiffany_effect_attempts_total", &other), 30.0);
}

#[test]
fn a_loop_that_is_kept_busy_does_not_keep_the_metrics() {
    static GO_ON: AtomicBool = AtomicBool::new(false);
    let mut runtime = Runtime::builder().on_stuck(|_| {}).build().unwrap();
    let handle = runtime.handle();
    let (tell, told) = mpsc::channel();
    let reader = std::thread::spawn(move || {
        told.recv().unwrap();
        let first = handle.metrics();
        std::thread::sleep(Duration::from_millis(300));
        let second = handle.metrics();
        GO_ON.store(true, Ordering::Relaxed);
        (first, second)
    });
    runtime.metrics();
    runtime
        .run(async move {
            yield_now().await;
            tell.send(()).unwrap();
            while !GO_ON.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(1));
            }
        })
        .unwrap();
    let (first, second) = reader.join().unwrap();
    let started = [("kind", "ephemeral")];
    assert_eq!(
        value(&first, "tiffany_runs_started_total", &started),
        1.0,
        "what is counted is known"
    );
    let age = |metrics: &Snapshot| value(metrics, "tiffany_metrics_age_seconds", &[]);
    assert!(age(&second) > 0.3, "{}", age(&second));
    assert_eq!(age(&runtime.metrics()), 0.0, "and it is up to date afterwards");
}

#[test]
fn another_process_reads_them_through_the_socket() {
    let dir = Dir::new("socket");
    let mut runtime = orders(&dir);
    let run = runtime.submit::<String>("order", "tea", &"tea").unwrap();
    let (path, uuid) = (dir.0.clone(), run.uuid());
    let reader = std::thread::spawn(move || {
        let mut control = Control::connect(&path).unwrap().unwrap();
        let metrics = control.metrics().unwrap();
        control.send(uuid, "address", &"here").unwrap();
        metrics
    });
    assert_eq!(runtime.wait_for(&run).unwrap(), "here");
    let metrics = reader.join().unwrap();
    assert_eq!(value(&metrics, "tiffany_runs", &[("state", "live")]), 1.0);
    assert_eq!(value(&metrics, "tiffany_metrics_age_seconds", &[]), 0.0);
    check_histograms(&parse(&metrics.to_string()));
}

#[test]
fn a_run_that_does_not_fit_its_log_is_a_divergence() {
    let dir = Dir::new("diverges");
    let first = |steps: &'static [&'static str]| {
        Runtime::builder().log_dir(&dir.0).register("order", move |()| async move {
            for name in steps {
                step(name, || Ok::<_, TaskError>(())).await?;
            }
            receive::<String>("address").await
        })
    };
    let mut runtime = first(&["pack"]).build().unwrap();
    runtime.submit::<String>("order", "tea", &()).unwrap();
    runtime.try_run(async { step("other", || Ok::<_, TaskError>(())).await }).unwrap();
    runtime.flush().unwrap();
    while value(&runtime.metrics(), "tiffany_tasks_blocked", &[("reason", "message")]) < 1.0 {
        runtime.run(async { sleep(Duration::from_millis(5)).await }).unwrap();
    }
    runtime.flush().unwrap();
    drop(runtime);
    let runtime = first(&["pack"]).build().unwrap();
    let same = runtime.metrics();
    assert_eq!(value(&same, "tiffany_runs_resumed_total", &[("outcome", "live")]), 1.0);
    assert_eq!(value(&same, "tiffany_divergences_total", &[]), 0.0);
    assert_eq!(value(&same, "tiffany_resume_seconds", &[]), 1.0);
    drop(runtime);
    let other = first(&["unpack"]).build().unwrap().metrics();
    assert_eq!(value(&other, "tiffany_runs_resumed_total", &[("outcome", "paused")]), 1.0);
    assert_eq!(value(&other, "tiffany_divergences_total", &[]), 1.0);
    assert_eq!(value(&other, "tiffany_runs", &[("state", "paused")]), 1.0);
}

#[test]
fn the_book_has_every_metric_as_it_is() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/src/metrics.md");
    let book = std::fs::read_to_string(&path).unwrap();
    let mut table = String::from("\n\n| metric | type | labels | what |\n|---|---|---|---|\n");
    for about in CATALOGUE {
        let labels: Vec<String> = about.labels.iter().map(|label| format!("`{label}`")).collect();
        let (name, kind, labels) = (about.name, about.kind, labels.join(", "));
        table += &format!("| `{name}` | {kind} | {labels} | {} |\n", about.help);
    }
    let mark = "METRICS_BLESS=1 writes it. -->";
    let (before, after) = book.split_once(mark).unwrap();
    let (has, rest) = after.split_at(after.find("\n## ").unwrap());
    if std::env::var_os("METRICS_BLESS").is_some() {
        std::fs::write(&path, format!("{before}{mark}{table}{rest}")).unwrap();
        return;
    }
    assert_eq!(has, table, "METRICS_BLESS=1 writes it");
}
