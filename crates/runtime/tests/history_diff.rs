//! Where two runs part: what must differ is not told, and what differs is told where it is.

use crate::history_kit::{Log, ROOT, Run};
use tiffany::history::{Diff, DiffSettings, DifferenceKind, diff};
use tiffany::wal::RecordType;

/// Writes two runs, begun at different moments, and compares them.
fn compare(write: impl Fn(&mut Run, bool)) -> Diff {
    compare_up_to(100, write)
}

fn compare_up_to(limit: usize, write: impl Fn(&mut Run, bool)) -> Diff {
    let mut log = Log::new();
    let [a, b] = [(7, false), (8, true)].map(|(number, is_second)| {
        let mut run = log.run(number, number as u64 * 1000);
        write(&mut run, is_second);
        log.write(run)
    });
    let view = log.view();
    diff((&view, a), (&view, b), DiffSettings::limit(limit)).unwrap()
}

/// The differences, each as a line: task, call, kind, changed values.
fn told(diff: &Diff) -> Vec<String> {
    let number = |number: Option<u64>| number.map_or("-".into(), |number| number.to_string());
    let line = |d: &tiffany::history::Difference| {
        let side = |value: &Option<serde_json::Value>| {
            value.as_ref().map_or("-".to_owned(), ToString::to_string)
        };
        let changes =
            d.changes.iter().map(|c| format!(" {} {}→{}", c.path, side(&c.a), side(&c.b)));
        let (a, b) = (number(d.task.a), number(d.task.b));
        let changes: String = changes.collect();
        format!("{a}/{b} {} {:?}{changes}", number(d.call), d.kind)
    };
    diff.differences.iter().map(line).collect()
}

fn order(run: &mut Run, price: &str) {
    run.start("\"tea\"");
    run.step(1, ("price", "\"tea\""), 1, ("value", price));
    run.sleep(1, 500).exit(1, "\"done\"");
}

#[test]
fn the_same_at_another_time_is_the_same() {
    let diff = compare(|run, _| order(run, "42"));
    assert!(diff.is_same(), "{diff:?}");
    assert_eq!((diff.same_records, diff.a.records, diff.b.records), (7, 7, 7));
}

#[test]
fn a_value_that_differs_is_told_by_its_place() {
    let diff = compare(|run, is_second| {
        let price = if is_second {
            r#"{"items":[1,2,{"price":43}]}"#
        } else {
            r#"{"items":[1,2,{"price":42}]}"#
        };
        order(run, price);
    });
    assert_eq!(told(&diff), ["1/1 1 Result /value/items/2/price 42→43"]);
    assert_eq!(diff.same_records, 3);
    let parting = diff.parting.as_ref().unwrap();
    assert_eq!(parting.a.as_ref().unwrap().record, 4);
    assert_eq!(parting.changes[0].path, "/value/items/2/price");
    assert_eq!((diff.tasks, diff.differing_tasks), (1, 1));
}

#[test]
fn inputs_arguments_lengths_of_sleeps_and_ends_are_compared() {
    let diff = compare(|run, is_second| {
        run.start(if is_second { "2" } else { "1" });
        run.step(1, ("price", if is_second { "\"b\"" } else { "\"a\"" }), 1, ("value", "1"));
        run.sleep(1, if is_second { 700 } else { 500 });
        match is_second {
            true => run.fail(1, "no"),
            false => run.exit(1, "1"),
        };
    });
    assert_eq!(
        told(&diff),
        [
            "1/1 - Input /input 1→2",
            "1/1 1 Call /about/input \"a\"→\"b\"",
            "1/1 2 Call /seconds 0.5→0.7",
            "1/1 - End /value 1→- /error -→{\"call\":\"pay\",\"detail\":null,\"kind\":\"Failed\",\"message\":\"no\",\"within\":[]}",
        ]
    );
}

#[test]
fn what_a_run_draws_is_not_compared_wherever_it_is_passed_on() {
    let diff = compare(|run, is_second| {
        let own = run.uuid.to_string();
        let drawn = if is_second {
            "72a90ea3-da8b-4dd0-9bde-2f27314e02e2"
        } else {
            "b5e18e3f-a3b5-4ec5-8c3c-ae267504ac24"
        };
        run.start("1");
        let quoted = format!("\"{drawn}\"");
        let of = run.call(1, "create_external_promise", &[("uuid", &quoted)]).to_string();
        run.line(RecordType::TaskWake, 1, &[("of", &of), ("step", "3")]);
        run.call(1, "random", &[("number", if is_second { "\"17\"" } else { "\"4\"" })]);
        let input = format!("{{\"approve\":\"https://x/{drawn}\",\"key\":\"{own}/2\"}}");
        run.step(1, ("mail", &input), 1, ("value", "null"));
        run.later(if is_second { 10 } else { 90 });
        run.line(
            RecordType::PromiseSettled,
            1,
            &[("promise", &quoted), ("step", "9"), ("value", "true")],
        );
        // A process that ended in good order on one side only: numbers of records move.
        if is_second {
            run.line(RecordType::ShutdownMarker, 1, &[]);
        }
        run.step(1, ("pay", "1"), 1, ("value", "null"));
        run.fail(1, "nobody");
    });
    assert!(diff.is_same(), "{:?}", told(&diff));
}

#[test]
fn a_promise_that_was_answered_otherwise_is_a_result() {
    let diff = compare(|run, is_second| {
        run.start("1");
        let uuid = format!("\"{}\"", tiffany::Uuid::from_random(run.uuid.0 ^ 99));
        run.call(1, "create_external_promise", &[("uuid", &uuid)]);
        let value = if is_second { "false" } else { "true" };
        run.line(RecordType::PromiseSettled, 1, &[("promise", &uuid), ("value", value)]);
    });
    assert_eq!(told(&diff), ["1/1 1 Result /value true→false"]);
}

#[test]
fn another_order_of_the_same_is_no_difference_of_the_tasks() {
    let diff = compare(|run, is_second| {
        run.start("1").spawn(1, 2, "left").spawn(1, 3, "right");
        let turns: [(u64, &str); 2] =
            if is_second { [(3, "b"), (2, "a")] } else { [(2, "a"), (3, "b")] };
        for (tid, name) in turns {
            run.step(tid, (name, "1"), 1, ("value", "1"));
            run.exit(tid, "");
        }
        run.exit(1, "1");
    });
    assert_eq!((told(&diff), diff.same_records), (vec![], 3));
    assert!(diff.parting.is_some() && !diff.is_same());
}

#[test]
fn tasks_are_matched_by_who_spawned_them_and_not_by_number() {
    let diff = compare(|run, is_second| {
        run.start("1");
        // Two tasks spawn one child each; who comes first decides the numbers of the children.
        run.spawn(1, 2, "left").spawn(1, 3, "right");
        let (first, second) = if is_second { ((3, "r"), (2, "l")) } else { ((2, "l"), (3, "r")) };
        run.spawn(first.0, 4, first.1).spawn(second.0, 5, second.1);
        let left = if is_second { 5 } else { 4 };
        run.step(left, ("pack", "1"), 1, ("value", if is_second { "8" } else { "7" }));
    });
    assert_eq!(told(&diff), ["4/5 1 Result /value 7→8"]);
    assert_eq!((diff.tasks, diff.differing_tasks), (5, 1));
}

#[test]
fn a_call_that_was_added_stands_alone_and_the_rest_is_matched_again() {
    let diff = compare(|run, is_second| {
        run.start("1");
        run.step(1, ("price", "1"), 1, ("value", "1"));
        if is_second {
            run.step(1, ("tax", "1"), 1, ("value", "1"));
            run.spawn(1, 2, "extra");
            run.step(2, ("audit", "1"), 1, ("value", "1"));
        }
        run.step(1, ("pay", "1"), 1, ("value", "1"));
        run.exit(1, "1");
    });
    assert_eq!(told(&diff), ["1/1 2 Only", "1/1 3 Only", "-/2 1 Only"]);
    assert_eq!(diff.differences[0].b.as_ref().unwrap().text, "step `tax`");
}

#[test]
fn attempts_messages_and_calls_without_an_answer_are_told() {
    let diff = compare(|run, is_second| {
        run.start("1");
        run.step(1, ("flaky", "1"), if is_second { 3 } else { 1 }, ("value", "1"));
        let value = if is_second { "\"b\"" } else { "\"a\"" };
        run.line(RecordType::Message, 1, &[("name", "\"address\""), ("value", value)]);
        match is_second {
            true => run.call(1, "effect", &[("name", "\"slow\""), ("about", "{\"input\":1}")]),
            false => run.step(1, ("slow", "1"), 1, ("value", "7")),
        };
    });
    assert_eq!(
        told(&diff),
        [
            "1/1 - Message /value \"a\"→\"b\"",
            "1/1 1 Attempts /attempts 1→3",
            "1/1 2 Result /attempts 1→0 /value 7→-",
        ]
    );
}

/// The rest of a run that has priced something: two steps and its end. A fork has their answers from its parent.
fn after_the_price(run: &mut Run, is_fork: bool) {
    for (name, attempts) in [("tax", 1), ("pay", 3)] {
        match is_fork {
            false => drop(run.step(1, (name, "1"), attempts, ("value", "1"))),
            true => {
                let name = format!("\"{name}\"");
                let about = ("about", "{\"input\":1}");
                let of = run.call(1, "effect", &[("name", &name), about]).to_string();
                let answer = [("of", &*of), ("step", "9"), ("value", "1"), ("from", "\"parent\"")];
                run.line(RecordType::EffectResult, 1, &answer);
            }
        }
    }
    run.exit(1, "\"done\"");
}

#[test]
fn of_a_fork_only_what_comes_of_it_is_told() {
    let fork = |price: &'static str| {
        compare(move |run, is_fork| {
            run.start("1");
            if !is_fork {
                run.step(1, ("price", "1"), 1, ("value", "42"));
                return after_the_price(run, false);
            }
            let about = ("about", "{\"input\":1}");
            let of = run.call(1, "effect", &[("name", "\"price\""), about]).to_string();
            run.line(RecordType::EffectStart, 1, &[("of", &of), ("attempt", "1")]);
            let answer = [("of", &*of), ("step", "2"), ("value", price), ("set", "true")];
            run.line(RecordType::EffectResult, 1, &answer);
            run.line(RecordType::Forked, 1, &[("at", "4"), ("seed", "\"7\"")]);
            after_the_price(run, true);
        })
    };
    // Answers that came from the parent took no attempts, and that is no difference.
    let same = fork("42");
    assert!(same.is_same(), "{same:?}");
    let other = fork("43");
    assert_eq!(told(&other), ["1/1 1 Result /value 42→43"]);
    let parting = other.parting.unwrap();
    let text = |call: Option<tiffany::history::Call>| call.unwrap().text;
    assert_eq!(text(parting.a), "the result of record 2");
    assert_eq!(text(parting.b), "the result of record 2, changed in the fork");
}

#[test]
fn another_error_is_told_by_its_message() {
    let diff = compare(|run, is_second| {
        run.start("1");
        let (message, detail) = if is_second { ("no tea", "{2}") } else { ("no milk", "{1}") };
        let error = format!(
            r#"{{"kind":"Failed","message":"{message}","call":null,"within":[],"through":[],"detail":"{detail}"}}"#
        );
        run.line(RecordType::TaskAbort, 1, &[("error", &error)]);
    });
    assert_eq!(told(&diff), ["1/1 - End /error/message \"no milk\"→\"no tea\""]);
}

#[test]
fn what_is_too_much_is_counted_and_not_told() {
    let diff = compare_up_to(3, |run, is_second| {
        run.start("1");
        for _ in 0..10 {
            run.step(1, ("s", "1"), 1, ("value", if is_second { "1" } else { "2" }));
        }
    });
    assert_eq!((diff.differences.len(), diff.more, diff.differing_tasks), (3, 7, 1));
    assert!(diff.differences.iter().all(|d| d.kind == DifferenceKind::Result));
}

#[test]
fn large_values_are_read_from_their_blobs() {
    let diff = compare(|run, is_second| {
        let list = (0..2000).map(|at| if at == 1234 && is_second { 0 } else { at });
        let text = format!("[{}]", list.map(|at| at.to_string()).collect::<Vec<_>>().join(","));
        order(run, &text);
    });
    assert_eq!(told(&diff), ["1/1 1 Result /value/1234 1234→0"]);
}

#[test]
fn of_a_damaged_run_what_can_be_read_is_compared_and_the_rest_is_told() {
    let mut log = Log::new();
    let [a, b] = [7, 8].map(|number| {
        let mut run = log.run(number, 5);
        order(&mut run, "42");
        log.write(run)
    });
    let disk = log.disk.clone();
    drop(log);
    let path = std::path::Path::new(ROOT).join(format!("wal/{b}.wal"));
    // As if the commit log were long gone: the file alone tells.
    let settings = tiffany::wal::Settings { segment_bytes: 1 << 20, ..Default::default() };
    let open = || {
        tiffany::wal::Writer::open(
            std::sync::Arc::new(disk.clone()),
            ROOT.as_ref(),
            settings.clone(),
        )
    };
    disk.crash(tiffany::wal::sim::Survivors::All);
    open().unwrap().0.close().unwrap();
    let mut bytes = disk.contents(&path).unwrap();
    let at = bytes.len() - 150;
    bytes[at] ^= 1;
    disk.tamper(&path, bytes);
    let view = tiffany::wal::View::open(std::sync::Arc::new(disk), ROOT.as_ref()).unwrap();
    let diff = diff((&view, a), (&view, b), DiffSettings::default()).unwrap();
    assert!(diff.a.unread.is_none());
    assert!(diff.b.unread.as_ref().unwrap().contains("TFY0107"), "{:?}", diff.b.unread);
    assert_eq!((diff.same_records, diff.b.records), (6, 6));
    assert_eq!(told(&diff), ["1/1 - End"]);
}

#[test]
fn long_runs_are_compared_in_time() {
    let steps = if cfg!(debug_assertions) { 3_000 } else { 70_000 };
    let mut log = Log::new();
    let [a, b] = [7, 8].map(|number| {
        let mut run = log.run(number, 5);
        run.start("1");
        for at in 0..steps {
            let value = if number == 8 && at + 10 == steps { "0" } else { "1" };
            run.step(1, ("s", "{\"n\":1}"), 1, ("value", value));
        }
        log.write(run)
    });
    let view = log.view();
    let begun = std::time::Instant::now();
    let diff = diff((&view, a), (&view, b), DiffSettings::default()).unwrap();
    let took = begun.elapsed();
    assert_eq!((diff.differences.len(), diff.a.records), (1, 3 * steps + 1));
    println!("{} records on each side: {took:?}", diff.a.records);
    assert!(took < std::time::Duration::from_secs(10), "{took:?}");
}
