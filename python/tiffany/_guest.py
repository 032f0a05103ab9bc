"""A runtime in the hands of a loop of asyncio. It is imported only where there is one."""

from __future__ import annotations

import asyncio
import contextlib
import math
from typing import Any

from tiffany import _core
from tiffany.errors import TaskCancelledError

_ROUNDS = 16
"""So many rounds the tasks have before it is asyncio's turn again."""


class Guest:
    """A runtime in the hands of a loop."""

    def __init__(self, runtime: _core.Runtime) -> None:
        self._runtime = runtime
        self._loop = asyncio.get_running_loop()
        self._over: asyncio.Future[None] = self._loop.create_future()
        self._due: asyncio.Handle | None = None

    async def outcome(self) -> Any:
        descriptor = self._runtime.fileno()
        self._loop.add_reader(descriptor, self._turn)
        self._soon()
        try:
            return await self._end()
        finally:
            self._loop.remove_reader(descriptor)
            self._not_yet()

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
                self._soon()
        self._over.result()
        if cancelled is None:
            return self._runtime.outcome()
        with contextlib.suppress(TaskCancelledError):
            self._runtime.outcome()
        raise cancelled

    def _not_yet(self) -> None:
        if self._due is not None:
            self._due.cancel()

    def _soon(self) -> None:
        self._not_yet()
        self._due = self._loop.call_soon(self._turn)

    def _turn(self) -> None:
        """Lets the tasks run for a while, and sees to it that they run again."""
        self._not_yet()
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
            self._soon()
        elif rest < math.inf:
            self._due = self._loop.call_later(rest, self._turn)
