//! What a task runs, and the port through which the two talk. A coroutine leaves its calls in the port
//! while it is resumed; the scheduler accepts them, in the order they were made, when it returns.

use std::cell::{Cell, RefCell};
use std::panic::Location;
use std::pin::Pin;
use std::rc::Rc;

use crate::call::{Reply, SystemCall};
use crate::error::{TaskError, TaskLabel};
use crate::id::{CallId, ObjectRef, RunId, TaskRef, Tid};
use crate::time::Time;
use crate::value::Value;

/// The code of a task: a Rust future, a state machine, a Python generator.
pub trait Coroutine {
    /// Runs until it has to wait, or to its end.
    fn resume(self: Pin<&mut Self>, port: &Port) -> Step;

    /// Runs its cleanup, because the task was cancelled: first with `Unwind::Begin`, then, as often as
    /// a call it made is answered, with `Unwind::Continue`. `Done` means there is nothing left to do.
    fn unwind(self: Pin<&mut Self>, port: &Port, phase: Unwind) -> Step {
        let _ = (port, phase);
        Step::Done(Value::Unit)
    }

    /// Whether somebody outside the kernel could still wake it.
    fn may_be_woken(&self) -> bool {
        false
    }
}

/// A coroutine of any kind. Pinned, because Rust futures must not move.
pub type BoxCoroutine = Pin<Box<dyn Coroutine>>;

/// How far the unwinding of a cancelled coroutine is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unwind {
    /// It learns now that it was cancelled.
    Begin,
    /// A call that its cleanup made was answered.
    Continue,
}

/// What came of resuming a coroutine.
pub enum Step {
    /// It waits for the calls it left in the port, or for somebody outside.
    Pending,
    /// It returned.
    Done(Value),
    /// It ended with an error.
    Failed(TaskError),
}

/// What a coroutine leaves for the scheduler.
pub(crate) enum Post {
    Call { id: CallId, call: SystemCall, at: &'static Location<'static> },
    Withdraw(TaskRef, CallId),
    Release(Release),
    Wake,
}

/// Something given back. Unlike a call it has no answer, so it can be made from `Drop`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Release {
    /// The handle of a task: nobody will ask for its result.
    Task(TaskRef),
    /// One more read side of a promise.
    RetainFuture(ObjectRef),
    /// One read side of a promise less.
    Future(ObjectRef),
    /// The write side of a promise. Unsettled, it is now abandoned.
    Promise(ObjectRef),
    /// One more sender.
    RetainSender(ObjectRef),
    /// One sender less; with the last one the channel is closed.
    Sender(ObjectRef),
    /// The receiver: what is sent now is an error.
    Receiver(ObjectRef),
    /// So many permits.
    Permits(ObjectRef, usize),
    /// A semaphore nobody can reach any more.
    Semaphore(ObjectRef),
    /// A group: its members are cancelled.
    Group(ObjectRef),
}

/// The meeting place of the running coroutine and the scheduler; one for each thread that runs tasks.
///
/// Replies wait here for the coroutine to take them; what it does not take is kept for its next turn.
pub struct Port {
    task: Cell<Option<TaskRef>>,
    next_call: Cell<u64>,
    clock: Cell<Option<Time>>,
    last_call: Cell<Option<&'static Location<'static>>>,
    spawned_at: Cell<Option<&'static Location<'static>>>,
    name: RefCell<Option<Rc<str>>>,
    // One call and one reply at a time is the rule; the lists are for those who have several.
    reply: Cell<Option<(CallId, Reply)>>,
    more_replies: RefCell<Vec<(CallId, Reply)>>,
    post: Cell<Option<Post>>,
    more_posts: RefCell<Vec<Post>>,
    has_more: Cell<bool>,
}

impl Default for Port {
    fn default() -> Port {
        Port::new()
    }
}

impl Port {
    /// An empty port.
    pub const fn new() -> Port {
        Port {
            task: Cell::new(None),
            next_call: Cell::new(0),
            clock: Cell::new(None),
            last_call: Cell::new(None),
            spawned_at: Cell::new(None),
            name: RefCell::new(None),
            reply: Cell::new(None),
            more_replies: RefCell::new(Vec::new()),
            post: Cell::new(None),
            more_posts: RefCell::new(Vec::new()),
            has_more: Cell::new(false),
        }
    }

    /// The task being resumed.
    pub fn task(&self) -> Option<TaskRef> {
        self.task.get()
    }

    /// The number of the task being resumed.
    pub fn tid(&self) -> Option<Tid> {
        self.task.get().map(|task| task.tid)
    }

    /// The run of the task being resumed.
    pub fn run(&self) -> Option<RunId> {
        self.task.get().map(|task| task.run)
    }

    /// The name of the task being resumed, if it has one.
    pub fn name(&self) -> Option<Rc<str>> {
        self.name.borrow().clone()
    }

    /// The task being resumed as people know it, for errors that the kernel does not see.
    pub fn label(&self) -> Option<TaskLabel> {
        let (tid, at) = (self.tid()?, self.spawned_at.get()?);
        let name = self.name().map(|name| name.to_string());
        Some(TaskLabel { tid, name, spawned_at: at.into() })
    }

    /// Makes a call. It is accepted when the coroutine returns, unless it is withdrawn before.
    pub fn call(&self, call: SystemCall, at: &'static Location<'static>) -> CallId {
        let id = CallId(self.next_call.get());
        self.next_call.set(id.0 + 1);
        self.push(Post::Call { id, call, at });
        id
    }

    /// Sets the round's clock, if nobody has yet. A call for which
    /// [`reads_clock`](crate::CallKind::reads_clock) holds needs it.
    pub fn set_clock(&self, read: impl FnOnce() -> Time) {
        if self.clock.get().is_none() {
            self.clock.set(Some(read()));
        }
    }

    /// The reply to a call, if it is there.
    #[inline]
    pub fn take_reply(&self, id: CallId) -> Option<Reply> {
        match self.reply.take() {
            Some((at, reply)) if at == id => Some(reply),
            other => {
                self.reply.set(other);
                let mut more = self.more_replies.borrow_mut();
                let at = more.iter().position(|(other, _)| *other == id)?;
                Some(more.remove(at).1)
            }
        }
    }

    /// Notes the line of the call that has just returned, for one who asks what a task is doing.
    #[inline]
    pub fn returned_from(&self, at: &'static Location<'static>) {
        self.last_call.set(Some(at));
    }

    /// The line of the call from which the running task last returned; `None` before its first.
    pub fn last_call(&self) -> Option<&'static Location<'static>> {
        self.last_call.get()
    }

    /// Calls that were answered and whose replies nobody has taken yet.
    pub fn answered(&self) -> Vec<CallId> {
        let first = self.reply.take();
        let mut ids: Vec<CallId> = first.iter().map(|(id, _)| *id).collect();
        self.reply.set(first);
        ids.extend(self.more_replies.borrow().iter().map(|(id, _)| *id));
        ids
    }

    /// Takes a call back: one that was not accepted yet never happened.
    pub fn withdraw(&self, maker: TaskRef, id: CallId) {
        let is_it = |post: &Post| matches!(post, Post::Call { id: made, .. } if *made == id);
        match self.post.take() {
            Some(post) if is_it(&post) => {
                if self.has_more.get() {
                    let mut more = self.more_posts.borrow_mut();
                    self.post.set(Some(more.remove(0)));
                    self.has_more.set(!more.is_empty());
                }
                return;
            }
            first => self.post.set(first),
        }
        let mut more = self.more_posts.borrow_mut();
        if let Some(at) = more.iter().position(is_it) {
            more.remove(at);
            self.has_more.set(!more.is_empty());
            return;
        }
        drop(more);
        self.push(Post::Withdraw(maker, id));
    }

    /// Gives something back.
    pub fn release(&self, release: Release) {
        self.push(Post::Release(release));
    }

    /// Asks for another turn although no call is outstanding (a foreign future woke itself).
    pub fn wake(&self) {
        self.push(Post::Wake);
    }

    fn push(&self, post: Post) {
        if !self.has_more.get() {
            match self.post.take() {
                None => {
                    self.post.set(Some(post));
                    return;
                }
                first => self.post.set(first),
            }
        }
        self.more_posts.borrow_mut().push(post);
        self.has_more.set(true);
    }

    // The scheduler's side.

    pub(crate) fn begin(&self, next_call: u64, clock: Option<Time>) {
        self.next_call.set(next_call);
        self.clock.set(clock);
    }

    pub(crate) fn enter(&self, task: TaskRef, spawned_at: &'static Location<'static>) {
        self.task.set(Some(task));
        self.spawned_at.set(Some(spawned_at));
        self.last_call.set(None);
    }

    pub(crate) fn set_name(&self, name: Option<Rc<str>>) {
        *self.name.borrow_mut() = name;
    }

    pub(crate) fn leave(&self) {
        self.task.set(None);
    }

    pub(crate) fn next_call(&self) -> u64 {
        self.next_call.get()
    }

    pub(crate) fn clock(&self) -> Option<Time> {
        self.clock.get()
    }

    #[inline]
    pub(crate) fn offer(&self, id: CallId, reply: Reply) {
        match self.reply.take() {
            None => self.reply.set(Some((id, reply))),
            first => {
                self.reply.set(first);
                self.more_replies.borrow_mut().push((id, reply));
            }
        }
    }

    /// Takes back a reply that was not taken.
    #[inline]
    pub(crate) fn untaken(&self) -> Option<(CallId, Reply)> {
        match self.reply.take() {
            Some(first) => Some(first),
            None => self.more_replies.borrow_mut().pop(),
        }
    }

    #[inline]
    pub(crate) fn next_post(&self) -> Option<Post> {
        self.post.take()
    }

    #[inline]
    pub(crate) fn has_more(&self) -> bool {
        self.has_more.get()
    }

    pub(crate) fn take_more(&self) -> Vec<Post> {
        self.has_more.set(false);
        std::mem::take(&mut *self.more_posts.borrow_mut())
    }
}
