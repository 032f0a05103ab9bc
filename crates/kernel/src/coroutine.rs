//! The code of a task, and the port through which it talks to the scheduler. A running coroutine
//! leaves its calls in the port; when it returns, the scheduler accepts them in the order in which
//! they were made.

use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::panic::Location;
use std::pin::Pin;
use std::rc::Rc;

use crate::call::{Claim, Reply, SpawnOptions, SystemCall};
use crate::error::{Site, TaskError, TaskLabel};
use crate::id::{CallId, ObjectRef, RunId, TaskRef, Tid, Waitable};
use crate::sight::Frame;
use crate::snapshot::Saved;
use crate::time::Time;
use crate::value::Value;

/// The code of a task: a Rust future, a state machine, a Python generator.
pub trait Coroutine {
    /// Runs the coroutine until it waits or ends.
    fn resume(self: Pin<&mut Self>, port: &Port) -> Step;

    /// Runs the cleanup of a cancelled task: first with `Unwind::Begin`, then with
    /// `Unwind::Continue` each time a call of the cleanup is answered. `Done` means that the
    /// cleanup is finished.
    fn unwind(self: Pin<&mut Self>, port: &Port, phase: Unwind) -> Step {
        let _ = (port, phase);
        Step::Done(Value::Unit)
    }

    /// Tells the coroutine that it is dropped because it has ended, as if it had returned. Without
    /// this call, a drop means that the run is abandoned in its present state.
    fn end(self: Pin<&mut Self>) {}

    /// Whether a waker outside the kernel could still wake the coroutine.
    fn may_be_woken(&self) -> bool {
        false
    }

    /// What the coroutine waits for while it has no call outstanding, for display.
    fn waits_for(&self) -> Option<Cow<'static, str>> {
        None
    }

    /// The complete state of the coroutine and the call that it makes in this state, if it can be
    /// restored from that.
    fn save(&self) -> Option<Result<Saved, TaskError>> {
        None
    }

    /// The line at which the coroutine waits, for languages whose lines the Rust compiler does not
    /// know.
    fn line(&self) -> Option<Site> {
        None
    }

    /// The line that spawned the task, for languages whose lines the Rust compiler does not know.
    fn spawned_at(&self) -> Option<Site> {
        None
    }

    /// The call stack of the coroutine, the innermost function last, if it is known.
    fn frames(&self) -> Vec<Frame> {
        Vec::new()
    }
}

/// A coroutine of any kind. Pinned, because Rust futures must not move.
pub type BoxCoroutine = Pin<Box<dyn Coroutine>>;

/// The stages of unwinding a cancelled coroutine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unwind {
    /// The coroutine is told that it was cancelled.
    Begin,
    /// A call of its cleanup was answered.
    Continue,
}

/// The result of resuming a coroutine.
pub enum Step {
    /// The coroutine waits for the calls that it left in the port, or for a foreign waker.
    Pending,
    /// The coroutine returned.
    Done(Value),
    /// The coroutine ended with an error.
    Failed(TaskError),
}

/// An entry that a coroutine leaves for the scheduler.
pub(crate) enum Post {
    Call {
        id: CallId,
        call: SystemCall,
        at: &'static Location<'static>,
    },
    Withdraw(TaskRef, CallId),
    Release(Release),
    Wake,
    /// A call that was withdrawn.
    Nothing,
}

/// A post, with the number that the next call had when it was left. For a call this is its own
/// number.
struct Posted {
    number: u64,
    post: Post,
}

/// A handle that is released. Unlike a call it has no reply, so it can be made in `Drop`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Release {
    /// The handle of a task: its result will not be asked for.
    Task(TaskRef),
    /// Adds a read side to a promise.
    RetainFuture(ObjectRef),
    /// Drops a read side of a promise.
    Future(ObjectRef),
    /// Drops the write side of a promise. If the promise is unsettled, it is abandoned now.
    Promise(ObjectRef),
    /// Adds a sender to a channel.
    RetainSender(ObjectRef),
    /// Drops a sender of a channel. A channel without senders is closed.
    Sender(ObjectRef),
    /// Adds a receiver to a channel.
    RetainReceiver(ObjectRef),
    /// Drops a receiver of a channel. Sending to a channel without receivers is an error.
    Receiver(ObjectRef),
    /// Returns permits to a semaphore.
    Permits(ObjectRef, usize),
    /// Drops the last handle of a semaphore.
    Semaphore(ObjectRef),
    /// Drops a group: its members are cancelled.
    Group(ObjectRef),
    /// Wakes a task that waits for a foreign future.
    Wake(TaskRef),
}

/// The connection between the running coroutine and the scheduler. Each thread that runs tasks has
/// one.
///
/// A coroutine leaves its calls here. The most common turn releases handles and then makes one call
/// of a common kind. So there is a list of released handles, then one call whose arguments are kept
/// in cells, like a system call whose arguments are in registers. Everything after these, and calls
/// of other kinds, are in a separate list. Replies wait here until the coroutine takes them; those
/// that it does not take are kept for its next turn.
pub struct Port {
    /// The task that is being resumed; number 0 means none.
    task: Cell<TaskRef>,
    spawned_at: Cell<&'static Location<'static>>,
    name: RefCell<Option<Rc<str>>>,
    next_call: Cell<u64>,
    /// The first number that a call of this turn can have.
    turn_began: Cell<u64>,
    clock: Cell<Option<Time>>,
    clock_is_new: Cell<bool>,
    durable: Cell<bool>,

    /// Handles that were released before anything else was left.
    releases: RefCell<Vec<Release>>,
    has_releases: Cell<bool>,

    // The first call: its kind, number and line, and its arguments.
    first: Cell<First>,
    first_id: Cell<CallId>,
    first_at: Cell<&'static Location<'static>>,
    claim: Cell<Claim>,
    task_argument: Cell<TaskRef>,
    object_argument: Cell<ObjectRef>,
    value_argument: Cell<Value>,
    coroutine_argument: Cell<Option<BoxCoroutine>>,

    /// Everything after the first call, in order.
    posts: RefCell<Vec<Posted>>,
    has_posts: Cell<bool>,

    /// One reply, and the number of its call (0 for none). More than one is rare.
    reply_id: Cell<CallId>,
    reply: Cell<Reply>,
    /// Whether the reply is `Unit`, and `reply` was not written.
    is_done: Cell<bool>,
    more_replies: RefCell<BTreeMap<CallId, Reply>>,
    has_more: Cell<bool>,
}

/// The kinds of calls whose arguments are kept in cells.
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

const NO_RUN: RunId = RunId(0);
const NO_CALL: CallId = CallId(0);

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
        Port {
            task: Cell::new(TaskRef::NONE),
            spawned_at: Cell::new(nowhere()),
            name: RefCell::new(None),
            next_call: Cell::new(0),
            turn_began: Cell::new(0),
            clock: Cell::new(None),
            clock_is_new: Cell::new(false),
            durable: Cell::new(false),
            first: Cell::new(First::None),
            first_id: Cell::new(NO_CALL),
            first_at: Cell::new(nowhere()),
            releases: RefCell::new(Vec::new()),
            has_releases: Cell::new(false),
            claim: Cell::new(Claim::Share),
            task_argument: Cell::new(TaskRef::NONE),
            object_argument: Cell::new(ObjectRef { run: NO_RUN, slot: 0, id: 0 }),
            value_argument: Cell::new(Value::Unit),
            coroutine_argument: Cell::new(None),
            posts: RefCell::new(Vec::new()),
            has_posts: Cell::new(false),
            reply_id: Cell::new(NO_CALL),
            reply: Cell::new(Reply::Unit),
            is_done: Cell::new(false),
            more_replies: RefCell::new(BTreeMap::new()),
            has_more: Cell::new(false),
        }
    }

    /// The task being resumed.
    #[inline]
    pub fn task(&self) -> Option<TaskRef> {
        let task = self.task.get();
        (task.tid != TaskRef::NONE.tid).then_some(task)
    }

    /// Whether this is the task being resumed.
    #[inline]
    pub fn is_running(&self, task: TaskRef) -> bool {
        self.task.get() == task
    }

    /// The number of the task being resumed.
    pub fn tid(&self) -> Option<Tid> {
        self.task().map(|task| task.tid)
    }

    /// The run of the task being resumed.
    pub fn run(&self) -> Option<RunId> {
        self.task().map(|task| task.run)
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

    /// The label of the task being resumed, for errors that the kernel does not see.
    pub fn label(&self) -> Option<TaskLabel> {
        let (tid, at) = (self.tid()?, self.spawned_at.get());
        let name = self.name().map(|name| name.to_string());
        Some(TaskLabel { tid, name, spawned_at: at.into() })
    }

    /// Whether the task being resumed belongs to a durable run.
    pub fn is_durable(&self) -> bool {
        self.durable.get()
    }

    /// Makes a call. The scheduler accepts it when the coroutine returns, unless it is withdrawn
    /// before.
    pub fn call(&self, call: SystemCall, at: &'static Location<'static>) -> CallId {
        let id = CallId(self.next_call.get());
        self.push(Post::Call { id, call, at });
        self.next_call.set(id.0 + 1);
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
        // The old value is `Unit`: nothing is dropped.
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

    /// Sets the round's clock if it is not set yet. Calls for which
    /// [`reads_clock`](crate::CallKind::reads_clock) holds need it.
    pub fn set_clock(&self, read: impl FnOnce() -> Time) {
        if self.clock.get().is_none() {
            self.clock.set(Some(read()));
            self.clock_is_new.set(true);
        }
    }

    /// Takes the reply to a call, if it has arrived.
    #[inline]
    pub fn take_reply(&self, id: CallId) -> Option<Reply> {
        self.is_answered(id).then(|| self.take_answer())
    }

    /// Whether the reply to a call has arrived. If so, `take_answer` takes it.
    #[inline]
    pub fn is_answered(&self, id: CallId) -> bool {
        self.reply_id.get() == id || (self.has_more.get() && self.bring_forward(id))
    }

    /// Takes the reply to the call for which `is_answered` has just returned true.
    #[inline]
    pub fn take_answer(&self) -> Reply {
        self.reply_id.set(NO_CALL);
        match self.is_done.get() {
            true => Reply::Unit,
            false => self.reply.replace(Reply::Unit),
        }
    }

    /// Takes the reply if it only says that the call is complete. If this returns `false`, use
    /// `take_answer`.
    #[inline]
    pub fn take_done(&self) -> bool {
        let done = self.is_done.get();
        if done {
            self.reply_id.set(NO_CALL);
        }
        done
    }

    /// Puts a reply before all others, so that `take_answer` takes it: an error that the kernel
    /// does not see.
    #[cold]
    pub fn put_answer(&self, reply: Reply) {
        let id = self.reply_id.get();
        let held = self.take_answer();
        if id != NO_CALL {
            self.offer_another(id, held);
        }
        self.is_done.set(false);
        self.reply.set(reply);
    }

    #[cold]
    fn bring_forward(&self, id: CallId) -> bool {
        let mut more = self.more_replies.borrow_mut();
        let Some(reply) = more.remove(&id) else { return false };
        self.has_more.set(!more.is_empty());
        drop(more);
        self.put_answer(reply);
        self.reply_id.set(id);
        true
    }

    /// The calls that were answered and whose replies were not taken yet.
    pub fn answered(&self) -> Vec<CallId> {
        let first = Some(self.reply_id.get()).filter(|id| *id != NO_CALL);
        first.into_iter().chain(self.more_replies.borrow().keys().copied()).collect()
    }

    /// Withdraws a call. A call that was not accepted yet leaves no trace.
    pub fn withdraw(&self, maker: TaskRef, id: CallId) {
        if !self.is_running(maker) {
            // Dropped while another run was active: call numbers are only unique in one run.
            return self.push(Post::Withdraw(maker, id));
        }
        if self.first.get() != First::None && self.first_id.get() == id {
            drop(self.take_first());
            return;
        }
        if id.0 < self.turn_began.get() {
            // The call was accepted in an earlier turn.
            return self.push(Post::Withdraw(maker, id));
        }
        match self.take_call(id) {
            Some(call) => drop(call),
            None => self.push(Post::Withdraw(maker, id)),
        }
    }

    /// Takes a call out of the list.
    fn take_call(&self, id: CallId) -> Option<Post> {
        let mut posts = self.posts.borrow_mut();
        let from = posts.partition_point(|posted| posted.number < id.0);
        let mut same = posts[from..].iter_mut().take_while(|posted| posted.number == id.0);
        let found = same.find(|posted| matches!(posted.post, Post::Call { .. }))?;
        Some(std::mem::replace(&mut found.post, Post::Nothing))
    }

    /// Releases a handle.
    #[inline]
    pub fn release(&self, release: Release) {
        if self.first.get() == First::None && !self.has_posts.get() {
            self.releases.borrow_mut().push(release);
            self.has_releases.set(true);
        } else {
            self.push(Post::Release(release));
        }
    }

    /// Asks for another turn without an outstanding call (a foreign future woke itself).
    pub fn wake(&self) {
        self.push(Post::Wake);
    }

    fn push(&self, post: Post) {
        let number = self.next_call.get();
        self.posts.borrow_mut().push(Posted { number, post });
        self.has_posts.set(true);
    }

    /// Claims the cells for a call, if they are free and nothing else was left before.
    #[inline]
    fn begin_first(&self, kind: First, at: &'static Location<'static>) -> Option<CallId> {
        if self.first.get() != First::None || self.has_posts.get() {
            return None;
        }
        let id = self.next_id();
        self.first.set(kind);
        self.first_id.set(id);
        self.first_at.set(at);
        Some(id)
    }

    #[inline]
    fn next_id(&self) -> CallId {
        let id = CallId(self.next_call.get());
        self.next_call.set(id.0 + 1);
        id
    }

    /// Frees memory that is not in use.
    pub fn shrink(&self) {
        if let Ok(mut posts) = self.posts.try_borrow_mut() {
            posts.shrink_to_fit();
        }
        if let Ok(mut releases) = self.releases.try_borrow_mut() {
            releases.shrink_to_fit();
        }
        // An emptied map keeps a node; a new one has none.
        if let Ok(mut replies) = self.more_replies.try_borrow_mut()
            && replies.is_empty()
        {
            *replies = BTreeMap::new();
        }
    }

    // Functions for the scheduler.

    pub(crate) fn begin(&self, next_call: u64, clock: Option<Time>, durable: bool) {
        self.durable.set(durable);
        self.next_call.set(next_call);
        if self.has_posts.get() {
            // The posts may be from another run, whose numbers are unrelated.
            self.posts.borrow_mut().iter_mut().for_each(|posted| posted.number = 0);
        }
        self.begin_round(clock);
    }

    #[inline]
    pub(crate) fn begin_round(&self, clock: Option<Time>) {
        self.clock.set(clock);
        self.clock_is_new.set(false);
    }

    #[inline]
    pub(crate) fn enter(&self, task: TaskRef, spawned_at: &'static Location<'static>) {
        self.task.set(task);
        self.spawned_at.set(spawned_at);
        self.turn_began.set(self.next_call.get());
    }

    pub(crate) fn set_name(&self, name: Option<Rc<str>>) {
        *self.name.borrow_mut() = name;
    }

    #[inline]
    pub(crate) fn leave(&self) {
        self.task.set(TaskRef::NONE);
    }

    pub(crate) fn next_call(&self) -> u64 {
        self.next_call.get()
    }

    #[inline]
    pub(crate) fn has_new_clock(&self) -> bool {
        self.clock_is_new.get()
    }

    /// The clock, if a coroutine has set it since the last call of this function.
    pub(crate) fn new_clock(&self) -> Option<Time> {
        if !self.clock_is_new.get() {
            return None;
        }
        self.clock_is_new.set(false);
        self.clock.get()
    }

    #[inline]
    pub(crate) fn offer(&self, id: CallId, reply: Reply) {
        match self.has_untaken() {
            true => self.offer_another(id, reply),
            false => self.offer_first(id, reply),
        }
    }

    /// Offers a reply when there are no others.
    #[inline]
    pub(crate) fn offer_first(&self, id: CallId, reply: Reply) {
        self.reply_id.set(id);
        self.is_done.set(false);
        // The old value is `Unit`: nothing is dropped.
        std::mem::forget(self.reply.replace(reply));
    }

    /// Offers the reply that a call is complete, when there are no other replies.
    #[inline]
    pub(crate) fn offer_done(&self, id: CallId) {
        self.reply_id.set(id);
        self.is_done.set(true);
    }

    #[cold]
    fn offer_another(&self, id: CallId, reply: Reply) {
        self.more_replies.borrow_mut().insert(id, reply);
        self.has_more.set(true);
    }

    #[inline]
    pub(crate) fn has_untaken(&self) -> bool {
        self.reply_id.get() != NO_CALL || self.has_more.get()
    }

    /// Takes the replies that the coroutine did not take.
    #[cold]
    pub(crate) fn untaken(&self) -> Vec<(CallId, Reply)> {
        self.has_more.set(false);
        let mut all = std::mem::take(&mut *self.more_replies.borrow_mut());
        let first = self.reply_id.get();
        if first != NO_CALL {
            all.insert(first, self.take_answer());
        }
        all.into_iter().collect()
    }

    /// Whether the coroutine only yielded.
    #[inline]
    pub(crate) fn only_yielded(&self) -> bool {
        self.first.get() == First::Yield
            && !self.has_releases.get()
            && !self.has_posts.get()
            && !self.has_untaken()
            && !self.clock_is_new.get()
    }

    /// Whether the coroutine made one common call, and only released handles before it.
    #[inline]
    pub(crate) fn has_common_call(&self) -> bool {
        self.first.get() != First::None && !self.has_posts.get() && !self.has_untaken()
    }

    /// Whether one of the lists is not empty.
    #[inline]
    pub(crate) fn has_listed(&self) -> bool {
        self.has_releases.get() || self.has_posts.get()
    }

    /// Whether the coroutine left no calls or handles.
    #[inline]
    pub(crate) fn is_clear(&self) -> bool {
        self.first.get() == First::None && !self.has_listed() && !self.has_untaken()
    }

    /// Returns the first call's kind, number and line, and frees the cells. The arguments are still
    /// there.
    #[inline]
    pub(crate) fn end_first(&self) -> (First, CallId, &'static Location<'static>) {
        (self.first.replace(First::None), self.first_id.get(), self.first_at.get())
    }

    #[inline]
    pub(crate) fn target(&self, kind: First) -> (Waitable, Claim) {
        let on = match kind {
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

    /// Takes the first call as a `SystemCall`, for handlers, watchers and limits.
    #[cold]
    pub(crate) fn take_first(&self) -> Option<SystemCall> {
        let call = match self.first.get() {
            First::None => return None,
            First::Yield => SystemCall::Yield,
            First::CreatePromise => SystemCall::CreatePromise,
            First::WaitTask | First::WaitFuture => {
                let (on, claim) = self.target(self.first.get());
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

    /// The released handle at this position. `clear_releases` empties the list after all have been
    /// read.
    #[inline]
    pub(crate) fn released(&self, at: usize) -> Option<Release> {
        self.releases.borrow().get(at).copied()
    }

    #[inline]
    pub(crate) fn clear_releases(&self) {
        self.releases.borrow_mut().clear();
        self.has_releases.set(false);
    }

    /// Takes the post at this position. `clear_posts` empties the list after all have been taken.
    pub(crate) fn take_post(&self, at: usize) -> Option<Post> {
        let mut posts = self.posts.borrow_mut();
        posts.get_mut(at).map(|posted| std::mem::replace(&mut posted.post, Post::Nothing))
    }

    pub(crate) fn clear_posts(&self) {
        self.posts.borrow_mut().clear();
        self.has_posts.set(false);
    }
}
