//! Random programs of state machines, with snapshots at random places and crashes everywhere. Each
//! must return the value and do the steps that a plain function predicts.

use std::collections::BTreeSet;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tiffany::durable::{DurableAgent, DurablePromise, DurableTask, Retry, step, step_with};
use tiffany::{Builder, SystemCall, TaskContext, TaskError, TaskStatus};
use tiffany_sim::Crashes;

/// A program whose behavior is determined by its numbers.
#[derive(Serialize, Deserialize)]
struct Walker {
    dice: u64,
    left: u32,
    depth: u32,
    sum: u64,
    doing: Doing,
    children: Vec<DurableTask<u64>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Act {
    Add,
    Flaky,
    Read,
    Nap,
    Spawn,
    Join,
    Yield,
    Now,
    Ask,
    End,
}

#[derive(Serialize, Deserialize)]
enum Doing {
    Act(Act),
    Answer(DurablePromise<u64>),
}

const ACTS: [Act; 9] = [
    Act::Add,
    Act::Flaky,
    Act::Read,
    Act::Nap,
    Act::Spawn,
    Act::Join,
    Act::Yield,
    Act::Now,
    Act::Ask,
];

/// Returns the next random number, and the act it stands for.
fn draw(dice: u64, left: u32, depth: u32, children: usize) -> (u64, Act) {
    let dice = dice.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
    let act = match (left, children) {
        (0, 0) => Act::End,
        (0, _) => Act::Join,
        _ => ACTS[(dice >> 33) as usize % ACTS.len()],
    };
    (
        dice,
        match act {
            Act::Spawn if depth == 0 || children >= 2 => Act::Add,
            Act::Join if children == 0 => Act::Nap,
            act => act,
        },
    )
}

impl Walker {
    fn new((dice, left, depth): (u64, u32, u32)) -> Walker {
        let (dice, act) = draw(dice, left, depth, 0);
        let doing = Doing::Act(act);
        Walker { dice, left, depth, sum: dice >> 40, doing, children: Vec::new() }
    }

    fn child(&self) -> (u64, u32, u32) {
        (self.dice ^ 0x5555, self.left / 2 + 1, self.depth - 1)
    }

    fn go_on(&mut self) {
        self.left = self.left.saturating_sub(1);
        let (dice, act) = draw(self.dice, self.left, self.depth, self.children.len());
        (self.dice, self.doing) = (dice, Doing::Act(act));
    }
}

/// Computes the number that a step returns.
fn changed(sum: u64, by: u64) -> u64 {
    sum.wrapping_mul(31).wrapping_add(by) % 1_000_000_007
}

impl DurableAgent for Walker {
    const NAME: &'static str = "walker";
    type Output = u64;

    fn wants(&self) -> TaskStatus<u64> {
        let sum = self.sum;
        let act = match &self.doing {
            Doing::Answer(promise) => return TaskStatus::wait(promise),
            Doing::Act(act) => act,
        };
        match act {
            Act::Add => {
                let add = step("add", move || Ok::<u64, String>(changed(sum, 1)));
                TaskStatus::step(add.input(&sum))
            }
            Act::Flaky => {
                let flaky = step_with("flaky", move |attempt| match attempt.number() {
                    1 => Err("not yet".to_owned()),
                    _ => Ok(changed(sum, 2)),
                });
                let retry = Retry::times(9).first(Duration::from_millis(2));
                TaskStatus::step(flaky.retry(retry))
            }
            Act::Read => {
                TaskStatus::step(step("read", move || Ok::<u64, String>(changed(sum, 3))).pure())
            }
            Act::Nap => TaskStatus::sleep(Duration::from_millis(sum % 7)),
            Act::Spawn => TaskStatus::spawn_durable(Walker::new(self.child())),
            Act::Join => TaskStatus::wait(&self.children[0]),
            Act::Yield => TaskStatus::Ready,
            Act::Now => TaskStatus::Waiting(SystemCall::Now),
            Act::Ask => TaskStatus::external_promise(),
            Act::End => TaskStatus::Completed(sum),
        }
    }

    fn take(&mut self, ctx: &mut TaskContext<'_>) -> Result<(), TaskError> {
        let act = match &self.doing {
            Doing::Answer(promise) => {
                self.sum = changed(self.sum, ctx.output(promise)?);
                self.go_on();
                return Ok(());
            }
            Doing::Act(act) => *act,
        };
        match act {
            Act::Add | Act::Flaky | Act::Read => self.sum = ctx.written()?,
            Act::Spawn => self.children.push(ctx.durable_task()?),
            Act::Join => {
                let child = self.children.remove(0);
                self.sum = changed(self.sum, ctx.output(&child)?);
            }
            Act::Ask => {
                self.doing = Doing::Answer(ctx.durable_promise()?);
                return Ok(());
            }
            Act::Nap | Act::Yield | Act::Now | Act::End => {}
        }
        self.go_on();
        Ok(())
    }
}

/// The answer to every question.
const ANSWER: u64 = 5;

/// Computes the value of a program, and the number of steps of each kind.
fn expected(program: (u64, u32, u32), steps: &mut [usize; 2]) -> u64 {
    let (mut dice, mut left, depth) = program;
    let mut children: Vec<(u64, u32, u32)> = Vec::new();
    let mut act;
    (dice, act) = draw(dice, left, depth, 0);
    let mut sum = dice >> 40;
    loop {
        match act {
            Act::Add => {
                steps[0] += 1;
                sum = changed(sum, 1);
            }
            Act::Flaky => {
                steps[1] += 1;
                sum = changed(sum, 2);
            }
            Act::Read => sum = changed(sum, 3),
            Act::Spawn => children.push((dice ^ 0x5555, left / 2 + 1, depth - 1)),
            Act::Join => sum = changed(sum, expected(children.remove(0), steps)),
            Act::Ask => sum = changed(sum, ANSWER),
            Act::End => return sum,
            Act::Nap | Act::Yield | Act::Now => {}
        }
        left = left.saturating_sub(1);
        (dice, act) = draw(dice, left, depth, children.len());
    }
}

fn check(program: (u64, u32, u32), every: u64, outward: bool, most: usize) {
    let mut steps = [0, 0];
    let value = expected(program, &mut steps);
    let set_up = move |_: &(), builder: Builder| {
        let builder = builder.register_agent("walk", Walker::new).snapshot_every(every);
        if outward { builder.record_outward_only() } else { builder }
    };
    let report = Crashes::in_world(|| ())
        .set_up(set_up)
        .run("walk", "walk", &program)
        .answer(|_| Ok::<u64, String>(ANSWER))
        // The places of snapshots depend on crashes, but the result does not.
        .may_differ()
        .holds(move |_, seen| {
            let of = |name: &str| {
                let entries = seen.ledger().iter().filter(|entry| entry.name == name);
                entries.map(|entry| entry.key.clone()).collect::<BTreeSet<_>>().len()
            };
            match seen.outcome("walk") {
                Some(Ok(is)) if *is == value && [of("add"), of("flaky")] == steps => Ok(()),
                other => Err(format!(
                    "{other:?} and not {value}; {} and {} steps, and not {steps:?}",
                    of("add"),
                    of("flaky")
                )),
            }
        })
        .seeds(0..1)
        .at_most(most)
        .check();
    println!("{program:?} every {every}: {report}");
}

#[test]
fn random_programs_with_snapshots_anywhere() {
    for number in 0..8u64 {
        let program = (number.wrapping_mul(0x9e37_79b9_7f4a_7c15), 4 + number as u32, 2);
        check(program, 3 + number % 5, number % 3 == 2, 60);
    }
}

#[test]
fn one_program_crashed_at_every_operation() {
    check((7, 4, 1), 3, false, usize::MAX);
}
