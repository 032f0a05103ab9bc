//! Tables that most runs don't need. They are allocated together when a run first uses one of them,
//! so that a process can hold many sleeping runs: a run without them costs one pointer.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::{Deref, DerefMut};
use std::rc::Rc;

use slab::Slab;

use crate::attributes::Attributes;
use crate::calls::channel::Channel;
use crate::calls::group::Group;
use crate::calls::semaphore::Semaphore;
use crate::config::{Deadline, Limits};
use crate::error::TaskError;
use crate::id::{ObjectRef, Tid, Uuid};
use crate::run::{Counts, Extra};

/// The tables of a run.
pub(crate) struct Tables {
    pub(crate) limits: Limits,
    pub(crate) extras: BTreeMap<u32, Extra>,
    pub(crate) ages: BTreeMap<u32, u32>,
    /// The live daemon tasks.
    pub(crate) daemons: BTreeSet<u32>,
    /// Whether the daemon tasks were cancelled because no other task is left.
    pub(crate) daemons_are_cancelled: bool,
    pub(crate) externals: BTreeMap<Uuid, u32>,
    pub(crate) channels: Slab<Channel>,
    /// Channels for messages from outside, by name.
    pub(crate) inboxes: BTreeMap<Rc<str>, ObjectRef>,
    /// The number of unread messages in these channels.
    pub(crate) unread: usize,
    /// The branch that the run takes at each change of the program.
    pub(crate) patches: BTreeMap<Rc<str>, bool>,
    pub(crate) semaphores: Slab<Semaphore>,
    pub(crate) groups: Slab<Group>,
    pub(crate) counts: Counts,
    /// Later seeds of random numbers, each with the number of draws before it applies.
    pub(crate) reseeds: VecDeque<(u64, u64)>,
    pub(crate) reported_cycles: BTreeSet<Vec<Tid>>,
    /// Failures that were not delivered to any task.
    pub(crate) unobserved: Vec<TaskError>,
    pub(crate) attributes: Option<Rc<Attributes>>,
    /// The deadline, until it has passed.
    pub(crate) deadline: Option<Deadline>,
    /// Whether the run failed because its deadline passed.
    pub(crate) is_past_deadline: bool,
}

impl Tables {
    const EMPTY: Tables = Tables {
        limits: Limits { max_tasks: None, max_calls: None, max_time: None, max_cost: None },
        extras: BTreeMap::new(),
        ages: BTreeMap::new(),
        daemons: BTreeSet::new(),
        daemons_are_cancelled: false,
        externals: BTreeMap::new(),
        channels: Slab::new(),
        inboxes: BTreeMap::new(),
        unread: 0,
        patches: BTreeMap::new(),
        semaphores: Slab::new(),
        groups: Slab::new(),
        counts: Counts { settled_again: 0, late: 0, unobserved_dropped: 0 },
        reseeds: VecDeque::new(),
        reported_cycles: BTreeSet::new(),
        unobserved: Vec::new(),
        attributes: None,
        deadline: None,
        is_past_deadline: false,
    };
}

/// The tables of a run; allocated when they are first changed.
#[derive(Default)]
pub(crate) struct Rare(Option<Box<Tables>>);

impl Deref for Rare {
    type Target = Tables;

    #[inline]
    fn deref(&self) -> &Tables {
        const EMPTY: &Tables = &Tables::EMPTY;
        self.0.as_deref().unwrap_or(EMPTY)
    }
}

impl DerefMut for Rare {
    #[inline]
    fn deref_mut(&mut self) -> &mut Tables {
        self.0.get_or_insert_with(|| Box::new(Tables::EMPTY))
    }
}
