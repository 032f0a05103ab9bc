"""The exceptions of tiffany. Each has the code under which the book explains it."""

from __future__ import annotations

from typing import cast


class TiffanyError(Exception):
    """Anything that tiffany itself says went wrong."""

    code: str = "TFY0001"


class TaskCancelledError(TiffanyError):
    """The task that was waited for was cancelled."""

    code = "TFY0003"


class PanickedError(TiffanyError):
    """Rust code of a task, or tiffany's own, stopped at a bug."""

    code = "TFY0002"


class OutsideTaskError(TiffanyError, RuntimeError):
    """A call was made where no task runs."""

    code = "TFY0004"


class UnknownTaskError(TiffanyError, LookupError):
    """There is no such task, or its result is gone."""

    code = "TFY0007"


class ForeignRunError(TiffanyError, ValueError):
    """A handle of one run was used in another."""

    code = "TFY0008"


class AlreadySettledError(TiffanyError):
    """The promise was settled before; the first value stays."""

    code = "TFY0009"


class UnknownPromiseError(TiffanyError, LookupError):
    """There is no such promise, or its run is over."""

    code = "TFY0010"


class BadDescriptorError(TiffanyError, OSError):
    """A descriptor is not open, was closed, or cannot be waited for."""

    code = "TFY0011"


class BadArgumentError(TiffanyError, TypeError, ValueError):
    """An argument that no call of this kind can have: one of the wrong type, one out of range, or one by a name that is not known."""

    code = "TFY0032"


class LimitError(TiffanyError):
    """The run used up more than it may."""

    code = "TFY0014"


class UnansweredError(TiffanyError):
    """No handler answered the call."""

    code = "TFY0018"


class RefusedError(TiffanyError):
    """A handler refused the call."""

    code = "TFY0019"


class NotDurableError(TiffanyError):
    """The call is not allowed in a durable run; use a step."""

    code = "TFY0020"


class WrongTypeError(TiffanyError, TypeError):
    """A value is of another type than the one who takes it wants."""

    code = "TFY0021"


class NoSuchKeyError(TiffanyError, KeyError):
    """The shared environment has no such key."""

    code = "TFY0022"

    __str__ = Exception.__str__


class ChannelClosedError(TiffanyError):
    """The channel is closed."""

    code = "TFY0023"


class DeadlockError(TiffanyError):
    """Nothing is left that could wake the run."""

    code = "TFY0024"


class NestedRuntimeError(TiffanyError, RuntimeError):
    """A runtime was started inside a task."""

    code = "TFY0025"


class AbandonedError(TiffanyError):
    """The promise was dropped unsettled."""

    code = "TFY0026"


class TimedOutError(TiffanyError, TimeoutError):
    """It took longer than allowed."""

    code = "TFY0028"


class GoneError(TiffanyError, LookupError):
    """A channel, a lock, a group or a runtime that is no more."""

    code = "TFY0031"


class NotSerializableError(TiffanyError, TypeError):
    """A value that has to be written down cannot be. `path` is the place inside it."""

    code = "TFY0034"
    path: str = "."


class UnreadableError(TiffanyError, ValueError):
    """What was written down cannot be read as the type that is wanted. `path` is the place inside it."""

    code = "TFY0035"
    path: str = "."


class DivergedError(TiffanyError):
    """A durable run did something else than its log says it did."""

    code = "TFY0036"


class OtherRunError(TiffanyError):
    """The id belongs to a run with another function or another input."""

    code = "TFY0037"


class UnregisteredError(TiffanyError, LookupError):
    """No workflow of this name is registered."""

    code = "TFY0038"


class LogFailedError(TiffanyError):
    """The log has stopped, and with it all that needs it."""

    code = "TFY0039"


class InDoubtError(TiffanyError):
    """A step that must not be done twice was cut off, and nobody knows whether it happened."""

    code = "TFY0040"


class NoSuchRunError(TiffanyError, LookupError):
    """The log has no run of this identity."""

    code = "TFY0041"


class RunOverError(TiffanyError):
    """The run is over: it takes no messages and answers no questions."""

    code = "TFY0042"


class NotACallError(TiffanyError, TypeError):
    """Something was yielded or awaited that is no call."""

    code = "TFY0045"


class WrongThreadError(TiffanyError, RuntimeError):
    """A runtime was used on another thread than its own."""

    code = "TFY0046"


class ForkedError(TiffanyError, RuntimeError):
    """A runtime was used in a process that was forked from its own."""

    code = "TFY0047"


class AlreadyBegunError(TiffanyError, RuntimeError):
    """A program was to run that had begun before; each call of its function gives a new one."""

    code = "TFY0048"


class SubinterpreterError(TiffanyError, ImportError):
    """The package was imported in a sub-interpreter."""

    code = "TFY0049"


class UnreachableError(TiffanyError):
    """Who has to do it does not answer, or no process has the directory."""

    code = "TFY0043"


class NoSuchQuestionError(TiffanyError, LookupError):
    """The run answers no question of this name."""

    code = "TFY0044"


class OtherKeyError(TiffanyError):
    """A key in the user's database belongs to another run."""

    code = "TFY0050"


class StepFailedError(TiffanyError):
    """A step ended with an exception that cannot be made again from what was written down."""

    code = "TFY0052"


class NotUndoneError(TiffanyError):
    """A saga failed, and not all that it had done could be undone."""

    code = "TFY0051"


class NotEndingError(TiffanyError, RuntimeError):
    """A generator or coroutine yielded again when it was to end. It is left as it is, and Python shows this."""

    code = "TFY0054"


class SharedLoopError(TiffanyError, RuntimeError):
    """A coroutine was about to stop a loop of asyncio that others use."""

    code = "TFY0056"


class NoPyosSchedulerError(TiffanyError, TypeError):
    """A call of ``tiffany.pyos`` was yielded where no scheduler of ``tiffany.pyos`` runs."""

    code = "TFY0057"


class NoBackupError(TiffanyError, LookupError):
    """A directory is no backup."""

    code = "TFY0087"


class DamagedBackupError(TiffanyError):
    """A backup is not as it was written."""

    code = "TFY0088"


class OtherLogError(TiffanyError):
    """A directory has the backup of another log."""

    code = "TFY0089"


class NotEmptyError(TiffanyError):
    """A log was to be restored, or a backup taken, where something is."""

    code = "TFY0090"


class LogInUseError(TiffanyError):
    """Another process has the log."""

    code = "TFY0101"


class LogError(TiffanyError):
    """A log cannot be read or written. Each cause has a code of its own."""

    code = "TFY0102"


class NoRecordError(TiffanyError, LookupError):
    """A run has no record of this number."""

    code = "TFY0115"


class NotAnAnswerError(TiffanyError, ValueError):
    """A record that answers nothing was to be changed in a fork."""

    code = "TFY0116"


class NotForkableError(TiffanyError, ValueError):
    """A run cannot be forked there."""

    code = "TFY0117"


class OtherShapeError(TiffanyError, ValueError):
    """An answer for a fork has another shape than the recorded one."""

    code = "TFY0118"


class NotAllowedError(TiffanyError):
    """A fork needs an effect that its parent has no answer for and that nobody has allowed."""

    code = "TFY0119"


class MismatchedLogError(TiffanyError):
    """The file of a run and the commit log have different lines in the same place."""

    code = "TFY0200"


class NoDescriptorError(TiffanyError):
    """The process has no file descriptor left for the log."""

    code = "TFY0201"


class HalfRestoredError(TiffanyError):
    """A log was not restored to its end."""

    code = "TFY0120"


class RestlessError(TiffanyError):
    """Too many runs were replaced while a backup was taken."""

    code = "TFY0121"


class BackupStoppedError(TiffanyError):
    """A backup or a restore did not come to its end."""

    code = "TFY0122"


class CannotContinueError(TiffanyError):
    """A run cannot begin anew here."""

    code = "TFY0125"


class NoSnapshotError(TiffanyError):
    """A run cannot be written down as a whole."""

    code = "TFY0126"


class NotRestoredError(TiffanyError):
    """What was written down of a run cannot be made a run again."""

    code = "TFY0127"


class RunRemovedError(TiffanyError):
    """The run was removed; its id stays taken."""

    code = "TFY0130"


class RunCompactedError(TiffanyError):
    """Of the run only its beginning and its end are left."""

    code = "TFY0131"


class RunHeldError(TiffanyError):
    """A person or a limit holds the run."""

    code = "TFY0235"


class NotHeldError(TiffanyError):
    """The run is not held."""

    code = "TFY0236"


class InboxFullError(TiffanyError):
    """The run has too many messages that it has not received."""

    code = "TFY0237"


class InterruptedStepError(TiffanyError):
    """An async step kept the loop that all async steps share for too long, and was interrupted."""

    code = "TFY0240"


class InterruptedCodeError(TiffanyError):
    """Code outside turns, such as what reads an input or answers a question, took too long and was interrupted."""

    code = "TFY0245"


class NotOverError(TiffanyError):
    """The run is not over."""

    code = "TFY0132"


class NeededByForkError(TiffanyError):
    """A fork that is not over takes answers from the run."""

    code = "TFY0133"


class ReadTooEarlyError(TiffanyError):
    """The run is not any more what it was when it was read."""

    code = "TFY0134"


class NoActivityError(TiffanyError):
    """Events are of a process, and none has the log."""

    code = "TFY0150"


class ApprovalTimedOutError(TiffanyError, TimeoutError):
    """No person answered a question in time."""

    code = "TFY0180"


class NoSuchApprovalError(TiffanyError, LookupError):
    """No such question is open."""

    code = "TFY0181"


class ApprovalDecidedError(TiffanyError):
    """The question has its answer; the first one holds."""

    code = "TFY0182"


class BadChoiceError(TiffanyError, ValueError):
    """The question does not have this choice."""

    code = "TFY0183"


class RejectedError(TiffanyError):
    """A person said no."""

    code = "TFY0184"


class NotTheSameError(TiffanyError):
    """A run cannot be captured: the code does not do what its log has."""

    code = "TFY0137"


class RedactionError(TiffanyError):
    """Something cannot be taken out of a log."""

    code = "TFY0138"


class BadRuleError(TiffanyError):
    """A rule of redaction cannot be read."""

    code = "TFY0190"


class BadPatternError(TiffanyError):
    """A pattern of redaction is no regular expression, or one that cannot be followed."""

    code = "TFY0191"


class SecretNameError(TiffanyError):
    """Something was to be called by a name that has a secret in it."""

    code = "TFY0192"


class UnknownRulesError(TiffanyError):
    """The log of a run follows rules that this version does not know."""

    code = "TFY0230"


class NoValueError(TiffanyError):
    """A rule of redaction gives no value to take out."""

    code = "TFY0193"


class RefusedValueError(TiffanyError, ValueError):
    """A value from outside the program that no program could read."""

    code = "TFY0220"


class OtherSettingsError(TiffanyError):
    """Calls of `arun` on one directory share a runtime, and one of them has other settings."""

    code = "TFY0221"


class OtherLoopError(TiffanyError):
    """The directory is in use by another event loop of this process."""

    code = "TFY0222"


class RunningLoopError(TiffanyError, RuntimeError):
    """A call that waits was made on a thread whose event loop is running."""

    code = "TFY0223"


class _InDoubt(Exception):
    """Nobody knows whether a transaction was confirmed; the next attempt finds out."""


class _Ended(Exception):
    """A step on a loop of asyncio was about to end that loop."""


class PausedRunWarning(UserWarning):
    """A durable run cannot go on with this program."""


class NotCrashProofError(TiffanyError, AssertionError):
    """A crash changed what a workflow does."""

    code = "TFY0058"


class GoldenLogError(TiffanyError, AssertionError):
    """Code and the log that was kept of it have parted ways."""

    code = "TFY0059"


class Cancelled(BaseException):
    """What a cancelled task gets at its yield. Let it pass after cleaning up.

    >>> issubclass(Cancelled, Exception)
    False
    """


def _all(base: type[TiffanyError]) -> dict[str, type[TiffanyError]]:
    found: dict[str, type[TiffanyError]] = {}
    for cls in base.__subclasses__():
        found[cls.code] = cls
    return found


_BY_CODE: dict[str, type[TiffanyError]] = {
    **_all(TiffanyError),
    **dict.fromkeys(("TFY0005", "TFY0006", "TFY0013", "TFY0033"), BadArgumentError),
    "TFY0012": BadDescriptorError,
    **dict.fromkeys((f"TFY0{number}" for number in (*range(103, 113), 114)), LogError),
    "TFY0113": NoSuchRunError,
    **dict.fromkeys(("TFY0015", "TFY0016", "TFY0017"), LimitError),
}
_MADE: dict[str, type[TiffanyError]] = {}


def _reduce(error: TiffanyError) -> tuple[object, ...]:
    return _again, (error.code, error.args), error.__dict__


def _again(code: str, args: tuple[object, ...]) -> TiffanyError:
    return of_code(code)(*args)


def of_code(code: str) -> type[TiffanyError]:
    """The class of errors with this code, which has it as its own.

    >>> of_code("TFY0024")
    <class 'tiffany.errors.DeadlockError'>
    >>> of_code("TFY0016")
    <class 'tiffany.errors.LimitError.TFY0016'>
    """
    cls = _BY_CODE.get(code, TiffanyError)
    if cls.code == code:
        return cls
    if code not in _MADE:
        body = {
            "code": code,
            "__module__": cls.__module__,
            # The log finds the class by this name.
            "__qualname__": f"{cls.__qualname__}.{code}",
            "__doc__": cls.__doc__,
            "__reduce__": _reduce,
        }
        _MADE[code] = cast(type[TiffanyError], type(cls.__name__, (cls,), body))
    return _MADE[code]


__all__ = [
    "AbandonedError",
    "AlreadyBegunError",
    "AlreadySettledError",
    "ApprovalDecidedError",
    "ApprovalTimedOutError",
    "BackupStoppedError",
    "BadArgumentError",
    "BadChoiceError",
    "BadDescriptorError",
    "BadPatternError",
    "BadRuleError",
    "Cancelled",
    "CannotContinueError",
    "ChannelClosedError",
    "DamagedBackupError",
    "DeadlockError",
    "DivergedError",
    "ForeignRunError",
    "ForkedError",
    "GoldenLogError",
    "GoneError",
    "HalfRestoredError",
    "InDoubtError",
    "InboxFullError",
    "InterruptedCodeError",
    "InterruptedStepError",
    "LimitError",
    "LogError",
    "LogFailedError",
    "LogInUseError",
    "MismatchedLogError",
    "NeededByForkError",
    "NestedRuntimeError",
    "NoActivityError",
    "NoBackupError",
    "NoDescriptorError",
    "NoPyosSchedulerError",
    "NoRecordError",
    "NoSnapshotError",
    "NoSuchApprovalError",
    "NoSuchKeyError",
    "NoSuchQuestionError",
    "NoSuchRunError",
    "NoValueError",
    "NotACallError",
    "NotAllowedError",
    "NotAnAnswerError",
    "NotCrashProofError",
    "NotDurableError",
    "NotEmptyError",
    "NotEndingError",
    "NotForkableError",
    "NotHeldError",
    "NotOverError",
    "NotRestoredError",
    "NotSerializableError",
    "NotTheSameError",
    "NotUndoneError",
    "OtherKeyError",
    "OtherLogError",
    "OtherLoopError",
    "OtherRunError",
    "OtherSettingsError",
    "OtherShapeError",
    "OutsideTaskError",
    "PanickedError",
    "PausedRunWarning",
    "ReadTooEarlyError",
    "RedactionError",
    "RefusedError",
    "RefusedValueError",
    "RejectedError",
    "RestlessError",
    "RunCompactedError",
    "RunHeldError",
    "RunOverError",
    "RunRemovedError",
    "RunningLoopError",
    "SecretNameError",
    "SharedLoopError",
    "StepFailedError",
    "SubinterpreterError",
    "TaskCancelledError",
    "TiffanyError",
    "TimedOutError",
    "UnansweredError",
    "UnknownPromiseError",
    "UnknownRulesError",
    "UnknownTaskError",
    "UnreachableError",
    "UnreadableError",
    "UnregisteredError",
    "WrongThreadError",
    "WrongTypeError",
    "of_code",
]
