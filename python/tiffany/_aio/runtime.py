"""`AsyncRuntime`: a durable runtime for an asyncio service, and the handles of its runs."""

from __future__ import annotations

import json
import uuid as _uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar, TypeVarTuple, Unpack, cast, overload

from tiffany import _arguments, _attributes, _core
from tiffany._activity import Subscription
from tiffany._approvals import Approval, OpenApproval
from tiffany._arguments import bad, check_names, seconds
from tiffany._attributes import Attribute, Deadline
from tiffany._records import (
    Doubt,
    Run,
    RunInfo,
    RunLike,
    RunPage,
    Status,
    doubt,
    paused_run,
    run_info,
    run_page,
)
from tiffany._retention import Collected, Compacted, Pruned, Retention
from tiffany._run_query import Sort, run_query
from tiffany._settings import DEFAULTS, RuntimeSettings, core_settings, shows_settings
from tiffany.durable import _control, _workflows
from tiffany.durable._control import _NOTHING
from tiffany.durable._runtime import Program
from tiffany.durable._state_machines import StateMachine
from tiffany.errors import GoneError, NotStartedError
from tiffany.metrics import Metrics

if TYPE_CHECKING:
    from tiffany._aio.service import Service
    from tiffany.client._client import Client

T = TypeVar("T")
_Ts = TypeVarTuple("_Ts")


@dataclass(frozen=True)
class AsyncRun(Run[T]):
    """A durable run of an `AsyncRuntime`."""

    _runtime: AsyncRuntime = field(repr=False, compare=False)

    async def result(self) -> T:
        """Waits until the outcome of the run is final and safe in the log, and returns its value, or
        raises the exception that ended it.

        Any number of coroutines may wait, and each gets a value of its own. A coroutine that is
        cancelled while it waits has no effect on the run. If the run cannot continue with this
        program or is held, this raises the reason.
        """
        return cast(T, await self._runtime._outcome(self))

    async def cancel(self) -> None:
        """Cancels the run. Its tasks clean up first."""
        await self._runtime.cancel(self)

    async def send(self, name: str, value: Any) -> None:
        """Sends the run a message, which it receives with `ReceiveMessage`."""
        await self._runtime.send(self, name, value)

    async def query(self, name: str, *args: Any, **kwargs: Any) -> Any:
        """Sends the run a query, which it answers with `on_question`."""
        return await self._runtime.query(self, name, *args, **kwargs)

    async def state(self) -> str:
        """Returns the state of the run, such as ``"live"``, ``"completed"`` or ``"failed"``."""
        return (await self._runtime.info(self)).state

    async def hold(self, *, why: str | None = None, by: str | None = None) -> None:
        """Holds the run: it gets no turns until `release`."""
        await self._runtime.hold(self, why=why, by=by)

    async def release(self, *, why: str | None = None, by: str | None = None) -> None:
        """Releases the run, so that it continues."""
        await self._runtime.release(self, why=why, by=by)


class AsyncRuntime:
    """A durable runtime for the lifetime of an asyncio service, such as a FastAPI application:
    ``async with`` opens it, and any number of coroutines use it at the same time.

    Its tasks run on a thread of their own: a task that takes long does not stop the event loop, and
    a busy event loop does not stop the runs. Every method returns when its change is safe in the
    log, and none blocks the event loop.

    At the end of ``async with``, no step is started any more, and steps in progress have
    ``shutdown_grace`` seconds to finish. Unfinished runs stay in the log. They are not unwound, and
    they resume when a runtime opens the directory again.

    The other settings are those of `Runtime`; `RuntimeSettings` describes them. ``wal`` is required.

    >>> import asyncio, tempfile
    >>> from tiffany import AsyncRuntime, step, workflow
    >>> @step
    ... def add(a, b):
    ...     return a + b
    >>> @workflow
    ... async def sum_up(*numbers):
    ...     total = 0
    ...     for number in numbers:
    ...         total = await add(total, number)
    ...     return total
    >>> async def main(wal):
    ...     async with AsyncRuntime(wal=wal) as runtime:
    ...         runs = [await runtime.submit(sum_up, n, 10, id=f"sum-{n}") for n in range(3)]
    ...         return await asyncio.gather(*(run.result() for run in runs))
    >>> with tempfile.TemporaryDirectory() as wal:
    ...     asyncio.run(main(wal))
    [10, 11, 12]
    """

    @shows_settings(RuntimeSettings)
    def __init__(
        self, *, shutdown_grace: float | timedelta = 10.0, **settings: Unpack[RuntimeSettings]
    ) -> None:
        check_names("tiffany.AsyncRuntime()", settings, ("shutdown_grace", *DEFAULTS))
        wal = settings.get("wal")
        if wal is None:
            raise bad(
                "an AsyncRuntime is for durable runs, and it has no directory for their log",
                "give it one as `wal`; `tiffany.arun` runs programs that are not durable",
            )
        self._grace = seconds("`shutdown_grace`", shutdown_grace)
        self._given = settings
        self._functions = _workflows.Functions(settings.get("workflows", ()))
        self._settings = core_settings(self._functions, settings)
        self._service: Service | None = None
        self._is_closed = False

    async def __aenter__(self) -> AsyncRuntime:
        if self._service is not None or self._is_closed:
            raise bad(
                "this AsyncRuntime was opened before",
                "make a new one for every `async with`",
            )
        # Programs without asyncio do not pay for it.
        from tiffany._aio.service import Service

        service = self._service = Service(self._settings)
        try:
            await service.open()
        except BaseException:
            self._is_closed = True
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._is_closed = True
        if self._service is not None:
            await self._service.close(self._grace)

    @property
    def settings(self) -> RuntimeSettings:
        """The settings that it was made with."""
        return self._given.copy()

    def _open(self) -> Service:
        """Returns the service for the running event loop, or raises an error that says why it cannot
        be used.
        """
        service = self._anywhere()
        service.check_loop()
        return service

    def _anywhere(self) -> Service:
        """Returns the service for any thread."""
        service = self._service
        if service is None:
            raise NotStartedError(
                "this AsyncRuntime was not opened [TFY0226]; use it inside `async with runtime:`, which a web service "
                "does in its lifespan"
            )
        if self._is_closed:
            raise GoneError(
                "this AsyncRuntime is closed [TFY0031]; use it inside its `async with`; its unfinished runs continue with "
                "the next runtime that opens the directory"
            )
        service.check()
        return service

    async def _ask(self, ask: Callable[[_core._Requests, int], None]) -> Any:
        return await self._open().ask(ask)

    async def _outcome(self, run: Run[Any]) -> Any:
        return await self._open().outcome(run)

    def _handle(self, id: str, uuid: str) -> AsyncRun[Any]:
        return AsyncRun(id, _uuid.UUID(uuid), self)

    @overload
    async def submit(
        self,
        workflow: Callable[[Unpack[_Ts]], Program[T]],
        /,
        *args: *_Ts,
        id: str,
        tags: Iterable[str] = ...,
        attributes: Mapping[str, Attribute] | None = ...,
        deadline: Deadline = ...,
    ) -> AsyncRun[T]: ...
    @overload
    async def submit(
        self,
        workflow: Program[T],
        /,
        *,
        id: str,
        tags: Iterable[str] = ...,
        attributes: Mapping[str, Attribute] | None = ...,
        deadline: Deadline = ...,
    ) -> AsyncRun[T]: ...
    @overload
    async def submit(
        self,
        workflow: type[StateMachine],
        /,
        *args: Any,
        id: str,
        tags: Iterable[str] = ...,
        attributes: Mapping[str, Attribute] | None = ...,
        deadline: Deadline = ...,
        **kwargs: Any,
    ) -> AsyncRun[Any]: ...
    @overload
    async def submit(
        self,
        workflow: str,
        /,
        *args: Any,
        id: str,
        tags: Iterable[str] = ...,
        attributes: Mapping[str, Attribute] | None = ...,
        deadline: Deadline = ...,
        **kwargs: Any,
    ) -> AsyncRun[Any]: ...
    # The checker does not see that `Any` is all of them.
    async def submit(  # type: ignore[misc]
        self,
        workflow: Any,
        /,
        *args: Any,
        id: str,
        tags: Iterable[str] = (),
        attributes: Mapping[str, Attribute] | None = None,
        deadline: Deadline = None,
        **kwargs: Any,
    ) -> AsyncRun[Any]:
        """Starts a durable run of a workflow under your own id and returns when it is in the log. If
        a run with that id exists, with the same function and arguments, returns that run.

        The workflow is given as in `Runtime.submit`: as a function and its arguments, as a program,
        or by name. A new run has these tags and attributes, and fails if it has not ended at its
        deadline: a moment, or a time from its start.
        """
        try:
            service = self._open()
            options = _attributes.given(workflow, tags, attributes, deadline)
            name, given = _control.submitted(self._functions, workflow, args, kwargs)
        except BaseException:
            # A refused program has no other owner.
            _arguments.close_unbegun(workflow)
            raise
        uuid = await service.ask(lambda core, number: core.submit(number, name, id, given, options))
        return self._handle(id, uuid)

    async def get(self, run: RunLike) -> AsyncRun[Any]:
        """Returns an existing run, given by its id or its UUID."""
        info = await self.info(run)
        return AsyncRun(info.id, info.uuid, self)

    async def info(self, run: RunLike) -> RunInfo:
        """Returns the state of a run, its function, and when it started and ended."""
        text = await self._ask(lambda core, number: core.show(number, run))
        return run_info(json.loads(text))

    async def runs(
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
        wanted = json.dumps(asked)
        return run_page(json.loads(await self._ask(lambda core, number: core.runs(number, wanted))))

    async def cancel(self, run: RunLike) -> None:
        """Cancels a run. Its tasks clean up first."""
        await self._ask(lambda core, number: core.cancel(number, run))

    async def send(self, run: RunLike, name: str, value: Any) -> None:
        """Sends a message to a run, which receives it with `ReceiveMessage`."""
        await self._ask(lambda core, number: core.send(number, run, name, value))

    async def query(self, run: RunLike, name: str, *args: Any, **kwargs: Any) -> Any:
        """Sends a query to a run, which answers it with `on_question`."""
        given = _control.question(args, kwargs)
        return await self._ask(lambda core, number: core.query(number, run, name, given))

    async def settle(self, promise: Any, value: Any = None, *, run: RunLike | None = None) -> bool:
        """Completes an external promise by its UUID. Returns ``False`` if it was already settled. For
        a promise of a fork, name the fork as ``run``.
        """
        return bool(await self._ask(lambda core, number: core.settle(number, promise, value, run)))

    async def fail(
        self, promise: Any, error: BaseException | str, *, run: RunLike | None = None
    ) -> bool:
        """Fails an external promise. Returns ``False`` if it was already settled."""
        return bool(await self._ask(lambda core, number: core.fail(number, promise, error, run)))

    async def hold(self, run: RunLike, *, why: str | None = None, by: str | None = None) -> None:
        """Holds a run: it gets no turns until `release`. Steps in progress finish and are recorded.
        ``by`` is the person who holds it, by default the user of this process.
        """
        who = _arguments.user(by)
        await self._ask(lambda core, number: core.hold(number, run, who, why))

    async def release(self, run: RunLike, *, why: str | None = None, by: str | None = None) -> None:
        """Releases a run that a person or a limit holds, so that it continues. An exceeded limit is
        doubled.
        """
        who = _arguments.user(by)
        await self._ask(lambda core, number: core.release(number, run, who, why))

    @overload
    async def fork(
        self,
        run: Run[T],
        at: int,
        *,
        reply: Any = ...,
        fail: BaseException | str | None = None,
        as_is: bool = False,
        allow: Iterable[str] = (),
        id: str | None = None,
    ) -> AsyncRun[T]: ...
    @overload
    async def fork(
        self,
        run: _uuid.UUID | str,
        at: int,
        *,
        reply: Any = ...,
        fail: BaseException | str | None = None,
        as_is: bool = False,
        allow: Iterable[str] = (),
        id: str | None = None,
    ) -> AsyncRun[Any]: ...
    async def fork(
        self,
        run: RunLike,
        at: int,
        *,
        reply: Any = _NOTHING,
        fail: BaseException | str | None = None,
        as_is: bool = False,
        allow: Iterable[str] = (),
        id: str | None = None,
    ) -> AsyncRun[Any]:
        """Forks a run at a record, as `Runtime.fork` does."""
        given = _control.forked(reply, fail, as_is, allow, id)
        its_id, uuid = await self._ask(lambda core, number: core.fork(number, run, at, given))
        return self._handle(its_id, uuid)

    async def allow(self, run: RunLike, *names: str) -> None:
        """Allows a fork to execute the steps with these names, or all steps with ``"*"``."""
        given = list(names)
        await self._ask(lambda core, number: core.allow(number, run, given))

    async def approvals(self) -> list[OpenApproval]:
        """Returns the questions of all runs that wait for a person. Runs ask them with `Approve`."""
        return cast("list[OpenApproval]", await self._ask(lambda core, n: core.approvals(n)))

    async def approve(
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
        said = (choice, True, by, why)
        return cast(Approval, await self._ask(lambda core, n: core.resolve(n, approval, said)))

    async def reject(
        self, approval: str, *, by: str | None = None, why: str | None = None
    ) -> Approval:
        """Decides a question, given by its id, with the last of its choices, which is the
        rejection.
        """
        said = (None, False, by, why)
        return cast(Approval, await self._ask(lambda core, n: core.resolve(n, approval, said)))

    async def doubts(self) -> list[Doubt]:
        """Returns the steps in doubt: steps that must not run twice, were interrupted, and wait for
        a person's decision.
        """
        return [doubt(parts) for parts in await self._ask(lambda core, n: core.doubts(n))]

    async def decide(
        self, key: str, *, done: Any = _NOTHING, failed: str | None = None, again: bool = False
    ) -> None:
        """Decides a step in doubt, given by its key: it was carried out, with this result; it
        failed; or it is to be run again.
        """
        what, given = _control.decision(done, failed, again)
        await self._ask(lambda core, number: core.decide(number, key, what, given))

    async def status(self) -> Status:
        """Returns the status of this runtime, with its workflows and the runs that cannot continue."""
        pid, version, workflows, live, paused = await self._ask(lambda core, n: core.status(n))
        return Status(pid, version, workflows, live, [paused_run(run) for run in paused])

    async def remove(self, run: RunLike) -> None:
        """Removes a finished run, as `Runtime.remove` does."""
        await self._ask(lambda core, number: core.remove(number, run))

    async def compact(self, *runs: RunLike) -> Compacted:
        """Compacts finished runs, as `Runtime.compact` does."""
        return await self._open().on_thread(self.handle.compact, *runs)

    async def prune(self, *rules: Retention, dry_run: bool = False) -> Pruned:
        """Applies rules about finished runs, or with ``dry_run`` only reports what they would do, as
        `Runtime.prune` does.
        """
        return await self._open().on_thread(self.handle.prune, *rules, dry_run=dry_run)

    async def collect_blobs(self) -> Collected:
        """Removes the blobs that no run refers to. `prune` does this too."""
        return await self._open().on_thread(self.handle.collect_blobs)

    async def metrics(self) -> Metrics:
        """Returns the runtime's metrics. The chapter "Metrics" of the book describes each one."""
        return await self._open().on_thread(self.handle.metrics)

    def activity(
        self,
        run: RunLike | None = None,
        *,
        from_seq: int | None = None,
        every_turn: bool = False,
        ghosts: bool = True,
    ) -> Subscription:
        """Subscribes to the events of one run or of all runs, as `Runtime.activity` does. Read it
        with ``async for``.
        """
        return Subscription(self._anywhere().core.activity(run, from_seq, every_turn, ghosts))

    @property
    def handle(self) -> Client:
        """A client for code on other threads, such as steps and synchronous endpoints. Its methods
        wait, so the event loop must not call them.
        """
        from tiffany.client._client import Client

        return Client._of(self._anywhere().core.control())
