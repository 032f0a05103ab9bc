"""Durable coroutines: tasks that survive anything.

A task is a generator or an ``async def`` coroutine. What it wants it asks of the scheduler, by yielding or awaiting a call:

>>> import tiffany
>>> from tiffany import Gather, Sleep, Spawn
>>> def worker(n):
...     yield Sleep(0.001)
...     return n * n
>>> def main():
...     tasks = []
...     for n in range(3):
...         tasks.append((yield Spawn(worker(n))))
...     return (yield Gather(tasks))
>>> tiffany.run(main())
[0, 1, 4]

Every call has a name in small letters too, which reads better after ``await``:

>>> from tiffany import gather, sleep, spawn
>>> async def polite(n):
...     await sleep(0.001)
...     return n * n
>>> async def crowd():
...     return await gather([await spawn(polite(n)) for n in range(3)])
>>> tiffany.run(crowd())
[0, 1, 4]
"""

try:
    from tiffany import _core as _core
except ImportError as error:
    if "subinterpreter" not in str(error):
        raise
    from tiffany.errors import SubinterpreterError as _SubinterpreterError

    raise _SubinterpreterError(
        "tiffany was imported in a sub-interpreter [TFY0049]; "
        "import it in the main interpreter, and use processes for more processors"
    ) from error

from tiffany._arun import arun
from tiffany._core import (
    Acquire,
    Aio,
    Answer,
    Ask,
    Blocking,
    Call,
    Cancel,
    Channel,
    Charge,
    CompletePromise,
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
    Permit,
    Program,
    Promise,
    Put,
    Race,
    RaceResult,
    Random,
    ReadWait,
    Receive,
    Refuse,
    Semaphore,
    Send,
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
    __version__,
    complete_by_uuid,
    fail_by_uuid,
    sleep,
    spawn,
    wait,
    yield_now,
)
from tiffany.durable import (
    Agent,
    Attempt,
    Backoff,
    Chunk,
    Connection,
    ContinueAs,
    Done,
    Doubt,
    Patched,
    Paused,
    Queue,
    ReceiveMessage,
    Retention,
    Run,
    Runtime,
    Saga,
    SendMessage,
    Status,
    Step,
    StepCall,
    agent,
    attempt,
    connect,
    on_question,
    run,
    step,
    workflow,
)
from tiffany.errors import (
    AbandonedError,
    AlreadyBegunError,
    AlreadySettledError,
    BackupStoppedError,
    BadArgumentError,
    BadDescriptorError,
    Cancelled,
    CannotContinueError,
    ChannelClosedError,
    DamagedBackupError,
    DeadlockError,
    DivergedError,
    ForeignRunError,
    ForkedError,
    GoldenLogError,
    GoneError,
    HalfRestoredError,
    HashSeedWarning,
    InDoubtError,
    LimitError,
    LogError,
    LogFailedError,
    LogInUseError,
    NeededByForkError,
    NestedRuntimeError,
    NoBackupError,
    NoPyosSchedulerError,
    NoRecordError,
    NoActivityError,
    NoSnapshotError,
    NoSuchKeyError,
    NoSuchQuestionError,
    NoSuchRunError,
    NotACallError,
    NotAllowedError,
    NotAnAnswerError,
    NotCrashProofError,
    NotDurableError,
    NotEmptyError,
    NotEndingError,
    NotForkableError,
    NotOverError,
    NotRestoredError,
    NotSerializableError,
    NotTheSameError,
    NotUndoneError,
    OtherKeyError,
    OtherLogError,
    OtherRunError,
    OtherShapeError,
    OutsideTaskError,
    PanickedError,
    PausedRunWarning,
    ReadTooEarlyError,
    RedactionError,
    RefusedError,
    RestlessError,
    RunCompactedError,
    RunOverError,
    RunRemovedError,
    SharedLoopError,
    StepFailedError,
    SubinterpreterError,
    TaskCancelledError,
    TiffanyError,
    TimedOutError,
    UnansweredError,
    UnknownPromiseError,
    UnknownTaskError,
    UnreachableError,
    UnreadableError,
    UnregisteredError,
    WrongThreadError,
    WrongTypeError,
)

get_tid = GetTid
get_handlers = GetHandlers
call = Call
read_wait = ReadWait
write_wait = WriteWait
charge = Charge
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
continue_as = ContinueAs
receive_message = ReceiveMessage
send_message = SendMessage
aio = Aio
in_thread = InThread
in_process = InProcess

__all__ = [
    "AbandonedError",
    "Acquire",
    "Agent",
    "Aio",
    "AlreadyBegunError",
    "AlreadySettledError",
    "Answer",
    "Ask",
    "Attempt",
    "Backoff",
    "BackupStoppedError",
    "BadArgumentError",
    "BadDescriptorError",
    "Blocking",
    "Call",
    "Cancel",
    "Cancelled",
    "CannotContinueError",
    "Channel",
    "ChannelClosedError",
    "Charge",
    "Chunk",
    "CompletePromise",
    "Connection",
    "ContinueAs",
    "CreateChannel",
    "CreateExternalPromise",
    "CreateGroup",
    "CreateMutex",
    "CreatePromise",
    "CreateSemaphore",
    "DamagedBackupError",
    "DeadlockError",
    "DivergedError",
    "Done",
    "Doubt",
    "Err",
    "ExternalPromise",
    "FailPromise",
    "ForeignRunError",
    "ForkedError",
    "Future",
    "Gather",
    "GatherSettled",
    "Get",
    "GetHandlers",
    "GetLog",
    "GetTid",
    "GoldenLogError",
    "GoneError",
    "Group",
    "HalfRestoredError",
    "HashSeedWarning",
    "InDoubtError",
    "InProcess",
    "InThread",
    "JoinGroup",
    "KillTask",
    "Lazy",
    "LimitError",
    "Lock",
    "LogError",
    "LogFailedError",
    "LogInUseError",
    "Mutex",
    "NeededByForkError",
    "NestedRuntimeError",
    "NewTask",
    "NewUuid",
    "NoBackupError",
    "NoPyosSchedulerError",
    "NoRecordError",
    "NoActivityError",
    "NoSnapshotError",
    "NoSuchKeyError",
    "NoSuchQuestionError",
    "NoSuchRunError",
    "NotACallError",
    "NotAllowedError",
    "NotAnAnswerError",
    "NotCrashProofError",
    "NotDurableError",
    "NotEmptyError",
    "NotEndingError",
    "NotForkableError",
    "NotOverError",
    "NotRestoredError",
    "NotSerializableError",
    "NotTheSameError",
    "NotUndoneError",
    "Now",
    "Ok",
    "OtherKeyError",
    "OtherLogError",
    "OtherRunError",
    "OtherShapeError",
    "OutsideTaskError",
    "PanickedError",
    "Patched",
    "Paused",
    "PausedRunWarning",
    "Permit",
    "Program",
    "Promise",
    "Put",
    "Queue",
    "Race",
    "RaceResult",
    "Random",
    "ReadTooEarlyError",
    "ReadWait",
    "Receive",
    "ReceiveMessage",
    "RedactionError",
    "Refuse",
    "RefusedError",
    "RestlessError",
    "Retention",
    "Run",
    "RunCompactedError",
    "RunOverError",
    "RunRemovedError",
    "Runtime",
    "Saga",
    "Semaphore",
    "Send",
    "SendMessage",
    "SharedLoopError",
    "Sleep",
    "SleepUntil",
    "Spawn",
    "Status",
    "Step",
    "StepCall",
    "StepFailedError",
    "SubinterpreterError",
    "SystemCall",
    "Task",
    "TaskCancelledError",
    "Tell",
    "TiffanyError",
    "TimedOutError",
    "Timeout",
    "UnansweredError",
    "UnknownPromiseError",
    "UnknownTaskError",
    "UnreachableError",
    "UnreadableError",
    "UnregisteredError",
    "Wait",
    "WaitTask",
    "WriteWait",
    "WrongThreadError",
    "WrongTypeError",
    "Yield",
    "__version__",
    "acquire",
    "agent",
    "aio",
    "arun",
    "ask",
    "attempt",
    "blocking",
    "call",
    "cancel",
    "charge",
    "complete_by_uuid",
    "complete_promise",
    "connect",
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
    "new_task",
    "new_uuid",
    "now",
    "on_question",
    "patched",
    "put",
    "race",
    "random",
    "read_wait",
    "receive",
    "receive_message",
    "run",
    "send",
    "send_message",
    "sleep",
    "sleep_until",
    "spawn",
    "step",
    "tell",
    "timeout",
    "wait",
    "wait_task",
    "workflow",
    "write_wait",
    "yield_now",
]
