//! Lists of waiting calls, in the order in which they began to wait. A list belongs to a task, a
//! promise, a channel, a semaphore or a group. An empty list costs eight bytes, and a wait is
//! withdrawn without a search.
//!
//! A call is in a list through a node of a table that all lists of a run share. Because millions of
//! tasks may wait for tasks and promises, one such call of each waiting task needs no node: the
//! task itself is linked.

use slab::Slab;

use crate::id::CallId;
use crate::run::{Found, Run};

/// A call that waits: its task, and which of the call's items this is (Gather and Race have
/// several).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Waiter {
    pub(crate) task: u32,
    pub(crate) item: u32,
    pub(crate) call: CallId,
}

/// The position of a waiter: a node, or its task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place(u32);

impl Place {
    /// The end of a list, and the place of a call that is in no list.
    pub(crate) const NONE: Place = Place(u32::MAX);
    const NODE: u32 = 1 << 31;

    fn of_node(node: usize) -> Place {
        Place(node as u32 | Place::NODE)
    }

    /// Returns the node, if the place is one.
    fn node(self) -> Option<usize> {
        (self.0 & Place::NODE != 0).then_some((self.0 & !Place::NODE) as usize)
    }
}

/// The neighbours of a waiter.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Links {
    previous: Place,
    next: Place,
}

impl Links {
    /// The links of a task that is in no list. No node has this number.
    pub(crate) const FREE: Links =
        Links { previous: Place(u32::MAX - 1), next: Place(u32::MAX - 1) };

    #[inline]
    fn is_free(&self) -> bool {
        self.previous == Links::FREE.previous
    }
}

struct Node {
    links: Links,
    waiter: Waiter,
}

/// The ends of one list.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WaitList {
    first: Place,
    last: Place,
}

impl Default for WaitList {
    fn default() -> WaitList {
        WaitList { first: Place::NONE, last: Place::NONE }
    }
}

impl WaitList {
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.first == Place::NONE
    }
}

/// The nodes of all lists of a run. The methods are for lists in which every waiter has a node.
#[derive(Default)]
pub(crate) struct WaitMap {
    nodes: Slab<Node>,
}

impl WaitMap {
    /// Adds a waiter at the end. `remove` takes the place that this returns.
    pub(crate) fn push(&mut self, list: &mut WaitList, waiter: Waiter) -> Place {
        let place = self.add(list.last, waiter);
        match list.last.node() {
            Some(last) if list.last != Place::NONE => self.nodes[last].links.next = place,
            _ => list.first = place,
        }
        list.last = place;
        place
    }

    fn add(&mut self, previous: Place, waiter: Waiter) -> Place {
        let links = Links { previous, next: Place::NONE };
        Place::of_node(self.nodes.insert(Node { links, waiter }))
    }

    pub(crate) fn remove(&mut self, list: &mut WaitList, place: Place) {
        let Some(node) = place.node() else { return };
        let Links { previous, next } = self.nodes.remove(node).links;
        match self.at(previous) {
            Some(before) => before.links.next = next,
            None => list.first = next,
        }
        match self.at(next) {
            Some(after) => after.links.previous = previous,
            None => list.last = previous,
        }
    }

    fn at(&mut self, place: Place) -> Option<&mut Node> {
        self.nodes.get_mut(place.node()?)
    }

    /// Returns the waiter at the front.
    pub(crate) fn first(&self, list: &WaitList) -> Option<Waiter> {
        self.nodes.get(list.first.node()?).map(|node| node.waiter)
    }

    /// Takes the waiter at the front.
    pub(crate) fn pop(&mut self, list: &mut WaitList) -> Option<Waiter> {
        let waiter = self.first(list)?;
        self.remove(list, list.first);
        Some(waiter)
    }
}

/// The lists of tasks and promises, in which tasks may be linked directly.
impl Run {
    /// Adds the only item of a call at the end, linked through its task if that is in no other
    /// list.
    #[inline]
    pub(crate) fn join_list(&mut self, on: Found, task: u32, call: CallId) -> Place {
        if !self.tasks[task as usize].links.is_free() {
            return self.join_list_by_node(on, Waiter { task, item: 0, call });
        }
        let place = Place(task);
        let previous = self.append(on, place);
        self.tasks[task as usize].links = Links { previous, next: Place::NONE };
        place
    }

    /// Adds one item of a call at the end, through a node.
    pub(crate) fn join_list_by_node(&mut self, on: Found, waiter: Waiter) -> Place {
        let place = self.waits.add(Place::NONE, waiter);
        let previous = self.append(on, place);
        self.links(place).previous = previous;
        place
    }

    /// Makes a place the last one, and returns the previous last one.
    #[inline]
    fn append(&mut self, on: Found, place: Place) -> Place {
        let list = self.list(on);
        let previous = std::mem::replace(&mut list.last, place);
        match previous {
            Place::NONE => list.first = place,
            last => self.links(last).next = place,
        }
        previous
    }

    /// Removes a waiter from anywhere in a list.
    pub(crate) fn leave_list(&mut self, on: Found, place: Place) {
        let Links { previous, next } = match place.node() {
            Some(node) => self.waits.nodes.remove(node).links,
            None => std::mem::replace(&mut self.tasks[place.0 as usize].links, Links::FREE),
        };
        match previous {
            Place::NONE => self.list(on).first = next,
            before => self.links(before).next = next,
        }
        match next {
            Place::NONE => self.list(on).last = previous,
            after => self.links(after).previous = previous,
        }
    }

    /// Removes the waiter at the front of a list.
    #[inline]
    pub(crate) fn pop_list(&mut self, on: Found) -> Option<Waiter> {
        let place = self.list(on).first;
        if place == Place::NONE {
            return None;
        }
        let waiter = match place.node() {
            Some(node) => self.waits.nodes[node].waiter,
            None => {
                let calls = self.tasks[place.0 as usize].calls();
                let call = calls.and_then(|calls| calls.waits_at(place));
                let call = call.expect("a task that stands in a list has a call that waits");
                Waiter { task: place.0, item: 0, call }
            }
        };
        self.leave_list(on, place);
        Some(waiter)
    }

    /// Returns the tasks that wait for a task, from the front.
    pub(crate) fn waiting_for(&self, task: u32) -> impl Iterator<Item = u32> {
        let mut at = self.tasks[task as usize].waiters.first;
        std::iter::from_fn(move || {
            let (task, links) = match at {
                Place::NONE => return None,
                place => match place.node() {
                    Some(node) => {
                        (self.waits.nodes[node].waiter.task, self.waits.nodes[node].links)
                    }
                    None => (place.0, self.tasks[place.0 as usize].links),
                },
            };
            at = links.next;
            Some(task)
        })
    }

    #[inline]
    fn list(&mut self, on: Found) -> &mut WaitList {
        match on {
            Found::Task(task) => &mut self.tasks[task as usize].waiters,
            Found::Promise(promise) => &mut self.promises[promise as usize].waiters,
        }
    }

    #[inline]
    fn links(&mut self, place: Place) -> &mut Links {
        match place.node() {
            Some(node) => &mut self.waits.nodes[node].links,
            None => &mut self.tasks[place.0 as usize].links,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waiter(n: u64) -> Waiter {
        Waiter { task: 0, item: 0, call: CallId(n) }
    }

    #[test]
    fn is_a_queue_from_which_any_can_leave() {
        let mut map = WaitMap::default();
        let mut list = WaitList::default();
        let places: Vec<Place> = (0..5).map(|n| map.push(&mut list, waiter(n))).collect();
        map.remove(&mut list, places[0]);
        map.remove(&mut list, places[2]);
        map.remove(&mut list, places[4]);
        assert_eq!(map.pop(&mut list), Some(waiter(1)));
        assert_eq!(map.pop(&mut list), Some(waiter(3)));
        assert_eq!(map.pop(&mut list), None);
        assert!(list.is_empty());
        assert!(map.nodes.is_empty());
    }
}
