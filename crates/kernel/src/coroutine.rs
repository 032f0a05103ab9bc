//! What a task runs, and the port through which the two talk. A coroutine leaves its calls in the port
//! while it is resumed; the scheduler accepts them, in the order they were made, when it returns.

use std::cell::{Cell, RefCell};
use std::panic::Location;
use std::pin::Pin;
use std::rc::Rc;

use crate::call::{Reply, SystemCall};
use crate::error::TaskError;
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
/// One call and one reply at a time is the rule and has its own place; the lists are for those who have
/// several. A bare yield, the commonest call of all, needs only its number.
pub struct Port {
    task: Cell<Option<TaskRef>>,
    name: RefCell<Option<Rc<str>>>,
    next_call: Cell<u64>,
    clock: Cell<Option<Time>>,
    last_call: Cell<Option<&'static Location<'static>>>,

    /// What is in the places below: a set of the bits in `holds`.
    holds: Cell<u8>,
    yielded: Cell<(CallId, Option<&'static Location<'static>>)>,
    post: Cell<Option<Post>>,
    more_posts: RefCell<Vec<Post>>,
    reply_id: Cell<CallId>,
    reply: Cell<Option<Reply>>,
    more_replies: RefCell<Vec<(CallId, Reply)>>,
}

/// What a port can hold.
pub(crate) mod holds {
    /// A yield, made before anything else.
    pub(crate) const YIELD: u8 = 1;
    /// A first post.
    pub(crate) const POST: u8 = 2;
    /// More posts.
    pub(crate) const MORE_POSTS: u8 = 4;
    /// Any of these.
    pub(crate) const POSTS: u8 = YIELD | POST | MORE_POSTS;
    /// A reply that is `Unit`.
    pub(crate) const UNIT: u8 = 8;
    /// A reply.
    pub(crate) const REPLY: u8 = 16;
    /// More replies.
    pub(crate) const MORE_REPLIES: u8 = 32;
    /// Any of these.
    pub(crate) const REPLIES: u8 = UNIT | REPLY | MORE_REPLIES;
    /// The round's clock.
    pub(crate) const CLOCK: u8 = 64;
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
            name: RefCell::new(None),
            next_call: Cell::new(0),
            clock: Cell::new(None),
            last_call: Cell::new(None),
            holds: Cell::new(0),
            yielded: Cell::new((CallId(0), None)),
            post: Cell::new(None),
            more_posts: RefCell::new(Vec::new()),
            reply_id: Cell::new(CallId(0)),
            reply: Cell::new(None),
            more_replies: RefCell::new(Vec::new()),
        }
    }

    /// The task being resumed.
    #[inline]
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

    /// Makes a call. It is accepted when the coroutine returns, unless it is withdrawn before.
    #[inline]
    pub fn call(&self, call: SystemCall, at: &'static Location<'static>) -> CallId {
        let id = self.next_id();
        self.push(Post::Call { id, call, at });
        id
    }

    /// Makes the call Yield.
    #[inline]
    pub fn yield_now(&self, at: &'static Location<'static>) -> CallId {
        if self.holds(holds::POSTS) {
            return self.call(SystemCall::Yield, at);
        }
        let id = self.next_id();
        self.yielded.set((id, Some(at)));
        self.hold(holds::YIELD);
        id
    }

    /// Sets the round's clock, if nobody has yet. A call for which
    /// [`reads_clock`](crate::CallKind::reads_clock) holds needs it.
    pub fn set_clock(&self, read: impl FnOnce() -> Time) {
        if self.clock.get().is_none() {
            self.clock.set(Some(read()));
            self.hold(holds::CLOCK);
        }
    }

    /// The reply to a call, if it is there.
    #[inline]
    pub fn take_reply(&self, id: CallId) -> Option<Reply> {
        if self.reply_id.get() == id {
            if self.holds(holds::UNIT) {
                self.let_go(holds::UNIT);
                return Some(Reply::Unit);
            }
            if self.holds(holds::REPLY) {
                self.let_go(holds::REPLY);
                return self.reply.take();
            }
        }
        if self.holds(holds::MORE_REPLIES) { self.take_other_reply(id) } else { None }
    }

    /// Whether the reply to a call is there and is `Unit`; then it is taken.
    #[inline]
    pub fn take_unit(&self, id: CallId) -> bool {
        if self.reply_id.get() == id && self.holds(holds::UNIT) {
            self.let_go(holds::UNIT);
            return true;
        }
        self.take_reply(id).is_some()
    }

    #[cold]
    fn take_other_reply(&self, id: CallId) -> Option<Reply> {
        let mut more = self.more_replies.borrow_mut();
        let at = more.iter().position(|(other, _)| *other == id)?;
        let (_, reply) = more.remove(at);
        if more.is_empty() {
            self.let_go(holds::MORE_REPLIES);
        }
        Some(reply)
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
        let first = self.holds(holds::UNIT | holds::REPLY).then(|| self.reply_id.get());
        first.into_iter().chain(self.more_replies.borrow().iter().map(|(id, _)| *id)).collect()
    }

    /// Takes a call back: one that was not accepted yet never happened.
    pub fn withdraw(&self, maker: TaskRef, id: CallId) {
        if self.holds(holds::YIELD) && self.yielded.get().0 == id {
            self.let_go(holds::YIELD);
            return;
        }
        let is_it = |post: &Post| matches!(post, Post::Call { id: made, .. } if *made == id);
        if self.holds(holds::POST) {
            let first = self.post.take();
            if first.as_ref().is_some_and(is_it) {
                self.let_go(holds::POST);
                return;
            }
            self.post.set(first);
        }
        let mut more = self.more_posts.borrow_mut();
        if let Some(at) = more.iter().position(is_it) {
            more.remove(at);
            return;
        }
        drop(more);
        self.push(Post::Withdraw(maker, id));
    }

    /// Gives something back.
    #[inline]
    pub fn release(&self, release: Release) {
        self.push(Post::Release(release));
    }

    /// Asks for another turn although no call is outstanding (a foreign future woke itself).
    pub fn wake(&self) {
        self.push(Post::Wake);
    }

    /// Posts are accepted in this order: the yield, the first post, the others.
    #[inline]
    fn push(&self, post: Post) {
        if self.holds(holds::POST | holds::MORE_POSTS) {
            self.more_posts.borrow_mut().push(post);
            self.hold(holds::MORE_POSTS);
        } else {
            self.post.set(Some(post));
            self.hold(holds::POST);
        }
    }

    #[inline]
    fn next_id(&self) -> CallId {
        let id = CallId(self.next_call.get());
        self.next_call.set(id.0 + 1);
        id
    }

    #[inline]
    fn hold(&self, what: u8) {
        self.holds.set(self.holds.get() | what);
    }

    #[inline]
    fn let_go(&self, what: u8) {
        self.holds.set(self.holds.get() & !what);
    }

    // The scheduler's side.

    #[inline]
    pub(crate) fn holds(&self, any_of: u8) -> bool {
        self.holds.get() & any_of != 0
    }

    /// Whether the running coroutine did nothing but yield.
    #[inline]
    pub(crate) fn only_yielded(&self) -> bool {
        self.holds.get() & !holds::CLOCK == holds::YIELD
    }

    pub(crate) fn begin(&self, next_call: u64, clock: Option<Time>) {
        self.next_call.set(next_call);
        self.clock.set(clock);
        self.let_go(holds::CLOCK);
    }

    #[inline]
    pub(crate) fn enter(&self, task: TaskRef) {
        self.task.set(Some(task));
        self.last_call.set(None);
    }

    pub(crate) fn set_name(&self, name: Option<Rc<str>>) {
        *self.name.borrow_mut() = name;
    }

    #[inline]
    pub(crate) fn leave(&self) {
        self.task.set(None);
    }

    pub(crate) fn next_call(&self) -> u64 {
        self.next_call.get()
    }

    /// The clock, if a coroutine set it in this round.
    #[inline]
    pub(crate) fn clock(&self) -> Option<Time> {
        if self.holds(holds::CLOCK) { self.clock.get() } else { None }
    }

    #[inline]
    pub(crate) fn offer(&self, id: CallId, reply: Reply) {
        if self.holds(holds::UNIT | holds::REPLY) {
            self.more_replies.borrow_mut().push((id, reply));
            return self.hold(holds::MORE_REPLIES);
        }
        self.reply_id.set(id);
        match reply {
            Reply::Unit => self.hold(holds::UNIT),
            reply => {
                self.reply.set(Some(reply));
                self.hold(holds::REPLY);
            }
        }
    }

    /// Takes back the replies that were not taken.
    #[cold]
    pub(crate) fn untaken(&self) -> Vec<(CallId, Reply)> {
        let mut all = Vec::new();
        if self.holds(holds::UNIT) {
            all.push((self.reply_id.get(), Reply::Unit));
        }
        if let Some(reply) = self.reply.take() {
            all.push((self.reply_id.get(), reply));
        }
        all.append(&mut self.more_replies.borrow_mut());
        self.let_go(holds::REPLIES);
        all
    }

    /// The yield, if that was made before anything else.
    #[inline]
    pub(crate) fn take_yield(&self) -> Option<(CallId, &'static Location<'static>)> {
        if !self.holds(holds::YIELD) {
            return None;
        }
        self.let_go(holds::YIELD);
        let (id, at) = self.yielded.get();
        Some((id, at?))
    }

    #[inline]
    pub(crate) fn take_post(&self) -> Option<Post> {
        if !self.holds(holds::POST) {
            return None;
        }
        self.let_go(holds::POST);
        self.post.take()
    }

    pub(crate) fn take_more_posts(&self) -> Vec<Post> {
        self.let_go(holds::MORE_POSTS);
        std::mem::take(&mut *self.more_posts.borrow_mut())
    }
}
