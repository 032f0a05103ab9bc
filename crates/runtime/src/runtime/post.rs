//! Messages from one durable run to another of the same runtime, exactly once. A message carries
//! the sender's key, and a run ignores a key that it has. In the log a message follows the call
//! that sends it, in the same batch or a later one, so it never exists without that call.

use crate::calls::send::Sending;
use std::collections::VecDeque;
use std::sync::Arc;
use tiffany_kernel::{CallRef, ErrorKind, TaskError, Uuid};

use crate::program::run_limits::RunLimits;
use crate::runtime::builder::Builder;
use crate::runtime::commit::AfterCommit;
use crate::runtime::durable_runs::Known;
use crate::runtime::parts::Parts;
use tiffany_records::errors::{no_such_run, run_over, run_removed};
use tiffany_records::key::Key;
use tiffany_records::redact::Redactions;

/// Messages that can't be delivered yet, and the limits for messages.
pub(crate) struct Post {
    /// Messages that wait until all runs are resumed, because their receivers may not exist yet.
    closed: Option<Vec<(CallRef, Sending)>>,
    /// Messages whose receivers have too many unread ones, in order.
    parked: Vec<(CallRef, Sending)>,
    limits: Option<RunLimits>,
    redactions: Option<Arc<Redactions>>,
}

impl Post {
    pub(crate) fn new(settings: &Builder) -> Post {
        let (limits, redactions) = (settings.run_limits, settings.redactions.clone());
        Post { closed: None, parked: Vec::new(), limits, redactions }
    }

    /// Keeps all messages until the runs are resumed.
    pub(crate) fn close(&mut self) {
        self.closed = Some(Vec::new());
    }

    /// Takes the messages that were kept while runs were resumed.
    pub(crate) fn open(&mut self) -> Vec<(CallRef, Sending)> {
        self.closed.take().unwrap_or_default()
    }

    /// Takes the messages that wait for this receiver.
    pub(crate) fn take_parked(&mut self, to: Uuid) -> VecDeque<(CallRef, Sending)> {
        if self.parked.is_empty() {
            return VecDeque::new();
        }
        self.parked.extract_if(.., |(_, sending)| sending.to == to).collect()
    }

    /// Lets these messages wait, behind those that do already.
    pub(crate) fn park(&mut self, messages: VecDeque<(CallRef, Sending)>) {
        self.parked.extend(messages);
    }

    /// Whether a message waits for this receiver.
    pub(crate) fn has_parked(&self, to: Uuid) -> bool {
        self.parked.iter().any(|(_, parked)| parked.to == to)
    }

    /// Delivers a message. Its call is answered when the message and the lines before it are
    /// durable; an error is answered at once. `None`: the message waits.
    pub(crate) fn send(
        &mut self,
        parts: &mut Parts<'_>,
        call: CallRef,
        sending: Sending,
    ) -> Option<Result<(), TaskError>> {
        let sender = parts.runs.durable_state(call.run);
        let key = sender.and_then(|durable_state| durable_state.journal.key_of(call));
        let (Some(key), Some(_)) = (key, &parts.durable) else {
            let message =
                "`durable::send` was called in a run that is not durable; use `Runtime::send`";
            return Some(Err(TaskError::new(ErrorKind::NotDurable, message)));
        };
        if let Some(waiting) = &mut self.closed {
            waiting.push((call, sending));
            return None;
        }
        // A run that waited for room in its own inbox could wait for itself.
        let may_wait = key.run != sending.to;
        // Messages keep their order, so none overtakes those that wait for the same receiver.
        if may_wait && self.has_parked(sending.to) {
            self.parked.push((call, sending));
            return None;
        }
        let delivered = self.deliver(parts, key, &sending);
        match &delivered {
            Err(error) if error.kind() == ErrorKind::InboxFull && may_wait => {
                self.parked.push((call, sending));
                return None;
            }
            Ok(()) => {
                if let Some(durable) = &mut parts.durable {
                    durable.after_commit.push(AfterCommit::Committed(call));
                }
            }
            Err(_) => {}
        }
        Some(delivered)
    }

    fn deliver(&self, parts: &mut Parts<'_>, key: Key, sending: &Sending) -> Result<(), TaskError> {
        let (to, now) = (sending.to, parts.host.clock.now());
        if let Some(rules) = &self.redactions {
            rules.refuse_name("a message", &sending.name)?;
        }
        let Some(durable) = &mut parts.durable else { return Err(no_such_run(to)) };
        match durable.runs.get_mut(&to) {
            Some(Known::Live(id)) => {
                let place = parts.runs.place_of_live(*id);
                let hosted = &mut parts.runs[place];
                let Some(durable_state) = &hosted.durable_state else { return Err(run_over(to)) };
                if durable_state.received.has(key) {
                    return Ok(());
                }
                if durable_state.is_over || hosted.run.is_over() {
                    return Err(run_over(to));
                }
                hosted.refuse_message(self.limits.as_ref(), &sending.json)?;
                hosted.tell_message(&mut durable.page, now, (key, sending));
                parts.runs.line_up(place);
                Ok(())
            }
            // The messages that it has received are not known, and none may be written twice, so
            // this one waits for the release.
            Some(Known::Paused(error, Some(dormant))) if dormant.is_bare() => {
                Err(TaskError::new(ErrorKind::InboxFull, error.message()))
            }
            Some(Known::Paused(_, Some(dormant))) => {
                let message = (sending.name.as_str(), sending.json.as_str());
                let limits = self.limits.as_ref();
                dormant.deliver(&mut durable.page, (now, key), limits, message)
            }
            Some(Known::Paused(error, None)) => Err(error.clone()),
            // It may have been sent before this process was started, and the other run may have
            // ended since.
            Some(Known::Over(..)) => match durable.read_over(to, |_| false) {
                Ok(decoded) if decoded.received.has(key) => Ok(()),
                _ => Err(run_over(to)),
            },
            Some(Known::Removed) => Err(run_removed(to)),
            None => Err(no_such_run(to)),
        }
    }
}
