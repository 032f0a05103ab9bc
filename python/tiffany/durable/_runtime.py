"""`Runtime`: runs programs, including durable ones, on the thread that created it."""

from __future__ import annotations

import atexit
import json
import sys
import uuid as _uuid
from collections.abc import Callable, Coroutine, Generator, Iterable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar, TypeVarTuple, Unpack, overload

from tiffany import _arguments, _attributes, _core, _retention
from tiffany._activity import Subscription
from tiffany._approvals import Approval, OpenApproval
from tiffany._arguments import bad, check_no_running_loop, close_unbegun
from tiffany._attributes import Attribute, Deadline
from tiffany._records import Doubt, Paused, Run, RunLike, RunPage, doubt, paused_run, run_page
from tiffany._retention import Collected, Compacted, Pruned, Retention
from tiffany._run_query import Sort, run_query
from tiffany._settings import RuntimeSettings, core_settings, takes_settings
from tiffany.durable import _control, _workflows
from tiffany.durable._control import _NOTHING
from tiffany.durable._state_machines import StateMachine
from tiffany.metrics import Metrics, _read

if TYPE_CHECKING:
    from tiffany.client._client import Client

atexit.register(_core._leave)

_T = TypeVar("_T")
_Ts = TypeVarTuple("_Ts")
Program = Generator[Any, Any, _T] | Coroutine[Any, Any, _T]


class Runtime:
    """Runs programs on this thread. Close it when you are done, preferably with ``with``.

    With ``wal`` it has a log in that directory and can run durable programs. Unfinished runs in the
    directory are resumed when the runtime is created.

    `RuntimeSettings` describes all settings.

    >>> import tempfile
    >>> from tiffany import step, workflow
    >>> @step
    ... def add(a, b):
    ...     return a + b
    >>> @workflow
    ... def sum_up(*numbers):
    ...     total = 0
    ...     for number in numbers:
    ...         total = yield add(total, number)
    ...     return total
    >>> with tempfile.TemporaryDirectory() as wal:
    ...     with Runtime(wal=wal) as runtime:
    ...         run = runtime.submit(sum_up, 1, 2, 3, id="sum-1")
    ...         runtime.wait(run)
    6
    """

    @takes_settings("tiffany.Runtime()")
    def __init__(self, **settings: Unpack[RuntimeSettings]) -> None:
        wal = settings.get("wal")
        self._functions = _workflows.Functions(settings.get("workflows", ()))
        # Programs without asyncio don't import it.
        shared = sys.modules.get("tiffany._aio.shared")
        if shared is not None and wal is not None:
            shared.close_left(wal)
        self._core = _core.Runtime(core_settings(self._functions, settings))

    def __enter__(self) -> Runtime:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def activity(
        self,
        run: RunLike | int | None = None,
        *,
        from_seq: int | None = None,
        every_turn: bool = False,
        ghosts: bool = True,
    ) -> Subscription:
        """Subscribes to the events of one run or of all runs.

        The subscription starts now, or with ``from_seq`` at that event, as far as it is still
        available (0: at the first). Give one run as `submit` returned it, or by number for a run
        without an id. ``every_turn`` adds events for tasks that get a turn, wait and are woken.
        Create the subscription here, and read it on another thread or under asyncio.

        >>> from tiffany import progress
        >>> def main():
        ...     yield progress(1, 2, "half of it")
        >>> with Runtime() as runtime:
        ...     with runtime.activity() as events:
        ...         runtime.run(main())
        ...         next(event.message for event in events if event.stage == "Progress")
        'half of it'
        """
        return Subscription(self._core.activity(run, from_seq, every_turn, ghosts))

    def close(self) -> None:
        """Closes the runtime. Unfinished durable runs stay in the log and continue with the next
        runtime that opens it.
        """
        self._core.close()

    def run(
        self,
        program: Program[_T] | _core.Program[_T],
        *,
        id: str | None = None,
        tags: Iterable[str] = (),
        attributes: Mapping[str, Attribute] | None = None,
        deadline: Deadline = None,
    ) -> _T:
        """Runs a program until its run has finished and returns its value.

        With an id the run is durable: it is started; or resumed, if a run with this id exists; or,
        if that run has finished, its outcome is returned at once. Tags, attributes and the deadline
        are those of a new run, as `submit` takes them.
        """
        try:
            check_no_running_loop("`Runtime.run`")
            if id is None:
                _attributes.check_durable(id, tags, attributes, deadline)
                return self._core.run(program)
            options = _attributes.given(program, tags, attributes, deadline)
            value: _T = self._core.wait(self._begun(program, id, options))
            return value
        except BaseException:
            # A refused program has no other owner.
            close_unbegun(program)
            raise

    def _begun(self, program: Any, id: str, options: Any) -> Run[Any]:
        """Starts a durable run from a program that was not started."""
        name, given = _control.of_program(self._functions, program)
        return self._started(name, id, given, options)

    @overload
    def submit(
        self,
        workflow: Callable[[Unpack[_Ts]], Program[_T]],
        /,
        *args: *_Ts,
        id: str,
        tags: Iterable[str] = (),
        attributes: Mapping[str, Attribute] | None = None,
        deadline: Deadline = None,
    ) -> Run[_T]: ...
    @overload
    def submit(
        self,
        workflow: Program[_T],
        /,
        *,
        id: str,
        tags: Iterable[str] = (),
        attributes: Mapping[str, Attribute] | None = None,
        deadline: Deadline = None,
    ) -> Run[_T]: ...
    @overload
    def submit(
        self,
        workflow: type[StateMachine] | str,
        /,
        *args: Any,
        id: str,
        tags: Iterable[str] = (),
        attributes: Mapping[str, Attribute] | None = None,
        deadline: Deadline = None,
        **kwargs: Any,
    ) -> Run[Any]: ...
    # The type checker doesn't see that `Any` covers all overloads.
    def submit(  # type: ignore[misc]
        self,
        workflow: Any,
        /,
        *args: Any,
        id: str,
        tags: Iterable[str] = (),
        attributes: Mapping[str, Attribute] | None = None,
        deadline: Deadline = None,
        **kwargs: Any,
    ) -> Run[Any]:
        """Starts a durable run of a workflow under your own id. If a run with that id exists, with
        the same function and arguments, that run is returned.

        The run is safe once the log has it: `flush` and `wait` wait for that.

        The workflow is a function and its arguments, or a program: ``submit(order, "tea",
        id="order-1")`` or ``submit(order("tea"), id="order-1")``. Type checkers check the arguments
        of both forms; keyword arguments only in the second.

        A new run has these tags and attributes, and fails if it has not ended at its deadline: a
        moment, or a time from its start. A run that is there keeps what it has.
        """
        options = _attributes.given(workflow, tags, attributes, deadline)
        name, given = _control.submitted(self._functions, workflow, args, kwargs)
        return self._started(name, id, given, options)

    def _started(self, name: str, id: str, given: str, options: Any) -> Run[Any]:
        if not isinstance(id, str):
            raise bad(f"the id of a run is a text, not {id!r}")
        return Run(id, _uuid.UUID(self._core.submit(name, id, given, options)))

    def runs(
        self,
        *,
        state: str | Iterable[str] | None = None,
        function: str | None = None,
        text: str | None = None,
        since: datetime | str | None = None,
        before: datetime | str | None = None,
        parent: RunLike | None = None,
        tags: Iterable[str] = (),
        attributes: Mapping[str, Attribute] | Iterable[str] | None = None,
        sort: Sort = "started",
        descending: bool | None = None,
        limit: int = 100,
        after: str | None = None,
    ) -> RunPage:
        """Returns a page of the runs in the log, by default those started last.

        ``state`` is one state or several, by default all but removed runs; ``text`` is part of an
        id, a function or a UUID; ``since`` and ``before`` are about the start of a run; ``parent``
        selects the forks of a run; ``tags`` are tags that the runs have, all of them;
        ``attributes`` are values that they have, as a dict, or conditions such as
        ``"amount>=10"``. For the next page, pass the ``next`` of this one as ``after``.
        """
        asked = run_query(
            state=state,
            function=function,
            text=text,
            since=since,
            before=before,
            parent=parent,
            tags=tags,
            attributes=attributes,
            sort=sort,
            descending=descending,
            limit=("limit", limit),
            after=after,
        )
        return run_page(json.loads(self._core.runs(json.dumps(asked))))

    @overload
    def wait(self, run: Run[_T]) -> _T: ...
    @overload
    def wait(self, run: _uuid.UUID | str) -> Any: ...
    def wait(self, run: RunLike) -> Any:
        """Drives all runs until the outcome of this one is final and safe in the log, and returns
        its value. After a failure, some tasks may still be being cancelled; they continue while
        this runtime is driven.
        """
        check_no_running_loop("`Runtime.wait`")
        return self._core.wait(run)

    def send(self, run: RunLike, name: str, value: Any) -> None:
        """Sends a message to a durable run, which receives it with `ReceiveMessage`. `flush` waits
        until it is safe in the log.
        """
        self._core.send(run, name, value)

    def cancel(self, run: RunLike) -> None:
        """Cancels a durable run."""
        self._core.cancel(run)

    def hold(self, run: RunLike, *, why: str | None = None, by: str | None = None) -> None:
        """Holds a run: it gets no turns until `release`. Steps in progress finish and are recorded.
        ``by`` is the person who holds it, by default the user of this process.
        """
        self._core.hold(run, _arguments.user(by), why)

    def release(self, run: RunLike, *, why: str | None = None, by: str | None = None) -> None:
        """Releases a run that a person or a limit holds, so that it continues. An exceeded limit is
        doubled.
        """
        self._core.release(run, _arguments.user(by), why)

    def query(self, run: RunLike, name: str, *args: Any, **kwargs: Any) -> Any:
        """Sends a query to a durable run, which answers it with `on_question` once it has done all
        it can do now. Drives all runs meanwhile.
        """
        check_no_running_loop(
            "`Runtime.query`",
            "let `tiffany.arun(...)` drive the runs, and ask with `tiffany.connect(...)` on another thread",
        )
        return self._core.query(run, name, _control.question(args, kwargs))

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
        """Forks a durable run at a record: a new run starts with the history of the other one up to
        that record and continues on its own.

        ``reply`` replaces the answer in that record, and ``fail`` replaces it with an error. The
        new answer must have the shape of the recorded one, unless ``as_is`` is set. Where the
        parent has an answer to the same call, the fork's step gets that answer. Other steps are
        refused, and the fork is paused until `allow` is called, unless ``allow`` contains their
        name or ``"*"``. The fork gets the given ``id``, or its parent's id with the number of the
        record.
        """
        its_id, uuid = self._core.fork(run, at, _control.forked(reply, fail, as_is, allow, id))
        return Run(its_id, _uuid.UUID(uuid))

    def allow(self, run: RunLike, *names: str) -> None:
        """Allows a fork to execute the steps with these names, or all steps with ``"*"``. A step
        that the fork was paused for starts if it is now allowed.
        """
        self._core.allow(run, list(names))

    def snapshot(self, run: RunLike) -> None:
        """Starts the log of a run of state machines again with a snapshot, now instead of after
        ``snapshot_every`` records. Drives all runs until none can make progress by itself.
        """
        self._core.snapshot(run)

    def flush(self) -> None:
        """Waits until everything requested so far is safe in the log. Drives all runs meanwhile."""
        self._core.flush()

    def is_finished(self, run: RunLike) -> bool:
        """Whether a durable run has finished, and its end is safe in the log."""
        return bool(self._core.is_finished(run))

    def paused(self) -> list[Paused]:
        """Returns the runs of the log that cannot continue, with the reasons."""
        return [paused_run(parts) for parts in self._core.paused()]

    def metrics(self) -> Metrics:
        """Returns the runtime's metrics. The chapter "Metrics" of the book describes each one."""
        return _read(self._core.metrics())

    def doubts(self) -> list[Doubt]:
        """Returns the steps in doubt: steps that must not run twice, were interrupted, and wait for
        a person's decision.
        """
        return [doubt(parts) for parts in self._core.doubts()]

    def decide(
        self, key: str, *, done: Any = _NOTHING, failed: str | None = None, again: bool = False
    ) -> None:
        """Decides a step in doubt, given by its key: it was carried out, with this result; it
        failed; or it is to be run again.
        """
        self._core.decide(key, *_control.decision(done, failed, again))

    def approvals(self) -> list[OpenApproval]:
        """Returns the questions of all runs that wait for a person. Runs ask them with `Approve`."""
        return list(self._core.approvals())

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
        return self._core.resolve(approval, True, choice, by, why)

    def reject(self, approval: str, *, by: str | None = None, why: str | None = None) -> Approval:
        """Decides a question, given by its id, with the last of its choices, which is the
        rejection.
        """
        return self._core.resolve(approval, False, None, by, why)

    def remove(self, run: RunLike) -> None:
        """Removes a finished durable run. Its id stays reserved: starting it again raises
        `RunRemovedError` and runs nothing.

        `flush` waits until the removal is safe in the log. Blobs that no run refers to any more are
        removed with `collect_blobs`, or with the next `prune` that removes something.
        """
        self._core.remove(run)

    def compact(self, *runs: RunLike) -> Compacted:
        """Compacts finished durable runs: only their input and their outcome are kept. Runs that
        were compacted before, or are so short that nothing would be saved, stay as they are. Drives
        all runs until the change is in the log.
        """
        return _retention.compacted(self._core.compact(list(runs)))

    def prune(self, *rules: Retention, dry_run: bool = False) -> Pruned:
        """Applies rules about finished runs now, and then removes the blobs that no run refers to.
        With ``dry_run`` it only reports what it would do. Drives all runs until the changes are in
        the log.

        >>> import tempfile
        >>> from tiffany import Runtime, workflow
        >>> from tiffany.durable import Retention
        >>> @workflow(name="greet")
        ... def greet():
        ...     yield
        >>> with tempfile.TemporaryDirectory() as wal:
        ...     with Runtime(wal=wal) as runtime:
        ...         for day in ("mon", "tue", "wed"):
        ...             runtime.run(greet(), id=day)
        ...         pruned = runtime.prune(Retention(keep=1))
        ...     [(run.id, run.why) for run in pruned.removed]
        [('mon', 'count'), ('tue', 'count')]
        """
        return _retention.pruned(self._core.prune(_retention.some_rules(rules), dry_run))

    def collect_blobs(self) -> Collected:
        """Removes the blobs that no run refers to. `prune` does this too."""
        return Collected(*self._core.collect_blobs())

    @property
    def handle(self) -> Client:
        """A client that other threads use to reach the durable runs while this thread waits for
        one.
        """
        from tiffany.client._client import Client

        return Client._of(self._core.control())
