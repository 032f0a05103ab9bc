//! The `repr` of calls: the class with its arguments. User-defined calls have their own.

use std::borrow::Cow;

use pyo3::prelude::*;

use tiffany::kernel::GatherMode;

use crate::calls::call::{Op, SystemCall};

/// Returns the name of a call.
pub(crate) fn name(py: Python<'_>, op: &Op) -> Cow<'static, str> {
    let name = match op {
        Op::Yield => "Yield",
        Op::GetTid => "GetTid",
        Op::Now => "Now",
        Op::Random => "Random",
        Op::NewUuid => "NewUuid",
        Op::GetHandlers => "GetHandlers",
        Op::Spawn(spawning) if spawning.by_number => "NewTask",
        Op::Spawn(_) => "Spawn",
        Op::Wait(..) => "Wait",
        Op::WaitTask(_) => "WaitTask",
        Op::KillTask(_) => "KillTask",
        Op::Gather(_, _, GatherMode::FailFast) => "Gather",
        Op::Gather(_, _, GatherMode::Settle) => "GatherSettled",
        Op::Race(..) => "Race",
        Op::Together(together) => together.name(),
        Op::Cancel(..) => "Cancel",
        Op::CreatePromise => "CreatePromise",
        Op::CompletePromise(..) => "CompletePromise",
        Op::FailPromise(..) => "FailPromise",
        Op::CreateExternalPromise => "CreateExternalPromise",
        Op::Sleep(_) => "Sleep",
        Op::SleepUntil(_) => "SleepUntil",
        Op::Approve(_) => "Approve",
        Op::ReadWait(_) => "ReadWait",
        Op::WriteWait(_) => "WriteWait",
        Op::Get(..) => "Get",
        Op::Put(..) => "Put",
        Op::Tell(_) => "Tell",
        Op::GetLog => "GetLog",
        Op::Ask(_) => "Ask",
        Op::CreateChannel(_) => "CreateChannel",
        Op::Send(..) => "Send",
        Op::Receive(..) | Op::NextMessage(..) => "Receive",
        Op::CreateSemaphore(_) => "CreateSemaphore",
        Op::CreateMutex => "CreateMutex",
        Op::Acquire(..) | Op::Enter(..) => "Acquire",
        Op::CreateGroup => "CreateGroup",
        Op::JoinGroup(..) | Op::LeaveGroup(_) => "JoinGroup",
        Op::Show(_) => "Show",
        Op::Charge(_) => "Charge",
        Op::SetAttributes(_) => "SetAttributes",
        Op::ReceiveMessage(_) => "ReceiveMessage",
        Op::Patched(_) => "Patched",
        Op::ContinueAs(..) => "ContinueAs",
        Op::Call(_) => "Call",
        Op::Custom(class) => {
            let name = class.bind(py).name();
            return name.map_or("SystemCall".into(), |name| name.to_string().into());
        }
        Op::Other(perform) => return perform.name(py).into(),
    };
    name.into()
}

/// Returns a call as it would be written in a program.
pub(crate) fn of(call: &Bound<'_, SystemCall>) -> PyResult<String> {
    let py = call.py();
    let name = match &call.get().op {
        Op::Other(_) => call.get_type().name()?.to_string().into(),
        op => name(py, op),
    };
    let object = |object: &Py<PyAny>| Ok::<_, PyErr>(object.bind(py).repr()?.to_string());
    let text = |text: &str| Ok::<_, PyErr>(text.into_pyobject(py)?.repr()?.to_string());
    let list = |items: &[Py<PyAny>]| items.iter().map(object).collect::<PyResult<Vec<_>>>();
    let given: Vec<String> = match &call.get().op {
        Op::Spawn(spawning) => vec![object(&spawning.program)?],
        Op::Wait(waitable, _) => vec![object(waitable)?],
        Op::WaitTask(tid) | Op::KillTask(tid) => vec![tid.to_string()],
        Op::Gather(items, ..) | Op::Race(items, _) => list(items)?,
        Op::Together(together) => list(together.items())?,
        Op::Cancel(Some(task), _) => vec![task.bind(py).repr()?.to_string()],
        Op::CompletePromise(promise, value) => {
            vec![format!("Promise({})", promise.id), object(value)?]
        }
        Op::FailPromise(promise, error) => vec![format!("Promise({})", promise.id), object(error)?],
        Op::Sleep(duration) => vec![duration.as_secs_f64().to_string()],
        Op::SleepUntil(time) => vec![(time.as_nanos() as f64 / 1e9).to_string()],
        Op::Approve(_) => vec![call.getattr("question")?.repr()?.to_string()],
        Op::ReadWait(fd) | Op::WriteWait(fd) => vec![fd.to_string()],
        Op::Get(key, _) | Op::Ask(key) => vec![text(key)?],
        Op::Put(key, value) => vec![text(key)?, object(value)?],
        Op::Tell(entry) => vec![object(entry)?],
        Op::CreateChannel(capacity) => capacity.iter().map(usize::to_string).collect(),
        Op::Send(_, channel, message) => vec![format!("Channel({})", channel.id), object(message)?],
        Op::Receive(_, channel) | Op::NextMessage(_, channel) => {
            vec![format!("Channel({})", channel.id)]
        }
        Op::CreateSemaphore(permits) => vec![permits.to_string()],
        Op::Acquire(lock, semaphore, permits) => {
            let lock = lock.as_ref().map(object).transpose()?;
            let lock = lock.unwrap_or_else(|| format!("Semaphore({})", semaphore.id));
            match permits {
                1 => vec![lock],
                permits => vec![lock, permits.to_string()],
            }
        }
        Op::Enter(lock, _) => vec![object(lock)?],
        Op::JoinGroup(group, _) => vec![object(group)?],
        Op::LeaveGroup(group) => vec![format!("Group({})", group.id)],
        Op::Show(shown) => vec![text(&shown.to_string())?],
        Op::Charge(cost) => vec![cost.to_string()],
        Op::ReceiveMessage(name) | Op::Patched(name) => vec![text(name)?],
        Op::ContinueAs(args, kwargs) => {
            let by_position = args.bind(py).iter().map(|value| Ok(value.repr()?.to_string()));
            let by_name = kwargs.bind(py).iter();
            let by_name = by_name.map(|(name, value)| Ok(format!("{name}={}", value.repr()?)));
            by_position.chain(by_name).collect::<PyResult<_>>()?
        }
        Op::Call(program) => vec![object(program)?],
        Op::Other(_) => vec!["…".into()],
        _ => vec![],
    };
    Ok(format!("{name}({})", given.join(", ")))
}
