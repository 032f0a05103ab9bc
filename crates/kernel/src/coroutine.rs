//! What a task runs, and the port through which the two talk. A coroutine leaves its calls in the port
//! while it is resumed; the scheduler accepts them, in the order they were made, when it returns.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::panic::Location;
use std::pin::Pin;
use std::rc::Rc;

use crate::call::{Claim, Reply, SpawnOptions, SystemCall};
use crate::error::{TaskError, TaskLabel};
use crate::id::{CallId, ObjectRef, RunId, TaskRef, Tid, Waitable};
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
    /// One more receiver.
    RetainReceiver(ObjectRef),
    /// One receiver less; with the last one, what is sent is an error.
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
/// A coroutine leaves its calls here, in order. The first call of a turn, if it is one of the commonest
/// kinds, has its arguments in registers, as a system call on a machine has; the others are in a list.
/// Replies wait here for the coroutine to take them; what it does not take is kept for its next turn.
pub struct Port {
    task: Cell<Option<TaskRef>>,
    spawned_at: Cell<&'static Location<'static>>,
    name: RefCell<Option<Rc<str>>>,
    next_call: Cell<u64>,
    /// The first number that a call of this turn can have.
    turn_began: Cell<u64>,
    clock: Cell<Option<Time>>,
    clock_is_new: Cell<bool>,
    durable: Cell<bool>,

    // The first call: its kind, number and line, how many posts came before it, and its arguments.
    first: Cell<First>,
    first_id: Cell<CallId>,
    first_at: Cell<&'static Location<'static>>,
    first_place: Cell<usize>,
    claim: Cell<Claim>,
    task_argument: Cell<TaskRef>,
    object_argument: Cell<ObjectRef>,
    value_argument: Cell<Value>,
    coroutine_argument: Cell<Option<BoxCoroutine>>,

    posts: RefCell<Vec<Post>>,
    posted: Cell<usize>,

    replies: Cell<Replies>,
    reply_id: Cell<CallId>,
    reply: Cell<Reply>,
    more_replies: RefCell<BTreeMap<CallId, Reply>>,
}

/// The kinds of call whose arguments go in registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum First {
    None,
    Yield,
    CreatePromise,
    WaitTask,
    WaitFuture,
    CompletePromise,
    Spawn,
}

/// Which replies are there.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Replies {
    None,
    Unit,
    One,
    Many,
}

#[track_caller]
const fn nowhere() -> &'static Location<'static> {
    Location::caller()
}

impl Default for Port {
    fn default() -> Port {
        Port::new()
    }
}

impl Port {
    /// An empty port.
    pub const fn new() -> Port {
        let no_run = RunId(0);
        Port {
            task: Cell::new(None),
            spawned_at: Cell::new(nowhere()),
            name: RefCell::new(None),
            next_call: Cell::new(0),
            turn_began: Cell::new(0),
            clock: Cell::new(None),
            clock_is_new: Cell::new(false),
            durable: Cell::new(false),
            first: Cell::new(First::None),
            first_id: Cell::new(CallId(0)),
            first_at: Cell::new(nowhere()),
            first_place: Cell::new(0),
            claim: Cell::new(Claim::Share),
            task_argument: Cell::new(TaskRef { run: no_run, slot: 0, tid: Tid(0) }),
            object_argument: Cell::new(ObjectRef { run: no_run, slot: 0, id: 0 }),
            value_argument: Cell::new(Value::Unit),
            coroutine_argument: Cell::new(None),
            posts: RefCell::new(Vec::new()),
            posted: Cell::new(0),
            replies: Cell::new(Replies::None),
            reply_id: Cell::new(CallId(0)),
            reply: Cell::new(Reply::Unit),
            more_replies: RefCell::new(BTreeMap::new()),
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

    /// The line that spawned the task being resumed.
    #[inline]
    pub fn spawned_at(&self) -> &'static Location<'static> {
        self.spawned_at.get()
    }

    /// The task being resumed as people know it, for errors that the kernel does not see.
    pub fn label(&self) -> Option<TaskLabel> {
        let (tid, at) = (self.tid()?, self.spawned_at.get());
        let name = self.name().map(|name| name.to_string());
        Some(TaskLabel { tid, name, spawned_at: at.into() })
    }

    /// Whether the task being resumed belongs to a durable run.
    pub fn is_durable(&self) -> bool {
        self.durable.get()
    }

    /// Makes a call. It is accepted when the coroutine returns, unless it is withdrawn before.
    pub fn call(&self, call: SystemCall, at: &'static Location<'static>) -> CallId {
        let id = self.next_id();
        self.push(Post::Call { id, call, at });
        id
    }

    /// Makes the call Yield.
    #[inline]
    pub fn yield_now(&self, at: &'static Location<'static>) -> CallId {
        match self.begin_first(First::Yield, at) {
            Some(id) => id,
            None => self.call(SystemCall::Yield, at),
        }
    }

    /// Makes the call CreatePromise.
    #[inline]
    pub fn create_promise(&self, at: &'static Location<'static>) -> CallId {
        match self.begin_first(First::CreatePromise, at) {
            Some(id) => id,
            None => self.call(SystemCall::CreatePromise, at),
        }
    }

    /// Makes the call Wait.
    #[inline]
    pub fn wait(&self, on: Waitable, claim: Claim, at: &'static Location<'static>) -> CallId {
        let kind = match on {
            Waitable::Task(_) => First::WaitTask,
            Waitable::Future(_) => First::WaitFuture,
        };
        let Some(id) = self.begin_first(kind, at) else {
            return self.call(SystemCall::Wait(on, claim), at);
        };
        self.claim.set(claim);
        match on {
            Waitable::Task(task) => self.task_argument.set(task),
            Waitable::Future(promise) => self.object_argument.set(promise),
        }
        id
    }

    /// Makes the call CompletePromise.
    #[inline]
    pub fn complete_promise(
        &self,
        promise: ObjectRef,
        value: Value,
        at: &'static Location<'static>,
    ) -> CallId {
        let Some(id) = self.begin_first(First::CompletePromise, at) else {
            return self.call(SystemCall::CompletePromise(promise, value), at);
        };
        self.object_argument.set(promise);
        // What was there is `Unit`: nothing is dropped.
        std::mem::forget(self.value_argument.replace(value));
        id
    }

    /// Makes the call Spawn.
    #[inline]
    pub fn spawn(
        &self,
        coroutine: BoxCoroutine,
        options: Option<Box<SpawnOptions>>,
        at: &'static Location<'static>,
    ) -> CallId {
        if options.is_none()
            && let Some(id) = self.begin_first(First::Spawn, at)
        {
            std::mem::forget(self.coroutine_argument.replace(Some(coroutine)));
            return id;
        }
        self.call(SystemCall::Spawn(coroutine, options), at)
    }

    /// Sets the round's clock, if nobody has yet. A call for which
    /// [`reads_clock`](crate::CallKind::reads_clock) holds needs it.
    pub fn set_clock(&self, read: impl FnOnce() -> Time) {
        if self.clock.get().is_none() {
            self.clock.set(Some(read()));
            self.clock_is_new.set(true);
        }
    }

    /// The reply to a call, if it is there.
    #[inline]
    pub fn take_reply(&self, id: CallId) -> Option<Reply> {
        if self.take_unit(id) {
            return Some(Reply::Unit);
        }
        match self.replies.get() {
            Replies::None | Replies::Unit => None,
            Replies::One if self.reply_id.get() == id => {
                self.replies.set(Replies::None);
                Some(self.reply.replace(Reply::Unit))
            }
            Replies::One => None,
            Replies::Many => self.take_other_reply(id),
        }
    }

    /// Whether the reply to a call is there and is `Unit`; then it is taken.
    #[inline]
    pub fn take_unit(&self, id: CallId) -> bool {
        let unit = self.replies.get() == Replies::Unit && self.reply_id.get() == id;
        if unit {
            self.replies.set(Replies::None);
        }
        unit
    }

    #[cold]
    fn take_other_reply(&self, id: CallId) -> Option<Reply> {
        let mut more = self.more_replies.borrow_mut();
        let reply = more.remove(&id)?;
        if more.is_empty() {
            self.replies.set(Replies::None);
        }
        Some(reply)
    }

    /// Calls that were answered and whose replies nobody has taken yet.
    pub fn answered(&self) -> Vec<CallId> {
        match self.replies.get() {
            Replies::None => Vec::new(),
            Replies::Unit | Replies::One => vec![self.reply_id.get()],
            Replies::Many => self.more_replies.borrow().keys().copied().collect(),
        }
    }

    /// Takes a call back: one that was not accepted yet never happened.
    pub fn withdraw(&self, maker: TaskRef, id: CallId) {
        if self.task.get() != Some(maker) {
            // Dropped somewhere else. Numbers are unique in one run only.
            return self.push(Post::Withdraw(maker, id));
        }
        if self.first.get() != First::None && self.first_id.get() == id {
            drop(self.take_first());
            return;
        }
        if id.0 < self.turn_began.get() {
            // Accepted in an earlier turn.
            return self.push(Post::Withdraw(maker, id));
        }
        let mut posts = self.posts.borrow_mut();
        let is_it = |post: &Post| matches!(post, Post::Call { id: made, .. } if *made == id);
        if let Some(at) = posts.iter().position(is_it) {
            let removed = posts.remove(at);
            self.posted.set(posts.len());
            if at < self.first_place.get() {
                self.first_place.set(self.first_place.get() - 1);
            }
            drop(posts);
            drop(removed);
            return;
        }
        drop(posts);
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

    #[inline]
    fn push(&self, post: Post) {
        self.posts.borrow_mut().push(post);
        self.posted.set(self.posted.get() + 1);
    }

    /// Claims the registers for a call, if they are free.
    #[inline]
    fn begin_first(&self, kind: First, at: &'static Location<'static>) -> Option<CallId> {
        if self.first.get() != First::None {
            return None;
        }
        let id = self.next_id();
        self.first.set(kind);
        self.first_id.set(id);
        self.first_at.set(at);
        self.first_place.set(self.posted.get());
        Some(id)
    }

    #[inline]
    fn next_id(&self) -> CallId {
        let id = CallId(self.next_call.get());
        self.next_call.set(id.0 + 1);
        id
    }

    /// Gives back memory that is not in use.
    pub fn shrink(&self) {
        if let Ok(mut posts) = self.posts.try_borrow_mut() {
            posts.shrink_to_fit();
        }
        // An emptied map keeps a node; a new one has none.
        if let Ok(mut replies) = self.more_replies.try_borrow_mut()
            && replies.is_empty()
        {
            *replies = BTreeMap::new();
        }
    }

    // The scheduler's side.

    pub(crate) fn begin(&self, next_call: u64, clock: Option<Time>, durable: bool) {
        self.durable.set(durable);
        self.next_call.set(next_call);
        self.clock.set(clock);
        self.clock_is_new.set(false);
    }

    #[inline]
    pub(crate) fn enter(&self, task: TaskRef, spawned_at: &'static Location<'static>) {
        self.task.set(Some(task));
        self.spawned_at.set(spawned_at);
        self.turn_began.set(self.next_call.get());
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

    /// The clock, if a coroutine has set it since this was last asked.
    #[inline]
    pub(crate) fn new_clock(&self) -> Option<Time> {
        if !self.clock_is_new.get() {
            return None;
        }
        self.clock_is_new.set(false);
        self.clock.get()
    }

    #[inline]
    pub(crate) fn offer(&self, id: CallId, reply: Reply) {
        if self.replies.get() != Replies::None {
            return self.offer_another(id, reply);
        }
        self.reply_id.set(id);
        if let Reply::Unit = reply {
            self.replies.set(Replies::Unit);
        } else {
            self.replies.set(Replies::One);
            // What was there is `Unit`: nothing is dropped.
            std::mem::forget(self.reply.replace(reply));
        }
    }

    /// Offers the answer that a call is done, before all other replies.
    #[inline]
    pub(crate) fn offer_done(&self, id: CallId) {
        self.reply_id.set(id);
        self.replies.set(Replies::Unit);
    }

    #[cold]
    fn offer_another(&self, id: CallId, reply: Reply) {
        let mut more = self.more_replies.borrow_mut();
        if self.replies.get() != Replies::Many {
            more.insert(self.reply_id.get(), self.reply.replace(Reply::Unit));
            self.replies.set(Replies::Many);
        }
        more.insert(id, reply);
    }

    #[inline]
    pub(crate) fn has_untaken(&self) -> bool {
        self.replies.get() != Replies::None
    }

    /// Takes back the replies that were not taken.
    #[cold]
    pub(crate) fn untaken(&self) -> Vec<(CallId, Reply)> {
        let replies = self.replies.replace(Replies::None);
        match replies {
            Replies::None => Vec::new(),
            Replies::Unit | Replies::One => {
                vec![(self.reply_id.get(), self.reply.replace(Reply::Unit))]
            }
            Replies::Many => {
                std::mem::take(&mut *self.more_replies.borrow_mut()).into_iter().collect()
            }
        }
    }

    /// Whether all that the running coroutine did was to yield.
    #[inline]
    pub(crate) fn only_yielded(&self) -> bool {
        self.first.get() == First::Yield
            && self.posted.get() == 0
            && self.replies.get() == Replies::None
    }

    /// The kind of the first call, whose arguments are in the registers.
    #[inline]
    pub(crate) fn first(&self) -> First {
        self.first.get()
    }

    /// The first call's number and line; the registers are free again, so its arguments go first.
    #[inline]
    pub(crate) fn end_first(&self) -> (CallId, &'static Location<'static>) {
        self.first.set(First::None);
        (self.first_id.get(), self.first_at.get())
    }

    #[inline]
    pub(crate) fn first_id(&self) -> CallId {
        self.first_id.get()
    }

    #[inline]
    pub(crate) fn first_at(&self) -> &'static Location<'static> {
        self.first_at.get()
    }

    #[inline]
    pub(crate) fn target(&self) -> (Waitable, Claim) {
        let on = match self.first.get() {
            First::WaitTask => Waitable::Task(self.task_argument.get()),
            _ => Waitable::Future(self.object_argument.get()),
        };
        (on, self.claim.get())
    }

    #[inline]
    pub(crate) fn settlement(&self) -> (ObjectRef, Value) {
        (self.object_argument.get(), self.value_argument.replace(Value::Unit))
    }

    #[inline]
    pub(crate) fn coroutine(&self) -> BoxCoroutine {
        self.coroutine_argument.take().expect("a first call Spawn has its coroutine")
    }

    /// The first call as those see it who handle, watch or limit calls.
    #[cold]
    pub(crate) fn take_first(&self) -> Option<SystemCall> {
        let call = match self.first.get() {
            First::None => return None,
            First::Yield => SystemCall::Yield,
            First::CreatePromise => SystemCall::CreatePromise,
            First::WaitTask | First::WaitFuture => {
                let (on, claim) = self.target();
                SystemCall::Wait(on, claim)
            }
            First::CompletePromise => {
                let (promise, value) = self.settlement();
                SystemCall::CompletePromise(promise, value)
            }
            First::Spawn => SystemCall::Spawn(self.coroutine(), None),
        };
        self.first.set(First::None);
        Some(call)
    }

    /// How many posts there are besides the first call, and how many of them came before it.
    #[inline]
    pub(crate) fn posted(&self) -> (usize, usize) {
        let posted = self.posted.get();
        match self.first.get() {
            First::None => (posted, posted),
            _ => (posted, self.first_place.get()),
        }
    }

    /// Takes the post at this place. The list is emptied by `clear_posts` after all have been taken.
    #[inline]
    pub(crate) fn take_post(&self, at: usize) -> Option<Post> {
        self.posts.borrow_mut().get_mut(at).map(|post| std::mem::replace(post, Post::Wake))
    }

    pub(crate) fn clear_posts(&self) {
        self.posts.borrow_mut().clear();
        self.posted.set(0);
    }
}
