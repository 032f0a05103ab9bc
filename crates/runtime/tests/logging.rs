//! The log: spans run → task → call with their fields, at the levels of the logging guide.

use std::io::Write;
use std::sync::{Arc, Mutex};

use serde_json::Value;
use tiffany::logging::JsonLines;
use tiffany::{Runtime, spawn, yield_now};
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

/// Runs a program with logging at a level, and gives the lines it wrote.
fn log_at(level: Level) -> Vec<Value> {
    let buffer = Buffer::default();
    let writer = buffer.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(level)
        .fmt_fields(JsonFields::new())
        .event_format(JsonLines)
        .with_writer(move || writer.clone())
        .finish();
    tracing::subscriber::with_default(subscriber, || {
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
    });
    let text = String::from_utf8(buffer.0.lock().unwrap().clone()).unwrap();
    text.lines().map(|line| serde_json::from_str(line).expect(line)).collect()
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
