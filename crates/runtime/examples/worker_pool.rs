//! A pool of workers: jobs come through a queue, and a semaphore lets three of them run at once.
//! Look at the squares: there are never more than three, and the job that has waited longest is
//! next.
//!
//! `cargo run -p tiffany --example worker_pool`

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use tiffany::prelude::*;

const AT_ONCE: usize = 3;
const JOBS: [(&str, u64); 8] = [
    ("parse", 30),
    ("index", 50),
    ("thumb", 20),
    ("mail", 40),
    ("sync", 10),
    ("pack", 30),
    ("sign", 20),
    ("send", 10),
];

/// The whole program. Returns the largest number of jobs that ran at once.
pub async fn main_task(say: fn(String)) -> Result<usize, TaskError> {
    let (queue, jobs) = channel(2).await;
    let producer = try_spawn(async move {
        for job in JOBS {
            // Waits while the queue is full.
            queue.send(job).await?;
        }
        Ok::<(), TaskError>(())
    })
    .name("producer")
    .await;

    let slots = semaphore(AT_ONCE).await;
    // All tasks run on one thread, so what they share needs no lock.
    let busy = Rc::new(Busy { say, names: RefCell::default() });
    let mut workers = Vec::new();
    while let Some((name, millis)) = jobs.receive().await? {
        let permit = slots.acquire().await?;
        let busy = Rc::clone(&busy);
        let worker = spawn(async move {
            let _permit = permit;
            busy.start(name);
            sleep(Duration::from_millis(millis)).await;
            busy.stop(name)
        });
        workers.push(worker.name(name).await);
    }
    producer.await?;
    let most = gather(workers).await?.into_iter().max().unwrap_or(0);
    say(format!("{} jobs, never more than {most} at once", JOBS.len()));
    Ok(most)
}

/// The jobs that are running.
struct Busy {
    say: fn(String),
    names: RefCell<Vec<&'static str>>,
}

impl Busy {
    fn start(&self, name: &'static str) {
        self.names.borrow_mut().push(name);
        self.show("▶", name);
    }

    /// Returns how many there were, including this one.
    fn stop(&self, name: &'static str) -> usize {
        let count = self.names.borrow().len();
        self.names.borrow_mut().retain(|busy| *busy != name);
        self.show("✓", name);
        count
    }

    fn show(&self, what: &str, name: &str) {
        let names = self.names.borrow();
        let squares = "■".repeat(names.len()) + &"□".repeat(AT_ONCE.saturating_sub(names.len()));
        (self.say)(format!("{what} {name:<6} {squares}  {}", names.join(" ")).trim_end().into());
    }
}

fn main() -> Result<(), tiffany::RunError> {
    tiffany::try_run(main_task(|line| println!("{line}")))?;
    Ok(())
}
