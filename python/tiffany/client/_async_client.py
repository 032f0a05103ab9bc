"""`AsyncClient`: the methods of `Client`, awaitable. No thread is used, however many runs are waited
for.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import uuid as _uuid
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any, Concatenate, ParamSpec, TypeVar, TypeVarTuple, Unpack, overload

from tiffany import _attributes, _core
from tiffany._activity import Activity, Lost
from tiffany._attributes import Attribute, Deadline
from tiffany._records import Run, RunInfo, RunLike
from tiffany._run_query import MAX_LIMIT, Sort, run_query
from tiffany.client import _target
from tiffany.client._asyncio import Awaiting
from tiffany.client._calls import Calls
from tiffany.client._client import RETRY_SECONDS, check_directory
from tiffany.client._events import ENDS, EventReader, Restarted, wanted
from tiffany.client._io import Program
from tiffany.client._peer import Peer
from tiffany.client._target import Path
from tiffany.durable._runtime import Program as Workflow
from tiffany.durable._state_machines import StateMachine

_T = TypeVar("_T")
_Ts = TypeVarTuple("_Ts")
_P = ParamSpec("_P")

_LOOK_SECONDS = 15.0
"""How often it is looked whether runs that are waited for are paused, which is not an event."""
_FIRST_PAUSE, _MAX_PAUSE = 0.005, 0.25


def _awaitable(
    call: Callable[Concatenate[Calls, _P], Program[_T]],
) -> Callable[Concatenate[AsyncClient, _P], Coroutine[Any, Any, _T]]:
    """Makes a method of a program."""

    @functools.wraps(call)
    async def method(self: AsyncClient, /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
        return await self._run(call(self._calls, *args, **kwargs))

    return method


class AsyncClient:
    """Durable runs of another process, or of a daemon over HTTP, for asyncio.

    ``AsyncClient("wal")`` talks to the process that owns the directory, and
    ``AsyncClient("https://host:8787", token=...)`` to a daemon; the arguments are those of
    `tiffany.Client`. Its methods are awaited, and `runs` and `events` are iterated with ``async
    for``. All waits for results share one stream of events.

    Use a client in one event loop, and close it when you are done, preferably with ``async with``.
    """

    def __init__(
        self,
        target: Path,
        *,
        token: str | None = None,
        token_file: Path | None = None,
        ca: Path | None = None,
        cert: Path | tuple[Path, Path] | None = None,
        insecure: bool = False,
        retry: float | timedelta = RETRY_SECONDS,
    ) -> None:
        again = _target.seconds("retry", retry)
        peer: Peer
        if _target.is_url(target):
            http = _target.http_peer(
                str(target),
                token=token,
                token_file=token_file,
                ca=ca,
                cert=cert,
                insecure=insecure,
                retry=again,
            )
            # One stream tells the ends of all runs, so that no request waits.
            http.waits = False
            peer = http
        else:
            check_directory(target, token, token_file, ca, cert)
            peer = _target.socket_peer(target, again, control=False)
        self._calls = Calls(peer)
        self._io = _Waiting(self._calls)

    async def _run(self, program: Program[_T]) -> _T:
        return await self._io.run(program)

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Closes the client."""
        await self._io.end()

    @overload
    async def submit(
        self,
        workflow: Callable[[Unpack[_Ts]], Workflow[_T]],
        /,
        *args: *_Ts,
        id: str | None = None,
        tags: Iterable[str] = (),
        attributes: Mapping[str, Attribute] | None = None,
        deadline: Deadline = None,
    ) -> Run[_T]: ...
    @overload
    async def submit(
        self,
        workflow: type[StateMachine],
        /,
        *args: Any,
        id: str | None = None,
        tags: Iterable[str] = (),
        attributes: Mapping[str, Attribute] | None = None,
        deadline: Deadline = None,
        **kwargs: Any,
    ) -> Run[Any]: ...
    @overload
    async def submit(
        self,
        workflow: str,
        /,
        *args: Any,
        id: str | None = None,
        tags: Iterable[str] = (),
        attributes: Mapping[str, Attribute] | None = None,
        deadline: Deadline = None,
        **kwargs: Any,
    ) -> Run[Any]: ...
    # The checker does not see that `Any` is all of them.
    async def submit(  # type: ignore[misc]
        self,
        workflow: Any,
        /,
        *args: Any,
        id: str | None = None,
        tags: Iterable[str] = (),
        attributes: Mapping[str, Attribute] | None = None,
        deadline: Deadline = None,
        **kwargs: Any,
    ) -> Run[Any]:
        """Starts a durable run of a workflow, given as a function or by name, or finds the run that
        has this id. Without an id the run gets a random one.

        A new run has these tags and attributes, and fails if it has not ended at its deadline: a
        moment, or a time from its start.
        """
        start = _attributes.given(workflow, tags, attributes, deadline)
        return await self._run(self._calls.submit(workflow, args, kwargs, id, start))

    @overload
    async def result(self, run: Run[_T], *, timeout: float | timedelta | None = None) -> _T: ...
    @overload
    async def result(
        self, run: _uuid.UUID | str, *, timeout: float | timedelta | None = None
    ) -> Any: ...
    async def result(self, run: RunLike, *, timeout: float | timedelta | None = None) -> Any:
        """Waits until the outcome of a run is final and safe in the log, and returns its value. A
        run that failed raises its error, of the same class as in the run's own process if this one
        has the class. A run that is paused or held raises the reason.
        """
        return await self._run(self._calls.result(run, timeout))

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
        page: int = 100,
    ) -> AsyncIterator[RunInfo]:
        """Iterates over the runs that fit all filters, as `Client.runs` does."""
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
            limit=("page", page),
        )
        return self._pages(asked)

    async def _pages(self, asked: dict[str, Any]) -> AsyncIterator[RunInfo]:
        while True:
            page = await self._run(self._calls.page(asked))
            for info in page:
                yield info
            if page.next is None:
                return
            asked = {**asked, "after": page.next}

    def events(
        self,
        run: RunLike | None = None,
        *,
        from_seq: int | None = None,
        every_turn: bool = False,
        ghosts: bool = True,
    ) -> AsyncEvents:
        """Iterates over live events as `Client.events` does, with ``async for``. They begin with
        ``async with``, or when the first one is awaited.
        """
        of = None if run is None else _core._run_uuid(run)
        return AsyncEvents(self, wanted(of, from_seq, every_turn, ghosts))

    status = _awaitable(Calls.status)
    show = _awaitable(Calls.show)
    send = _awaitable(Calls.send)
    cancel = _awaitable(Calls.cancel)
    hold = _awaitable(Calls.hold)
    release = _awaitable(Calls.release)
    query = _awaitable(Calls.query)
    fork = _awaitable(Calls.fork)
    allow = _awaitable(Calls.allow)
    settle = _awaitable(Calls.settle)
    fail = _awaitable(Calls.fail)
    paused = _awaitable(Calls.paused)
    metrics = _awaitable(Calls.metrics)
    doubts = _awaitable(Calls.doubts)
    decide = _awaitable(Calls.decide)
    approvals = _awaitable(Calls.approvals)
    approve = _awaitable(Calls.approve)
    reject = _awaitable(Calls.reject)
    remove = _awaitable(Calls.remove)


class AsyncEvents:
    """Live events of an `AsyncClient`. Close it when you no longer need it, preferably with ``async
    with``.
    """

    def __init__(self, client: AsyncClient, asked: dict[str, Any]) -> None:
        self._client = client
        self._reader = EventReader(client._calls.peer, asked)

    def __aiter__(self) -> AsyncEvents:
        return self

    async def __anext__(self) -> Activity | Lost | Restarted:
        item = await self._client._run(self._reader.next())
        if item is None:
            raise StopAsyncIteration
        return item

    async def __aenter__(self) -> AsyncEvents:
        await self._client._run(self._reader.open())
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the stream."""
        self._reader.close()


class _Waiting(Awaiting):
    """Carries out the actions of a client. One stream of events serves all who wait for runs."""

    def __init__(self, calls: Calls) -> None:
        super().__init__()
        self._calls = calls
        self._waiters: dict[str, set[_Waiter]] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._ready = asyncio.Event()

    async def waiter(self, run: str) -> _Waiter:
        """Returns what waits for the end of a run. What happens from now on is not missed."""
        if any(task.done() for task in self._tasks):
            await self._end_tasks()
        if not self._tasks:
            self._ready = asyncio.Event()
            self._tasks = [asyncio.create_task(self._read()), asyncio.create_task(self._look())]
        waiter = _Waiter(self, run)
        self._waiters.setdefault(run, set()).add(waiter)
        try:
            await self._ready.wait()
        except BaseException:
            waiter.close()
            raise
        return waiter

    def leave(self, waiter: _Waiter) -> None:
        """A waiter is not one any more."""
        others = self._waiters.get(waiter.run, set())
        others.discard(waiter)
        if not others:
            self._waiters.pop(waiter.run, None)

    async def _read(self) -> None:
        asked = wanted(None, None, False, False, ends=True)
        reader = EventReader(self._calls.peer, asked)
        try:
            await self.run(reader.open())
            self._ready.set()
            while True:
                item = await self.run(reader.next())
                if not isinstance(item, Activity):
                    # Which ends were missed is not known.
                    self._wake(list(self._waiters))
                elif item.stage in ENDS:
                    self._wake([item.task_id])
        except Exception as error:
            for waiter in [each for all in self._waiters.values() for each in all]:
                waiter.fail(error)
        finally:
            reader.close()
            self._ready.set()

    async def _look(self) -> None:
        asked = {"states": ["paused", "held", "damaged"], "sort": "started", "descending": True}
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            if not self._waiters:
                continue
            with contextlib.suppress(Exception):
                page = await self.run(self._calls.page({**asked, "limit": MAX_LIMIT}))
                self._wake([str(each.uuid) for each in page])

    def _wake(self, runs: list[str]) -> None:
        for run in runs:
            for waiter in self._waiters.get(run, ()):
                waiter.wake()

    async def _end_tasks(self) -> None:
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def end(self) -> None:
        """Closes everything."""
        await self._end_tasks()
        self.close()


class _Waiter:
    """Waits for the end of one run."""

    def __init__(self, io: _Waiting, run: str) -> None:
        self.run = run
        self._io = io
        self._woken = asyncio.Event()
        self._error: Exception | None = None
        self._pause = _FIRST_PAUSE

    def wake(self) -> None:
        """The run may have ended."""
        self._woken.set()

    def fail(self, error: Exception) -> None:
        """The stream of events is gone."""
        self._error = error
        self._woken.set()

    async def wait(self, left: float | None) -> None:
        """Waits until the run may have ended."""
        if self._error is None and self._woken.is_set():
            # Events come before their records are safe, so the outcome is looked for again.
            await asyncio.sleep(self._pause if left is None else min(self._pause, left))
            self._pause = min(self._pause * 2, _MAX_PAUSE)
            if self._pause == _MAX_PAUSE:
                self._woken.clear()
            return
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._woken.wait(), left)
        if self._error is not None:
            raise self._error

    def close(self) -> None:
        """Ends it."""
        self._io.leave(self)
