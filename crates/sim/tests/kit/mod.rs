//! Workflows that use all durable features, each with the conditions that must hold.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tiffany::durable::{
    QueueSettings, Retry, StepError, external_promise, patched, receive, step, step_with,
};
use tiffany::{
    Builder, TaskError, cancel, channel, gather, new_uuid, now, promise, race, random, select,
    sleep, try_spawn, yield_now,
};
use tiffany_sim::{Crashes, Failure, Report};

const MS: Duration = Duration::from_millis(1);

/// Whether all calls are recorded, or only those to the outside world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Written {
    Every,
    Outward,
}

fn with(written: Written) -> impl Fn(&(), Builder) -> Builder {
    move |_, builder| match written {
        Written::Every => builder,
        Written::Outward => builder.record_outward_only(),
    }
}

type Check = fn(Written, usize) -> Result<Report, Failure>;

/// All workflows, by name.
pub(crate) const ALL: &[(&str, Check)] = &[
    ("steps", |written, most| steps(written).at_most(most).report()),
    ("stubborn", |written, most| stubborn(written).at_most(most).report()),
    ("talk", |written, most| talk(written).at_most(most).report()),
    ("sharing", |written, most| sharing(written).at_most(most).report()),
    ("racing", |written, most| racing(written).at_most(most).report()),
    ("ends", |written, most| ends(written).at_most(most).report()),
    ("bank", |written, most| bank(written).at_most(most).report()),
];

/// Steps of all kinds in separate tasks, with retries and a queue, large values, and random values.
pub(crate) fn steps(written: Written) -> Crashes {
    async fn work(count: u64) -> Result<(Vec<u64>, u64, usize), TaskError> {
        let first = random().await % 100;
        let mut tasks = Vec::new();
        for number in 0..count {
            tasks.push(
                try_spawn(async move {
                    let twice = step("twice", move || Ok::<u64, String>(2 * number));
                    let twice = twice.input(&number).queue("narrow").await?;
                    now().await;
                    let flaky = step_with("flaky", move |attempt| match attempt.number() < 3 {
                        true => Err("not yet".to_string()),
                        false => Ok(twice + 1),
                    });
                    let odd: u64 = flaky.retry(Retry::times(9).first(7 * MS)).await?;
                    sleep(odd as u32 * MS).await;
                    let read = step("read", move || Ok::<u64, String>(10 * odd)).pure().await?;
                    let once = step("once", move || Ok::<u64, String>(read + 1)).at_most_once();
                    Ok::<u64, TaskError>(once.await.unwrap_or(0))
                })
                .await,
            );
        }
        let all = gather(tasks).await?;
        new_uuid().await;
        let large: String = step("large", || Ok::<String, String>("large ".repeat(200))).await?;
        Ok((all, first, large.len()))
    }
    let narrow = QueueSettings { concurrency: Some(2), rate: None };
    Crashes::of(work, 4u64)
        .set_up(with(written))
        .set_up(move |_, builder| builder.queue("narrow", narrow))
}

/// A step that fails until its attempts are used up, and one whose error is not retried.
pub(crate) fn stubborn(written: Written) -> Crashes {
    async fn work((): ()) -> Result<(String, String), TaskError> {
        let never = step("never", || Err::<(), _>("no")).retry(Retry::times(4).first(30 * MS));
        let never = never.await.unwrap_err().message().to_string();
        let lost = step("lost", || Err::<(), StepError>(StepError::give_up("lost")));
        let lost = lost.retry(Retry::times(9)).await.unwrap_err().message().to_string();
        Ok((never, lost))
    }
    Crashes::of(work, ()).set_up(with(written)).holds(|_, seen| {
        let count = |name: &str| seen.ledger().iter().filter(|entry| entry.name == name).count();
        let (never, lost, crashes) = (count("never"), count("lost"), seen.crashes());
        // A crash can cost one more attempt.
        match never <= 4 + crashes && lost <= 1 + crashes {
            true => Ok(()),
            false => Err(format!("tried {never} and {lost} times with {crashes} crashes")),
        }
    })
}

/// Promises, messages and a change of the program.
pub(crate) fn talk(written: Written) -> Crashes {
    async fn work(name: String) -> Result<(bool, String, Vec<u32>, bool), TaskError> {
        let is_new = patched("greeting").await;
        let promise = external_promise::<String>().await;
        let uuid = promise.uuid();
        step("ask", move || Ok::<String, String>(uuid.to_string().chars().take(0).collect()))
            .await?;
        let answer = promise.wait().await?;
        let mut numbers = Vec::new();
        for _ in 0..3 {
            numbers.push(receive::<u32>("number").await?);
        }
        let refused = external_promise::<u32>().await;
        let is_refused = refused.wait().await.is_err();
        Ok((is_new, format!("{name}: {answer}"), numbers, is_refused))
    }
    let crashes = Crashes::of(work, "we".to_string()).set_up(with(written));
    let crashes = crashes.answer(|question| match question.number {
        0 => Ok("well"),
        _ => Err("no".to_string()),
    });
    [10, 20, 30].iter().enumerate().fold(crashes, |crashes, (at, number)| {
        crashes.send(40 * at as u32 * MS, "workflow", "number", number)
    })
}

/// Tasks that share memory and record what they see of each other.
pub(crate) fn sharing(written: Written) -> Crashes {
    async fn work(count: u64) -> Result<usize, TaskError> {
        let shared: Rc<RefCell<Vec<u64>>> = Rc::default();
        let (sender, receiver) = channel::<u64>(1).await;
        let mut tasks = Vec::new();
        for number in 0..count {
            let (shared, sender) = (Rc::clone(&shared), sender.clone());
            tasks.push(
                try_spawn(async move {
                    for round in 0..3 {
                        shared.borrow_mut().push(number);
                        for _ in 0..number {
                            yield_now().await;
                        }
                        let seen = shared.borrow().clone();
                        step("see", move || Ok::<u64, String>(round)).input(&seen).await?;
                        sender.send(seen.len() as u64).await?;
                        sleep((1 + number) as u32 * MS).await;
                    }
                    Ok::<(), TaskError>(())
                })
                .await,
            );
        }
        drop(sender);
        let mut heard = Vec::new();
        while let Some(number) = receiver.receive().await? {
            heard.push(number);
            step("hear", || Ok::<(), String>(())).input(&heard).pure().await?;
        }
        gather(tasks).await?;
        Ok(heard.len())
    }
    Crashes::of(work, 3u64).set_up(with(written)).may_differ().holds(|_, seen| {
        match seen.outcome("workflow") {
            Some(Ok(heard)) if heard == 9 => Ok(()),
            other => Err(format!("it came to {other:?}")),
        }
    })
}

/// Races, timeouts and cancellation: the outcome is one of several.
pub(crate) fn racing(written: Written) -> Crashes {
    async fn work((): ()) -> Result<(u64, u64, bool, String), TaskError> {
        let slow = try_spawn(async { step("slow", || Ok::<u64, String>(1)).await }).await;
        let quick = try_spawn(async {
            sleep(9 * MS).await;
            Ok::<u64, TaskError>(2)
        })
        .await;
        let result = race([slow, quick]).await?;
        let winner = result.value;
        result.cancel_rest().await;
        let chosen = select! {
            one = step("one", || Ok::<u64, String>(1)) => one?,
            _ = sleep(11 * MS) => 3,
        };
        let doomed = try_spawn(async {
            sleep(5 * MS).await;
            step("doomed", || Ok::<u64, String>(1)).queue("alone").await
        })
        .await;
        sleep(12 * MS).await;
        cancel(&doomed).await;
        let was_done = doomed.await.is_ok();
        let late = step("late", || Ok::<u64, String>(1)).timeout(8 * MS).queue("alone");
        let late = match late.retry(Retry::times(3).first(MS)).await {
            Ok(value) => value.to_string(),
            Err(error) => error.code().to_string(),
        };
        Ok((winner, chosen, was_done, late))
    }
    let alone = QueueSettings { concurrency: Some(1), rate: None };
    let crashes = Crashes::of(work, ()).set_up(with(written)).may_differ();
    let crashes = crashes.set_up(move |_, builder| {
        builder.queue("alone", alone).register("sleeper", |(): ()| async {
            sleep(3600 * 1000 * MS).await;
            Ok::<u64, TaskError>(1)
        })
    });
    crashes.run("sleeper", "sleeper", &()).cancel(30 * MS, "sleeper").holds(|_, seen| {
        if !seen.outcome("sleeper").is_some_and(|outcome| outcome.is_err()) {
            return Err("nobody heeded that it was cancelled".to_string());
        }
        let outcome = seen.outcome("workflow");
        let Some(Ok(value)) = outcome else { return Err(format!("it came to {outcome:?}")) };
        let is_fine = [1, 2].iter().any(|won| value[0] == *won)
            && [1, 3].iter().any(|chosen| value[1] == *chosen)
            && ["1", "TFY0028"].iter().any(|late| value[3] == *late);
        is_fine.then_some(()).ok_or_else(|| format!("it came to {value}"))
    })
}

/// Several runs at once with all kinds of ends: a value, an error, a panic, a deadlock.
pub(crate) fn ends(written: Written) -> Crashes {
    let crashes = Crashes::in_world(|| ()).set_up(with(written)).set_up(|_, builder| {
        builder
            .register("well", |number: u64| async move {
                step("add", move || Ok::<u64, String>(number + 1)).await
            })
            .register("error", |(): ()| async {
                step("good", || Ok::<u64, String>(1)).await?;
                Err::<u64, TaskError>(TaskError::failed("not well"))
            })
            .register("panic", |(): ()| async {
                let panics = step("panics", || -> Result<u64, String> { panic!("as asked for") });
                panics.await
            })
            .register("deadlock", |(): ()| async {
                step("good", || Ok::<u64, String>(1)).await?;
                let child = try_spawn(async {
                    let kept = promise::<u64>().await;
                    kept.future().await
                })
                .await;
                child.await
            })
    });
    let crashes = (0..3u64)
        .fold(crashes, |crashes, number| crashes.run("well", &format!("well {number}"), &number));
    crashes.run("error", "error", &()).run("panic", "panic", &()).run("deadlock", "deadlock", &())
}

/// A bank that is called over the network. It remembers keys, and performs each payment only once
/// per key.
#[derive(Default)]
pub(crate) struct Bank {
    paid: Mutex<BTreeMap<String, u64>>,
    letters: Mutex<Vec<String>>,
}

/// Payments that must be made exactly once, and letters that must be sent at most once.
pub(crate) fn bank(written: Written) -> Crashes<Arc<Bank>> {
    async fn pay(bank: Arc<Bank>, amounts: Vec<u64>) -> Result<u64, TaskError> {
        let mut sum = 0;
        for amount in amounts {
            let (books, post) = (Arc::clone(&bank), Arc::clone(&bank));
            let paid = step_with("pay", move |attempt| {
                books.paid.lock().unwrap().insert(attempt.key().to_string(), amount);
                Ok::<u64, String>(amount)
            });
            sum += paid.input(&amount).await?;
            let letter = step("letter", move || {
                post.letters.lock().unwrap().push(format!("paid {amount}"));
                Ok::<(), String>(())
            });
            // A letter in doubt counts as sent.
            letter.at_most_once().await.unwrap_or(());
        }
        Ok(sum)
    }
    Crashes::in_world(Arc::<Bank>::default)
        .set_up(move |bank: &Arc<Bank>, builder| {
            let bank = Arc::clone(bank);
            let builder = builder.register("pay", move |amounts| pay(Arc::clone(&bank), amounts));
            with(written)(&(), builder)
        })
        .run("pay", "rent", &[700, 50])
        .run("pay", "tea", &[3, 4, 5])
        .holds(|bank, seen| {
            let paid: u64 = bank.paid.lock().unwrap().values().sum();
            let mut letters = bank.letters.lock().unwrap().clone();
            letters.sort();
            let before = letters.len();
            letters.dedup();
            let is_told = seen.outcome("tea").is_some_and(|tea| *tea == Ok(12.into()));
            match (paid, letters.len() == before, is_told) {
                (762, true, true) => Ok(()),
                other => Err(format!("paid, each letter once, told: {other:?}")),
            }
        })
}
