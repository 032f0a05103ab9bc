//! The present handler of a signal, which can be restored if code of the program replaces it.
//!
//! This file has `unsafe` code because only libc can return the handler of a signal.

use std::io;
use std::mem::MaybeUninit;

/// The handler of a signal at some moment.
pub struct KeptHandler {
    signal: i32,
    action: libc::sigaction,
}

impl KeptHandler {
    /// The present handler of this signal.
    pub fn of(signal: i32) -> io::Result<KeptHandler> {
        Ok(KeptHandler { signal, action: action_of(signal)? })
    }

    /// The number of the signal.
    pub fn signal(&self) -> i32 {
        self.signal
    }

    /// Restores the handler if there is another one. Returns whether there was.
    pub fn put_back(&self) -> io::Result<bool> {
        if action_of(self.signal)?.sa_sigaction == self.action.sa_sigaction {
            return Ok(false);
        }
        // SAFETY: the action was in force before, and its handler lives as long as the process.
        match unsafe { libc::sigaction(self.signal, &raw const self.action, std::ptr::null_mut()) }
        {
            0 => Ok(true),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

fn action_of(signal: i32) -> io::Result<libc::sigaction> {
    let mut action = MaybeUninit::uninit();
    // SAFETY: with a null pointer nothing is changed, and the call fills in the action if it succeeds.
    unsafe {
        match libc::sigaction(signal, std::ptr::null(), action.as_mut_ptr()) {
            0 => Ok(action.assume_init()),
            _ => Err(io::Error::last_os_error()),
        }
    }
}
