//! A task as a state machine: an agent that plans, acts and asks for confirmation. Its whole state
//! is in one value, and no future hides a part of it. Look at the second run: it is cancelled while
//! it waits, and its `cancel` takes the steps back, making calls of its own.
//!
//! `cargo run -p tiffany --example state_machine`

use std::time::Duration;

use tiffany::prelude::*;
use tiffany::{AgentTask, Future, TaskContext, TaskStatus, spawn_agent};

const STEPS: [&str; 3] = ["copy files", "migrate tables", "switch traffic"];

/// Rolls out a release.
struct Rollout {
    state: State,
    /// How many steps were taken and not taken back.
    taken: usize,
    approval: Future<bool>,
    say: fn(String),
}

enum State {
    Plan,
    Act,
    Confirm,
}

impl AgentTask for Rollout {
    type Output = usize;

    fn poll(&mut self, ctx: &mut TaskContext<'_>) -> TaskStatus<usize> {
        match self.state {
            State::Plan => {
                (self.say)(format!("  plan: {}", STEPS.join(", ")));
                self.state = State::Act;
                TaskStatus::Ready
            }
            State::Act if self.taken < STEPS.len() => {
                (self.say)(format!("  act: {}", STEPS[self.taken]));
                self.taken += 1;
                TaskStatus::sleep(Duration::from_millis(5))
            }
            State::Act => {
                (self.say)("  confirm?".into());
                self.state = State::Confirm;
                TaskStatus::wait(&self.approval)
            }
            State::Confirm => match ctx.output(&self.approval) {
                Ok(true) => TaskStatus::Completed(self.taken),
                Ok(false) => TaskStatus::Failed(TaskError::failed("it was not approved")),
                Err(error) => TaskStatus::Failed(error),
            },
        }
    }

    /// Called like `poll`, until there is nothing left to undo.
    fn cancel(&mut self, _: &mut TaskContext<'_>) -> TaskStatus<()> {
        if self.taken == 0 {
            return TaskStatus::Completed(());
        }
        self.taken -= 1;
        (self.say)(format!("  undo: {}", STEPS[self.taken]));
        TaskStatus::sleep(Duration::from_millis(5))
    }
}

/// Two rollouts. Returns how many steps the first took.
pub async fn main_task(say: fn(String)) -> Result<usize, TaskError> {
    let rollout = |approval| spawn_agent(Rollout { state: State::Plan, taken: 0, approval, say });

    say("a rollout that is approved:".into());
    let boss = promise::<bool>().await;
    let task = rollout(boss.future()).await;
    sleep(Duration::from_millis(40)).await;
    boss.complete(true).await?;
    let steps = task.await?;
    say(format!("  done in {steps} steps"));

    say("one that is cancelled before that:".into());
    let boss = promise::<bool>().await;
    let task = rollout(boss.future()).await;
    sleep(Duration::from_millis(40)).await;
    cancel(&task).await;
    if let Err(error) = task.await {
        say(format!("  {}: {}", error.code(), error.message()));
    }
    Ok(steps)
}

fn main() -> Result<(), tiffany::RunError> {
    tiffany::try_run(main_task(|line| println!("{line}")))?;
    Ok(())
}
