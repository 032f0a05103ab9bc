//! A run for other programs: the shape of what they read, and that it says what happened.

use std::collections::{BTreeMap, BTreeSet};

use crate::history_kit::{Log, Run};
use serde_json::Value;
use tiffany::history::{Format, export};
use tiffany::wal::RecordType;

fn exported(format: Format, write: impl Fn(&mut Run)) -> String {
    let mut log = Log::new();
    let mut run = log.run(7, 1000);
    write(&mut run);
    let uuid = log.write(run);
    let mut text = Vec::new();
    export(&log.view(), uuid, format, &mut text).unwrap();
    String::from_utf8(text).unwrap()
}

/// Two tasks; one sleeps beside a step that needs two attempts, the other fails, and the root waits for both.
fn family(run: &mut Run) {
    run.start("1").spawn(1, 2, "left").spawn(1, 3, "a \"quoted\"; name");
    run.later(3).call(1, "gather", &[("items", r#"[{"task":2},{"task":3}]"#)]);
    // Two things at once.
    let of = run.call(2, "effect", &[("name", "\"slow\""), ("about", "{\"input\":1}")]).to_string();
    run.sleep(2, 100);
    for (attempt, is_last) in [("1", false), ("2", true)] {
        let which = [("of", &*of), ("attempt", attempt)];
        run.later(10).line(RecordType::EffectStart, 2, &which);
        run.later(10);
        if !is_last {
            let failed = [
                which[0],
                which[1],
                ("error", "\"busy\""),
                ("retry_at", "\"2027-01-15T08:00:00.000000000Z\""),
            ];
            run.line(RecordType::EffectResult, 2, &failed);
        }
    }
    run.line(RecordType::EffectResult, 2, &[("of", &of), ("step", "1"), ("value", "{\"n\":7}")]);
    run.later(1).exit(2, "");
    run.later(5).fail(3, "no");
    run.later(1).exit(1, "\"done\"");
}

struct Trace {
    events: Vec<Value>,
}

impl Trace {
    fn of(write: impl Fn(&mut Run)) -> Trace {
        let text = exported(Format::ChromeTrace, write);
        let document: Value = serde_json::from_str(&text).unwrap_or_else(|e| panic!("{e}: {text}"));
        assert_eq!(document["displayTimeUnit"], "ms");
        let trace = Trace { events: document["traceEvents"].as_array().unwrap().clone() };
        trace.has_the_shape();
        trace
    }

    /// What the trace event format asks for, and what a viewer needs to draw it as it is meant.
    fn has_the_shape(&self) {
        let mut tracks: BTreeMap<u64, Vec<(f64, f64)>> = BTreeMap::new();
        let (mut named, mut starts, mut ends) = (BTreeSet::new(), BTreeMap::new(), BTreeMap::new());
        for event in &self.events {
            let phase = event["ph"].as_str().unwrap();
            assert!(event["pid"].is_u64() && event["name"].is_string(), "{event}");
            let track = event["tid"].as_u64().unwrap();
            match phase {
                "M" => {
                    if event["name"] == "thread_name" {
                        assert!(named.insert(track), "named twice: {event}");
                    }
                }
                "X" => {
                    let (at, length) =
                        (event["ts"].as_f64().unwrap(), event["dur"].as_f64().unwrap());
                    assert!(at >= 0.0 && length >= 0.0, "{event}");
                    tracks.entry(track).or_default().push((at, at + length));
                }
                "i" => assert!(event["ts"].is_f64() && event["s"] == "p", "{event}"),
                "s" | "f" => {
                    let at = event["ts"].as_f64().unwrap();
                    let side = if phase == "s" { &mut starts } else { &mut ends };
                    assert!(side.insert(event["id"].as_u64().unwrap(), (track, at)).is_none());
                    assert!(phase == "s" || event["bp"] == "e", "{event}");
                }
                other => panic!("no phase of ours: {other}"),
            }
        }
        assert!(tracks.keys().all(|track| named.contains(track)), "{named:?}");
        assert!(starts.keys().eq(ends.keys()), "arrows with one end");
        for (id, (track, at)) in starts.iter().chain(&ends) {
            let inside = tracks[track].iter().any(|(from, to)| from <= at && at <= to);
            assert!(inside, "arrow {id} ends outside of any slice");
        }
        assert!(starts.iter().all(|(id, (_, at))| *at <= ends[id].1), "an arrow goes back in time");
        for (track, slices) in &tracks {
            for (at, a) in slices.iter().enumerate() {
                for b in &slices[at + 1..] {
                    let apart = a.1 <= b.0 || b.1 <= a.0;
                    let nested = (a.0 <= b.0 && b.1 <= a.1) || (b.0 <= a.0 && a.1 <= b.1);
                    assert!(apart || nested, "{a:?} and {b:?} cross on track {track}");
                }
            }
        }
    }

    /// Slices by name: track, moment and length in milliseconds.
    fn slice(&self, name: &str) -> (u64, f64, f64) {
        let is_it = |event: &&Value| event["ph"] == "X" && event["name"] == name;
        let found: Vec<&Value> = self.events.iter().filter(is_it).collect();
        assert_eq!(found.len(), 1, "{name}: {found:?}");
        let millis = |field: &str| found[0][field].as_f64().unwrap() / 1000.0;
        (found[0]["tid"].as_u64().unwrap(), millis("ts"), millis("dur"))
    }

    fn arrows(&self, name: &str) -> Vec<(u64, u64)> {
        let side = |phase: &str| -> BTreeMap<u64, u64> {
            let these = self.events.iter().filter(|e| e["ph"] == phase && e["name"] == name);
            these.map(|e| (e["id"].as_u64().unwrap(), e["tid"].as_u64().unwrap())).collect()
        };
        let ends = side("f");
        side("s").into_iter().map(|(id, from)| (from, ends[&id])).collect()
    }
}

#[test]
fn a_timeline_has_a_track_for_each_task_with_what_it_waited_for() {
    let trace = Trace::of(family);
    assert_eq!(trace.slice("1 order"), (1000, 0.0, 150.0));
    assert_eq!(trace.slice("2 left"), (2000, 0.0, 144.0));
    assert_eq!(trace.slice("gather"), (1000, 3.0, 147.0));
    // The step and the sleep are at once, so they have tracks of their own; the attempts are inside the step.
    assert_eq!(trace.slice("step slow"), (2000, 3.0, 140.0));
    assert_eq!(trace.slice("sleep"), (2001, 3.0, 100.0));
    assert_eq!(trace.slice("until the first attempt"), (2000, 3.0, 110.0));
    assert_eq!(trace.slice("attempt 1"), (2000, 113.0, 10.0));
    assert_eq!(trace.slice("until the next attempt"), (2000, 123.0, 10.0));
    assert_eq!(trace.slice("attempt 2"), (2000, 133.0, 10.0));
    assert_eq!(trace.slice("3 a \"quoted\"; name"), (3000, 0.0, 149.0));
    assert_eq!(trace.arrows("spawn"), [(1000, 2000), (1000, 3000)]);
    assert_eq!(trace.arrows("wait"), [(2000, 1000), (3000, 1000)]);
    let failed = trace.events.iter().find(|event| event["args"]["end"] == "failed").unwrap();
    assert_eq!(
        (failed["tid"].as_u64(), &failed["args"]["error"]["message"]),
        (Some(3000), &"no".into())
    );
}

#[test]
fn a_slice_stands_before_those_inside_it_and_what_took_no_time_before_a_step_is_left_out() {
    let trace = Trace::of(|run| {
        run.start("1");
        // Its steps take as long as its whole life: no time by the clock of the run.
        for name in ["\"first\"", "\"second\""] {
            let of = run.call(1, "effect", &[("name", name)]).to_string();
            run.line(RecordType::EffectStart, 1, &[("of", &of), ("attempt", "1")]);
            run.line(RecordType::EffectResult, 1, &[("of", &of), ("step", "1"), ("value", "1")]);
        }
        run.exit(1, "1");
    });
    let slices = trace.events.iter().filter(|event| event["ph"] == "X");
    let names: Vec<&str> = slices.filter_map(|event| event["name"].as_str()).collect();
    assert_eq!(names, ["1 order", "step first", "attempt 1", "step second", "attempt 1"]);
    // The same in a run that takes time.
    let trace = Trace::of(|run| {
        run.start("1");
        run.step(1, ("only", "1"), 1, ("value", "1"));
        run.exit(1, "1");
    });
    let place = |name: &str| trace.events.iter().position(|event| event["name"] == name).unwrap();
    assert!(place("1 order") < place("step only") && place("step only") < place("attempt 1"));
    assert_eq!(trace.slice("1 order").2, trace.slice("step only").2);
    assert_eq!(trace.slice("until the first attempt"), (1000, 0.0, 5.0));
}

#[test]
fn what_goes_on_ends_with_the_log_and_says_so() {
    let trace = Trace::of(|run| {
        run.start("1");
        run.later(5).call(1, "effect", &[("name", "\"slow\"")]);
        run.later(20).line(RecordType::ShutdownMarker, 1, &[]);
    });
    assert_eq!(trace.slice("1 order"), (1000, 0.0, 25.0));
    assert_eq!(trace.slice("running"), (1000, 0.0, 5.0));
    assert_eq!(trace.slice("step slow"), (1000, 5.0, 20.0));
    let open = trace.events.iter().filter(|event| event["args"]["open"] == true).count();
    let live = trace.events.iter().filter(|event| event["args"]["end"] == "live").count();
    assert_eq!((open, live), (1, 1));
}

#[test]
fn a_graph_has_who_spawned_whom_and_who_waits_for_whom() {
    let text = exported(Format::Mermaid, family);
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    assert_eq!(lines[0], "flowchart TD");
    for line in [
        "t1[\"1 order\"]:::completed",
        "t2[\"2 left\"]:::completed",
        "t3[\"3 a #quot;quoted#quot;#59; name\"]:::failed",
        "t1 --> t2",
        "t1 --> t3",
        "t1 -. waits for .-> t2",
        "t1 -. waits for .-> t3",
    ] {
        assert!(lines.contains(&line), "{line} is not in {text}");
    }
    assert_eq!(lines.len(), 1 + 3 + 2 + 2 + 4, "{text}");
}

#[test]
fn a_document_has_all_records_with_large_values_in_their_place() {
    let large = format!("[{}]", vec!["1234567890.125"; 400].join(","));
    let text = exported(Format::Json, |run| {
        run.start(&large);
        run.step(1, ("s", "{\"$x\":1}"), 1, ("value", "{\"$json\":{\"$price\":1.50}}"));
    });
    let document: Value = serde_json::from_str(&text).unwrap();
    let records = document["records"].as_array().unwrap();
    assert_eq!((records.len(), &document["unread"]), (4, &Value::Null));
    assert_eq!(records[0]["input"], serde_json::from_str::<Value>(&large).unwrap());
    assert_eq!(records[3]["value"]["$price"], 1.5);
    assert!(records.iter().all(|record| record.get("crc").is_none() && record["ts"].is_string()));
    // What was not in a blob is as it was written.
    assert!(text.contains("\"about\":{\"input\":{\"$x\":1}}"), "{text}");
}
