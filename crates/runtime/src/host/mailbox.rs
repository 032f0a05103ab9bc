//! The protocol between threads that send letters and one that reads them and sleeps when there are none.
//! It stands alone so that a test can run it on simulated threads, under every kind of schedule.

use crate::primitives::{AtomicBool, Mutex, Ordering, lock};

/// The protocol between senders and a reader that sleeps when there is nothing to read.
///
/// Sender: put the letter in, then raise the flag, then ring if the reader sleeps. Reader: say that it
/// sleeps, then look at the flag once more. One of the two sees the other, in every interleaving.
pub(crate) struct Mailbox<T> {
    letters: Mutex<Vec<T>>,
    mail: AtomicBool,
    asleep: AtomicBool,
}

impl<T> Mailbox<T> {
    pub(crate) fn new() -> Mailbox<T> {
        Mailbox {
            letters: Mutex::new(Vec::new()),
            mail: AtomicBool::new(false),
            asleep: AtomicBool::new(false),
        }
    }

    /// Puts a letter in. `true`: the reader sleeps, and this sender is the one to ring.
    pub(crate) fn send(&self, letter: T) -> bool {
        lock(&self.letters).push(letter);
        self.mail.store(true, Ordering::SeqCst);
        self.asleep.swap(false, Ordering::SeqCst)
    }

    #[inline]
    pub(crate) fn has_mail(&self) -> bool {
        self.mail.load(Ordering::Acquire)
    }

    /// Takes all letters out, in the order they came.
    pub(crate) fn read(&self, into: &mut Vec<T>) {
        self.mail.store(false, Ordering::SeqCst);
        into.append(&mut lock(&self.letters));
    }

    /// Says that the reader is about to sleep. `false`: there is mail, so it must not.
    pub(crate) fn may_sleep(&self) -> bool {
        self.asleep.store(true, Ordering::SeqCst);
        let none = !self.mail.load(Ordering::SeqCst);
        if !none {
            self.woke_up();
        }
        none
    }

    pub(crate) fn woke_up(&self) {
        self.asleep.store(false, Ordering::SeqCst);
    }
}
