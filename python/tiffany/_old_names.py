"""The names that `tiffany` itself had in version 0.1 and that are now in its modules. They still work,
with a `DeprecationWarning`, and are removed after version 0.2.
"""

from __future__ import annotations

import importlib
import warnings

_MOVED = {
    "tiffany.calls": """
        Acquire Aio Answer Approve Ask Blocking Call Cancel Channel Charge CompletePromise
        ContinueAs CreateChannel CreateExternalPromise CreateGroup CreateMutex CreatePromise
        CreateSemaphore ExternalPromise FailPromise Future Gather GatherSettled Get GetHandlers
        GetLog GetTid Group InProcess InThread JoinGroup KillTask Lazy Lock Mutex NewTask NewUuid
        Now Patched Permit Program Promise Put Race RaceResult Random ReadWait Receive
        ReceiveMessage Refuse Semaphore Send SendMessage Show Sleep SleepUntil Spawn SystemCall
        Task Tell Timeout Wait WaitTask WriteWait Yield acquire ask blocking call charge
        complete_promise create_promise fail_by_uuid fail_promise get get_handlers get_log get_tid
        join_group kill_task new_task put read_wait receive send sleep_until tell wait_task
        write_wait
    """,
    "tiffany.durable": """
        Activity Approval Attempt Chunk Doubt Lost OpenApproval Paused Retention Run
        Status Step StepCall Subscription on_question
    """,
    "tiffany.errors": """
        AbandonedError AlreadyBegunError AlreadySettledError ApprovalDecidedError
        ApprovalTimedOutError BackupStoppedError BadArgumentError BadChoiceError
        BadDescriptorError BadPatternError BadRuleError CannotContinueError ChannelClosedError
        DamagedBackupError DeadlockError DivergedError ForeignRunError ForkedError GoldenLogError
        GoneError HalfRestoredError InDoubtError InboxFullError InterruptedCodeError
        InterruptedStepError LimitError LogError LogFailedError LogInUseError MismatchedLogError
        NeededByForkError NestedRuntimeError NoActivityError NoBackupError NoDescriptorError
        NoPyosSchedulerError NoRecordError NoSnapshotError NoSuchApprovalError NoSuchKeyError
        NoSuchQuestionError NoSuchRunError NoValueError NotACallError NotAllowedError
        NotAnAnswerError NotCrashProofError NotDurableError NotEmptyError NotEndingError
        NotForkableError NotHeldError NotOverError NotRestoredError NotSerializableError
        NotTheSameError NotUndoneError OtherKeyError OtherLogError OtherLoopError OtherRunError
        OtherSettingsError OtherShapeError OutsideTaskError PanickedError PausedRunWarning
        ReadTooEarlyError RedactionError RefusedError RefusedValueError RejectedError
        RestlessError RunCompactedError RunHeldError RunOverError RunRemovedError RunningLoopError
        SecretNameError SharedLoopError StepFailedError SubinterpreterError TaskCancelledError
        TimedOutError UnansweredError UnknownPromiseError UnknownRulesError UnknownTaskError
        UnreachableError UnreadableError UnregisteredError WrongThreadError WrongTypeError
    """,
}
"""The names that moved, by the module that has them now."""

_RENAMED = {
    "Agent": "tiffany.durable.StateMachine",
    "Connection": "tiffany.Client",
    "agent": "tiffany.state_machine",
}
"""The names that changed. `tiffany.durable` had them too."""

PLACES = {name: f"{module}.{name}" for module, names in _MOVED.items() for name in names.split()}
PLACES |= _RENAMED
"""Where each of the old names is now."""


def found(name: str, module: str = "tiffany") -> object:
    """Returns what had this name in a module, and warns that it has moved."""
    place = (PLACES if module == "tiffany" else _RENAMED).get(name)
    if place is None:
        raise AttributeError(f"module {module!r} has no attribute {name!r}", name=name)
    warnings.warn(
        f"`{module}.{name}` is now `{place}`; the old name is removed after version 0.2",
        DeprecationWarning,
        stacklevel=3,
    )
    new_module, _, new_name = place.rpartition(".")
    return getattr(importlib.import_module(new_module), new_name)
