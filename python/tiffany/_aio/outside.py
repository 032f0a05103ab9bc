"""The work behind `Aio`, `InThread` and `InProcess`. For each there is a function that checks the
arguments when the call object is created. It returns a function that is called when the task makes
the call, and that one returns a function that starts the work. Waiting for the result is done in
Rust.
"""

from __future__ import annotations

import asyncio
import atexit
import contextvars
import functools
import inspect
import os
import threading
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from typing import Any

from tiffany import _core
from tiffany._aio.loop import background
from tiffany._aio.processes import Processes
from tiffany.errors import BadArgumentError

Done = Callable[[Any], object]
"""A callback that receives a finished future."""


class _Running:
    """An asyncio task controlled from another thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._task: asyncio.Task[Any] | None = None

    def start(
        self, coroutine: Coroutine[Any, Any, Any], context: contextvars.Context, done: Done
    ) -> None:
        self._task = self._loop.create_task(coroutine, context=context)
        self._task.add_done_callback(done)

    def cancel(self) -> None:
        self._loop.call_soon_threadsafe(self._cancel)

    def add_done_callback(self, done: Done) -> None:
        self._loop.call_soon_threadsafe(self._add, done)

    def _cancel(self) -> None:
        assert self._task is not None, "it was started first"
        self._task.cancel()

    def _add(self, done: Done) -> None:
        assert self._task is not None, "it was started first"
        self._task.add_done_callback(done)


def coroutine(awaitable: Awaitable[Any]) -> Callable[[], Callable[[Done], _Running]]:
    """Prepares a coroutine for an asyncio event loop."""
    return functools.partial(_in_context, _as_coroutine(awaitable))


def _as_coroutine(awaitable: Awaitable[Any]) -> Coroutine[Any, Any, Any]:
    name = type(awaitable).__name__
    if asyncio.isfuture(awaitable):
        raise BadArgumentError(
            f"`{name}` belongs to the loop that made it; give `Aio` a coroutine, which it starts itself"
        )
    if isinstance(awaitable, (_core.SystemCall, _core.Task, _core.Future)):
        raise BadArgumentError(
            f"`{name}` is tiffany's own, not asyncio's; yield or await it without `Aio`"
        )
    if inspect.iscoroutine(awaitable):
        return awaitable
    if inspect.isawaitable(awaitable):
        return _await(awaitable)
    hint = "; call it first" if callable(awaitable) else "; a coroutine of asyncio is wanted"
    raise BadArgumentError(f"`{name}` cannot be awaited{hint}")


async def _await(awaitable: Awaitable[Any]) -> Any:
    return await awaitable


def _in_context(coroutine: Coroutine[Any, Any, Any]) -> Callable[[Done], _Running]:
    return functools.partial(_run, coroutine, contextvars.copy_context())


def _run(coroutine: Coroutine[Any, Any, Any], context: contextvars.Context, done: Done) -> _Running:
    try:
        running = _Running(asyncio.get_running_loop())
    except RuntimeError:
        loop = background()
        running = _Running(loop)
        loop.call_soon_threadsafe(running.start, coroutine, context, done)
    else:
        running.start(coroutine, context, done)
    return running


Prepared = Callable[[], Callable[[Done], "Future[Any]"]]


def in_thread(
    executor: Executor | None,
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None,
) -> Prepared:
    """Prepares a function for a thread, called in the context of the task."""
    if isinstance(executor, ProcessPoolExecutor):
        raise BadArgumentError("this executor has processes and no threads; use `InProcess`")

    def prepare() -> Callable[[Done], Future[Any]]:
        run = contextvars.copy_context().run
        named = kwargs or {}
        submit = (executor or _threads()).submit
        return lambda done: _told(submit(run, function, *args, **named), done)

    return prepare


def in_process(
    executor: Executor | None,
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None,
) -> Prepared:
    """Prepares a function for a process. The function, its arguments and its result are pickled."""
    named = kwargs or {}
    return lambda: (
        lambda done: _told((executor or _processes()).submit(function, *args, **named), done)
    )


def _told(future: Future[Any], done: Done) -> Future[Any]:
    future.add_done_callback(done)
    return future


def split(name: str, given: tuple[Any, ...]) -> tuple[Executor | None, Any, tuple[Any, ...]]:
    """Returns the executor, if there is one, the function and its arguments."""
    executor, rest = None, given
    if given and (given[0] is None or isinstance(given[0], Executor)):
        executor, rest = given[0], given[1:]
    if not rest:
        raise BadArgumentError(f"`{name}` lacks the function that is to be called")
    if not callable(rest[0]):
        kind = type(rest[0]).__name__
        raise BadArgumentError(f"`{kind}` cannot be called; `{name}` takes a function")
    if inspect.iscoroutinefunction(rest[0]):
        raise BadArgumentError(
            f"`{rest[0].__name__}` is `async def`; pass the coroutine that it returns to `Aio`"
        )
    return executor, rest[0], rest[1:]


_lock = threading.Lock()
_pools: dict[tuple[str, int], Executor] = {}


def _forked() -> None:
    """Replaces the lock in a forked process. The pools of the parent stay untouched, because
    shutting them down here would disturb the parent.
    """
    global _lock
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_forked)


@atexit.register
def _end() -> None:
    """Shuts the processes down while everything that they need to end quietly still exists."""
    _pools.pop(("processes", os.getpid()), None)


def _threads() -> Executor:
    with _lock:
        key = ("threads", os.getpid())
        if key not in _pools:
            _pools[key] = ThreadPoolExecutor(thread_name_prefix="tiffany-thread")
        return _pools[key]


def _processes() -> Executor:
    with _lock:
        key = ("processes", os.getpid())
        if key not in _pools:
            _pools[key] = Processes()
        return _pools[key]
