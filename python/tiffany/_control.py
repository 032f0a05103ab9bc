"""Durable runs from outside: from another thread, from another process, or on a directory that no process has."""

from __future__ import annotations

import os
import uuid as _uuid
from collections.abc import Iterable
from typing import Any, TypeVar, cast, overload

from tiffany import _arguments, _core, _retention, _workflows
from tiffany._approvals import Approval, OpenApproval
from tiffany._arguments import bad, several
from tiffany._records import Doubt, Paused, Run, RunLike, Status, doubt, paused_run
from tiffany._retention import Collected, Compacted, Pruned, Retention
from tiffany.metrics import Metrics, _read

_NOTHING: Any = object()
_T = TypeVar("_T")


def decision(done: Any, failed: str | None, again: bool) -> tuple[str, Any]:
    """What a person says of a step in doubt: exactly one of three things."""
    said = [("done", done)] if done is not _NOTHING else []
    said += [("failed", failed)] if failed is not None else []
    said += [("again", None)] if again else []
    if len(said) != 1:
        raise bad(
            "too much or nothing was said of a step in doubt",
            "say one thing of a step in doubt: done=its result, failed=why, or again=True",
        )
    return said[0]


def started(workflow: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[str, str]:
    """The name of a workflow and its input as it is written down."""
    if isinstance(workflow, str):
        function = _workflows.Functions().find(workflow, False)
        if function is None:
            if args and kwargs:
                raise bad(
                    f"the workflow {workflow!r} is not here, so its parameters are not known",
                    "name all arguments, or none",
                )
            arguments: Any = kwargs or list(args) or {}
            return workflow, _workflows.encoded(workflow, arguments)
        return workflow, _workflows.encoded(workflow, _workflows.arguments(function, args, kwargs))
    name = _workflows.name_of(workflow)
    return name, _workflows.encoded(name, _workflows.arguments(workflow, args, kwargs))


def forked(
    reply: Any, fail: BaseException | str | None, as_is: bool, allow: Iterable[str], id: str | None
) -> dict[str, Any]:
    """How a fork differs from its parent."""
    if reply is not _NOTHING and fail is not None:
        raise bad("a fork was given both an answer and an error", "give it `reply` or `fail`")
    if isinstance(allow, str):
        raise bad(f"`allow` is a list of names, not {allow!r}", f"write [{allow!r}]")
    return {
        "reply": None if reply is _NOTHING else [reply],
        "fail": fail,
        "as_is": as_is,
        "allow": several("allow", allow),
        "id": id,
    }


def question(args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    """What a question comes with, as it is written down."""
    if args and kwargs:
        raise bad(
            "a question came with arguments by position and by name",
            "ask with arguments by position or by name, not both",
        )
    text: str = _core._encode(kwargs or list(args) or None, "the input of a question")
    return text


class Connection:
    """Asks the process that has a log, or writes to the log itself where none has it. Threads may share one.

    Every method comes back when what it did is safe in the log. Close it, best by ``with``.
    """

    def __init__(self, control: Any) -> None:
        self._control = control

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends it: a directory that it had taken is free again."""
        self._control.close()

    @property
    def is_offline(self) -> bool:
        """Whether no process has the log, so that what is done here waits until its runs are brought back."""
        return bool(self._control.is_offline())

    def status(self) -> Status:
        """How the process stands that has the log."""
        pid, version, workflows, live, paused = self._control.status()
        return Status(pid, version, workflows, live, [paused_run(run) for run in paused])

    def submit(self, workflow: Any, /, *args: Any, id: str, **kwargs: Any) -> Run[Any]:
        """Starts a durable run of a workflow, which may be given by name, or finds the one that has this id."""
        name, given = started(workflow, args, kwargs)
        return Run(id, _uuid.UUID(self._control.submit(name, id, given)))

    def send(self, run: RunLike, name: str, value: Any) -> None:
        """Sends a message to a run, which takes it with `ReceiveMessage`."""
        self._control.send(run, name, value)

    def cancel(self, run: RunLike) -> None:
        """Cancels a run."""
        self._control.cancel(run)

    def hold(self, run: RunLike, *, why: str | None = None, by: str | None = None) -> None:
        """Holds a run: it gets no turns until `release`. Steps that are under way come to their end and are recorded.
        ``by`` is the person who holds it, this process's user unless it is given."""
        self._control.hold(run, _arguments.user(by), why)

    def release(self, run: RunLike, *, why: str | None = None, by: str | None = None) -> None:
        """Lets a run continue that a person or a limit holds. What a limit allows it is doubled."""
        self._control.release(run, _arguments.user(by), why)

    def query(self, run: RunLike, name: str, *args: Any, **kwargs: Any) -> Any:
        """Asks a run, which answers by `on_question`."""
        return self._control.query(run, name, question(args, kwargs))

    @overload
    def fork(
        self,
        run: Run[_T],
        at: int,
        *,
        reply: Any = ...,
        fail: BaseException | str | None = None,
        as_is: bool = False,
        allow: Iterable[str] = (),
        id: str | None = None,
    ) -> Run[_T]: ...
    @overload
    def fork(
        self,
        run: _uuid.UUID | str,
        at: int,
        *,
        reply: Any = ...,
        fail: BaseException | str | None = None,
        as_is: bool = False,
        allow: Iterable[str] = (),
        id: str | None = None,
    ) -> Run[Any]: ...
    def fork(
        self,
        run: RunLike,
        at: int,
        *,
        reply: Any = _NOTHING,
        fail: BaseException | str | None = None,
        as_is: bool = False,
        allow: Iterable[str] = (),
        id: str | None = None,
    ) -> Run[Any]:
        """Forks a run at a record, as `Runtime.fork` does. Where no process has the log, the fork goes on when its directory is opened."""
        given = forked(reply, fail, as_is, allow, id)
        its_id, uuid = self._control.fork(run, at, given)
        return Run(its_id, _uuid.UUID(uuid))

    def allow(self, run: RunLike, *names: str) -> None:
        """Lets a fork do effects of these names, ``"*"`` for all. What it was paused for and is allowed now begins."""
        self._control.allow(run, list(names))

    def settle(self, promise: Any, value: Any = None, *, run: RunLike | None = None) -> bool:
        """Completes an external promise of a run by its UUID. ``False``: it was settled before. A fork has its parent's promises in common
        with it: they are the fork's if that is named, as ``run``."""
        return bool(self._control.settle(promise, value, run))

    def fail(
        self,
        promise: Any,
        error: BaseException | str,
        *,
        run: RunLike | None = None,
    ) -> bool:
        """Fails an external promise of a run. ``False``: it was settled before. For a promise of a fork, ``run`` names that."""
        return bool(self._control.fail(promise, error, run))

    def paused(self) -> list[Paused]:
        """The runs that cannot go on, and why."""
        return self.status().paused

    def metrics(self) -> Metrics:
        """What the process that has the log has counted and measured so far."""
        return _read(self._control.metrics())

    def doubts(self) -> list[Doubt]:
        """The steps that are in doubt."""
        return [doubt(parts) for parts in self._control.doubts()]

    def decide(
        self, key: str, *, done: Any = _NOTHING, failed: str | None = None, again: bool = False
    ) -> None:
        """Decides on a step in doubt, by its key: it is done, with this result; it failed; or it is done again."""
        self._control.decide(key, *decision(done, failed, again))

    def approvals(self) -> list[OpenApproval]:
        """The questions that wait for a person, of all runs. They are asked by `Approve`."""
        return list(self._control.approvals())

    def approve(
        self,
        approval: str,
        choice: str | None = None,
        *,
        by: str | None = None,
        why: str | None = None,
    ) -> Approval:
        """Decides such a question, by its id: with the first of two choices, or with the one that is named. The first answer holds."""
        return cast(Approval, self._control.resolve(approval, True, choice, by, why))

    def reject(self, approval: str, *, by: str | None = None, why: str | None = None) -> Approval:
        """The same with the last of the choices, which is the rejection."""
        return cast(Approval, self._control.resolve(approval, False, None, by, why))

    def remove(self, run: RunLike) -> None:
        """Removes a run that is over, as `Runtime.remove` does."""
        self._control.remove(run)

    def compact(self, *runs: RunLike) -> Compacted:
        """Compacts runs that are over, as `Runtime.compact` does."""
        return _retention.compacted(self._control.compact(list(runs)))

    def prune(self, *rules: Retention, dry_run: bool = False) -> Pruned:
        """Does what rules about runs that are over say, or with ``dry_run`` only tells that, as `Runtime.prune` does. It goes in small batches, so that runs that go on
        hardly notice."""
        return _retention.pruned(self._control.prune(_retention.some_rules(rules), dry_run))

    def collect_blobs(self) -> Collected:
        """Removes the blobs that no run names. `prune` does so by itself."""
        return Collected(*self._control.collect_blobs())


def connect(wal: str | os.PathLike[str]) -> Connection:
    """The log in a directory: by the process that has it, or, where none has, by taking it for as long as this is open."""
    return Connection(_core._Control(wal))
