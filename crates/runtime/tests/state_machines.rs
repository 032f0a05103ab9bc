//! State machines make the calls of other tasks, with the functions of `TaskStatus` and `TaskContext`.

use std::cell::RefCell;
use std::marker::PhantomData;
use std::rc::Rc;
use std::time::Duration;

use tiffany::testing::TestScheduler;
use tiffany::{
    AgentTask, CustomCall, ErrorKind, TaskContext, TaskError, TaskStatus, answering, channel,
    gather_settled, promise, semaphore, spawn, spawn_agent, try_spawn, yield_now,
};

/// A state machine that counts its turns and does what a closure says.
struct Steps<F, T>(usize, F, PhantomData<T>);

fn steps<F, T: 'static>(step: F) -> Steps<F, T>
where
    F: FnMut(usize, &mut TaskContext<'_>) -> Result<TaskStatus<T>, TaskError>,
{
    Steps(0, step, PhantomData)
}

impl<F, T: 'static> AgentTask for Steps<F, T>
where
    F: FnMut(usize, &mut TaskContext<'_>) -> Result<TaskStatus<T>, TaskError>,
{
    type Output = T;

    fn poll(&mut self, ctx: &mut TaskContext<'_>) -> TaskStatus<T> {
        self.0 += 1;
        (self.1)(self.0, ctx).unwrap_or_else(TaskStatus::Failed)
    }
}

struct Double(u32);

impl CustomCall for Double {
    const NAME: &'static str = "double";
    type Answer = u32;
}

/// Each kind of call has its function, and each answer too.
#[test]
fn each_call_and_its_answer() {
    let doubling = answering(|double: &Double| Ok(double.0 * 2));
    let mut test = TestScheduler::with(tiffany::Runtime::builder().handler(doubling));
    let answers = test.try_run(async {
        let (sender, receiver) = channel::<u32>(1).await;
        let semaphore = semaphore(3).await;
        let promise = promise::<String>().await;
        let future = promise.future();
        promise.complete("kept".into()).await?;
        let mut child = None;
        let mut all = Vec::new();
        let task = spawn_agent(steps(move |turn, ctx| {
            Ok(match turn {
                1 => TaskStatus::sleep(Duration::from_secs(5)),
                2 => {
                    ctx.done()?;
                    TaskStatus::send(&sender, 7)
                }
                3 => {
                    ctx.done()?;
                    TaskStatus::receive(&receiver)
                }
                4 => {
                    all.push(format!("{:?}", ctx.message(&receiver)?));
                    TaskStatus::acquire_many(&semaphore, 2)
                }
                5 => {
                    all.push(format!("{:?}", ctx.permit(&semaphore)?));
                    // The permits are back already.
                    TaskStatus::acquire_many(&semaphore, 3)
                }
                6 => {
                    drop(ctx.permit(&semaphore)?);
                    TaskStatus::wait(&future)
                }
                7 => {
                    all.push(ctx.output(&future)?);
                    TaskStatus::spawn(spawn(async { Box::new(8u32) }).name("child"))
                }
                8 => TaskStatus::wait(child.insert(ctx.task::<Box<u32>>()?)),
                9 => {
                    all.push(ctx.output(child.as_ref().unwrap())?.to_string());
                    TaskStatus::call(Double(21))
                }
                _ => {
                    all.push(ctx.answer::<Double>()?.to_string());
                    TaskStatus::Completed(all.clone())
                }
            })
        }));
        task.await.await
    });
    assert_eq!(answers.unwrap(), ["Some(7)", "Permit(2 of 2)", "kept", "8", "42"]);
    assert_eq!(test.now(), tiffany::Time::ZERO + Duration::from_secs(5));
}

/// What goes wrong in a call is the answer's error, and ends the task if it says so.
#[test]
fn errors_are_answers() {
    TestScheduler::new()
        .run(async {
            let failed = try_spawn(async { Err::<(), _>("no luck") }).await;
            let waits = spawn_agent(steps(move |turn, ctx| {
                Ok(match turn {
                    1 => TaskStatus::wait(&failed),
                    _ => TaskStatus::Completed(ctx.output(&failed)?),
                })
            }));
            assert_eq!(waits.await.await.unwrap_err().message(), "no luck");
            let (sender, receiver) = channel::<u32>(1).await;
            drop(receiver);
            let sends = spawn_agent(steps(move |turn, ctx| {
                Ok(match turn {
                    1 => TaskStatus::send(&sender, 1),
                    _ => TaskStatus::Completed(ctx.done()?),
                })
            }));
            assert_eq!(sends.await.await.unwrap_err().kind(), ErrorKind::ChannelClosed);
        })
        .unwrap();
}

/// A state machine that waits holds no handle of what it waits for. One that nobody can reach any more is an
/// error for it.
#[test]
fn a_semaphore_that_goes_is_an_error_for_those_who_wait() {
    let mut test = TestScheduler::new();
    let codes = test.run(async {
        let permits = semaphore(1).await;
        let held = permits.acquire().await.unwrap();
        let shared = Rc::new(RefCell::new(Some(permits)));
        let mut tasks = Vec::new();
        for _ in 0..2 {
            let shared = Rc::clone(&shared);
            let task = steps(move |turn, ctx| match turn {
                1 => Ok(TaskStatus::acquire(shared.borrow().as_ref().unwrap())),
                _ => ctx.done().map(TaskStatus::Completed),
            });
            tasks.push(spawn_agent(task).await);
        }
        yield_now().await;
        // The first has the permit, and the semaphore is gone before it can take it.
        drop((held, shared.take()));
        gather_settled(tasks).await.unwrap()
    });
    let codes: Vec<_> =
        codes.unwrap().into_iter().map(|result| result.map_err(|error| error.kind())).collect();
    assert_eq!(codes, [Ok(()), Err(ErrorKind::Gone)]);
}
