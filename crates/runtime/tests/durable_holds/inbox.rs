//! Limits of unread messages: senders are refused, or wait.

use super::*;

#[test]
fn a_full_inbox_refuses_senders_from_outside() {
    async fn takes_late(count: u64) -> Result<u64, TaskError> {
        receive::<u64>("go").await?;
        let mut sum = 0;
        for _ in 0..count {
            sum += receive::<u64>("n").await?;
        }
        Ok(sum)
    }
    let dir = Dir::new();
    let limits = RunLimits { messages: Some(10), ..RunLimits::default() };
    let mut runtime =
        dir.builder().register("late", takes_late).run_limits(limits).build().unwrap();
    let run = runtime.submit::<u64>("late", "a", &11_u64).unwrap();
    runtime.run(sleep(ms(5))).unwrap();
    for n in 0..10_u64 {
        runtime.send(&run, "n", &n).unwrap();
    }
    let full = runtime.send(&run, "n", &10_u64).unwrap_err();
    assert_eq!(kind(&full), ErrorKind::InboxFull);
    assert!(full.to_string().contains("has 10 messages that it has not received"), "{full}");
    // One that it waits for is not unread.
    assert_eq!(kind(&runtime.send(&run, "go", &0_u64).unwrap_err()), ErrorKind::InboxFull);
    drop(runtime);
    let limits = RunLimits { messages: Some(11), ..RunLimits::default() };
    let mut runtime =
        dir.builder().register("late", takes_late).run_limits(limits).build().unwrap();
    runtime.send(&run, "go", &0_u64).unwrap();
    runtime.run(sleep(ms(5))).unwrap();
    runtime.send(&run, "n", &10_u64).unwrap();
    assert_eq!(runtime.wait_for(&run).unwrap(), 55);
}

#[test]
fn bytes_of_messages_count_too() {
    async fn never(_: ()) -> Result<(), TaskError> {
        receive::<()>("never").await
    }
    let dir = Dir::new();
    let limits = RunLimits { message_bytes: Some(10_000), ..RunLimits::default() };
    let mut runtime = dir.builder().register("never", never).run_limits(limits).build().unwrap();
    let run = runtime.submit::<()>("never", "a", &()).unwrap();
    let (text, mut sent) = ("x".repeat(3_998), 0);
    let full = loop {
        match runtime.send(&run, "n", &text) {
            Ok(()) => sent += 1,
            Err(error) => break error,
        }
    };
    // The message that is sent counts too.
    assert_eq!((sent, kind(&full)), (2, ErrorKind::InboxFull));
    let has = "has 8000 bytes of messages that it has not received, and may have 10000";
    assert!(full.to_string().contains(has), "{full}");
    runtime.send(&run, "n", &"x".repeat(1_998)).unwrap();
    assert_eq!(kind(&runtime.send(&run, "n", &0).unwrap_err()), ErrorKind::InboxFull);
}

/// Nobody waits for room that there will never be.
#[test]
fn a_message_that_never_fits_is_an_error_for_whoever_sends_it() {
    async fn never(_: ()) -> Result<(), TaskError> {
        receive::<()>("never").await
    }
    async fn sender(_: ()) -> Result<(), TaskError> {
        send(run_id("a"), "n", &"x".repeat(10_000)).await
    }
    let dir = Dir::new();
    let limits = RunLimits { message_bytes: Some(10_000), ..RunLimits::default() };
    let builder = dir.builder().register("never", never).register("sender", sender);
    let mut runtime = builder.run_limits(limits).build().unwrap();
    let run = runtime.submit::<()>("never", "a", &()).unwrap();
    let says = "the message has 10002 bytes, and run";
    let error = runtime.send(&run, "n", &"x".repeat(10_000)).unwrap_err();
    assert!(error.code() == "TFY0032" && error.to_string().contains(says), "{error}");
    let sender = runtime.submit::<()>("sender", "b", &()).unwrap();
    let error = runtime.wait_for(&sender).unwrap_err();
    assert!(error.code() == "TFY0032" && error.to_string().contains(says), "{error}");
    runtime.hold(&run, "ada", None).unwrap();
    drop(runtime);
    let mut runtime = dir.builder().run_limits(limits).build().unwrap();
    let error = runtime.send(&run, "n", &"x".repeat(10_000)).unwrap_err();
    assert!(error.to_string().contains(says), "{error}");
}

#[test]
fn messages_that_were_received_take_no_room() {
    async fn takes(count: usize) -> Result<usize, TaskError> {
        let mut bytes = 0;
        for _ in 0..count {
            bytes += receive::<String>("n").await?.len();
        }
        Ok(bytes)
    }
    let dir = Dir::new();
    let limits = RunLimits { message_bytes: Some(10_000), ..RunLimits::default() };
    let mut runtime = dir.builder().register("takes", takes).run_limits(limits).build().unwrap();
    let run = runtime.submit::<usize>("takes", "a", &9).unwrap();
    for _ in 0..3 {
        (0..3).for_each(|_| runtime.send(&run, "n", &"x".repeat(3_000)).unwrap());
        runtime.run(sleep(ms(5))).unwrap();
    }
    assert_eq!(runtime.wait_for(&run).unwrap(), 27_000);
}

#[test]
fn a_run_that_sends_to_a_full_inbox_waits_and_the_order_is_kept() {
    async fn slow(count: u64) -> Result<Vec<u64>, TaskError> {
        let mut all = Vec::new();
        for _ in 0..count {
            sleep(ms(1)).await;
            all.push(receive("n").await?);
        }
        Ok(all)
    }
    async fn fast(count: u64) -> Result<(), TaskError> {
        for n in 0..count {
            send(run_id("slow"), "n", &n).await?;
        }
        Ok(())
    }
    let dir = Dir::new();
    let limits = RunLimits { messages: Some(3), ..RunLimits::default() };
    let builder = dir.builder().register("slow", slow).register("fast", fast);
    let mut runtime = builder.run_limits(limits).build().unwrap();
    let to = runtime.submit::<Vec<u64>>("slow", "slow", &40_u64).unwrap();
    let from = runtime.submit::<()>("fast", "fast", &40_u64).unwrap();
    assert_eq!(runtime.wait_for(&to).unwrap(), (0..40).collect::<Vec<_>>());
    runtime.wait_for(&from).unwrap();
}

/// Sends itself more messages than its inbox takes, and says what came of the last one.
async fn sends_itself(id: String) -> Result<String, TaskError> {
    let own = run_id(&id);
    for number in 0..3 {
        send(own, "note", &number).await?;
    }
    let refused = send(own, "note", &3).await;
    let first: u32 = receive("note").await?;
    send(own, "note", &3).await?;
    Ok(format!("{} {first}", refused.map_err(|error| error.code()).unwrap_err()))
}

#[test]
fn a_run_that_sends_to_itself_does_not_wait_for_itself() {
    let dir = Dir::new();
    let limits = RunLimits { messages: Some(3), ..RunLimits::default() };
    let builder = dir.builder().register("own", sends_itself).run_limits(limits);
    let mut runtime = builder.build().unwrap();
    let run = runtime.submit::<String>("own", "own", &"own").unwrap();
    for _ in 0..200 {
        runtime.run(sleep(ms(20))).unwrap();
        if runtime.is_finished(run.uuid()) {
            break;
        }
    }
    assert!(runtime.is_finished(run.uuid()), "it waits for itself");
    assert_eq!(runtime.wait_for(&run).unwrap(), "TFY0237 0");
}

#[test]
fn messages_to_a_run_that_is_not_in_memory_count_too() {
    async fn takes_one(_: ()) -> Result<(), TaskError> {
        receive::<u64>("n").await?;
        receive::<u64>("never").await.map(drop)
    }
    let dir = Dir::new();
    let build = || {
        let limits = RunLimits { messages: Some(3), ..RunLimits::default() };
        dir.builder().register("takes_one", takes_one).run_limits(limits).build().unwrap()
    };
    let mut runtime = build();
    let run = runtime.submit::<()>("takes_one", "a", &()).unwrap();
    runtime.run(sleep(ms(5))).unwrap();
    runtime.send(&run, "n", &0_u64).unwrap();
    runtime.send(&run, "n", &1_u64).unwrap();
    runtime.run(sleep(ms(5))).unwrap();
    runtime.hold(&run, "ada", None).unwrap();
    drop(runtime);
    let mut runtime = build();
    assert_eq!(state(&mut runtime, "a"), State::Held);
    // One of the two was received.
    runtime.send(&run, "n", &2_u64).unwrap();
    runtime.send(&run, "m", &3_u64).unwrap();
    let full = runtime.send(&run, "n", &4_u64).unwrap_err();
    assert_eq!(kind(&full), ErrorKind::InboxFull);
    assert!(full.to_string().contains("has 3 messages that it has not received"), "{full}");
}

#[test]
fn messages_that_are_sent_while_no_process_runs_count_too() {
    async fn never(_: ()) -> Result<(), TaskError> {
        receive::<()>("never").await
    }
    let dir = Dir::new();
    let mut runtime = dir.builder().register("never", never).build().unwrap();
    let run = runtime.submit::<()>("never", "a", &()).unwrap();
    let most = RunLimits::for_services().messages.unwrap();
    for n in 1..most {
        runtime.send(&run, "n", &n).unwrap();
    }
    drop(runtime);
    let mut control = Control::open(&dir.0).unwrap();
    control.send(run.uuid(), "n", &0_u64).unwrap();
    let full = control.send(run.uuid(), "n", &0_u64).unwrap_err();
    assert_eq!(full.kind(), ErrorKind::InboxFull, "{full}");
}

#[test]
fn two_runs_that_wait_for_each_other_say_so_and_there_are_ways_out() {
    async fn floods(id: String) -> Result<(), TaskError> {
        for n in 0.. {
            send(run_id(&id), "n", &n).await?;
        }
        Ok(())
    }
    let dir = Dir::new();
    let build = |messages| {
        let limits = RunLimits { messages: Some(messages), ..RunLimits::default() };
        dir.builder().register("floods", floods).run_limits(limits).build().unwrap()
    };
    let mut runtime = build(2);
    let a = runtime.submit::<()>("floods", "a", &"b").unwrap();
    let b = runtime.submit::<()>("floods", "b", &"a").unwrap();
    let wait = |from: &DurableRun<()>| {
        // The file of a run comes into being a moment after the run.
        let tasks = RunIndex::new(&dir.0, from.uuid()).tasks(None).ok()?;
        tasks.tasks.first()?.waits.last().cloned()
    };
    for (from, to) in [(&a, &b), (&b, &a)] {
        let to = to.uuid();
        let what = format!("send to run {to}, not delivered yet: its inbox is full, or it is held");
        // Two messages were delivered each way, with three records for each.
        let is_so = (0..500).any(|_| {
            runtime.run(sleep(ms(10))).unwrap();
            wait(from).is_some_and(|wait| (wait.record, &wait.what) == (8, &what))
        });
        assert!(is_so, "{:?}", wait(from));
    }
    drop(runtime);
    let mut runtime = build(3);
    let is_so = (0..500).any(|_| {
        runtime.run(sleep(ms(10))).unwrap();
        [&a, &b].iter().all(|from| wait(from).is_some_and(|wait| wait.record > 8))
    });
    assert!(is_so, "a larger limit does not help: {:?}", wait(&a));
    runtime.cancel(&a).unwrap();
    assert_eq!(runtime.wait_for(&a).unwrap_err().code(), "TFY0003");
    assert_eq!(runtime.wait_for(&b).unwrap_err().code(), "TFY0042");
}

/// Receives messages of these names, one after the other; a name after `try` for a moment at most, one after `hour` for
/// an hour. `sleep` is not a name.
async fn receives(names: Vec<String>) -> Result<(), TaskError> {
    let hour = Duration::from_secs(3600);
    for name in names {
        match name.split_once(' ') {
            Some(("try", name)) => drop(timeout(ms(1), receive::<u8>(name)).await),
            Some((_, name)) => drop(timeout(hour, receive::<u8>(name)).await),
            None if name == "sleep" => sleep(hour).await,
            None => drop(receive::<u8>(&name).await?),
        }
    }
    Ok(())
}

#[test]
fn unread_messages_of_a_run_that_is_not_in_memory_are_known_from_its_log() {
    let count = RunLimits { messages: Some(5), ..RunLimits::default() };
    // Each message has one byte.
    let bytes = RunLimits { message_bytes: Some(5), ..RunLimits::default() };
    let cases: [(&[&str], &[&str], usize); 9] = [
        (&["never"], &[], 0),
        (&["never"], &["n", "m"], 2),
        (&["n", "never"], &["n"], 0),
        (&["n", "never"], &["n", "n", "m"], 2),
        // They came before the run asked for them.
        (&["go", "n", "n", "never"], &["n", "n", "n", "go"], 1),
        // It does not wait for this one any more.
        (&["try n", "never"], &["n"], 1),
        (&["try n", "sleep"], &["n"], 1),
        // It waits for two things at once.
        (&["hour n", "never"], &["n"], 0),
        (&["hour n", "hour n", "sleep"], &["n", "n", "n"], 1),
    ];
    for (limits, (names, sent, unread)) in
        [count, bytes].into_iter().flat_map(|limits| cases.map(|case| (limits, case)))
    {
        let dir = Dir::new();
        let build =
            || dir.builder().register("receives", receives).run_limits(limits).build().unwrap();
        let mut runtime = build();
        let run = runtime.submit::<()>("receives", "a", &names).unwrap();
        runtime.run(sleep(ms(5))).unwrap();
        sent.iter().for_each(|name| runtime.send(&run, name, &7).unwrap());
        runtime.run(sleep(ms(5))).unwrap();
        runtime.hold(&run, "ada", None).unwrap();
        drop(runtime);
        let mut runtime = build();
        assert_eq!(state(&mut runtime, "a"), State::Held);
        let room = (0..9).take_while(|_| runtime.send(&run, "n", &7).is_ok()).count();
        assert_eq!(room, 5 - unread, "{names:?}, sent {sent:?}, {limits:?}");
    }
}
