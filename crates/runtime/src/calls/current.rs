//! This thread's context, found without a closure around every look: a call is polled millions of times.
//!
//! This file has `unsafe` code because `LocalKey` lends its value to a closure only; with it a yield takes
//! 60 instructions less.

use std::mem::ManuallyDrop;

use crate::calls::context::Context;

thread_local! {
    // Never dropped, so that looking at it needs no check whether the thread is ending.
    static CONTEXT: ManuallyDrop<Context> = const { ManuallyDrop::new(Context::new()) };
}

/// The context of this thread.
#[inline]
pub(crate) fn current() -> &'static Context {
    let context: *const Context = CONTEXT.with(|context| &raw const **context);
    // SAFETY: it lies in the thread's own memory and is never dropped, so it is there as long as code of
    // this thread runs; and a reference to it cannot leave the thread, as `Context` is not `Sync`.
    unsafe { &*context }
}
