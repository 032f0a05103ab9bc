"""A runtime driven by an asyncio event loop. This module is imported only where there is one."""

from __future__ import annotations

import asyncio
import contextlib
import math
from typing import Any

from tiffany.durable._runtime import Runtime
from tiffany.errors import TaskCancelledError

_ROUNDS = 16
"""The number of rounds that tasks get before asyncio gets its turn again."""


class Guest:
    """A runtime driven by the running event loop. Any number of coroutines may wait for its runs."""

    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime
        self.loop = asyncio.get_running_loop()
        self._core = runtime._core
        self._descriptor = self._core.fileno()
        # The futures of unfinished runs, by number.
        self._waiting: dict[int, asyncio.Future[None]] = {}
        self._due: asyncio.Handle | None = None
        self._is_closed = False
        self.loop.add_reader(self._descriptor, self._turn)

    def close(self) -> None:
        """Closes the runtime. A closed event loop has already dropped the descriptor."""
        if not self.loop.is_closed():
            self.loop.remove_reader(self._descriptor)
        self._not_yet()
        self._is_closed = True
        self.runtime.close()

    async def run(self, program: Any) -> Any:
        """Runs a program until its run has finished and returns its value."""
        return await self._outcome(self._core.start(program))

    async def run_durable(self, program: Any, id: str, options: Any) -> Any:
        """Runs a program as the durable run with this id, or waits for the existing run, and
        returns its value.
        """
        return await self._outcome(self._core.attend(self.runtime._begun(program, id, options)))

    async def _outcome(self, number: int) -> Any:
        over = self._waiting[number] = self.loop.create_future()
        self._soon()
        try:
            return await self._end(number, over)
        finally:
            self._waiting.pop(number, None)
            # A coroutine that its loop has abandoned may end after the runtime.
            if not self._is_closed:
                self._core.leave(number)

    async def _end(self, number: int, over: asyncio.Future[None]) -> Any:
        cancelled: asyncio.CancelledError | None = None
        while not over.done():
            try:
                # Waits without cancelling the future when this coroutine is cancelled.
                await asyncio.wait((over,))
            except asyncio.CancelledError as error:
                cancelled = error
                # A second cancellation doesn't wait for the cleanup.
                if not self._core.stop(number):
                    raise
                self._soon()
        over.result()
        if cancelled is None:
            return self._core.outcome(number)
        with contextlib.suppress(TaskCancelledError):
            self._core.outcome(number)
        raise cancelled

    def _not_yet(self) -> None:
        if self._due is not None:
            self._due.cancel()

    def _soon(self) -> None:
        self._not_yet()
        self._due = self.loop.call_soon(self._turn)

    def _turn(self) -> None:
        """Runs the tasks for a while and schedules their next turn."""
        self._not_yet()
        if not self._waiting:
            return
        try:
            rest, ended = self._core.go_on(_ROUNDS)
        except Exception as error:
            while self._waiting:
                self._waiting.popitem()[1].set_exception(error)
            return
        for number in ended:
            over = self._waiting.pop(number, None)
            # A run whose outcome was not taken yet may be reported again.
            if over is not None:
                over.set_result(None)
        if rest == 0:
            self._soon()
        elif rest < math.inf:
            self._due = self.loop.call_later(rest, self._turn)
