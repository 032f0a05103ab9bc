"""The calls of tasks: what is yielded or awaited, the handles that calls return, and their results.

Every call has two names. The class reads well after ``yield``, the function after ``await``:

>>> import tiffany
>>> from tiffany.calls import Sleep, sleep
>>> def generator():
...     yield Sleep(0.001)
...     return "done"
>>> async def coroutine():
...     await sleep(0.001)
...     return "done"
>>> tiffany.run(generator()) == tiffany.run(coroutine())
True

The calls that most programs use are in `tiffany` too.
"""

import typing as _typing

from tiffany._core import (
    Acquire,
    AddTags,
    Aio,
    Answer,
    Approve,
    Ask,
    Blocking,
    Call,
    Cancel,
    Channel,
    Charge,
    CompletePromise,
    ContinueAs,
    CreateChannel,
    CreateExternalPromise,
    CreateGroup,
    CreateMutex,
    CreatePromise,
    CreateSemaphore,
    Err,
    ExternalPromise,
    FailPromise,
    Future,
    Gather,
    GatherSettled,
    Get,
    GetHandlers,
    GetLog,
    GetTid,
    Group,
    InProcess,
    InThread,
    JoinGroup,
    KillTask,
    Lazy,
    Lock,
    Mutex,
    NewTask,
    NewUuid,
    Now,
    Ok,
    Patched,
    Permit,
    Program,
    Promise,
    Put,
    Race,
    RaceResult,
    Random,
    ReadWait,
    Receive,
    ReceiveMessage,
    Refuse,
    RemoveTags,
    Semaphore,
    Send,
    SendMessage,
    SetAttributes,
    Show,
    Sleep,
    SleepUntil,
    Spawn,
    SystemCall,
    Task,
    Tell,
    Timeout,
    Wait,
    WaitTask,
    WriteWait,
    Yield,
    complete_by_uuid,
    fail_by_uuid,
    log,
    output,
    progress,
    sleep,
    spawn,
    stage,
    wait,
    yield_now,
)

get_tid = GetTid
get_handlers = GetHandlers
call = Call
read_wait = ReadWait
write_wait = WriteWait
charge = Charge
approve = Approve
blocking = Blocking
now = Now
random = Random
new_uuid = NewUuid
sleep_until = SleepUntil
new_task = NewTask
gather = Gather
gather_settled = GatherSettled
race = Race
cancel = Cancel
wait_task = WaitTask
kill_task = KillTask
timeout = Timeout
create_promise = CreatePromise
complete_promise = CompletePromise
fail_promise = FailPromise
create_external_promise = CreateExternalPromise
get = Get
put = Put
tell = Tell
get_log = GetLog
ask = Ask
create_channel = CreateChannel
send = Send
receive = Receive
create_semaphore = CreateSemaphore
create_mutex = CreateMutex
acquire = Acquire
create_group = CreateGroup
join_group = JoinGroup
patched = Patched
if _typing.TYPE_CHECKING:
    # `NoReturn` lets type checkers treat code after `await continue_as(...)` as unreachable, which
    # a class cannot express.
    async def continue_as(*args: _typing.Any, **kwargs: _typing.Any) -> _typing.NoReturn: ...
else:
    continue_as = ContinueAs
receive_message = ReceiveMessage
send_message = SendMessage
set_attributes = SetAttributes
add_tags = AddTags
remove_tags = RemoveTags
aio = Aio
in_thread = InThread
in_process = InProcess

__all__ = [
    "Acquire",
    "AddTags",
    "Aio",
    "Answer",
    "Approve",
    "Ask",
    "Blocking",
    "Call",
    "Cancel",
    "Channel",
    "Charge",
    "CompletePromise",
    "ContinueAs",
    "CreateChannel",
    "CreateExternalPromise",
    "CreateGroup",
    "CreateMutex",
    "CreatePromise",
    "CreateSemaphore",
    "Err",
    "ExternalPromise",
    "FailPromise",
    "Future",
    "Gather",
    "GatherSettled",
    "Get",
    "GetHandlers",
    "GetLog",
    "GetTid",
    "Group",
    "InProcess",
    "InThread",
    "JoinGroup",
    "KillTask",
    "Lazy",
    "Lock",
    "Mutex",
    "NewTask",
    "NewUuid",
    "Now",
    "Ok",
    "Patched",
    "Permit",
    "Program",
    "Promise",
    "Put",
    "Race",
    "RaceResult",
    "Random",
    "ReadWait",
    "Receive",
    "ReceiveMessage",
    "Refuse",
    "RemoveTags",
    "Semaphore",
    "Send",
    "SendMessage",
    "SetAttributes",
    "Show",
    "Sleep",
    "SleepUntil",
    "Spawn",
    "SystemCall",
    "Task",
    "Tell",
    "Timeout",
    "Wait",
    "WaitTask",
    "WriteWait",
    "Yield",
    "acquire",
    "add_tags",
    "aio",
    "approve",
    "ask",
    "blocking",
    "call",
    "cancel",
    "charge",
    "complete_by_uuid",
    "complete_promise",
    "continue_as",
    "create_channel",
    "create_external_promise",
    "create_group",
    "create_mutex",
    "create_promise",
    "create_semaphore",
    "fail_by_uuid",
    "fail_promise",
    "gather",
    "gather_settled",
    "get",
    "get_handlers",
    "get_log",
    "get_tid",
    "in_process",
    "in_thread",
    "join_group",
    "kill_task",
    "log",
    "new_task",
    "new_uuid",
    "now",
    "output",
    "patched",
    "progress",
    "put",
    "race",
    "random",
    "read_wait",
    "receive",
    "receive_message",
    "remove_tags",
    "send",
    "send_message",
    "set_attributes",
    "sleep",
    "sleep_until",
    "spawn",
    "stage",
    "tell",
    "timeout",
    "wait",
    "wait_task",
    "write_wait",
    "yield_now",
]
