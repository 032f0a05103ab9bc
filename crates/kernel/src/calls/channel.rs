//! Channels: messages in the order in which they were sent, to receivers in the order in which they
//! began to wait.

use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

use crate::call::{Message, Reply};
use crate::calls::Answer;
use crate::error::{ErrorKind, TaskError};
use crate::id::{CallId, ObjectRef};
use crate::outstanding::Wait;
use crate::run::Run;
use crate::value::Value;
use crate::waiters::{Place, WaitList, Waiter};

/// A queue of messages between tasks.
pub(crate) struct Channel {
    pub(crate) id: u64,
    /// The name under which messages arrive from outside; `None` for a channel between tasks.
    pub(crate) name: Option<Rc<str>>,
    capacity: usize,
    /// Messages that were delivered but not taken, by the position at which they had left.
    returned: VecDeque<(u64, Value)>,
    messages: VecDeque<Value>,
    /// How many messages have left.
    left: u64,
    pub(crate) receivers: WaitList,
    pub(crate) senders: WaitList,
    /// The messages of the senders that wait.
    outgoing: BTreeMap<CallId, Value>,
    pub(crate) sender_handles: u32,
    pub(crate) receiver_handles: u32,
}

impl Channel {
    fn has_room(&self) -> bool {
        self.returned.len() + self.messages.len() < self.capacity
    }

    /// The next position in the order in which messages leave.
    fn next_order(&mut self) -> u64 {
        self.left += 1;
        self.left
    }
}

impl Run {
    pub(crate) fn create_channel(&mut self, capacity: Option<usize>) -> Answer {
        Answer::Now(Reply::Object(self.add_channel(capacity)))
    }

    fn add_channel(&mut self, capacity: Option<usize>) -> ObjectRef {
        let id = self.next_object_id();
        let slot = self.rare.channels.insert(Channel {
            id,
            name: None,
            capacity: capacity.unwrap_or(usize::MAX),
            returned: VecDeque::new(),
            messages: VecDeque::new(),
            left: 0,
            receivers: WaitList::default(),
            senders: WaitList::default(),
            outgoing: BTreeMap::new(),
            sender_handles: 1,
            receiver_handles: 1,
        }) as u32;
        self.object_ref(slot, id)
    }

    /// The channel for messages to the run under this name. The run itself has both ends.
    fn inbox(&mut self, name: &Rc<str>) -> ObjectRef {
        if let Some(inbox) = self.rare.inboxes.get(name) {
            return *inbox;
        }
        let inbox = self.add_channel(None);
        self.rare.channels[inbox.slot as usize].name = Some(Rc::clone(name));
        self.rare.inboxes.insert(Rc::clone(name), inbox);
        inbox
    }

    pub(crate) fn receive_message(
        &mut self,
        me: u32,
        id: CallId,
        name: &Rc<str>,
    ) -> Result<Answer, TaskError> {
        let inbox = self.inbox(name);
        self.receive(me, id, inbox)
    }

    /// Delivers a message that was sent to the run from outside.
    pub(crate) fn deliver(&mut self, name: &Rc<str>, value: Value) {
        let inbox = self.inbox(name);
        let entry = &mut self.rare.channels[inbox.slot as usize];
        match self.waits.pop(&mut entry.receivers) {
            Some(receiver) => {
                let order = entry.next_order();
                let message = Box::new(Message { channel: inbox, order, value });
                self.answer(receiver.task, receiver.call, Reply::Message(message));
            }
            None => {
                entry.messages.push_back(value);
                self.rare.unread += 1;
            }
        }
    }

    /// Returns the messages from outside that no task has received, in no particular order.
    pub fn unread(&self) -> impl Iterator<Item = &Value> {
        self.rare.inboxes.values().flat_map(|inbox| {
            let entry = &self.rare.channels[inbox.slot as usize];
            entry.returned.iter().map(|(_, value)| value).chain(&entry.messages)
        })
    }

    /// Returns the number of messages from outside that no task has received.
    pub fn unread_count(&self) -> usize {
        debug_assert_eq!(self.rare.unread, self.unread().count());
        self.rare.unread
    }

    /// Copies of the messages from outside that no task has received, by name and in order.
    pub(crate) fn waiting_messages(&self) -> Vec<(Rc<str>, Value)> {
        let inboxes = self.rare.inboxes.iter();
        let all = inboxes.flat_map(|(name, inbox)| {
            let entry = &self.rare.channels[inbox.slot as usize];
            let returned = entry.returned.iter().map(|(_, value)| value);
            returned.chain(&entry.messages).map(|value| (Rc::clone(name), value.clone()))
        });
        all.collect()
    }

    /// Takes the messages from outside that no task has received, by name and in order.
    pub(crate) fn take_messages(&mut self) -> Vec<(Rc<str>, Value)> {
        let mut all = Vec::new();
        for (name, inbox) in self.rare.inboxes.clone() {
            let entry = &mut self.rare.channels[inbox.slot as usize];
            let returned = entry.returned.drain(..).map(|(_, value)| value);
            all.extend(
                returned.chain(entry.messages.drain(..)).map(|value| (Rc::clone(&name), value)),
            );
        }
        self.rare.unread = 0;
        all
    }

    /// Whether a task waits for a message from outside.
    pub(crate) fn awaits_message(&self) -> bool {
        self.rare
            .inboxes
            .values()
            .any(|inbox| !self.rare.channels[inbox.slot as usize].receivers.is_empty())
    }

    pub(crate) fn find_channel(&self, channel: ObjectRef) -> Result<u32, TaskError> {
        self.check_run(channel.run, "channel", channel.id)?;
        match self.rare.channels.get(channel.slot as usize) {
            Some(found) if found.id == channel.id => Ok(channel.slot),
            _ => Err(closed(channel.id)),
        }
    }

    pub(crate) fn send(
        &mut self,
        me: u32,
        id: CallId,
        channel: ObjectRef,
        value: Value,
    ) -> Result<Answer, TaskError> {
        let slot = self.find_channel(channel)?;
        let entry = &mut self.rare.channels[slot as usize];
        if entry.receiver_handles == 0 {
            return Err(closed(channel.id));
        }
        if let Some(receiver) = self.waits.pop(&mut entry.receivers) {
            let order = entry.next_order();
            let message = Reply::Message(Box::new(Message { channel, order, value }));
            self.answer(receiver.task, receiver.call, message);
            return Ok(Answer::Now(Reply::Unit));
        }
        if entry.has_room() {
            entry.messages.push_back(value);
            return Ok(Answer::Now(Reply::Unit));
        }
        entry.outgoing.insert(id, value);
        let place = self.waits.push(&mut entry.senders, Waiter { task: me, item: 0, call: id });
        Ok(Answer::Later(Wait::Send { channel: slot, place }))
    }

    pub(crate) fn receive(
        &mut self,
        me: u32,
        id: CallId,
        channel: ObjectRef,
    ) -> Result<Answer, TaskError> {
        let slot = self.find_channel(channel)?;
        if let Some((order, value)) = self.next_message(slot) {
            return Ok(Answer::Now(Reply::Message(Box::new(Message { channel, order, value }))));
        }
        let entry = &mut self.rare.channels[slot as usize];
        if entry.sender_handles == 0 {
            return Ok(Answer::Now(Reply::Nothing));
        }
        let place = self.waits.push(&mut entry.receivers, Waiter { task: me, item: 0, call: id });
        Ok(Answer::Later(Wait::Receive { channel: slot, place }))
    }

    /// Takes the oldest message. A waiting sender gets the room.
    fn next_message(&mut self, slot: u32) -> Option<(u64, Value)> {
        let entry = &mut self.rare.channels[slot as usize];
        let message = match (entry.returned.pop_front(), entry.messages.is_empty()) {
            (Some(returned), _) => returned,
            (None, false) => (entry.next_order(), entry.messages.pop_front()?),
            // In a channel without capacity, the sender hands the message to the receiver.
            (None, true) => {
                let value = self.let_sender_in(slot)?;
                return Some((self.rare.channels[slot as usize].next_order(), value));
            }
        };
        if self.rare.channels[slot as usize].name.is_some() {
            self.rare.unread -= 1;
        }
        if self.rare.channels[slot as usize].has_room()
            && let Some(value) = self.let_sender_in(slot)
        {
            self.rare.channels[slot as usize].messages.push_back(value);
        }
        Some(message)
    }

    /// Answers the sender that has waited longest, and returns its message.
    fn let_sender_in(&mut self, slot: u32) -> Option<Value> {
        let entry = &mut self.rare.channels[slot as usize];
        let sender = self.waits.pop(&mut entry.senders)?;
        let value = entry.outgoing.remove(&sender.call)?;
        self.answer(sender.task, sender.call, Reply::Unit);
        Some(value)
    }

    /// Puts back a message that was delivered but not taken: it goes to the next receiver, or to
    /// the front, before messages that left after it.
    pub(crate) fn return_message(&mut self, message: Box<Message>) {
        let Ok(slot) = self.find_channel(message.channel) else { return };
        let entry = &mut self.rare.channels[slot as usize];
        match self.waits.pop(&mut entry.receivers) {
            Some(next) => self.answer(next.task, next.call, Reply::Message(message)),
            None => {
                let Message { order, value, .. } = *message;
                let place = entry.returned.partition_point(|(left, _)| *left < order);
                entry.returned.insert(place, (order, value));
                if entry.name.is_some() {
                    self.rare.unread += 1;
                }
            }
        }
    }

    pub(crate) fn withdraw_send(&mut self, slot: u32, place: Place, call: CallId) {
        let entry = &mut self.rare.channels[slot as usize];
        self.waits.remove(&mut entry.senders, place);
        entry.outgoing.remove(&call);
    }

    /// Closes the channel after its last sender is gone: waiting receivers get no message.
    pub(crate) fn close_senders(&mut self, slot: u32) {
        while let Some(receiver) = self.waits.pop(&mut self.rare.channels[slot as usize].receivers)
        {
            self.answer(receiver.task, receiver.call, Reply::Nothing);
        }
        self.forget_channel(slot);
    }

    /// Closes the channel after its receiver is gone: waiting senders get an error.
    pub(crate) fn close_receiver(&mut self, slot: u32) {
        let id = self.rare.channels[slot as usize].id;
        while let Some(sender) = self.waits.pop(&mut self.rare.channels[slot as usize].senders) {
            self.answer(sender.task, sender.call, Reply::Error(closed(id)));
        }
        let entry = &mut self.rare.channels[slot as usize];
        entry.outgoing.clear();
        entry.messages.clear();
        entry.returned.clear();
        self.forget_channel(slot);
    }

    fn forget_channel(&mut self, slot: u32) {
        let entry = &self.rare.channels[slot as usize];
        if entry.sender_handles == 0 && entry.receiver_handles == 0 {
            self.rare.channels.remove(slot as usize);
        }
    }
}

fn closed(id: u64) -> TaskError {
    TaskError::new(ErrorKind::ChannelClosed, format!("channel {id} has no receiver"))
}
