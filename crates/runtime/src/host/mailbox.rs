//! The protocol between threads that send messages and one that reads them and sleeps when there
//! are none. It has a file of its own so that a test can run it on simulated threads, under many
//! schedules.

use crate::primitives::{AtomicBool, Mutex, Ordering, lock};

/// The protocol between senders and a reader that sleeps when there is nothing to read.
///
/// A sender adds the message, then raises the flag, then rings if the reader sleeps. The reader
/// notes that it sleeps, then checks the flag once more. One of the two sees the other, in every
/// interleaving.
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

    /// Adds a message. Returns `true` if the reader sleeps and this sender must ring.
    pub(crate) fn send(&self, letter: T) -> bool {
        lock(&self.letters).push(letter);
        self.mail.store(true, Ordering::SeqCst);
        self.asleep.swap(false, Ordering::SeqCst)
    }

    #[inline]
    pub(crate) fn has_mail(&self) -> bool {
        self.mail.load(Ordering::Acquire)
    }

    /// Takes all messages, in the order in which they arrived.
    pub(crate) fn read(&self, into: &mut Vec<T>) {
        self.mail.store(false, Ordering::SeqCst);
        into.append(&mut lock(&self.letters));
    }

    /// Notes that the reader is about to sleep. Returns `false` if there are messages, so that it
    /// must not.
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
