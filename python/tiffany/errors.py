"""The exceptions of tiffany. Each has a code, which the book explains."""

from __future__ import annotations

from typing import cast


class TiffanyError(Exception):
    """The base class of tiffany's own errors."""

    code: str = "TFY0001"


class Cancelled(BaseException):
    """The exception that a cancelled task gets at its yield. After cleaning up, raise it again.

    >>> issubclass(Cancelled, Exception)
    False
    """


class PausedRunWarning(UserWarning):
    """A durable run cannot continue with this program."""


class _InDoubt(Exception):
    """It is not known whether a transaction was committed; the next attempt finds out."""


class _Ended(Exception):
    """A step on an asyncio event loop tried to end that loop."""


# Generated from errors.toml by generate_errors.py: begin


class PanickedError(TiffanyError):
    """Rust code of a task, or tiffany's own, panicked because of a bug."""

    code = "TFY0002"


class TaskCancelledError(TiffanyError):
    """The task that was waited for was cancelled."""

    code = "TFY0003"


class OutsideTaskError(TiffanyError, RuntimeError):
    """A call was made where no task runs."""

    code = "TFY0004"


class UnknownTaskError(TiffanyError, LookupError):
    """The task does not exist, or its result is gone."""

    code = "TFY0007"


class ForeignRunError(TiffanyError, ValueError):
    """A handle of one run was used in another."""

    code = "TFY0008"


class AlreadySettledError(TiffanyError):
    """The promise was already settled; the first value stays."""

    code = "TFY0009"


class UnknownPromiseError(TiffanyError, LookupError):
    """The promise does not exist, or its run has finished."""

    code = "TFY0010"


class BadDescriptorError(TiffanyError, OSError):
    """A descriptor is not open, was closed, or cannot be waited for."""

    code = "TFY0011"


class LimitError(TiffanyError):
    """The run exceeded one of its limits."""

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
    """A value has another type than its receiver expects."""

    code = "TFY0021"


class NoSuchKeyError(TiffanyError, KeyError):
    """The shared environment does not have this key."""

    code = "TFY0022"

    __str__ = Exception.__str__


class ChannelClosedError(TiffanyError):
    """The channel is closed."""

    code = "TFY0023"


class DeadlockError(TiffanyError):
    """No task of the run can make progress, and nothing is left that could wake one."""

    code = "TFY0024"


class NestedRuntimeError(TiffanyError, RuntimeError):
    """A runtime was started inside a task."""

    code = "TFY0025"


class AbandonedError(TiffanyError):
    """The promise was dropped before it was settled."""

    code = "TFY0026"


class TimedOutError(TiffanyError, TimeoutError):
    """An operation took longer than its time limit."""

    code = "TFY0028"


class GoneError(TiffanyError, LookupError):
    """A channel, a lock, a group or a runtime no longer exists."""

    code = "TFY0031"


class BadArgumentError(TiffanyError, TypeError, ValueError):
    """An argument is invalid: it has the wrong type, is out of range, or has an unknown name."""

    code = "TFY0032"


class NotSerializableError(TiffanyError, TypeError):
    """A value that has to be recorded cannot be encoded. `path` is the place inside it."""

    code = "TFY0034"
    path: str = "."


class UnreadableError(TiffanyError, ValueError):
    """A recorded value cannot be read as the expected type. `path` is the place inside it."""

    code = "TFY0035"
    path: str = "."


class DivergedError(TiffanyError):
    """A durable run behaved differently from what its log says."""

    code = "TFY0036"


class OtherRunError(TiffanyError):
    """The id belongs to a run with another function or another input."""

    code = "TFY0037"


class UnregisteredError(TiffanyError, LookupError):
    """No workflow with this name is registered."""

    code = "TFY0038"


class LogFailedError(TiffanyError):
    """The log has stopped, and everything that needs it has stopped too."""

    code = "TFY0039"


class InDoubtError(TiffanyError):
    """A step that must not run twice was interrupted, and it is not known whether it happened."""

    code = "TFY0040"


class NoSuchRunError(TiffanyError, LookupError):
    """The log does not contain this run."""

    code = "TFY0041"


class RunOverError(TiffanyError):
    """The run has finished: it accepts no messages and answers no queries."""

    code = "TFY0042"


class UnreachableError(TiffanyError):
    """The process that owns the directory does not answer, or no process owns it."""

    code = "TFY0043"


class NoSuchQuestionError(TiffanyError, LookupError):
    """The run does not answer a query with this name."""

    code = "TFY0044"


class NotACallError(TiffanyError, TypeError):
    """An object was yielded or awaited that is not a call."""

    code = "TFY0045"


class WrongThreadError(TiffanyError, RuntimeError):
    """A runtime was used on a thread other than its own."""

    code = "TFY0046"


class ForkedError(TiffanyError, RuntimeError):
    """A runtime was used in a process that was forked from its own."""

    code = "TFY0047"


class AlreadyBegunError(TiffanyError, RuntimeError):
    """A program was passed that had already started; each call of its function returns a new one."""

    code = "TFY0048"


class SubinterpreterError(TiffanyError, ImportError):
    """The package was imported in a sub-interpreter."""

    code = "TFY0049"


class OtherKeyError(TiffanyError):
    """A key in the user's database belongs to another run."""

    code = "TFY0050"


class NotUndoneError(TiffanyError):
    """A saga failed, and not all of its steps could be undone."""

    code = "TFY0051"


class StepFailedError(TiffanyError):
    """A step ended with an exception that cannot be rebuilt from its record. Its class, its
    arguments and the lines that it passed are in `original_class`, `original_args` and `traceback`.
    """

    code = "TFY0052"
    original_class: str | None = None
    original_args: tuple[object, ...] = ()
    traceback: str | None = None


class NotEndingError(TiffanyError, RuntimeError):
    """A generator or coroutine yielded again when it was closed. It is left as it is, and Python
    prints this.
    """

    code = "TFY0054"


class SharedLoopError(TiffanyError, RuntimeError):
    """A coroutine tried to stop an asyncio event loop that others use."""

    code = "TFY0056"


class NoPyosSchedulerError(TiffanyError, TypeError):
    """A call of ``tiffany.pyos`` was yielded outside a scheduler of ``tiffany.pyos``."""

    code = "TFY0057"


class NotCrashProofError(TiffanyError, AssertionError):
    """A crash changed the behaviour of a workflow."""

    code = "TFY0058"


class GoldenLogError(TiffanyError, AssertionError):
    """The code differs from its golden log."""

    code = "TFY0059"


class NoBackupError(TiffanyError, LookupError):
    """A directory is not a backup."""

    code = "TFY0087"


class DamagedBackupError(TiffanyError):
    """A backup has changed since it was written."""

    code = "TFY0088"


class OtherLogError(TiffanyError):
    """A directory contains the backup of another log."""

    code = "TFY0089"


class NotEmptyError(TiffanyError):
    """The target directory of a restore or a backup is not empty."""

    code = "TFY0090"


class LogInUseError(TiffanyError):
    """Another process owns the log."""

    code = "TFY0101"


class LogError(TiffanyError):
    """A log cannot be read or written. Each cause has its own code."""

    code = "TFY0102"


class NoRecordError(TiffanyError, LookupError):
    """A run does not have a record with this number."""

    code = "TFY0115"


class NotAnAnswerError(TiffanyError, ValueError):
    """A fork was to change a record that is not an answer."""

    code = "TFY0116"


class NotForkableError(TiffanyError, ValueError):
    """A run cannot be forked at this record."""

    code = "TFY0117"


class OtherShapeError(TiffanyError, ValueError):
    """An answer for a fork has another shape than the recorded one."""

    code = "TFY0118"


class NotAllowedError(TiffanyError):
    """A fork needs a step that its parent has no answer for and that was not allowed."""

    code = "TFY0119"


class HalfRestoredError(TiffanyError):
    """A restore of the log did not finish."""

    code = "TFY0120"


class RestlessError(TiffanyError):
    """Too many runs were replaced while a backup was taken."""

    code = "TFY0121"


class BackupStoppedError(TiffanyError):
    """A backup or a restore was stopped before its end."""

    code = "TFY0122"


class CannotContinueError(TiffanyError):
    """A run cannot call ``continue_as`` here."""

    code = "TFY0125"


class NoSnapshotError(TiffanyError):
    """A run cannot be saved as a snapshot."""

    code = "TFY0126"


class NotRestoredError(TiffanyError):
    """A run cannot be restored from its snapshot."""

    code = "TFY0127"


class RunRemovedError(TiffanyError):
    """The run was removed; its id stays reserved."""

    code = "TFY0130"


class RunCompactedError(TiffanyError):
    """The run was compacted: only its input and its outcome are left."""

    code = "TFY0131"


class NotOverError(TiffanyError):
    """The run has not finished."""

    code = "TFY0132"


class NeededByForkError(TiffanyError):
    """An unfinished fork takes answers from the run."""

    code = "TFY0133"


class ReadTooEarlyError(TiffanyError):
    """The run has changed since it was read."""

    code = "TFY0134"


class NotTheSameError(TiffanyError):
    """A run cannot be captured, because the code behaves differently from its log."""

    code = "TFY0137"


class RedactionError(TiffanyError):
    """Something cannot be redacted in a log."""

    code = "TFY0138"


class NoActivityError(TiffanyError):
    """Events come from a process, and no process owns the log."""

    code = "TFY0150"


class ApprovalTimedOutError(TiffanyError, TimeoutError):
    """No person answered a question in time."""

    code = "TFY0180"


class NoSuchApprovalError(TiffanyError, LookupError):
    """There is no open question with this id."""

    code = "TFY0181"


class ApprovalDecidedError(TiffanyError):
    """The question has already been answered; the first answer counts."""

    code = "TFY0182"


class BadChoiceError(TiffanyError, ValueError):
    """The question does not have this choice."""

    code = "TFY0183"


class RejectedError(TiffanyError):
    """A person rejected the request."""

    code = "TFY0184"


class BadRuleError(TiffanyError):
    """A redaction rule cannot be read."""

    code = "TFY0190"


class BadPatternError(TiffanyError):
    """A redaction pattern is not a regular expression, or uses unsupported features."""

    code = "TFY0191"


class SecretNameError(TiffanyError):
    """A name contains a secret."""

    code = "TFY0192"


class NoValueError(TiffanyError):
    """A redaction rule has no value to remove."""

    code = "TFY0193"


class MismatchedLogError(TiffanyError):
    """The file of a run and the commit log have different lines in the same place."""

    code = "TFY0200"


class NoDescriptorError(TiffanyError):
    """The process has no file descriptor left for the log."""

    code = "TFY0201"


class RefusedValueError(TiffanyError, ValueError):
    """A value from outside the program is one that no program could read."""

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


class NotStartedError(TiffanyError, RuntimeError):
    """An `AsyncRuntime` was used before it was opened."""

    code = "TFY0226"


class UnknownRulesError(TiffanyError):
    """The log of a run follows rules that this version does not know."""

    code = "TFY0230"


class RunHeldError(TiffanyError):
    """A person or a limit holds the run."""

    code = "TFY0235"


class NotHeldError(TiffanyError):
    """The run is not held."""

    code = "TFY0236"


class InboxFullError(TiffanyError):
    """The run has too many messages that it has not received yet."""

    code = "TFY0237"


class InterruptedStepError(TiffanyError):
    """An async step blocked the event loop that all async steps share for too long, and was
    interrupted.
    """

    code = "TFY0240"


class InterruptedCodeError(TiffanyError):
    """Code outside a task's turn, such as code that reads an input or answers a query, took too
    long and was interrupted.
    """

    code = "TFY0245"


class BadAttributeError(TiffanyError, ValueError):
    """A tag or an attribute is not allowed, or there are too many."""

    code = "TFY0270"


class DeadlinePassedError(TiffanyError):
    """The run had not ended at its deadline."""

    code = "TFY0271"


class ReservedNameError(TiffanyError, ValueError):
    """A value has a name that is reserved in the log."""

    code = "TFY0272"


class BadDeadlineError(TiffanyError, ValueError):
    """A deadline is past, or is not a deadline."""

    code = "TFY0273"


class LostDaemonError(TiffanyError, ConnectionError):
    """The daemon or the process that owns the directory could not be reached, or the connection
    broke.
    """

    code = "TFY0300"


class TlsError(TiffanyError, ConnectionError):
    """Client and daemon could not agree on a TLS connection."""

    code = "TFY0301"


class OldDaemonError(TiffanyError):
    """The daemon does not know a request, or what answers is not a daemon of Tiffany."""

    code = "TFY0302"


class ClientSettingsError(TiffanyError, ValueError):
    """A client cannot be made with this URL, token or certificate."""

    code = "TFY0303"


class NeedsFilesError(TiffanyError):
    """It works on the files of a log, which are not reached over HTTP."""

    code = "TFY0304"


_FAMILIES: dict[str, type[TiffanyError]] = {
    "TFY0005": BadArgumentError,
    "TFY0006": BadArgumentError,
    "TFY0012": BadDescriptorError,
    "TFY0013": BadArgumentError,
    "TFY0015": LimitError,
    "TFY0016": LimitError,
    "TFY0017": LimitError,
    "TFY0033": BadArgumentError,
    "TFY0103": LogError,
    "TFY0104": LogError,
    "TFY0105": LogError,
    "TFY0106": LogError,
    "TFY0107": LogError,
    "TFY0108": LogError,
    "TFY0109": LogError,
    "TFY0110": LogError,
    "TFY0111": LogError,
    "TFY0112": LogError,
    "TFY0113": NoSuchRunError,
    "TFY0114": LogError,
}
"""Codes whose classes are made when they are needed, as subclasses of these."""

__all__ = [
    "AbandonedError",
    "AlreadyBegunError",
    "AlreadySettledError",
    "ApprovalDecidedError",
    "ApprovalTimedOutError",
    "BackupStoppedError",
    "BadArgumentError",
    "BadAttributeError",
    "BadChoiceError",
    "BadDeadlineError",
    "BadDescriptorError",
    "BadPatternError",
    "BadRuleError",
    "Cancelled",
    "CannotContinueError",
    "ChannelClosedError",
    "ClientSettingsError",
    "DamagedBackupError",
    "DeadlinePassedError",
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
    "LostDaemonError",
    "MismatchedLogError",
    "NeededByForkError",
    "NeedsFilesError",
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
    "NotStartedError",
    "NotTheSameError",
    "NotUndoneError",
    "OldDaemonError",
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
    "ReservedNameError",
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
    "TlsError",
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
# Generated from errors.toml by generate_errors.py: end


def _all(base: type[TiffanyError]) -> dict[str, type[TiffanyError]]:
    found: dict[str, type[TiffanyError]] = {}
    for cls in base.__subclasses__():
        found[cls.code] = cls
    return found


_BY_CODE: dict[str, type[TiffanyError]] = {**_all(TiffanyError), **_FAMILIES}
_MADE: dict[str, type[TiffanyError]] = {}


def _reduce(error: TiffanyError) -> tuple[object, ...]:
    return _again, (error.code, error.args), error.__dict__


def _again(code: str, args: tuple[object, ...]) -> TiffanyError:
    return of_code(code)(*args)


def of_code(code: str) -> type[TiffanyError]:
    """Returns the error class with this code, creating one if necessary.

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
            # The log refers to the class by this name.
            "__qualname__": f"{cls.__qualname__}.{code}",
            "__doc__": cls.__doc__,
            "__reduce__": _reduce,
        }
        _MADE[code] = cast(type[TiffanyError], type(cls.__name__, (cls,), body))
    return _MADE[code]
