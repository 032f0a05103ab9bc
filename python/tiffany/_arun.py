"""`arun`: a program inside a loop of asyncio that runs already, on the loop's own thread."""

from __future__ import annotations

import asyncio
import math
from typing import Any, TypeVar, Unpack

from tiffany import _core
from tiffany._settings import Settings
from tiffany._settings import settings as core_settings
from tiffany.errors import TaskCancelledError

_T = TypeVar("_T")

_ROUNDS = 16
"""So many rounds the tasks have before it is asyncio's turn again."""


async def arun(program: _core._Program[_T], **settings: Unpack[Settings]) -> _T:
    """Runs a program to the end of its run, and gives its value, as `run` does; but inside the loop of asyncio that runs this
    coroutine, in turn with everything else there. Cancelled, it cancels the run, whose tasks clean up first.

    >>> import asyncio
    >>> from tiffany import Aio, Sleep, arun
    >>> def main():
    ...     yield Sleep(0.001)
    ...     return (yield Aio(asyncio.sleep(0.001, "from both")))
    >>> asyncio.run(arun(main()))
    'from both'
    """
    runtime = _core.Runtime(core_settings(settings))
    try:
        runtime.start(program)
        value: _T = await _Guest(runtime, asyncio.get_running_loop()).outcome()
        return value
    finally:
        runtime.close()


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
                # Whoever cancels twice does not wait for the cleanup.
                cancelled = error
                self._runtime.stop()
        if cancelled is None:
            self._over.result()
            return self._runtime.outcome()
        try:
            self._over.result()
            self._runtime.outcome()
        except TaskCancelledError:
            pass
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
