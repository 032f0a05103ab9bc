//! The threat: telemetry is unreadable for a collector, is lost unnoticed while the collector is
//! unavailable, or delays a run.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use serde_json::Value;
use tiffany::durable::step;
use tiffany::{Runtime, TaskError, spawn};
use tiffany_daemon::otlp::{Settings, start};
use tracing::Level;
use tracing_subscriber::Layer;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::layer::SubscriberExt;

const LIMIT: Duration = Duration::from_secs(60);

/// A collector that decodes requests with OpenTelemetry's own message types.
struct Collector {
    port: u16,
    process: Child,
    told: Receiver<Value>,
}

impl Collector {
    fn start(port: u16) -> Collector {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/otlp/receiver.py");
        let mut command = Command::new(python());
        command.arg(script).arg(port.to_string()).stdout(Stdio::piped()).stdin(Stdio::null());
        let mut process = command.spawn().unwrap();
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let port = lines.next().unwrap().unwrap().parse().unwrap();
        let (tell, told) = channel();
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                let _ = tell.send(serde_json::from_str(&line).unwrap());
            }
        });
        Collector { port, process, told }
    }

    /// Returns the next request to a path, decoded.
    fn next(&self, path: &str) -> Value {
        let begun = Instant::now();
        loop {
            let left = LIMIT.saturating_sub(begun.elapsed());
            let told = self.told.recv_timeout(left).unwrap_or_else(|_| panic!("no {path}"));
            assert_eq!(told["error"], Value::Null, "{told}");
            if told["path"] == path {
                return told;
            }
        }
    }

    /// Returns all spans up to the one of this name.
    fn spans_up_to(&self, name: &str) -> Vec<Value> {
        let mut all: Vec<Value> = Vec::new();
        while !all.iter().any(|span| span["name"] == name) {
            let told = self.next("/v1/traces");
            let spans = &told["body"]["resourceSpans"][0]["scopeSpans"][0]["spans"];
            all.extend(spans.as_array().unwrap().iter().cloned());
        }
        all
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

fn python() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let mut places = test.ancestors().map(|dir| dir.join("python/servers/bin/python"));
    let found = places.find(|python| python.exists());
    found.expect("there is no collector: `cargo xtask servers` installs it")
}

fn attribute<'a>(of: &'a Value, key: &str) -> &'a Value {
    let all = of["attributes"].as_array().unwrap();
    let found = all.iter().find(|attribute| attribute["key"] == key);
    found.map_or(&Value::Null, |attribute| &attribute["value"])
}

fn settings(port: u16) -> Settings {
    let mut settings = Settings::new(format!("http://127.0.0.1:{port}"));
    settings.headers.insert("X-Key".into(), "k-1".into());
    settings.metrics_every_seconds = 1;
    settings
}

#[test]
fn spans_of_runs_and_metrics_are_read_by_a_collector() {
    let collector = Collector::start(0);
    let dir = std::env::temp_dir().join(format!("tiffany-otlp-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&dir);
    let (layer, exporter) = start(&settings(collector.port), "blade-1").unwrap();
    let layer = layer.with_filter(LevelFilter::from_level(Level::DEBUG));
    let subscriber = tracing_subscriber::registry().with(layer);
    let uuid = tracing::subscriber::with_default(subscriber, || {
        let order = |()| async {
            let child = spawn(async { step("pack", || Err::<(), _>("no box")).await }).await;
            Ok::<bool, TaskError>(child.await?.is_err())
        };
        let mut runtime =
            Runtime::builder().log_dir(&dir).register("order", order).build().unwrap();
        exporter.watch(&runtime.handle());
        let run = runtime.submit::<bool>("order", "tea", &()).unwrap();
        assert!(runtime.wait_for(&run).unwrap());
        exporter.finish(LIMIT);
        run.uuid()
    });
    let spans = collector.spans_up_to("run");
    let named = |name: &str| {
        let found = spans.iter().find(|span| span["name"] == name);
        found.unwrap_or_else(|| panic!("no {name}: {spans:?}"))
    };
    let (run, attempt) = (named("run"), named("step"));
    assert_eq!(run["traceId"], format!("{:032x}", uuid.0), "a durable run is one trace");
    assert_eq!(run["parentSpanId"], Value::Null);
    assert_eq!(attribute(run, "function")["stringValue"], "order");
    assert_eq!(attribute(attempt, "step")["stringValue"], "pack");
    let task = spans.iter().find(|span| span["spanId"] == attempt["parentSpanId"]).unwrap();
    assert_eq!((&task["name"], &task["parentSpanId"]), (&"task".into(), &run["spanId"]));
    assert_eq!(attribute(task, "tid")["intValue"], "2");
    let times = |span: &Value| {
        let time = |key: &str| span[key].as_str().unwrap().parse::<u64>().unwrap();
        (time("startTimeUnixNano"), time("endTimeUnixNano"))
    };
    assert!(times(run).0 <= times(task).0 && times(attempt).1 <= times(run).1);
    let notes = attempt["events"].as_array().unwrap();
    let failed = notes.iter().find(|note| note["name"] == "attempt failed: no box").unwrap();
    assert_eq!(attribute(failed, "code")["stringValue"], "TFY0001");
    assert!(spans.iter().all(|span| span["traceId"] == run["traceId"]));

    let told = collector.next("/v1/metrics");
    assert_eq!(told["key"], "k-1");
    let resource = &told["parsed"]["resourceMetrics"][0];
    assert_eq!(attribute(&resource["resource"], "host.name")["stringValue"], "blade-1");
    let metrics = resource["scopeMetrics"][0]["metrics"].as_array().unwrap();
    let metric = |name: &str| metrics.iter().find(|metric| metric["name"] == name).unwrap();
    let ended = &metric("tiffany_runs_ended_total")["sum"];
    assert_eq!(ended["isMonotonic"], true);
    assert_eq!(ended["aggregationTemporality"], "AGGREGATION_TEMPORALITY_CUMULATIVE");
    let commits = &metric("tiffany_commit_seconds")["histogram"]["dataPoints"][0];
    let counts = commits["bucketCounts"].as_array().unwrap();
    assert_eq!(counts.len(), commits["explicitBounds"].as_array().unwrap().len() + 1);
    let sum: u64 = counts.iter().map(|count| count.as_str().unwrap().parse::<u64>().unwrap()).sum();
    assert_eq!(commits["count"], sum.to_string());
    assert!(sum > 0);
    std::fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn a_collector_that_is_away_for_a_while_gets_what_there_was_room_for_and_the_rest_is_counted() {
    let first = Collector::start(0);
    let port = first.port;
    drop(first);
    let (layer, exporter) = start(&settings(port), "blade-1").unwrap();
    let subscriber = tracing_subscriber::registry().with(layer.with_filter(LevelFilter::INFO));
    tracing::subscriber::with_default(subscriber, || {
        let runtime = Runtime::new().unwrap();
        exporter.watch(&runtime.handle());
        let begun = Instant::now();
        // More spans than the queue has room for.
        for number in 0..12_000_u64 {
            drop(tracing::info_span!("work", number));
        }
        assert!(begun.elapsed() < Duration::from_secs(20), "nobody waits for it");
        let count =
            |name: &str, labels: &[(&str, &str)]| runtime.metrics().value(name, labels).unwrap();
        let traces = [("signal", "traces")];
        while count("tiffany_otlp_failures_total", &[]) == 0.0 {
            assert!(begun.elapsed() < LIMIT, "it is not noticed");
            std::thread::sleep(Duration::from_millis(20));
        }
        assert_eq!(count("tiffany_otlp_sent_total", &traces), 0.0);
        let collector = Collector::start(port);
        let begun = Instant::now();
        let all = || {
            count("tiffany_otlp_sent_total", &traces) + count("tiffany_otlp_dropped_total", &traces)
        };
        while all() < 12_000.0 {
            assert!(begun.elapsed() < LIMIT, "{}", all());
            std::thread::sleep(Duration::from_millis(50));
        }
        let dropped = count("tiffany_otlp_dropped_total", &traces);
        assert!((1_000.0..=4_000.0).contains(&dropped), "{dropped}");
        drop(tracing::info_span!("last"));
        exporter.finish(LIMIT);
        let spans = collector.spans_up_to("last");
        assert_eq!(spans.len() as f64, 12_001.0 - dropped);
        let numbers: Vec<u64> = spans[..spans.len() - 1]
            .iter()
            .map(|span| attribute(span, "number")["intValue"].as_str().unwrap().parse().unwrap())
            .collect();
        assert!(numbers.is_sorted(), "in the order in which they ended");
    });
}
