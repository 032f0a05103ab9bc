//! The threat: an index of a run that tells something else than its records do, because it was made bit by bit, because the run was damaged or began anew, or
//! because it is long.

#![allow(missing_docs, reason = "a test")]

#[path = "../../cli/examples/big_run.rs"]
#[allow(dead_code, unreachable_pub, reason = "it is a program of its own")]
mod big_run;

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use crate::history_kit::{Log, Run};
use proptest::prelude::*;
use serde_json::{Value, json};
use tiffany::history::{
    EffectQuery, RecordPage, RecordQuery, RunIndex, RunIndexError, TaskQuery, TimelineQuery,
};
use tiffany::wal::RecordType;
use tiffany::{Runtime, TaskError, Uuid};

/// A log directory with the file of one run, written by hand.
struct Place {
    root: PathBuf,
    run: Uuid,
}

impl Place {
    fn new(run: Uuid) -> Place {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("tiffany-run_index-{}-{number}", std::process::id());
        let root = std::env::temp_dir().join(name);
        let _ = std::fs::remove_dir_all(&root);
        std::fs::create_dir_all(root.join("wal")).unwrap();
        Place { root, run }
    }

    fn file(&self) -> PathBuf {
        self.root.join(format!("wal/{}.wal", self.run))
    }

    fn append(&self, bytes: &[u8]) {
        let file = OpenOptions::new().create(true).append(true).open(self.file());
        file.unwrap().write_all(bytes).unwrap();
    }

    fn run_index(&self) -> RunIndex {
        RunIndex::new(&self.root, self.run)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.root);
    }
}

/// A run of tasks that do this and that.
fn written(acts: &[(u8, u8, u8)]) -> Run {
    let mut run = Log::new().run(7, 0);
    run.start("{\"what\":\"Tea\"}");
    let (mut live, mut next) = (vec![1_u64], 2);
    for (act, who, millis) in acts {
        let tid = live[usize::from(*who) % live.len()];
        run.later(u64::from(*millis));
        match act {
            0 | 1 => {
                run.spawn(tid, next, &format!("child {next}"));
                live.push(next);
                next += 1;
            }
            2 => drop(run.sleep(tid, u64::from(*millis))),
            3 => drop(run.step(tid, ("pay", "1"), 1 + u64::from(*who) % 3, ("value", "2"))),
            4 => {
                let error = ("error", r#"{"kind":"TimedOut","message":"TOO slow"}"#);
                run.step(tid, ("ask", "\"Ä\""), 1, error);
            }
            5 => {
                let other = live[usize::from(*millis) % live.len()].to_string();
                run.call(tid, "wait_task", &[("task", &other)]);
            }
            6 => drop(run.call(tid, "effect", &[("name", "\"left\"")])),
            7 if tid != 1 => {
                run.exit(tid, "null");
                live.retain(|live| *live != tid);
            }
            8 if tid != 1 => {
                run.fail(tid, "no luck");
                live.retain(|live| *live != tid);
            }
            _ => drop(run.call(tid, "get_tid", &[])),
        }
    }
    run
}

/// All that a run_index tells.
fn told(run_index: &mut RunIndex) -> Value {
    let tasks = run_index.tasks(None).unwrap();
    let last = tasks.last;
    let earlier: Vec<Value> = (1..=last)
        .step_by(3)
        .map(|at| serde_json::to_value(run_index.tasks(Some(at)).unwrap()).unwrap())
        .collect();
    let query = TimelineQuery { width: Some(40), ..TimelineQuery::default() };
    let effects = EffectQuery { limit: 5, ..EffectQuery::default() };
    let records = RecordQuery { limit: 1000, ..RecordQuery::default() };
    json!([
        tasks,
        earlier,
        run_index.timeline(&TimelineQuery::default()).unwrap(),
        run_index.timeline(&query).unwrap(),
        run_index.effects(&effects).unwrap(),
        run_index.records(&records).unwrap().records,
    ])
}

fn acts() -> impl Strategy<Value = Vec<(u8, u8, u8)>> {
    proptest::collection::vec((0_u8..10, any::<u8>(), any::<u8>()), 0..60)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn made_bit_by_bit_it_is_the_same_as_made_at_once(acts in acts(), cuts in proptest::collection::vec(1_usize..700, 1..20)) {
        let run = written(&acts);
        let (place, text) = (Place::new(run.uuid), run.text());
        let mut bit_by_bit = place.run_index();
        let (mut at, mut cuts) = (0, cuts.into_iter().cycle());
        // In the middle of lines, too.
        while at < text.len() {
            let to = (at + cuts.next().unwrap()).min(text.len());
            place.append(&text.as_bytes()[at..to]);
            bit_by_bit.extend().unwrap();
            at = to;
        }
        prop_assert_eq!(told(&mut bit_by_bit), told(&mut place.run_index()));
    }

    #[test]
    fn tasks_in_parts_and_those_that_changed_make_up_all_of_them(
        acts in acts(),
        limit in 1_usize..9,
        share in 0_usize..100,
    ) {
        let run = written(&acts);
        let (place, text) = (Place::new(run.uuid), run.text());
        let lines: Vec<&str> = text.split_inclusive('\n').collect();
        let (before, after) = lines.split_at((lines.len() * share / 100).max(1));
        place.append(before.concat().as_bytes());
        let mut run_index = place.run_index();
        let (mut seen, mut query) = (BTreeMap::new(), TaskQuery { limit: Some(limit), ..TaskQuery::default() });
        let take = |run_index: &mut RunIndex, query: &mut TaskQuery, seen: &mut BTreeMap<u64, Value>| {
            loop {
                let part = run_index.some_tasks(query).unwrap();
                assert!(part.tasks.len() <= limit);
                let told = part.tasks.into_iter().map(|task| (task.tid, serde_json::to_value(task).unwrap()));
                seen.extend(told);
                query.after = part.next;
                if part.next.is_none() {
                    return (part.last, part.total);
                }
            }
        };
        let (last, total) = take(&mut run_index, &mut query, &mut seen);
        prop_assert_eq!((last, total), (before.len() as u64, seen.len() as u64));
        place.append(after.concat().as_bytes());
        query.since = Some(last);
        take(&mut run_index, &mut query, &mut seen);
        let all = run_index.tasks(None).unwrap();
        let all: Vec<Value> = all.tasks.into_iter().map(|task| serde_json::to_value(task).unwrap()).collect();
        prop_assert_eq!(seen.into_values().collect::<Vec<Value>>(), all);
        query.since = Some(lines.len() as u64);
        prop_assert!(run_index.some_tasks(&query).unwrap().tasks.is_empty());
    }

    #[test]
    fn pages_are_what_a_plain_filter_gives(
        acts in acts(),
        limit in 1_usize..30,
        filter in (
            any::<bool>(),
            proptest::option::of(1_u64..6),
            0_usize..4,
            any::<bool>(),
            proptest::option::of(prop_oneof![Just("TOO"), Just("ä"), Just("child 2"), Just("effect")]),
        ),
        (from, before) in (proptest::option::of(0_u64..90), proptest::option::of(0_u64..90)),
    ) {
        let run = written(&acts);
        let (place, text) = (Place::new(run.uuid), run.text());
        place.append(text.as_bytes());
        let (is_descending, task, types, failed, search) = filter;
        let types = [&[][..], &["TaskYield"], &["TaskAbort", "EffectResult"], &["Message"]][types];
        let query = RecordQuery {
            from,
            before,
            is_descending,
            task,
            types: types.iter().map(|name| (*name).to_owned()).collect(),
            failed,
            text: search.map(str::to_owned),
            limit,
        };
        let fits = |line: &&str| {
            let record: Value = serde_json::from_str(line).unwrap();
            let kind = record["type"].as_str().unwrap();
            task.is_none_or(|task| record["tid"] == task)
                && (types.is_empty() || types.contains(&kind))
                && (!failed || kind == "TaskAbort" || !record["error"].is_null())
                && search.is_none_or(|text| line.to_lowercase().contains(&text.to_lowercase()))
        };
        let seq = |line: &str| serde_json::from_str::<Value>(line).unwrap()["seq"].as_u64().unwrap();
        let mut wanted: Vec<&str> = text.lines().filter(fits).collect();
        let matched = wanted.len() as u64;
        wanted.retain(|line| {
            seq(line) >= from.unwrap_or(0) && before.is_none_or(|before| seq(line) < before)
        });
        if is_descending {
            wanted.reverse();
        }
        let mut run_index = place.run_index();
        // Page by page, as somebody would who scrolls.
        let (mut seen, mut query) = (Vec::new(), query);
        loop {
            let page = run_index.records(&query).unwrap();
            prop_assert_eq!(page.matched, Some(matched));
            prop_assert_eq!(page.total, text.lines().count() as u64);
            prop_assert!(page.records.len() <= limit);
            seen.extend(page.records);
            match page.next {
                None => break,
                Some(next) if is_descending => query.before = Some(next + 1),
                Some(next) => query.from = Some(next),
            }
        }
        prop_assert_eq!(seen, wanted);
    }

    #[test]
    fn slices_of_a_lane_follow_each_other_and_are_few(acts in acts(), width in 1_u64..50) {
        let run = written(&acts);
        let place = Place::new(run.uuid);
        place.append(run.text().as_bytes());
        let mut run_index = place.run_index();
        let all = run_index.timeline(&TimelineQuery::default()).unwrap();
        let query = TimelineQuery { width: Some(width), ..TimelineQuery::default() };
        let few = run_index.timeline(&query).unwrap();
        prop_assert_eq!(all.lanes.len(), few.lanes.len());
        for (lane, merged) in all.lanes.iter().zip(&few.lanes) {
            for (before, after) in lane.slices.iter().zip(&lane.slices[1..]) {
                prop_assert_eq!(before.to, Some(after.from));
            }
            // Nothing of the time is lost by putting it together.
            prop_assert_eq!(lane.slices[0].from, merged.slices[0].from);
            prop_assert_eq!(lane.slices.last().unwrap().to, merged.slices.last().unwrap().to);
            prop_assert!(merged.slices.len() as u64 <= 2 * width + 3, "{}", merged.slices.len());
        }
    }
}

#[test]
fn tasks_effects_and_slices_say_what_happened() {
    let mut run = Log::new().run(9, 0);
    run.start("1").spawn(1, 2, "payer");
    let wait = run.call(1, "wait_task", &[("task", "2")]);
    run.step(
        2,
        ("pay", "1"),
        2,
        (
            "error",
            r#"{"kind":"Failed","message":"no","task":null,"call":null,"within":[],"through":[]}"#,
        ),
    );
    let before = run.fail(2, "no luck").text().lines().count() as u64 - 1;
    let through = r#"{"kind":"Failed","message":"no luck","task":{"tid":2,"name":null,"spawned_at":{"file":"m.rs","line":1}},"call":null,"within":[],"through":[{"tid":1,"name":null,"spawned_at":{"file":"m.rs","line":1}}]}"#;
    run.later(10).line(RecordType::TaskAbort, 1, &[("error", through)]);
    let place = Place::new(run.uuid);
    place.append(run.text().as_bytes());
    let mut run_index = place.run_index();
    let tasks = run_index.tasks(Some(before)).unwrap();
    assert_eq!(
        (tasks.is_over, tasks.tasks[0].state, tasks.tasks[1].state),
        (false, "waiting", "ready")
    );
    assert_eq!((tasks.tasks[0].waits[0].record, &tasks.tasks[0].waits[0].on), (wait, &vec![2]));
    let tasks = run_index.tasks(None).unwrap();
    let error = tasks.tasks[0].error.as_ref().unwrap();
    assert_eq!((error.origin, &error.hops, &*error.message), (Some(2), &vec![1], "no luck"));
    assert_eq!((tasks.tasks[1].begin, tasks.tasks[1].end), (0, Some(70_000)));
    let effects = run_index.effects(&EffectQuery { limit: 9, ..EffectQuery::default() }).unwrap();
    let effect = &effects.effects[0];
    assert_eq!((&*effect.name, effect.state, effect.attempts.len()), ("pay", "failed", 2));
    assert_eq!((effect.attempts[0].begin, effect.attempts[0].end), (5000, Some(15_000)));
    assert_eq!(effect.attempts[0].error.as_ref().unwrap().message, "busy");
    assert_eq!((effects.by_name[0].failed, effects.by_name[0].attempts), (1, 2));
    let timeline = run_index.timeline(&TimelineQuery::default()).unwrap();
    let slices = serde_json::to_value(&timeline.lanes).unwrap();
    assert_eq!(slices[0]["slices"], json!([[0, 70_000, "join", 3], [70_000, 80_000, "run", 9]]));
    assert_eq!(slices[1]["slices"], json!([[0, 70_000, "effect", 4]]));
    let none = run_index.tasks(Some(999)).unwrap_err();
    assert_eq!((none.code(), run_index.tasks(Some(0)).unwrap_err().code()), ("TFY0115", "TFY0115"));
}

#[test]
fn a_damaged_run_is_told_as_far_as_it_can_be_read_and_further_once_it_is_mended() {
    let run = written(&[(2, 0, 5), (3, 0, 5), (0, 0, 1), (2, 1, 3)]);
    let (place, text) = (Place::new(run.uuid), run.text());
    let mut bytes = text.clone().into_bytes();
    let third = text.lines().take(3).map(|line| line.len() + 1).sum::<usize>();
    bytes[third + 20] ^= 1;
    place.append(&bytes);
    let mut run_index = place.run_index();
    for _ in 0..2 {
        let tasks = run_index.tasks(None).unwrap();
        assert_eq!(tasks.last, 3);
        assert!(tasks.unread.unwrap().contains("TFY0107"));
    }
    std::fs::write(place.file(), &text).unwrap();
    let tasks = run_index.tasks(None).unwrap();
    assert_eq!((tasks.last, tasks.unread), (text.lines().count() as u64, None));
}

#[test]
fn a_new_generation_takes_the_place_of_the_old_one() {
    let place = Place::new(Uuid::from_random(1));
    let mut runtime = Runtime::builder()
        .register("count", |(left, noise): (u32, u32)| async move {
            for _ in 0..noise {
                tiffany::get_tid().await;
            }
            match left {
                0 => Ok::<u32, TaskError>(7),
                left => tiffany::durable::continue_as(&(left - 1, 2)).await,
            }
        })
        .log_dir(&place.root)
        .build()
        .unwrap();
    let run = runtime.submit::<u32>("count", "c", &(3, 40)).unwrap();
    let mut run_index = RunIndex::new(&place.root, run.uuid());
    // It is looked at from another thread meanwhile, at whatever moment that is.
    let (root, uuid) = (place.root.clone(), run.uuid());
    let looks = std::thread::spawn(move || {
        let mut run_index = RunIndex::new(&root, uuid);
        let begun = Instant::now();
        loop {
            match run_index.tasks(None) {
                Ok(tasks) if tasks.is_over => return tasks.generation,
                Ok(tasks) => assert_eq!(tasks.tasks[0].tid, 1),
                Err(error) => assert_eq!(run_index.last(), 0, "{error}"),
            }
            assert!(begun.elapsed() < Duration::from_secs(30), "it is never over");
        }
    });
    assert_eq!(runtime.wait_for(&run).unwrap(), 7);
    drop(runtime);
    assert_eq!(looks.join().unwrap(), 4);
    let tasks = run_index.tasks(None).unwrap();
    assert_eq!((tasks.generation, tasks.is_over), (4, true));
    let page: RecordPage =
        run_index.records(&RecordQuery { limit: 99, ..RecordQuery::default() }).unwrap();
    assert_eq!(page.total, page.records.len() as u64);
    assert!(page.total < 40, "{page:?}");
}

#[test]
fn a_run_that_is_too_long_says_so_and_nothing_that_is_not_there_is_known() {
    let run = written(&[(0, 0, 1); 30]);
    let place = Place::new(run.uuid);
    let missing = place.run_index().tasks(None).unwrap_err();
    assert!(matches!(missing, RunIndexError::Log(_)), "{missing}");
    place.append(run.text().as_bytes());
    let error = place.run_index().most_bytes(500).tasks(None).unwrap_err();
    assert_eq!(error.code(), "TFY0169");
}

#[test]
fn a_big_run_is_told_quickly() {
    let place = Place::new(Uuid::from_random(2));
    // The figures that count are those of a release build: `cargo nextest run --release -p tiffany --no-capture run_index::big`.
    let tasks = if cfg!(debug_assertions) { 300 } else { 10_000 };
    let run = big_run::make(&place.root, tasks).unwrap();
    let mut run_index = RunIndex::new(&place.root, run);
    let mut took = Vec::new();
    let mut time = |what: &'static str, act: &mut dyn FnMut()| {
        let begun = Instant::now();
        act();
        took.push((what, begun.elapsed()));
    };
    time("first answer", &mut || drop(run_index.tasks(None).unwrap()));
    let last = run_index.last();
    assert!(last >= u64::from(tasks) * 20, "{last}");
    assert_eq!(run_index.tasks(None).unwrap().tasks.len(), tasks as usize + 1);
    time("tasks", &mut || drop(serde_json::to_vec(&run_index.tasks(None).unwrap()).unwrap()));
    let at = last * 3 / 4 + 5000.min(last / 8);
    time("tasks at a record", &mut || drop(run_index.tasks(Some(at)).unwrap()));
    let all = TimelineQuery { width: Some(1200), ..TimelineQuery::default() };
    time("timeline", &mut || drop(serde_json::to_vec(&run_index.timeline(&all).unwrap()).unwrap()));
    let failed =
        RecordQuery { failed: true, is_descending: true, limit: 100, ..RecordQuery::default() };
    time("failed records", &mut || {
        let page = run_index.records(&failed).unwrap();
        // Each failing step and each failing task; and the calls that waited for one which had failed already.
        let (steps, failures) = (u64::from(tasks / 100), u64::from(tasks / 1000));
        let matched = page.matched.unwrap();
        assert!((steps + failures..=steps + 2 * failures).contains(&matched), "{matched}");
    });
    let text = RecordQuery { text: Some("NO PRICE".into()), limit: 10, ..RecordQuery::default() };
    time("text", &mut || {
        assert_eq!(run_index.records(&text).unwrap().matched, Some(u64::from(tasks / 100)));
    });
    time("effects", &mut || {
        let page =
            run_index.effects(&EffectQuery { limit: 100, ..EffectQuery::default() }).unwrap();
        assert_eq!((page.total, page.effects.len()), (u64::from(tasks) * 5, 100));
    });
    println!("{last} records, {tasks} tasks, {} bytes: {took:?}", run_index.memory());
    let limit = |what: &str| match (what, cfg!(debug_assertions)) {
        (_, true) => 5000,
        // Generous, for a machine that does other things too: the figures are printed.
        ("first answer", _) => 1000,
        ("text", _) => 300,
        _ => 60,
    };
    for (what, took) in took {
        assert!(took < Duration::from_millis(limit(what)), "{what}: {took:?}");
    }
}
