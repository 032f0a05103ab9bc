//! Tags and attributes: they are where the run is, whatever becomes of it: killed, begun anew, snapshotted, forked,
//! compacted, backed up. What is not allowed is refused, and nothing is lost.

use std::path::Path;
use std::sync::Arc;

use crate::durable_kit::{Dir, ms, recording};
use serde::{Deserialize, Serialize};
use tiffany::control::{AttributeFilter, Control, RunQuery, RunSummary};
use tiffany::durable::{
    AttributeValue, DurableAgent, Fork, StartOptions, add_tags, continue_as, receive,
    remove_attributes, remove_tags, run_id, set_attributes, step,
};
use tiffany::history::RunOutline;
use tiffany::redact::Redactions;
use tiffany::retention::Keeper;
use tiffany::wal::backup::{Over, Pace, restore, take};
use tiffany::wal::{RealDisk, RunState, View};
use tiffany::{
    Builder, Runtime, SystemCall, TaskContext, TaskError, TaskStatus, Time, Uuid, sleep,
};

fn options() -> StartOptions {
    StartOptions::new()
        .tag("gold")
        .tag("eu")
        .attribute("customer", "ada")
        .attribute("amount", 17_i64)
        .attribute("rate", 0.5)
        .attribute("paid", false)
        .attribute("due", Time::from_nanos(1_800_000_000_000_000_000))
}

/// Changes what it has, does a step, and waits for a word.
async fn order(_: ()) -> Result<String, TaskError> {
    set_attributes([("stage", AttributeValue::from("begun")), ("paid", true.into())]).await?;
    step("charge", || Ok::<_, String>(())).await?;
    add_tags(["charged"]).await?;
    remove_tags(["eu", "never there"]).await?;
    remove_attributes(["rate"]).await?;
    let word: String = receive("word").await?;
    set_attributes([("stage", word.as_str())]).await?;
    Ok(word)
}

/// Begins anew with each word.
async fn rounds(round: i64) -> Result<i64, TaskError> {
    set_attributes([("round", round)]).await?;
    let word: String = receive("word").await?;
    add_tags([format!("seen-{word}")]).await?;
    if round < 2 { continue_as(&(round + 1)).await } else { Ok(round) }
}

fn program(dir: &Dir) -> Builder {
    dir.builder().register("order", order).register("rounds", rounds).register("refused", refused)
}

fn summary(runtime: &mut Runtime, id: &str) -> RunSummary {
    let query = RunQuery { text: Some(id.into()), ..RunQuery::default() };
    runtime.runs(&query).unwrap().runs.remove(0)
}

/// What a run has, in short.
fn shown(summary: &RunSummary) -> String {
    let mut all = summary.tags.clone();
    let values = summary.attributes.iter();
    all.extend(values.map(|(name, value)| format!("{name}={}", tiffany::control::literal(value))));
    all.join(" ")
}

/// Drives the runtime until a run has this.
#[track_caller]
fn until(runtime: &mut Runtime, id: &str, expected: &str) {
    for _ in 0..2000 {
        if shown(&summary(runtime, id)) == expected {
            return;
        }
        runtime.run(sleep(ms(5))).unwrap();
    }
    assert_eq!(shown(&summary(runtime, id)), expected);
}

fn outline(dir: &Path, run: Uuid) -> String {
    let view = View::open(Arc::new(RealDisk), dir).unwrap();
    let outline = RunOutline::at(&view, run, &view.run(run).unwrap()).unwrap();
    let values = outline.attributes.values.iter();
    let values = values.map(|(name, value)| format!("{name}={}", tiffany::control::literal(value)));
    outline.attributes.tags.iter().cloned().chain(values).collect::<Vec<_>>().join(" ")
}

const BEGUN: &str = "eu gold amount=17 customer=ada due=2027-01-15T08:00:00Z paid=false rate=0.5";
const CHARGED: &str =
    "charged gold amount=17 customer=ada due=2027-01-15T08:00:00Z paid=true stage=begun";
const DONE: &str =
    "charged gold amount=17 customer=ada due=2027-01-15T08:00:00Z paid=true stage=sent";

#[test]
fn they_are_set_at_the_start_changed_by_the_run_and_stay_when_it_is_over() {
    for is_outward in [false, true] {
        let dir = Dir::new();
        let start = || recording(program(&dir), is_outward).build().unwrap();
        let mut runtime = start();
        let run = runtime.submit_with::<String>("order", "order-1", &(), &options()).unwrap();
        assert_eq!(shown(&summary(&mut runtime, "order-1")), BEGUN);
        until(&mut runtime, "order-1", CHARGED);
        runtime.flush().unwrap();
        drop(runtime);
        // From its file, which has not been read as a whole.
        assert_eq!(outline(&dir.0, run.uuid()), CHARGED);
        let offline = Control::open(&dir.0).unwrap().runs(&RunQuery::default()).unwrap();
        assert_eq!(shown(&offline.runs[0]), CHARGED);
        let mut runtime = start();
        assert_eq!(shown(&summary(&mut runtime, "order-1")), CHARGED, "after a restart");
        // Nothing that is in the log is written again.
        runtime.send(&run, "word", &"sent").unwrap();
        runtime.wait_for(&run).unwrap();
        assert_eq!(shown(&summary(&mut runtime, "order-1")), DONE);
        drop(runtime);
        assert_eq!(dir.count("\"type\":\"Attributes\""), 6, "five calls, and the end");
        let mut runtime = start();
        assert_eq!(
            shown(&summary(&mut runtime, "order-1")),
            DONE,
            "from the file of a finished run"
        );
        // Asking for it again changes nothing.
        runtime
            .submit_with::<String>("order", "order-1", &(), &StartOptions::new().tag("late"))
            .unwrap();
        assert_eq!(shown(&summary(&mut runtime, "order-1")), DONE);
    }
}

#[test]
fn they_are_the_same_wherever_the_run_was_interrupted() {
    let dir = Dir::new();
    let mut runtime = program(&dir).build().unwrap();
    let run = runtime.submit_with::<String>("order", "order-1", &(), &options()).unwrap();
    runtime.send(&run, "word", &"sent").unwrap();
    runtime.wait_for(&run).unwrap();
    drop(runtime);
    let log = dir.log();
    for end in 1..log.lines().count() {
        let cut: String = log.split_inclusive('\n').take(end).collect();
        let other = dir.with_log(&cut);
        let mut runtime = program(&other).build().unwrap();
        let has_word = cut.contains("\"type\":\"Message\"");
        let again = runtime.submit::<String>("order", "order-1", &()).unwrap();
        if !has_word {
            runtime.send(&again, "word", &"sent").unwrap();
        }
        runtime.wait_for(&again).unwrap();
        assert_eq!(shown(&summary(&mut runtime, "order-1")), DONE, "after line {end}");
        drop(runtime);
        assert_eq!(outline(&other.0, again.uuid()), DONE, "after line {end}");
        // One that has its end, although the block that has it has one line more, is over.
        let expected = if end + 1 == log.lines().count() { 5 } else { 6 };
        let count = other.count("\"type\":\"Attributes\"");
        assert_eq!(count, expected, "after line {end}:\n{}", other.log());
    }
}

#[test]
fn a_run_that_begins_anew_keeps_them() {
    let dir = Dir::new();
    let mut runtime = program(&dir).build().unwrap();
    let run =
        runtime.submit_with::<i64>("rounds", "r", &0, &StartOptions::new().tag("loop")).unwrap();
    for word in ["a", "b"] {
        runtime.send(&run, "word", &word).unwrap();
    }
    until(&mut runtime, "r", "loop seen-a seen-b round=2");
    runtime.flush().unwrap();
    drop(runtime);
    assert_eq!(outline(&dir.0, run.uuid()), "loop seen-a seen-b round=2");
    let mut runtime = program(&dir).build().unwrap();
    runtime.send(&run, "word", &"c").unwrap();
    runtime.wait_for(&run).unwrap();
    assert_eq!(shown(&summary(&mut runtime, "r")), "loop seen-a seen-b seen-c round=2");
}

#[derive(Serialize, Deserialize)]
struct Waits {
    has_word: bool,
}

impl DurableAgent for Waits {
    const NAME: &'static str = "waits";
    type Output = u32;

    fn wants(&self) -> TaskStatus<u32> {
        match self.has_word {
            false => TaskStatus::Waiting(SystemCall::ReceiveMessage("word".into())),
            true => TaskStatus::Completed(7),
        }
    }

    fn take(&mut self, _: &mut TaskContext<'_>) -> Result<(), TaskError> {
        self.has_word = true;
        Ok(())
    }
}

#[test]
fn a_snapshot_has_them_in_its_first_line() {
    let dir = Dir::new();
    let begin = |(): ()| Waits { has_word: false };
    let start = || dir.builder().register_agent("waits", begin).build().unwrap();
    let mut runtime = start();
    let run = runtime.submit_with::<u32>("waits", "w", &(), &options()).unwrap();
    runtime.snapshot(&run).unwrap();
    drop(runtime);
    assert!(dir.log().lines().nth(1).unwrap().contains("\"type\":\"Snapshot\""));
    assert_eq!(outline(&dir.0, run.uuid()), BEGUN);
    let mut runtime = start();
    assert_eq!(shown(&summary(&mut runtime, "w")), BEGUN);
    runtime.send(&run, "word", &1).unwrap();
    assert_eq!(runtime.wait_for(&run).unwrap(), 7);
    assert_eq!(shown(&summary(&mut runtime, "w")), BEGUN);
}

#[test]
fn a_fork_has_those_of_its_parent_as_of_the_record() {
    let dir = Dir::new();
    let mut runtime = program(&dir).build().unwrap();
    let run = runtime.submit_with::<String>("order", "order-1", &(), &options()).unwrap();
    until(&mut runtime, "order-1", CHARGED);
    runtime.send(&run, "word", &"sent").unwrap();
    runtime.wait_for(&run).unwrap();
    drop(runtime);
    let mut runtime = program(&dir).build().unwrap();
    let log = std::fs::read_to_string(dir.0.join(format!("wal/{}.wal", run.uuid()))).unwrap();
    let result = 1 + log.lines().position(|line| line.contains("EffectResult")).unwrap();
    let fork = runtime.fork(&run, result as u64, Fork::new()).unwrap();
    let forked = |runtime: &mut Runtime| {
        let query = RunQuery { parent: Some(run.uuid()), ..RunQuery::default() };
        shown(&runtime.runs(&query).unwrap().runs[0])
    };
    assert_eq!(forked(&mut runtime), BEGUN.replace("paid=false", "paid=true") + " stage=begun");
    for _ in 0..2000 {
        if forked(&mut runtime) == CHARGED {
            break;
        }
        runtime.run(sleep(ms(5))).unwrap();
    }
    assert_eq!(forked(&mut runtime), CHARGED);
    runtime.send(&fork, "word", &"kept").unwrap();
    runtime.wait_for(&fork).unwrap();
    assert_eq!(forked(&mut runtime), DONE.replace("sent", "kept"));
    assert_eq!(shown(&summary(&mut runtime, "order-1")).replace("kept", "sent"), DONE);
}

#[test]
fn they_survive_compaction_and_a_backup() {
    let dir = Dir::new();
    let mut runtime = program(&dir).build().unwrap();
    let run = runtime.submit_with::<String>("order", "order-1", &(), &options()).unwrap();
    runtime.send(&run, "word", &"sent").unwrap();
    runtime.wait_for(&run).unwrap();
    drop(runtime);
    let mut keeper = Keeper::open(&dir.0).unwrap();
    assert_eq!(keeper.compact(&[run.uuid()]).unwrap().compacted, 1);
    drop(keeper);
    let view = View::open(Arc::new(RealDisk), &dir.0).unwrap();
    assert_eq!(
        view.run(run.uuid()).unwrap().seq,
        4,
        "start, end and attributes, and what was there"
    );
    assert_eq!(view.run(run.uuid()).unwrap().state, RunState::Finished);
    drop(view);
    assert_eq!(outline(&dir.0, run.uuid()), DONE);
    assert_eq!(shown(&summary(&mut program(&dir).build().unwrap(), "order-1")), DONE);
    // Once more there is nothing to save.
    let mut keeper = Keeper::open(&dir.0).unwrap();
    assert_eq!(keeper.compact(&[run.uuid()]).unwrap().compacted, 0);
    drop(keeper);

    let (to, back) = (Dir::new(), Dir::new());
    take(Arc::new(RealDisk), &dir.0, &to.0, &mut Pace::full()).unwrap();
    restore(Arc::new(RealDisk), &to.0, &back.0, Over::Nothing).unwrap();
    assert_eq!(outline(&back.0, run.uuid()), DONE);
}

/// Asks for what is not allowed, and goes on.
async fn refused(_: ()) -> Result<Vec<String>, TaskError> {
    let mut codes = Vec::new();
    let mut note = |outcome: Result<(), TaskError>| {
        codes.push(outcome.map_or_else(|error| error.code().to_owned(), |()| "ok".into()));
    };
    note(set_attributes([("ok", 1)]).await);
    note(set_attributes([("not ok", 1)]).await);
    note(set_attributes([("ok", f64::INFINITY)]).await);
    note(set_attributes((0..65).map(|n| (format!("n{n}"), n))).await);
    note(add_tags(["a\nb"]).await);
    note(add_tags((0..65).map(|n| n.to_string())).await);
    note(add_tags(["sk-0123456789"]).await);
    note(set_attributes([("sk-0123456789", 1)]).await);
    note(set_attributes([("key", "sk-0123456789")]).await);
    Ok(codes)
}

const REFUSED: [&str; 9] =
    ["ok", "TFY0270", "TFY0270", "TFY0270", "TFY0270", "TFY0270", "TFY0192", "TFY0192", "ok"];

#[test]
fn what_is_not_allowed_is_refused_and_secrets_never_reach_the_log() {
    let dir = Dir::new();
    let rules = || Redactions::new().pattern("sk-[0-9]{10}").unwrap();
    let start = || program(&dir).redact(rules()).build().unwrap();
    let mut runtime = start();
    let run = runtime.submit::<Vec<String>>("refused", "r", &()).unwrap();
    assert_eq!(runtime.wait_for(&run).unwrap(), REFUSED);
    let code = |runtime: &mut Runtime, options: StartOptions| {
        let outcome = runtime.submit_with::<()>("refused", "s", &(), &options);
        outcome.map_or_else(|error| error.task_error().unwrap().code(), |_| "ok")
    };
    let new = StartOptions::new;
    assert_eq!(code(&mut runtime, new().attribute("a b", 1)), "TFY0270");
    assert_eq!(code(&mut runtime, new().attribute("a", f64::NAN)), "TFY0270");
    assert_eq!(code(&mut runtime, new().tag("a\u{7}")), "TFY0270");
    assert_eq!(code(&mut runtime, new().tag("sk-0123456789")), "TFY0192");
    assert_eq!(code(&mut runtime, new().attribute("sk-0123456789", 1)), "TFY0192");
    let many = (0..65).fold(new(), |options, n| options.tag(n.to_string()));
    assert_eq!(code(&mut runtime, many), "TFY0270");
    assert_eq!(runtime.runs(&RunQuery::default()).unwrap().total, 1, "none of them was started");
    assert_eq!(code(&mut runtime, new().attribute("key", "sk-0123456789")), "ok");
    // Others are told what the log has, although the run is in memory.
    let handle = runtime.handle();
    let asked = std::thread::spawn(move || handle.control().runs(&RunQuery::default()));
    while !asked.is_finished() {
        runtime.serve_for(ms(1)).unwrap();
    }
    for run in asked.join().unwrap().unwrap().runs {
        let is = shown(&run);
        assert!(is.contains("key=") && !is.contains("sk-"), "{is}");
    }
    runtime.flush().unwrap();
    drop(runtime);
    for id in ["r", "s"] {
        let log = std::fs::read_to_string(dir.0.join(format!("wal/{}.wal", run_id(id)))).unwrap();
        assert!(!log.contains("sk-0123456789") && log.contains("\"key\":"), "{log}");
    }
    let mut runtime = start();
    for id in ["r", "s"] {
        let is = shown(&summary(&mut runtime, id));
        assert!(is.contains("key=") && !is.contains("sk-"), "{is}");
    }
    drop(runtime);
    // What was refused is refused again where the run is resumed.
    let mut runtime = start();
    assert_eq!(runtime.wait_for(&run).unwrap(), REFUSED);
}

#[test]
fn runs_are_found_by_them_whatever_their_state() {
    let dir = Dir::new();
    let mut runtime = program(&dir).build().unwrap();
    let start = |runtime: &mut Runtime, id: &str, tag: &str, amount: AttributeValue| {
        let options = StartOptions::new().tag("all").tag(tag).attribute("amount", amount);
        runtime.submit_with::<String>("order", id, &(), &options).unwrap()
    };
    let over = start(&mut runtime, "a", "gold", 5_i64.into());
    start(&mut runtime, "b", "gold", 10_i64.into());
    start(&mut runtime, "c", "silver", 10.5.into());
    start(&mut runtime, "d", "silver", "10".into());
    let held = start(&mut runtime, "e", "gold", 20_i64.into());
    runtime.send(&over, "word", &"sent").unwrap();
    runtime.wait_for(&over).unwrap();
    runtime.hold(&held, "ada", None).unwrap();
    runtime.flush().unwrap();
    let rows: [(&[&str], &[&str], &str); 9] = [
        (&["all"], &[], "abcde"),
        (&["gold"], &[], "abe"),
        (&["gold", "all"], &[], "abe"),
        (&["gold", "silver"], &[], ""),
        (&[], &["amount>=10"], "bce"),
        (&["gold"], &["amount>=10"], "be"),
        (&[], &["amount=10"], "b"),
        (&[], &["amount=\"10\""], "d"),
        (&[], &["amount>5", "amount<20"], "bc"),
    ];
    let check = |runtime: &mut Runtime, when: &str| {
        for (tags, filters, expected) in rows {
            let query = RunQuery {
                tags: tags.iter().map(|tag| tag.to_string()).collect(),
                attributes: filters
                    .iter()
                    .map(|text| AttributeFilter::parse(text).unwrap())
                    .collect(),
                sort: tiffany::control::SortBy::Id,
                descending: false,
                ..RunQuery::default()
            };
            let page = runtime.runs(&query).unwrap();
            let ids: String = page.runs.iter().map(|run| run.id.as_str()).collect();
            assert_eq!(ids, expected, "{when}: {tags:?} {filters:?}");
            assert_eq!(page.total, expected.len() as u64, "{when}: {tags:?} {filters:?}");
        }
    };
    check(&mut runtime, "running");
    drop(runtime);
    let mut runtime = program(&dir).build().unwrap();
    check(&mut runtime, "restarted");
    drop(runtime);
    // Runs whose program is gone are paused, and found as well.
    let mut runtime = dir.builder().build().unwrap();
    assert_eq!(runtime.paused().len(), 4);
    check(&mut runtime, "paused");
}

#[test]
fn a_long_log_is_searched_for_them() {
    let dir = Dir::new();
    let long = |_: ()| async {
        set_attributes([("stage", "begun")]).await?;
        for _ in 0..3000 {
            let _ = tiffany::random().await;
        }
        receive::<()>("word").await
    };
    let mut runtime = dir.builder().register("long", long).build().unwrap();
    let run = runtime.submit_with::<()>("long", "l", &(), &StartOptions::new().tag("x")).unwrap();
    while !summary(&mut runtime, "l").waits.iter().any(|what| what.contains("word")) {
        runtime.run(sleep(ms(5))).unwrap();
    }
    runtime.flush().unwrap();
    drop(runtime);
    assert!(dir.log().len() > 200_000);
    assert_eq!(outline(&dir.0, run.uuid()), "x stage=begun");
    let offline = Control::open(&dir.0).unwrap().runs(&RunQuery::default()).unwrap();
    assert_eq!(shown(&offline.runs[0]), "x stage=begun");
}
