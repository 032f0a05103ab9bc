//! Messages from one durable run to another of the same runtime, exactly once. A message carries the sender's key; who
//! has it already ignores it. It stands in the log behind the call that sends it, in the same batch or a later one, so it is never there without that call.

use crate::calls::send::Sending;
use tiffany_kernel::{CallRef, Completion, ErrorKind, TaskError, Uuid, Value};

use crate::runtime::Runtime;
use crate::runtime::commit::AfterCommit;
use crate::runtime::durable_runs::Known;
use tiffany_records::errors::{no_such_run, run_over, run_removed};
use tiffany_records::key::Key;
use tiffany_records::value::Json;

/// Messages that can't be delivered yet.
#[derive(Default)]
pub(crate) struct Post {
    /// Messages that wait until all runs are resumed: their receivers may not be there yet.
    closed: Option<Vec<(CallRef, Sending)>>,
    /// Those whose receivers have too many unread messages, in order.
    parked: Vec<(CallRef, Sending)>,
}

impl Post {
    /// Runs are being brought back.
    pub(crate) fn begin(&mut self) {
        self.closed = Some(Vec::new());
    }
}

impl Runtime {
    /// Whether a durable run of this runtime is finished, and its end durable in the log.
    pub fn is_finished(&self, run: Uuid) -> bool {
        let durable = self.durable.as_ref();
        let known = durable.and_then(|durable| durable.runs.get(&run));
        matches!(known, Some(Known::Over(..) | Known::Removed))
    }

    /// All runs are brought back: what they had sent is delivered.
    pub(crate) fn open_post(&mut self) {
        let waiting = self.durable.as_mut().and_then(|durable| durable.post.closed.take());
        for (call, sending) in waiting.into_iter().flatten() {
            self.begin_send(call, sending);
        }
        self.hand_in();
    }

    /// Starts to send a message of a task.
    pub(crate) fn begin_send(&mut self, call: CallRef, sending: Sending) {
        let key = self.places.get(&call.run).and_then(|place| {
            let durable_state = self.runs[*place].durable_state.as_ref()?;
            durable_state.journal.key_of(call)
        });
        let (Some(key), Some(durable)) = (key, &mut self.durable) else {
            let message =
                "`durable::send` was called in a run that is not durable; use `Runtime::send`";
            let error = TaskError::new(ErrorKind::NotDurable, message);
            return self.complete(call.run, Completion::Call(call, Err(error)));
        };
        if let Some(waiting) = &mut durable.post.closed {
            return waiting.push((call, sending));
        }
        // A run that waited for room in its own inbox could wait for itself.
        let may_wait = key.run != sending.to;
        // Messages keep their order, so none overtakes those that wait for the same receiver.
        if may_wait && durable.post.parked.iter().any(|(_, parked)| parked.to == sending.to) {
            return durable.post.parked.push((call, sending));
        }
        match self.deliver(key, &sending) {
            Err(error) if error.kind() == ErrorKind::InboxFull && may_wait => {
                if let Some(durable) = &mut self.durable {
                    durable.post.parked.push((call, sending));
                }
            }
            // It is answered when the log has it, and what was there before.
            Ok(()) => {
                if let Some(durable) = &mut self.durable {
                    durable.after_commit.push(AfterCommit::Committed(call));
                }
            }
            Err(error) => self.complete(call.run, Completion::Call(call, Err(error))),
        }
        self.hand_in();
    }

    /// A run may have received messages, or is over: delivers what waited for that.
    pub(crate) fn deliver_parked(&mut self, to: Uuid) {
        let Some(durable) = self.durable.as_mut().filter(|it| !it.post.parked.is_empty()) else {
            return;
        };
        let mine = |(_, sending): &mut (CallRef, Sending)| sending.to == to;
        let mine: Vec<(CallRef, Sending)> = durable.post.parked.extract_if(.., mine).collect();
        let mut mine = mine.into_iter();
        while let Some((call, sending)) = mine.next() {
            // The others wait behind one that still does not fit.
            if self.durable_mut().post.parked.iter().any(|(_, parked)| parked.to == to) {
                let rest = std::iter::once((call, sending)).chain(mine);
                return self.durable_mut().post.parked.extend(rest);
            }
            // A task that was cancelled meanwhile sends nothing any more.
            if self.run_of(call.run).is_some_and(|run| run.caller(call).is_some()) {
                self.begin_send(call, sending);
            }
        }
    }

    fn deliver(&mut self, key: Key, sending: &Sending) -> Result<(), TaskError> {
        let (to, clock) = (sending.to, self.host.clock.now());
        self.refuse_secret("a message", &sending.name)?;
        let Some(durable) = &mut self.durable else { return Err(no_such_run(to)) };
        match durable.runs.get_mut(&to) {
            Some(Known::Live(id)) => {
                let place = self.places[id];
                let hosted = &self.runs[place];
                let Some(durable_state) = &hosted.durable_state else { return Err(run_over(to)) };
                if durable_state.received.has(key) {
                    return Ok(());
                }
                if durable_state.is_over || hosted.run.is_over() {
                    return Err(run_over(to));
                }
                self.refuse_message(place, &sending.json)?;
                self.tell_message(place, key, sending);
                Ok(())
            }
            // What it has received is not known, so nothing may be written twice: it waits for the release.
            Some(Known::Paused(error, Some(dormant))) if dormant.is_bare() => {
                Err(TaskError::new(ErrorKind::InboxFull, error.message()))
            }
            Some(Known::Paused(_, Some(dormant))) => {
                let message = (sending.name.as_str(), sending.json.as_str());
                let limits = self.settings.run_limits.as_ref();
                dormant.deliver(&mut durable.page, (clock, key), limits, message)
            }
            Some(Known::Paused(error, None)) => Err(error.clone()),
            // It may have been sent before this process was started, and the other run have ended since.
            Some(Known::Over(..)) => match durable.read_over(to, |_| false) {
                Ok(decoded) if decoded.received.has(key) => Ok(()),
                _ => Err(run_over(to)),
            },
            Some(Known::Removed) => Err(run_removed(to)),
            None => Err(no_such_run(to)),
        }
    }

    /// Writes a message to a run that goes on, and tells it.
    fn tell_message(&mut self, place: usize, key: Key, sending: &Sending) {
        let now = self.host.clock.now();
        let hosted = &mut self.runs[place];
        let Some(durable) = &mut self.durable else { return };
        let step = hosted.write_records(&mut durable.page);
        let Some(durable_state) = &mut hosted.durable_state else { return };
        let (run, journal, page) = (&mut hosted.run, &mut durable_state.journal, &mut durable.page);
        run.set_clock(now);
        let at = (run.clock(), step);
        journal.message(page, at, (&sending.name, &sending.json), Some(&key.to_string()));
        durable_state.received.add(key);
        let value = Value::new(Json::new(sending.json.as_str()));
        run.complete(Completion::Message(sending.name.as_str().into(), value));
        self.line_up(place);
    }
}
