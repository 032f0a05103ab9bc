//! A run that is not running, because it is paused or because no runtime has its directory open.
//! Messages and answers for it are written to its log, and reach it when it is resumed.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde::Deserialize;
use serde_json::value::RawValue;
use tiffany_kernel::{Attributes, CallKind, ErrorKind, TaskError, Tid, Time, Uuid, Value};

use crate::program::run_limits::RunLimits;
use crate::run_log::cancel::Cancel;
use crate::run_log::fork::no_fork;
use crate::run_log::hold::Hold;
use crate::run_log::journal::Journal;
use crate::run_log::page::Page;
use crate::run_log::replay::decoded_log::{
    Beginning, DecodedLog, Fetch, Recorded, Told, What, unwrapped,
};
use crate::run_log::replay::read::read_script;
use crate::run_log::unread::Unread;
use tiffany_log::{Chain, Disk, LogError, Payload, Stamp};
use tiffany_records::errors::log_failed;
use tiffany_records::json::compact;
use tiffany_records::key::{Key, Number, Received};
use tiffany_records::request::{
    Approval, Decision, Doubt, OpenApproval, Place, Ruling, Settlement, decided_already,
    no_such_approval,
};
use tiffany_records::value::{Json, decode};

/// The state of a run that is needed to write to its log.
pub struct DormantRun {
    journal: Journal,
    /// Its external promises, and whether they are settled.
    promises: BTreeMap<Uuid, bool>,
    /// The promises that it shares with its parent, and its parent if it is a fork.
    shared: BTreeSet<Uuid>,
    parent: Option<Uuid>,
    /// Its questions that wait for a person, by the number of their record; and its id.
    approvals: BTreeMap<u64, (Tid, OpenApproval)>,
    /// Its steps in doubt, by the number of their record, and their tasks.
    doubts: BTreeMap<u64, (Tid, Doubt)>,
    /// The messages of other runs that it has received, and its unread messages.
    received: Received,
    unread: Unread,
    /// Why it is held, if its log has a hold.
    held: Option<String>,
    /// Whether a person has cancelled it.
    is_cancelled: bool,
    /// Whether its log is too long to be read, so that nothing of it is known.
    is_bare: bool,
    /// Its tags and attributes, and its deadline.
    attributes: Attributes,
    deadline: Option<Time>,
    /// Why something about its questions and steps in doubt can't be read.
    unreadable: Vec<LogError>,
}

impl DormantRun {
    /// The end of its log.
    pub(crate) fn stand(&self) -> tiffany_records::key::LogEnd {
        tiffany_records::key::LogEnd::of(&self.journal.chain)
    }

    /// A step whose input can't be read is not known to be in doubt: see [`unreadable`](DormantRun::unreadable).
    pub fn new(chain: Chain, decoded: &DecodedLog, fetch: Fetch<'_>) -> DormantRun {
        let (run, generation) = (chain.run(), chain.generation());
        let mut dormant = DormantRun {
            journal: Journal::new(chain),
            promises: BTreeMap::new(),
            shared: decoded.inherited.clone(),
            parent: decoded.forks.last().map(|fork| fork.parent),
            approvals: BTreeMap::new(),
            doubts: BTreeMap::new(),
            received: decoded.received.clone(),
            unread: Unread::of(decoded),
            held: decoded.hold.held.clone(),
            is_cancelled: decoded.is_cancelled(),
            is_bare: false,
            attributes: decoded.attributes.clone(),
            deadline: decoded.beginning.terms.deadline.filter(|_| !decoded.is_past_deadline),
            unreadable: Vec::new(),
        };
        let snapshot = decoded.snapshot.iter().flat_map(|snapshot| snapshot.promises());
        dormant.promises.extend(snapshot);
        for (tid, call) in
            decoded.calls.iter().flat_map(|(tid, calls)| calls.iter().map(move |call| (*tid, call)))
        {
            if call.kind == CallKind::CreateExternalPromise
                && let Some(uuid) = call.text("uuid").and_then(|text| Uuid::parse(&text))
            {
                dormant.promises.insert(uuid, false);
            }
            if call.kind == CallKind::Approve
                && !decoded.unasked.contains(&call.seq)
                && !decoded.ended.contains_key(&tid)
            {
                let number = Number { generation, seq: call.seq };
                let key = Key { run, number };
                match open_approval(&decoded.beginning, (tid, call), key, fetch) {
                    Ok(open) => dormant.approvals.extend(open.map(|open| (call.seq, (tid, open)))),
                    Err(error) => dormant.unreadable.push(error),
                }
            }
            if let Some(begun) = decoded.begun.get(&call.seq).filter(|begun| begun.is_open)
                && let Some(about) = call.field("about")
                && dormant.take(is_at_most_once(about, fetch))
            {
                let step = call.text("name").unwrap_or_default();
                let number = Number { generation, seq: call.seq };
                let number = decoded.numbers.get(&call.seq).copied().unwrap_or(number);
                let (key, attempt) = (Key { run, number }.to_string(), begun.attempt);
                let doubt = Doubt { key, run, step, attempt, waits: false };
                dormant.doubts.insert(call.seq, (tid, doubt));
            }
        }
        for told in &decoded.told {
            match &told.what {
                What::Settled { promise, .. } => drop(dormant.promises.insert(*promise, true)),
                What::Woken { of } | What::Decided { of, .. } => drop(dormant.approvals.remove(of)),
                _ => {}
            }
        }
        dormant
    }

    /// The answer to a question about a step; `false`, and noted, if its input can't be read.
    fn take(&mut self, is_so: Result<bool, LogError>) -> bool {
        is_so.unwrap_or_else(|error| {
            self.unreadable.push(error);
            false
        })
    }

    /// Why something about its questions and steps in doubt can't be read. There may be more of
    /// them than are listed.
    pub fn unreadable(&self) -> &[LogError] {
        &self.unreadable
    }

    /// A run whose log is too long to be read: of its promises, questions and doubts nothing is known.
    pub(crate) fn bare(chain: Chain) -> Box<DormantRun> {
        let unknown = DormantRun::new(chain, &DecodedLog::default(), &|_| Ok(String::new()));
        Box::new(DormantRun { is_bare: true, ..unknown })
    }

    /// Whether nothing is known of its promises, questions, doubts and messages.
    pub(crate) fn is_bare(&self) -> bool {
        self.is_bare
    }

    /// Whether a person has cancelled it.
    pub(crate) fn is_cancelled(&self) -> bool {
        self.is_cancelled
    }

    /// Its tags and attributes; nothing is known of those of a bare one.
    pub(crate) fn attributes(&self) -> Option<&Attributes> {
        (!self.is_bare).then_some(&self.attributes)
    }

    /// Its deadline, if it has not passed as far as the log says.
    pub(crate) fn deadline(&self) -> Option<Time> {
        self.deadline
    }

    /// Records that its deadline passed. The run gets that when it is resumed.
    pub(crate) fn past_deadline(&mut self, page: &mut Page, clock: Time) {
        self.journal.lines_without_turn(page, clock).past_deadline();
        (self.deadline, self.is_cancelled) = (None, true);
    }

    /// Sets the deadline of a bare one, of which the first record was read.
    pub(crate) fn with_deadline(self: Box<Self>, deadline: Option<Time>) -> Box<DormantRun> {
        Box::new(DormantRun { deadline, ..*self })
    }

    /// Where its log ends.
    pub(crate) fn chain(&self) -> &Chain {
        &self.journal.chain
    }

    /// Why it is held, if its log says so.
    pub(crate) fn held(&self) -> Option<&str> {
        self.held.as_deref()
    }

    /// Holds it.
    pub(crate) fn hold(&mut self, page: &mut Page, clock: Time, hold: &Hold) {
        self.journal.lines_without_turn(page, clock).held(hold);
        self.held = Some(hold.why());
    }

    /// Lets it continue when it is resumed.
    pub(crate) fn release(
        &mut self,
        page: &mut Page,
        clock: Time,
        (by, why): (&str, Option<&str>),
    ) {
        self.journal.lines_without_turn(page, clock).released(by, why);
        self.held = None;
    }

    /// The run that it is a fork of.
    pub(crate) fn parent(&self) -> Option<Uuid> {
        self.parent
    }

    /// The steps that may or may not have happened.
    pub fn doubts(&self) -> impl Iterator<Item = &Doubt> {
        self.doubts.values().map(|(_, doubt)| doubt)
    }

    /// Its questions that wait for a person, without those whose time has passed.
    pub fn approvals(&self, now: Time) -> impl Iterator<Item = &OpenApproval> {
        let open = self.approvals.values().map(|(_, open)| open);
        open.filter(move |open| open.deadline.is_none_or(|deadline| deadline > now))
    }

    /// Decides a question of this run.
    pub(crate) fn resolve(
        &mut self,
        page: &mut Page,
        clock: Time,
        approval: &str,
        ruling: Ruling,
    ) -> Result<Approval, TaskError> {
        let open = self.approvals(clock).find(|open| open.id == approval);
        let answer = ruling.decide(open.ok_or_else(|| no_such_approval(approval))?, clock)?;
        let value = answer.value()?;
        let seq = self.approvals.iter().find(|(_, (_, open))| open.id == approval);
        let seq = seq.map(|(seq, _)| *seq);
        if let Some((seq, (tid, _))) = seq.and_then(|seq| self.approvals.remove_entry(&seq)) {
            let mut lines = self.journal.lines_without_turn(page, clock);
            lines.approval_decided_of(tid, seq, &Ok(value));
        }
        Ok(answer)
    }

    /// Adds a message from outside, if the run may have another one.
    pub(crate) fn send(
        &mut self,
        page: &mut Page,
        clock: Time,
        limits: Option<&RunLimits>,
        (name, message): (&str, &RawValue),
    ) -> Result<(), TaskError> {
        let json = compact(message.get());
        self.unread.add(limits, self.journal.run(), json.len())?;
        self.journal.lines_without_turn(page, clock).message((name, &json), None);
        Ok(())
    }

    /// Adds a message of another run, unless it has that already.
    pub(crate) fn deliver(
        &mut self,
        page: &mut Page,
        (clock, key): (Time, Key),
        limits: Option<&RunLimits>,
        message: (&str, &str),
    ) -> Result<(), TaskError> {
        if !self.received.has(key) {
            self.unread.add(limits, self.journal.run(), message.1.len())?;
            self.received.add(key);
            let mut lines = self.journal.lines_without_turn(page, clock);
            lines.message(message, Some(&key.to_string()));
        }
        Ok(())
    }

    pub(crate) fn cancel(&mut self, page: &mut Page, clock: Time) {
        self.journal.lines_without_turn(page, clock).cancelled(Cancel::Unwinds);
        self.is_cancelled = true;
    }

    /// Allows a fork effects of these names.
    pub(crate) fn allow(
        &mut self,
        page: &mut Page,
        clock: Time,
        names: &BTreeSet<String>,
    ) -> Result<(), TaskError> {
        if self.parent.is_none() {
            return Err(no_fork(self.journal.run()));
        }
        self.journal.lines_without_turn(page, clock).effects_allowed(names);
        Ok(())
    }

    /// Settles a promise. `None`: it is not a promise of this run, or it is shared with its parent
    /// and the run was not named.
    pub(crate) fn settle(
        &mut self,
        page: &mut Page,
        clock: Time,
        (promise, is_named): (Uuid, bool),
        result: &Result<Box<RawValue>, TaskError>,
    ) -> Option<Settlement> {
        if self.shared.contains(&promise) && !is_named {
            return None;
        }
        let settled = self.promises.get_mut(&promise)?;
        if std::mem::replace(settled, true) {
            return Some(Settlement::Ignored);
        }
        let result = match result {
            Ok(value) => Ok(Value::new(Json::new(compact(value.get())))),
            Err(error) => Err(error.clone()),
        };
        self.journal.lines_without_turn(page, clock).settled(promise, &result);
        Some(Settlement::Accepted)
    }

    /// Decides a step in doubt. `false`: no such step of this run is in doubt.
    pub(crate) fn decide(
        &mut self,
        page: &mut Page,
        clock: Time,
        key: Key,
        decision: &Decision,
    ) -> bool {
        let key = key.to_string();
        let seq = self.doubts.iter().find(|(_, (_, doubt))| doubt.key == key).map(|(seq, _)| *seq);
        let Some((seq, (tid, doubt))) = seq.and_then(|seq| self.doubts.remove_entry(&seq)) else {
            return false;
        };
        let mut lines = self.journal.lines_without_turn(page, clock);
        lines.decided(tid, (seq, doubt.attempt), decision);
        true
    }
}

/// A recorded question; `None` if its form is not known.
fn open_approval(
    beginning: &Beginning,
    (tid, call): (Tid, &Recorded),
    key: Key,
    fetch: Fetch<'_>,
) -> Result<Option<OpenApproval>, LogError> {
    let read = |json: &str| match Payload::parse(json) {
        Some(blob @ Payload::Blob { .. }) => fetch(&blob),
        _ => Ok(json.to_owned()),
    };
    let Some(about) = call.field("about") else { return Ok(None) };
    let about = read(about)?;
    let payload = call.field("payload").map(read).transpose()?;
    let payload = payload.as_deref().map(unwrapped);
    let deadline = call.text("time").and_then(|text| Stamp::parse(&text));
    let deadline = deadline.map(|stamp| Time::from_nanos(stamp.unix_nanos()));
    let place = Place {
        id: key.to_string(),
        run: key.run.to_string(),
        run_id: Some(beginning.id.clone()),
        tid: tid.0,
        task: None,
        since: call.clock,
        deadline,
    };
    Ok(OpenApproval::new(&about, payload, place).ok())
}

/// Why a question is not open: the error has the first answer, if the run's log has one.
pub(crate) fn why_not_open(disk: &dyn Disk, root: &Path, approval: &str) -> TaskError {
    if let Some(run) = Uuid::parse(approval) {
        return why_none_is_open(disk, root, run);
    }
    match first_answer(disk, root, approval) {
        Ok(Some(first)) => decided_already(approval, &first),
        Ok(None) | Err(LogError::UnknownRun(_)) => no_such_approval(approval),
        Err(error) => log_failed(error),
    }
}

/// Why a run has no open question: the last one that it had is decided, or it had none.
fn why_none_is_open(disk: &dyn Disk, root: &Path, run: Uuid) -> TaskError {
    let none = |name: &str| {
        let message = format!("run `{name}` does not wait for an approval");
        TaskError::new(ErrorKind::NoSuchApproval, message)
    };
    let decoded = match read_script(disk, root, run, |_| false) {
        Ok(decoded) => decoded,
        // It is too new for a file of its own.
        Err(LogError::UnknownRun(_)) => return none(&run.to_string()),
        Err(error) => return log_failed(error),
    };
    let decided = decoded.told.iter().rev().find_map(|told| match &told.what {
        What::Decided { of, answer: Ok(answer) } => Some((*of, answer)),
        _ => None,
    });
    let decided = decided.and_then(|(of, answer)| {
        let answer: Approval = decode(&answer.borrow::<Json>()?.0).ok()?;
        Some((format!("{}/{of}", decoded.beginning.id), answer))
    });
    match decided {
        Some((last, answer)) => decided_already(&last, &answer),
        None => none(&decoded.beginning.id),
    }
}

fn first_answer(
    disk: &dyn Disk,
    root: &Path,
    approval: &str,
) -> Result<Option<Approval>, LogError> {
    let Some(Key { run, number }) = Key::parse(approval) else { return Ok(None) };
    let answer = |told: Option<&Told>| match &told?.what {
        What::Decided { of, answer: Ok(answer) } if *of == number.seq => Some(answer.clone()),
        _ => None,
    };
    let decoded = read_script(disk, root, run, |decoded| answer(decoded.told.back()).is_some())?;
    let generation = decoded.beginning.continued.as_ref().map_or(1, |before| before.generation + 1);
    let answer = answer(decoded.told.back()).filter(|_| generation == number.generation);
    Ok(answer.and_then(|answer| decode(&answer.borrow::<Json>()?.0).ok()))
}

pub(crate) fn is_at_most_once(about: &str, fetch: Fetch<'_>) -> Result<bool, LogError> {
    #[derive(Deserialize)]
    struct About {
        kind: Option<String>,
    }
    let about = match Payload::parse(about) {
        Some(blob @ Payload::Blob { .. }) => fetch(&blob)?,
        _ => about.to_owned(),
    };
    let about = decode::<About>(&about);
    Ok(about.is_ok_and(|about| about.kind.as_deref() == Some("at_most_once")))
}
