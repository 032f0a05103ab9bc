"""A single asyncio event loop in a thread, shared by everything that needs one. It is started on
first use.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import contextvars
import os
import selectors
import sys
import threading
import time
import traceback
from collections.abc import Awaitable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NoReturn

from tiffany import _core
from tiffany.errors import SharedLoopError, _Ended

EXECUTOR_THREADS = 64
"""The most threads for `asyncio.to_thread` and for looking up host names."""

_lock = threading.Lock()
_loop: SharedLoop | None = None


class _Selector(selectors.DefaultSelector):
    """A selector that tells the queue when the loop waits for events."""

    def __init__(self, ready: _core._ReadyQueue) -> None:
        super().__init__()
        self._rest = ready.rest

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        self._rest()
        return super().select(timeout)


class SharedLoop(asyncio.SelectorEventLoop):
    """An asyncio event loop whose callbacks are watched, and which code that runs on it cannot
    stop.
    """

    def __init__(self) -> None:
        ready = _core._ReadyQueue(self, super().call_soon)
        super().__init__(_Selector(ready))
        # The loop takes every callback from this queue just before it runs it.
        self._ready = ready
        setattr(self, "call_soon", ready.call_soon)  # noqa: B010
        executor = ThreadPoolExecutor(EXECUTOR_THREADS, "tiffany-to-thread")
        super().set_default_executor(executor)

    def stop(self) -> NoReturn:
        _refuse("stop")

    def close(self) -> NoReturn:
        _refuse("close")

    async def shutdown_default_executor(self, timeout: float | None = None) -> NoReturn:
        _refuse("shutdown_default_executor")

    def set_default_executor(self, executor: Any) -> NoReturn:
        _refuse("set_default_executor", "give the executor to `loop.run_in_executor` instead")

    def set_task_factory(self, factory: Any) -> NoReturn:
        _refuse("set_task_factory", "make such tasks in the coroutine itself instead")

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        if not _core._is_interruption(context.get("exception")):
            super().call_exception_handler(context)
        elif (handle := context.get("handle")) is not None:
            _show_interrupted(handle)

    def serve(self, ending: threading.Event) -> None:
        """Runs the loop until the process ends, whatever exceptions callbacks raise."""
        asyncio.set_event_loop(self)
        while not ending.is_set():
            try:
                self.run_forever()
            except (KeyboardInterrupt, SystemExit):
                # The task holds its exception; the others continue.
                pass
            except BaseException as error:
                with contextlib.suppress(Exception):
                    self._continue_after(error)
        super().close()

    def _continue_after(self, error: BaseException) -> None:
        """Reports an exception that asyncio did not catch, or that it raised itself."""
        if not _core._is_interruption(error):
            traceback.print_exception(error)
            time.sleep(1)
            return
        # Since Python 3.12, the second exception of an interruption is raised while asyncio handles
        # the first one.
        for frame, _ in traceback.walk_tb(error.__traceback__):
            if frame.f_code is asyncio.Handle._run.__code__:
                _show_interrupted(frame.f_locals["self"])

    def end(self, thread: threading.Thread, ending: threading.Event) -> None:
        """Cancels all tasks on the loop and stops it, before the interpreter ends."""
        # After a fork, the thread belongs to the parent process.
        if self is not _loop or not thread.is_alive():
            return

        async def finish() -> None:
            others = asyncio.all_tasks() - {asyncio.current_task()}
            for task in others:
                task.cancel()
            await asyncio.wait(others, timeout=1) if others else None
            ending.set()
            asyncio.SelectorEventLoop.stop(self)

        asyncio.run_coroutine_threadsafe(finish(), self)
        thread.join(timeout=5)


class StepTask(asyncio.Task[Any]):
    """The asyncio task of an attempt at a step. Other steps cannot cancel it, even if they cancel
    all tasks in `asyncio.all_tasks()`.
    """

    attempt: _core.Attempt | None = None

    def cancel(self, msg: Any | None = None) -> bool:
        return not _core._is_another_step(self.attempt) and super().cancel(msg)

    def give_up(self) -> None:
        """Cancels the task, because the run no longer waits for the attempt."""
        super().cancel()


def background() -> SharedLoop:
    """Returns the loop; starts it on first use. A forked process has its own.

    >>> import asyncio
    >>> async def one():
    ...     return 1
    >>> asyncio.run_coroutine_threadsafe(one(), background()).result()
    1
    """
    global _loop
    loop = _loop
    if loop is not None:
        return loop
    with _lock:
        if _loop is None:
            _loop = _started()
        return _loop


def _started() -> SharedLoop:
    loop, ending = SharedLoop(), threading.Event()
    thread = threading.Thread(
        target=loop.serve, args=(ending,), name="tiffany-asyncio", daemon=True
    )
    thread.start()
    atexit.register(loop.end, thread, ending)
    return loop


def _refuse(name: str, next_step: str = "return from the coroutine instead") -> NoReturn:
    raise SharedLoopError(
        f"`loop.{name}()` was called on the loop that all coroutines of asyncio share here [TFY0056]; "
        f"{next_step}: the loop is tiffany's, and ends with the process"
    )


def _show_interrupted(handle: asyncio.Handle) -> None:
    """Prints which callback was interrupted, and cancels it. An interrupted task gets the exception
    instead.
    """
    callback = handle._callback  # type: ignore[attr-defined]
    if isinstance(getattr(callback, "__self__", None), asyncio.Task):
        return
    try:
        attempt = handle._context.run(_core.attempt)  # type: ignore[attr-defined]
        owner = f"of async step `{attempt.step}` of run {attempt.key.partition('/')[0]}"
    except Exception:
        owner = "that belongs to no step"
    print(
        f"tiffany: the callback {handle!r} {owner} kept the loop that all async steps share for longer than a task "
        "may keep its turn, and was interrupted [TFY0240]; do long work in a plain step, which has a thread of its own",
        file=sys.stderr,
        flush=True,
    )
    # A callback for a readable descriptor would otherwise be called again at once.
    handle.cancel()


def _forked() -> None:
    """Resets the loop in a forked process, which doesn't have the loop's thread, and where the lock
    may be held.
    """
    global _loop, _lock
    _loop, _lock = None, threading.Lock()


os.register_at_fork(after_in_child=_forked)


async def awaits(work: Awaitable[Any]) -> Any:
    """Wraps an awaitable in a coroutine."""
    return await work


async def _contained(work: Coroutine[Any, Any, Any]) -> Any:
    """Awaits a coroutine, and converts exceptions that would end the thread."""
    try:
        return await work
    except (SystemExit, KeyboardInterrupt) as error:
        raise _Ended(f"{type(error).__name__}: {error}") from error


def run_here(work: Coroutine[Any, Any, Any], context: contextvars.Context) -> Any:
    """Runs a coroutine to its end on this thread, on a separate event loop."""
    with asyncio.Runner() as runner:
        return runner.run(_contained(work), context=context)
