"""The thread of an `AsyncRuntime`, and the requests to it, none of which blocks the event loop. A
slow task delays no other user of the event loop, and a busy event loop delays no run.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import itertools
import threading
import uuid as _uuid
import weakref
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from tiffany import _core
from tiffany._records import Run
from tiffany.errors import GoneError, OtherLoopError

_P = ParamSpec("_P")
T = TypeVar("T")

_EXIT_SECONDS = 5.0
"""How long the end of the process waits for a runtime that was not closed."""


class Service:
    """The thread of a runtime, and the requests to it. It belongs to the event loop that opens it."""

    core: _core._Requests

    def __init__(self, settings: dict[str, Any]) -> None:
        self._settings = settings
        self._loop = asyncio.get_running_loop()
        self._numbers = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[_core._Answer]] = {}
        # One request for each run, however many coroutines wait for it and give up again.
        self._outcomes: dict[_uuid.UUID, asyncio.Future[_core._Answer]] = {}
        self._opened: asyncio.Future[None] = self._loop.create_future()
        self._ended: asyncio.Future[None] = self._loop.create_future()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._main, name="tiffany-runtime", daemon=True)

    async def open(self) -> None:
        """Opens the directory. Unfinished runs resume before this returns."""
        _OPEN.add(self)
        self._thread.start()
        try:
            await asyncio.shield(self._opened)
        except asyncio.CancelledError:
            # The thread cannot be interrupted while it opens the directory.
            await asyncio.wait((self._opened,))
            if self._opened.exception() is None:
                await self.close(0.0)
            raise
        self._loop.add_reader(self.core.fileno(), self._take)

    def _main(self) -> None:
        """Runs the runtime on its thread."""
        try:
            runtime = _core.Runtime(self._settings)
            self.core = runtime.requests()
        except BaseException as error:
            self._tell(self._opened, error)
            self._tell(self._ended)
            return
        self._tell(self._opened)
        try:
            runtime.serve(self.core)
        except BaseException as error:
            self._failure = error
        finally:
            runtime.close()
            self._tell(self._ended)

    def _tell(self, future: asyncio.Future[None], error: BaseException | None = None) -> None:
        def tell() -> None:
            if future.done():
                return
            if error is None:
                future.set_result(None)
            else:
                future.set_exception(error)

        # The loop may have been closed without the end of `async with`.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(tell)

    def check_loop(self) -> None:
        """Raises an error on another event loop."""
        if asyncio.get_running_loop() is not self._loop:
            raise OtherLoopError(
                "this AsyncRuntime belongs to another event loop [TFY0222]; use it on the loop that opened it, with "
                "`asyncio.run_coroutine_threadsafe` from other threads; or its `handle`, on a thread without a loop"
            )

    def check(self) -> None:
        """Raises an error if the runtime has ended."""
        if self._ended.done():
            raise GoneError(
                f"this AsyncRuntime ended with {self._failure!r} [TFY0031]; correct the cause, and start the process again"
            ) from self._failure

    async def ask(self, ask: Callable[[_core._Requests, int], None]) -> Any:
        """Sends a request and waits for its answer."""
        number = next(self._numbers)
        answered: asyncio.Future[_core._Answer] = self._loop.create_future()
        ask(self.core, number)
        self._waiting[number] = answered
        try:
            answer = await answered
        finally:
            self._waiting.pop(number, None)
        return answer.value()

    async def outcome(self, run: Run[Any]) -> Any:
        """Waits for the outcome of a run."""
        ended = self._outcomes.get(run.uuid)
        if ended is None:
            number = next(self._numbers)
            self.core.outcome(number, run)
            ended = self._waiting[number] = self._outcomes[run.uuid] = self._loop.create_future()
            ended.add_done_callback(lambda _: self._outcomes.pop(run.uuid, None))
        # A coroutine that gives up does not cancel what the others wait for.
        answer = await asyncio.shield(ended)
        return answer.value()

    def _take(self) -> None:
        """Takes the answers that have come."""
        for number, answer in self.core.take():
            answered = self._waiting.pop(number, None)
            if answered is not None and not answered.done():
                answered.set_result(answer)

    async def close(self, grace: float) -> None:
        """Ends the thread, and answers everyone who still waits."""
        self.core.stop(grace)
        await asyncio.shield(self._ended)
        # It has nothing left to do.
        self._thread.join()
        self._loop.remove_reader(self.core.fileno())
        self._take()

    async def on_thread(self, function: Callable[_P, T], *args: _P.args, **kwargs: _P.kwargs) -> T:
        """Calls a function that waits, on a thread."""
        return await asyncio.to_thread(function, *args, **kwargs)

    def leave(self) -> None:
        """Ends the thread at the end of the process, as a crash would: nothing is waited for."""
        if self._thread.is_alive() and self._opened.done():
            self.core.stop(0.0)
            self._thread.join(_EXIT_SECONDS)


_OPEN: weakref.WeakSet[Service] = weakref.WeakSet()


@atexit.register
def _leave_all() -> None:
    """Ends the threads of runtimes whose ``async with`` was left without its end. Otherwise the
    interpreter would end them in the middle of Rust code.
    """
    for service in list(_OPEN):
        service.leave()
