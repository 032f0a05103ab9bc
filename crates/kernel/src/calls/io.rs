//! ReadWait and WriteWait: the reactor watches a descriptor.

use std::os::fd::RawFd;

use crate::calls::Answer;
use crate::config::Mode;
use crate::error::ErrorKind;
use crate::id::CallId;
use crate::outbox::{Interest, Order};
use crate::outstanding::Wait;
use crate::run::Run;

impl Run {
    pub(crate) fn read_wait(&mut self, me: u32, id: CallId, fd: RawFd) -> Answer {
        self.watch(me, id, fd, Interest::Read)
    }

    pub(crate) fn write_wait(&mut self, me: u32, id: CallId, fd: RawFd) -> Answer {
        self.watch(me, id, fd, Interest::Write)
    }

    fn watch(&mut self, me: u32, id: CallId, fd: RawFd, interest: Interest) -> Answer {
        if self.mode == Mode::Durable {
            let message = "a durable task waited on a descriptor";
            return Answer::error(ErrorKind::NotDurable, message);
        }
        self.hope.descriptors += 1;
        self.order(Order::Watch(self.call_ref(me, id), fd, interest));
        Answer::Later(Wait::Io { fd })
    }
}
