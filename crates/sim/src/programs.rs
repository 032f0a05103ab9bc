//! Generates workflows from a seed, with everything that durable runs can do. They test the runtime
//! itself.

use std::cell::Cell;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tiffany::durable::{QueueSettings, Rate, Retry, external_promise, patched, receive, step_with};
use tiffany::{
    Builder, ErrorKind, TaskError, cancel, channel, gather, new_uuid, now, race, random, sleep,
    try_spawn, yield_now,
};

use crate::crashes::Crashes;
use crate::plan::Draw;

/// One operation of a workflow.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Op {
    /// A step, which may fail some times before it returns its value.
    Step {
        /// The kind: 0 for idempotent, 1 for at most once, 2 for pure.
        kind: u8,
        /// The value that it returns.
        value: u64,
        /// How often it fails first.
        fails: u64,
        /// Whether it goes through a queue.
        queued: bool,
        /// Its timeout.
        timeout_ms: Option<u64>,
        /// The length of its value as text.
        length: usize,
    },
    /// A sleep.
    Sleep(u64),
    /// A reading of the clock, which is not part of the outcome.
    Now,
    /// A random number.
    Random,
    /// A UUID, which is not part of the outcome.
    Uuid,
    /// This number of plain yields.
    Yield(u8),
    /// Tasks that are all waited for.
    Gather(Vec<Vec<Op>>),
    /// Tasks of which the first to finish is waited for. The others are cancelled or continue.
    Race(Vec<Vec<Op>>, bool),
    /// A task that is cancelled after this number of milliseconds.
    Cancelled(Vec<Op>, u64),
    /// A channel with this capacity, and the number of messages from two senders.
    Channel(usize, u64),
    /// An external promise.
    Ask,
    /// A message of this name.
    Receive(String),
    /// A change of the program, which is checked with `patched`.
    Patched(u8),
    /// Tasks that share a counter and see each other's changes.
    Share(u8),
    /// A failure of the task with this message.
    Fail(String),
}

type Playing = Pin<Box<dyn Future<Output = Result<Vec<Value>, TaskError>>>>;

/// Performs the operations, and returns their results.
pub fn play(ops: Vec<Op>) -> Playing {
    Box::pin(async move {
        let mut values = Vec::new();
        for op in ops {
            values.push(one(op).await?);
        }
        Ok(values)
    })
}

async fn one(op: Op) -> Result<Value, TaskError> {
    Ok(match op {
        Op::Step { kind, value, fails, queued, timeout_ms, length } => {
            let text = "x".repeat(length);
            let mut step = step_with("work", move |attempt| match attempt.number() <= fails {
                true => Err("not yet".to_string()),
                false => Ok((value, text.clone())),
            });
            step = step.input(&value);
            step = match kind {
                0 => step.retry(Retry::times(9).first(Duration::from_millis(5))),
                1 => step.at_most_once(),
                _ => step.pure().retry(Retry::times(9).first(Duration::from_millis(5))),
            };
            if queued {
                step = step.queue("narrow");
            }
            if let Some(timeout) = timeout_ms {
                step = step.timeout(Duration::from_millis(timeout));
            }
            match step.await {
                Ok((value, _)) => json!(value),
                Err(error) if error.kind() == ErrorKind::InDoubt => json!("in doubt"),
                Err(error) => json!(error.message()),
            }
        }
        Op::Sleep(ms) => {
            sleep(Duration::from_millis(ms)).await;
            Value::Null
        }
        Op::Now => {
            now().await;
            Value::Null
        }
        Op::Random => json!(random().await.to_string()),
        Op::Uuid => {
            new_uuid().await;
            Value::Null
        }
        Op::Yield(times) => {
            for _ in 0..times {
                yield_now().await;
            }
            Value::Null
        }
        Op::Gather(tasks) => {
            let mut all = Vec::new();
            for ops in tasks {
                all.push(try_spawn(play(ops)).await);
            }
            json!(gather(all).await?)
        }
        Op::Race(tasks, cancels) => {
            let mut all = Vec::new();
            for ops in tasks {
                all.push(try_spawn(play(ops)).await);
            }
            let result = race(all).await?;
            if cancels {
                for loser in &result.rest {
                    cancel(loser).await;
                }
            }
            json!(result.value)
        }
        Op::Cancelled(ops, ms) => {
            let task = try_spawn(play(ops)).await;
            sleep(Duration::from_millis(ms)).await;
            cancel(&task).await;
            json!(task.await.is_ok())
        }
        Op::Channel(capacity, count) => json!(through_channel(capacity, count).await?),
        Op::Ask => {
            let promise = external_promise::<Value>().await;
            promise.wait().await?
        }
        Op::Receive(name) => receive::<Value>(&name).await?,
        Op::Patched(id) => json!(patched(&format!("change {id}")).await),
        Op::Share(tasks) => json!(share(tasks).await?),
        Op::Fail(message) => return Err(TaskError::failed(message)),
    })
}

async fn through_channel(capacity: usize, count: u64) -> Result<u64, TaskError> {
    let (sender, receiver) = channel::<u64>(capacity).await;
    let mut senders = Vec::new();
    for part in 0..2 {
        let sender = sender.clone();
        senders.push(
            try_spawn(async move {
                for number in 0..count {
                    sender.send(2 * number + part).await?;
                }
                Ok::<(), TaskError>(())
            })
            .await,
        );
    }
    drop(sender);
    let mut sum = 0;
    while let Some(number) = receiver.receive().await? {
        sum += number;
    }
    gather(senders).await?;
    Ok(sum)
}

async fn share(tasks: u8) -> Result<Vec<u64>, TaskError> {
    let counter = Rc::new(Cell::new(0u64));
    let mut all = Vec::new();
    for number in 0..u64::from(tasks) {
        let counter = Rc::clone(&counter);
        all.push(
            try_spawn(async move {
                let mut seen = 0;
                for _ in 0..3 {
                    counter.set(counter.get() + 1);
                    seen = counter.get();
                    sleep(Duration::from_millis(1 + number)).await;
                }
                // The recorded value depends on what the tasks saw of each other.
                step_with("seen", move |_| Ok::<u64, String>(seen)).input(&seen).await
            })
            .await,
        );
    }
    gather(all).await
}

/// Whether the outcome of a program may depend on timing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mood {
    /// The outcome is always the same.
    Steady,
    /// The outcome may vary: there are races, timeouts, cancellation and shared memory.
    Wild,
}

/// A workflow generated from a seed, and the messages that it waits for.
pub struct Program {
    /// Its operations.
    pub ops: Vec<Op>,
    /// The names of the messages, in any order.
    pub messages: Vec<String>,
}

impl Program {
    /// Generates a workflow.
    pub fn new(seed: u64, mood: Mood) -> Program {
        let mut maker = Maker { draw: Draw(seed), mood, messages: Vec::new() };
        let count = 3 + maker.draw.below(5);
        let ops = (0..count).map(|_| maker.op(0)).collect();
        Program { ops, messages: maker.messages }
    }
}

struct Maker {
    draw: Draw,
    mood: Mood,
    messages: Vec<String>,
}

impl Maker {
    fn ops(&mut self, depth: usize) -> Vec<Op> {
        (0..1 + self.draw.below(3)).map(|_| self.op(depth)).collect()
    }

    fn tasks(&mut self, depth: usize) -> Vec<Vec<Op>> {
        (0..2 + self.draw.below(2)).map(|_| self.ops(depth + 1)).collect()
    }

    fn op(&mut self, depth: usize) -> Op {
        let wild = self.mood == Mood::Wild;
        loop {
            let number = self.draw.next();
            return match self.draw.below(19) {
                0..4 => self.step(number),
                4 => Op::Sleep(number % 40),
                5 => Op::Now,
                6 if depth == 0 || wild => Op::Random,
                7 => Op::Uuid,
                8 => Op::Yield((number % 4) as u8),
                9 | 10 if depth < 2 => Op::Gather(self.tasks(depth)),
                11 if depth < 2 && wild => Op::Race(self.tasks(depth), number.is_multiple_of(2)),
                12 if depth < 2 && wild => Op::Cancelled(self.ops(depth + 1), number % 30),
                13 => Op::Channel((number % 3) as usize, 1 + number % 3),
                14 => Op::Ask,
                15 => {
                    let name = format!("message {}", self.messages.len());
                    self.messages.push(name.clone());
                    Op::Receive(name)
                }
                16 => Op::Patched((number % 3) as u8),
                17 if wild => Op::Share(2 + (number % 2) as u8),
                18 if number.is_multiple_of(5) => Op::Fail(format!("as made by {}", number % 100)),
                _ => continue,
            };
        }
    }

    fn step(&mut self, value: u64) -> Op {
        let wild = self.mood == Mood::Wild;
        let kind = [0, 0, 0, 1, 2][self.draw.below(5)];
        let fails = if kind == 1 || self.draw.below(3) > 0 { 0 } else { 1 + value % 2 };
        Op::Step {
            kind,
            value: value % 1000,
            fails,
            queued: self.draw.below(3) == 0,
            timeout_ms: (wild && self.draw.below(3) == 0).then_some(1 + value % 20),
            length: if self.draw.below(4) == 0 { 600 } else { 3 },
        }
    }
}

/// Adds the settings that generated workflows need.
pub fn settings(builder: Builder) -> Builder {
    let rate = Rate { starts: 3, per: Duration::from_millis(50) };
    let narrow = QueueSettings { concurrency: Some(2), rate: Some(rate) };
    builder.register("program", play).queue("narrow", narrow)
}

/// Makes a check of several workflows that run at once, all generated from one seed.
pub fn crashes(seed: u64, count: u64, mood: Mood) -> Crashes<()> {
    let outward = seed % 2 == 1;
    let mut crashes = Crashes::in_world(|| ()).set_up(move |_, builder| match outward {
        true => settings(builder).record_outward_only(),
        false => settings(builder),
    });
    for number in 0..count {
        let program = Program::new(seed.wrapping_mul(31).wrapping_add(number), mood);
        let id = format!("program {number}");
        crashes = crashes.run("program", &id, &program.ops);
        for (at, name) in program.messages.iter().enumerate() {
            let after = Duration::from_millis((seed.wrapping_mul(7) + 13 * at as u64) % 60);
            crashes = crashes.send(after, &id, name, &at);
        }
    }
    let crashes = crashes.answer(|_| Ok(json!("an answer"))).seeds(seed..seed + 1);
    match mood {
        Mood::Steady => crashes,
        Mood::Wild => crashes.may_differ(),
    }
}
