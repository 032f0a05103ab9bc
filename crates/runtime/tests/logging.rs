//! The log: spans run → task → call with their fields, at the levels of the logging guide.

use std::io::Write;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::Value;
use tiffany::durable::{Retry, receive, step};
use tiffany::logging::JsonLines;
use tiffany::{Runtime, sleep, spawn, yield_now};
use tracing::Level;
use tracing_subscriber::fmt::format::JsonFields;

#[derive(Clone, Default)]
struct Buffer(Arc<Mutex<Vec<u8>>>);

impl Write for Buffer {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Does something with logging at a level, and gives the lines that were written.
fn logged(level: Level, act: impl FnOnce()) -> Vec<Value> {
    let buffer = Buffer::default();
    let writer = buffer.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(level)
        .fmt_fields(JsonFields::new())
        .event_format(JsonLines)
        .with_writer(move || writer.clone())
        .finish();
    tracing::subscriber::with_default(subscriber, act);
    let text = String::from_utf8(buffer.0.lock().unwrap().clone()).unwrap();
    text.lines().map(|line| serde_json::from_str(line).expect(line)).collect()
}

/// Runs a program with logging at a level, and gives the lines it wrote.
fn log_at(level: Level) -> Vec<Value> {
    logged(level, || {
        let mut runtime = Runtime::builder().agent_id("agent-7").node("blade-1").build().unwrap();
        let result = runtime.run(async {
            let child = spawn(async {
                yield_now().await;
                tracing::info!(target: "mine", step = 3, "working");
                panic!("on purpose");
            })
            .name("child")
            .await;
            child.await
        });
        assert!(result.unwrap().is_err());
    })
}

fn messages(lines: &[Value], level: &str) -> Vec<String> {
    let of_level = lines.iter().filter(|line| line["level"] == level);
    of_level.map(|line| line["message"].as_str().unwrap().to_string()).collect()
}

#[test]
fn lines_have_the_shape_of_the_guide() {
    let lines = log_at(Level::INFO);
    let first = &lines[0];
    let keys: Vec<&str> = first.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(keys, ["fields", "level", "message", "target", "timestamp"]);
    assert_eq!(first["message"], "run started");
    assert_eq!(first["target"], "tiffany");
    assert_eq!(first["fields"]["agent_id"], "agent-7");
    assert_eq!(first["fields"]["node"], "blade-1");
    assert!(first["fields"]["task_id"].is_u64());
    assert!(first["timestamp"].as_str().unwrap().ends_with('Z'));
}

#[test]
fn info_tells_of_runs_and_of_problems() {
    let lines = log_at(Level::INFO);
    assert_eq!(messages(&lines, "INFO"), ["run started", "working", "run completed"]);
    assert_eq!(messages(&lines, "DEBUG"), [""; 0]);
    assert_eq!(messages(&lines, "WARN").len(), 1, "but a failed task is told of at any level");
    // At this level a run tells nothing of its tasks, so the line is in the run's span alone.
    let working = lines.iter().find(|line| line["message"] == "working").unwrap();
    assert_eq!(working["fields"]["agent_id"], "agent-7");
    assert_eq!(working["fields"]["step"], 3);
}

#[test]
fn debug_tells_of_tasks_and_what_they_log_is_in_their_span() {
    let lines = log_at(Level::DEBUG);
    let told = messages(&lines, "DEBUG");
    assert_eq!(told, ["task spawned", "task spawned", "call failed", "task completed"]);
    let failed = messages(&lines, "WARN");
    assert_eq!(failed.len(), 1);
    assert!(failed[0].starts_with("task failed: task 2 `child`"), "{failed:?}");
    assert!(failed[0].contains("on purpose"), "{failed:?}");
    let working = lines.iter().find(|line| line["message"] == "working").unwrap();
    assert_eq!(working["fields"]["tid"], 2);
    assert_eq!(working["fields"]["name"], "child");
    assert_eq!(working["fields"]["node"], "blade-1");
}

#[test]
fn trace_tells_of_calls_in_their_own_spans() {
    let lines = log_at(Level::TRACE);
    let made: Vec<&Value> = lines.iter().filter(|line| line["message"] == "call made").collect();
    let calls: Vec<&str> =
        made.iter().map(|line| line["fields"]["call"].as_str().unwrap()).collect();
    // "Spawn queues the child, then the parent": the child has its turn first.
    assert_eq!(calls, ["spawn", "yield", "wait(task 2)"]);
    assert!(made[1]["fields"]["at"].as_str().unwrap().contains("logging.rs"));
    assert_eq!(made[1]["fields"]["tid"], 2);
}

#[test]
fn a_durable_run_is_named_in_every_line_that_it_its_tasks_and_its_steps_write() {
    let dir = std::env::temp_dir().join(format!("tiffany-logging-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&dir);
    let open = || {
        Runtime::builder()
            .log_dir(&dir)
            .node("blade-1")
            .register("order", |()| async {
                static TRIES: AtomicU32 = AtomicU32::new(0);
                let pack = || {
                    tracing::info!(target: "mine", "packing");
                    match TRIES.fetch_add(1, Ordering::Relaxed) {
                        0 => Err("no box"),
                        _ => Ok(()),
                    }
                };
                let retry = Retry::times(2).first(Duration::from_millis(1));
                step("pack", pack).retry(retry).await?;
                receive::<String>("address").await
            })
            .build()
            .unwrap()
    };
    let mut uuid = None;
    let first = logged(Level::DEBUG, || {
        let mut runtime = open();
        let run = runtime.submit::<String>("order", "tea", &()).unwrap();
        uuid = Some(run.uuid().to_string());
        let begun = Instant::now();
        while runtime.metrics().value("tiffany_tasks_blocked", &[("reason", "message")])
            != Some(1.0)
        {
            assert!(begun.elapsed() < Duration::from_secs(30), "{}", runtime.metrics());
            runtime.run(async { sleep(Duration::from_millis(2)).await }).unwrap();
        }
        runtime.flush().unwrap();
    });
    let uuid = uuid.unwrap();
    let of = |lines: &[Value], message: &str| -> Vec<Value> {
        let all =
            lines.iter().filter(|line| line["message"].as_str().unwrap().starts_with(message));
        all.cloned().collect()
    };
    assert_eq!(of(&first, "log opened").len(), 1);
    let packing = of(&first, "packing");
    assert_eq!(packing.len(), 2, "once for each attempt");
    for (number, line) in packing.iter().enumerate() {
        let fields = &line["fields"];
        assert_eq!(fields["task_id"], uuid.as_str(), "{line}");
        assert_eq!((&fields["run_id"], &fields["function"]), (&"tea".into(), &"order".into()));
        assert_eq!((&fields["tid"], &fields["node"]), (&1.into(), &"blade-1".into()));
        assert_eq!((&fields["step"], &fields["attempt"]), (&"pack".into(), &(number + 1).into()));
        assert!(fields["key"].as_str().unwrap().starts_with(&uuid), "{line}");
    }
    let failed = of(&first, "attempt failed: no box");
    assert_eq!(failed.len(), 1);
    assert_eq!((&failed[0]["level"], &failed[0]["fields"]["attempt"]), (&"WARN".into(), &1.into()));
    assert_eq!(of(&first, "attempt completed").len(), 1);

    let then = logged(Level::INFO, || drop(open()));
    let back = of(&then, "run resumed");
    assert_eq!(back.len(), 1, "{then:?}");
    assert_eq!(back[0]["fields"]["task_id"], uuid.as_str());
    assert_eq!(of(&then, "log opened")[0]["fields"]["live"], 1);
    std::fs::remove_dir_all(&dir).unwrap();
}
