//! Sleep and SleepUntil, by the run's clock.

use std::time::Duration;

use crate::call::Reply;
use crate::calls::Answer;
use crate::error::ErrorKind;
use crate::id::CallId;
use crate::outstanding::Wait;
use crate::run::Run;
use crate::time::Time;
use crate::timer::Due;

impl Run {
    pub(crate) fn sleep(&mut self, me: u32, id: CallId, duration: Duration) -> Answer {
        match self.clock.checked_add(duration) {
            // A sleep of zero length also waits until the timers are checked.
            Some(deadline) => self.arm_sleep(me, id, deadline),
            None => {
                let message =
                    format!("a sleep of {duration:?} ends after the last possible moment");
                Answer::error(ErrorKind::BadDuration, message)
            }
        }
    }

    pub(crate) fn sleep_until(&mut self, me: u32, id: CallId, deadline: Time) -> Answer {
        if deadline <= self.clock {
            return Answer::Now(Reply::Unit);
        }
        self.arm_sleep(me, id, deadline)
    }

    fn arm_sleep(&mut self, me: u32, id: CallId, deadline: Time) -> Answer {
        self.hope.timers += 1;
        let timer = self.timers.arm(deadline, Due::Call { task: me, call: id });
        Answer::Later(Wait::Timer { timer })
    }
}
