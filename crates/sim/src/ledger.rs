//! The world's own record of steps: which attempt began under which key in which life. Crashes
//! don't affect it.

use std::cell::{Cell, RefCell};
use std::fmt;

use tiffany::TaskError;
use tiffany::testing::{Made, Watcher};
use tiffany::wal::sim::SimDisk;

/// An attempt at a step that actually began.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The name of the step.
    pub name: String,
    /// The kind of the step: `idempotent`, `at_most_once` or `pure`.
    pub kind: String,
    /// The key of the step, `<run>/<record>`.
    pub key: String,
    /// The number of the attempt.
    pub attempt: u64,
    /// The life of the machine in which it began, from 1.
    pub life: u64,
    /// The result: a value as JSON, or an error.
    pub result: Option<Result<String, String>>,
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Entry { name, kind, key, attempt, life, result } = self;
        write!(f, "life {life}: {kind} step `{name}`, key {key}, attempt {attempt}")?;
        match result {
            Some(Ok(json)) => write!(f, " gave {json}"),
            Some(Err(error)) => write!(f, " failed: {error}"),
            None => write!(f, " did not come to its end"),
        }
    }
}

/// All attempts, in order.
pub(crate) struct Ledger {
    disk: SimDisk,
    pub(crate) entries: RefCell<Vec<Entry>>,
    life: Cell<u64>,
    begun: Cell<usize>,
    power_off_before: Cell<Option<usize>>,
}

impl Ledger {
    pub(crate) fn new(disk: SimDisk) -> Ledger {
        Ledger {
            disk,
            entries: RefCell::default(),
            life: Cell::new(0),
            begun: Cell::new(0),
            power_off_before: Cell::new(None),
        }
    }

    /// Begins a new life. If a number is given, the power fails before that attempt in it.
    pub(crate) fn begin_life(&self, power_off_before: Option<usize>) {
        self.life.set(self.life.get() + 1);
        self.begun.set(0);
        self.power_off_before.set(power_off_before);
    }

    pub(crate) fn life(&self) -> u64 {
        self.life.get()
    }

    /// Returns the number of attempts that began in this life.
    pub(crate) fn begun(&self) -> usize {
        self.begun.get()
    }
}

impl Watcher for Ledger {
    fn begins(&self, made: &Made<'_>) -> bool {
        if self.power_off_before.get() == Some(self.begun.get()) {
            self.disk.power_off();
        }
        if self.disk.is_down() {
            return false;
        }
        self.begun.set(self.begun.get() + 1);
        self.entries.borrow_mut().push(Entry {
            name: made.name.into(),
            kind: made.kind.into(),
            key: made.key.into(),
            attempt: made.number,
            life: self.life.get(),
            result: None,
        });
        true
    }

    fn ended(&self, made: &Made<'_>, result: Result<&str, &TaskError>) {
        let mut entries = self.entries.borrow_mut();
        let this = |entry: &&mut Entry| entry.key == made.key && entry.attempt == made.number;
        if let Some(entry) = entries.iter_mut().rev().find(this) {
            entry.result = Some(match result {
                Ok(json) => Ok(json.into()),
                Err(error) => Err(error.to_string()),
            });
        }
    }
}
