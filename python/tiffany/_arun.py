"""`arun`: a program inside a loop of asyncio that runs already, on the loop's own thread."""

from __future__ import annotations

import asyncio
import contextlib
import math
from typing import Any, TypeVar, Unpack

from tiffany import _core
from tiffany._run import check_durable
from tiffany._runtime import Runtime
from tiffany._settings import Settings
from tiffany.errors import TaskCancelledError

_T = TypeVar("_T")

_ROUNDS = 16
"""So many rounds the tasks have before it is asyncio's turn again."""


async def arun(
    program: _core._Program[_T], *, id: str | None = None, **settings: Unpack[Settings]
) -> _T:
    """Runs a program to the end of its run, and gives its value, as `run` does and with the same settings; but inside the loop of
    asyncio that runs this coroutine, in turn with everything else there.

    Cancelled, it cancels the run, whose tasks clean up first. A durable run is not cancelled: it stays in the log as it is, and goes on
    when it is run again.

    >>> import asyncio
    >>> from tiffany import Aio, Sleep, arun
    >>> def main():
    ...     yield Sleep(0.001)
    ...     return (yield Aio(asyncio.sleep(0.001, "from both")))
    >>> asyncio.run(arun(main()))
    'from both'
    """
    check_durable(settings.get("wal"), id)
    with Runtime(**settings) as runtime:
        if id is None:
            runtime._core.start(program)
        else:
            runtime._core.attend(runtime._begun(program, id))
        value: _T = await _Guest(runtime._core, asyncio.get_running_loop()).outcome()
        return value


class _Guest:
    """A runtime in the hands of a loop."""

    def __init__(self, runtime: _core.Runtime, loop: asyncio.AbstractEventLoop) -> None:
        self._runtime = runtime
        self._loop = loop
        self._over: asyncio.Future[None] = loop.create_future()
        self._due: asyncio.Handle | None = None

    async def outcome(self) -> Any:
        descriptor = self._runtime.fileno()
        self._loop.add_reader(descriptor, self._turn)
        self._due = self._loop.call_soon(self._turn)
        try:
            return await self._end()
        finally:
            self._loop.remove_reader(descriptor)
            self._due.cancel()

    async def _end(self) -> Any:
        cancelled: asyncio.CancelledError | None = None
        while not self._over.done():
            try:
                # Not the future itself, which would be cancelled too.
                await asyncio.wait((self._over,))
            except asyncio.CancelledError as error:
                cancelled = error
                # Whoever cancels twice does not wait for the cleanup.
                if not self._runtime.stop():
                    raise
        self._over.result()
        if cancelled is None:
            return self._runtime.outcome()
        with contextlib.suppress(TaskCancelledError):
            self._runtime.outcome()
        raise cancelled

    def _turn(self) -> None:
        """Lets the tasks run for a while, and sees to it that they run again."""
        if self._due is not None:
            self._due.cancel()
        if self._over.done():
            return
        try:
            rest = self._runtime.go_on(_ROUNDS)
        except Exception as error:
            self._over.set_exception(error)
            return
        if rest is None:
            self._over.set_result(None)
        elif rest == 0:
            self._due = self._loop.call_soon(self._turn)
        elif rest < math.inf:
            self._due = self._loop.call_later(rest, self._turn)
