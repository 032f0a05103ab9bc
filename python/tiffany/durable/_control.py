"""Control of durable runs from another thread, from another process, or on a directory that no
process owns.
"""

from __future__ import annotations

import inspect
import json
import os
import uuid as _uuid
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any, TypeVar, cast, overload

from tiffany import _arguments, _attributes, _core, _retention
from tiffany._approvals import Approval, OpenApproval
from tiffany._arguments import bad, several
from tiffany._attributes import Attribute
from tiffany._records import (
    Doubt,
    Paused,
    Run,
    RunInfo,
    RunLike,
    Status,
    doubt,
    paused_run,
    run_page,
)
from tiffany._retention import Collected, Compacted, Pruned, Retention
from tiffany.durable import _workflows
from tiffany.metrics import Metrics, _read

_NOTHING: Any = object()
_T = TypeVar("_T")


def decision(done: Any, failed: str | None, again: bool) -> tuple[str, Any]:
    """Returns a person's decision on a step in doubt: exactly one of three."""
    said = [("done", done)] if done is not _NOTHING else []
    said += [("failed", failed)] if failed is not None else []
    said += [("again", None)] if again else []
    if len(said) != 1:
        raise bad(
            "a step in doubt needs exactly one decision",
            "pass one of done=its result, failed=why, or again=True",
        )
    return said[0]


def started(workflow: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[str, str]:
    """Returns the name of a workflow and its encoded input."""
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


def of_program(functions: _workflows.Functions, program: Any) -> tuple[str, str]:
    """Returns the name of the workflow of a program that was not started, and its encoded input."""
    name, function, given = _workflows.of_program(program)
    # The run has a program of its own, made from the recorded arguments.
    program.close()
    functions.add(name, function)
    return name, _workflows.encoded(name, given)


def submitted(
    functions: _workflows.Functions, workflow: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[str, str]:
    """Returns the name of a workflow and its encoded input, given as `Runtime.submit` takes them. The
    function becomes known to the runtime.
    """
    if inspect.isgenerator(workflow) or inspect.iscoroutine(workflow):
        if args or kwargs:
            raise bad(
                "a program has its arguments already",
                "give the function and its arguments, or the program alone",
            )
        return of_program(functions, workflow)
    name, encoded = started(workflow, args, kwargs)
    if not isinstance(workflow, str):
        functions.add(name, workflow)
    return name, encoded


def forked(
    reply: Any, fail: BaseException | str | None, as_is: bool, allow: Iterable[str], id: str | None
) -> dict[str, Any]:
    """Returns how a fork differs from its parent."""
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
    """Returns the encoded argument of a query."""
    if args and kwargs:
        raise bad(
            "a question came with arguments by position and by name",
            "ask with arguments by position or by name, not both",
        )
    text: str = _core._encode(kwargs or list(args) or None, "the input of a question")
    return text


class Connection:
    """A connection to the process that owns a log, or to the log itself if no process owns it.

    Threads may share a connection. Every method returns when its change is safe in the log. Close
    the connection when you are done, preferably with ``with``.
    """

    def __init__(self, control: Any) -> None:
        self._control = control

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connection, and releases the directory if the connection owned it."""
        self._control.close()

    @property
    def is_offline(self) -> bool:
        """Whether no process owns the log, so that changes take effect only when its runs are
        resumed.
        """
        return bool(self._control.is_offline())

    def status(self) -> Status:
        """Returns the status of the process that owns the log."""
        pid, version, workflows, live, paused = self._control.status()
        return Status(pid, version, workflows, live, [paused_run(run) for run in paused])

    def submit(
        self,
        workflow: Any,
        /,
        *args: Any,
        id: str,
        tags: Iterable[str] = (),
        attributes: Mapping[str, Attribute] | None = None,
        deadline: datetime | timedelta | float | None = None,
        **kwargs: Any,
    ) -> Run[Any]:
        """Starts a durable run of a workflow, given as a function or by name, or finds the run that
        has this id.

        A new run has these tags and attributes, and fails if it has not ended at its deadline: a
        moment, or a time from its start.
        """
        options = _attributes.given(workflow, tags, attributes, deadline)
        name, given = started(workflow, args, kwargs)
        return Run(id, _uuid.UUID(self._control.submit(name, id, given, options)))

    def runs(
        self,
        *,
        tags: Iterable[str] = (),
        attributes: Mapping[str, Attribute] | Iterable[str] | None = None,
        states: Iterable[str] = (),
        function: str | None = None,
        limit: int = 100,
    ) -> list[RunInfo]:
        """Lists runs, those that were started last first: those with all of these tags that fulfil
        all of these conditions, which are values that attributes have, as a dict, or texts such as
        ``"amount>=10"``.
        """
        asked = _attributes.query(tags, attributes, states, function, limit)
        return run_page(json.loads(self._control.runs(*asked))).runs

    def send(self, run: RunLike, name: str, value: Any) -> None:
        """Sends a message to a run, which receives it with `ReceiveMessage`."""
        self._control.send(run, name, value)

    def cancel(self, run: RunLike) -> None:
        """Cancels a run."""
        self._control.cancel(run)

    def hold(self, run: RunLike, *, why: str | None = None, by: str | None = None) -> None:
        """Holds a run: it gets no turns until `release`. Steps in progress finish and are recorded.
        ``by`` is the person who holds it, by default the user of this process.
        """
        self._control.hold(run, _arguments.user(by), why)

    def release(self, run: RunLike, *, why: str | None = None, by: str | None = None) -> None:
        """Releases a run that a person or a limit holds, so that it continues. An exceeded limit is
        doubled.
        """
        self._control.release(run, _arguments.user(by), why)

    def query(self, run: RunLike, name: str, *args: Any, **kwargs: Any) -> Any:
        """Sends a query to a run, which answers it with `on_question`."""
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
        """Forks a run at a record, as `Runtime.fork` does. If no process owns the log, the fork
        continues when its directory is opened.
        """
        given = forked(reply, fail, as_is, allow, id)
        its_id, uuid = self._control.fork(run, at, given)
        return Run(its_id, _uuid.UUID(uuid))

    def allow(self, run: RunLike, *names: str) -> None:
        """Allows a fork to execute the steps with these names, or all steps with ``"*"``. A step
        that the fork was paused for starts if it is now allowed.
        """
        self._control.allow(run, list(names))

    def settle(self, promise: Any, value: Any = None, *, run: RunLike | None = None) -> bool:
        """Completes an external promise of a run by its UUID. Returns ``False`` if it was already
        settled.

        A fork shares the promises of its parent. To settle the fork's own, name the fork as
        ``run``.
        """
        return bool(self._control.settle(promise, value, run))

    def fail(
        self,
        promise: Any,
        error: BaseException | str,
        *,
        run: RunLike | None = None,
    ) -> bool:
        """Fails an external promise of a run. Returns ``False`` if it was already settled. For a
        promise of a fork, name the fork as ``run``.
        """
        return bool(self._control.fail(promise, error, run))

    def paused(self) -> list[Paused]:
        """Returns the runs that cannot continue, with the reasons."""
        return self.status().paused

    def metrics(self) -> Metrics:
        """Returns the metrics of the process that owns the log."""
        return _read(self._control.metrics())

    def doubts(self) -> list[Doubt]:
        """Returns the steps in doubt."""
        return [doubt(parts) for parts in self._control.doubts()]

    def decide(
        self, key: str, *, done: Any = _NOTHING, failed: str | None = None, again: bool = False
    ) -> None:
        """Decides a step in doubt, given by its key: it was carried out, with this result; it
        failed; or it is to be run again.
        """
        self._control.decide(key, *decision(done, failed, again))

    def approvals(self) -> list[OpenApproval]:
        """Returns the questions of all runs that wait for a person. Runs ask them with `Approve`."""
        return list(self._control.approvals())

    def approve(
        self,
        approval: str,
        choice: str | None = None,
        *,
        by: str | None = None,
        why: str | None = None,
    ) -> Approval:
        """Decides a question, given by its id: with the first of two choices, or with the named
        choice. The first answer counts.
        """
        return cast(Approval, self._control.resolve(approval, True, choice, by, why))

    def reject(self, approval: str, *, by: str | None = None, why: str | None = None) -> Approval:
        """Decides a question, given by its id, with the last of its choices, which is the
        rejection.
        """
        return cast(Approval, self._control.resolve(approval, False, None, by, why))

    def remove(self, run: RunLike) -> None:
        """Removes a finished run, as `Runtime.remove` does."""
        self._control.remove(run)

    def compact(self, *runs: RunLike) -> Compacted:
        """Compacts finished runs, as `Runtime.compact` does."""
        return _retention.compacted(self._control.compact(list(runs)))

    def prune(self, *rules: Retention, dry_run: bool = False) -> Pruned:
        """Applies rules about finished runs, or with ``dry_run`` only reports what they would do,
        as `Runtime.prune` does. It works in small batches, so that live runs are hardly affected.
        """
        return _retention.pruned(self._control.prune(_retention.some_rules(rules), dry_run))

    def collect_blobs(self) -> Collected:
        """Removes the blobs that no run refers to. `prune` does this too."""
        return Collected(*self._control.collect_blobs())


def connect(wal: str | os.PathLike[str]) -> Connection:
    """Opens the log in a directory: through the process that owns it or, if there is none, by
    owning it while the connection is open.
    """
    return Connection(_core._Control(wal))
