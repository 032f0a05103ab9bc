//! Access to this thread's context without a closure: a call is polled millions of times.
//!
//! This file has `unsafe` code because `LocalKey` lends its value to closures only. Without one, a
//! yield takes 60 fewer instructions.

use std::mem::ManuallyDrop;

use crate::calls::context::Context;

thread_local! {
    // Never dropped, so that access needs no check whether the thread is ending.
    static CONTEXT: ManuallyDrop<Context> = const { ManuallyDrop::new(Context::new()) };
}

/// The context of this thread.
#[inline]
pub(crate) fn current() -> &'static Context {
    let context: *const Context = CONTEXT.with(|context| &raw const **context);
    // SAFETY: the context is in the thread's own memory and is never dropped, so it is valid while
    // code of this thread runs; and a reference to it cannot leave the thread, because `Context` is
    // not `Sync`.
    unsafe { &*context }
}
