"""A shared asyncio event loop in its own thread, started when it is first needed."""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import contextvars
import functools
import os
import threading
from collections.abc import Callable, Coroutine, Generator
from typing import Any

from tiffany import _core
from tiffany.errors import SharedLoopError, _Ended

# asyncio must recognize what its task runs as a coroutine.
Coroutine.register(_core._StepCoroutine)

_lock = threading.Lock()
_loop: asyncio.AbstractEventLoop | None = None


def background() -> asyncio.AbstractEventLoop:
    """Returns the shared event loop. Coroutines on it cannot stop it, and a forked process gets its
    own.

    >>> import asyncio
    >>> async def one():
    ...     return 1
    >>> asyncio.run_coroutine_threadsafe(one(), background()).result()
    1
    """
    global _loop
    loop = _loop
    if loop is not None and not loop.is_closed():
        return loop
    with _lock:
        if _loop is None or _loop.is_closed():
            _loop = _started()
        return _loop


def _started() -> asyncio.AbstractEventLoop:
    loop = asyncio.new_event_loop()
    loop.set_task_factory(_task)
    ending = threading.Event()
    stop = loop.stop
    for name in ("stop", "close", "shutdown_default_executor"):
        # A loop of another make may not allow that, and is started again when it was stopped.
        with contextlib.suppress(AttributeError):
            setattr(loop, name, functools.partial(_refuse, name))
    thread = threading.Thread(
        target=_serve, args=(loop, ending), name="tiffany-asyncio", daemon=True
    )
    thread.start()
    atexit.register(_end, loop, thread, ending, stop)
    return loop


def _task(
    loop: asyncio.AbstractEventLoop,
    coroutine: Coroutine[Any, Any, Any] | Generator[Any, None, Any],
    **options: Any,
) -> asyncio.Task[Any]:
    """Creates a task whose turns on the event loop are monitored."""
    watched = _core._step_coroutine(coroutine, options.get("context"))
    return asyncio.Task(watched, loop=loop, **options)


def _refuse(name: str) -> None:
    raise SharedLoopError(
        f"`loop.{name}()` was called on the loop that all coroutines of asyncio share here [TFY0056]; "
        "return from the coroutine instead: the loop is tiffany's, and ends with the process"
    )


def _forked() -> None:
    """Resets the state in a forked process, which has no thread for the loop and may have inherited
    a held lock.
    """
    global _loop, _lock
    _loop, _lock = None, threading.Lock()


os.register_at_fork(after_in_child=_forked)


async def contained(work: Coroutine[Any, Any, Any]) -> Any:
    """Awaits something that must not end the loop."""
    try:
        return await work
    except (SystemExit, KeyboardInterrupt) as error:
        raise _Ended(f"{type(error).__name__}: {error}") from error


def run_here(work: Coroutine[Any, Any, Any], context: contextvars.Context) -> Any:
    """Runs an awaitable to its end on this thread, on its own event loop."""
    with asyncio.Runner() as runner:
        return runner.run(contained(work), context=context)


def _serve(loop: asyncio.AbstractEventLoop, ending: threading.Event) -> None:
    asyncio.set_event_loop(loop)
    while not ending.is_set():
        # The waiter of the task has its exception; the others keep running.
        with contextlib.suppress(KeyboardInterrupt, SystemExit):
            loop.run_forever()
    type(loop).close(loop)


def _end(
    loop: asyncio.AbstractEventLoop,
    thread: threading.Thread,
    ending: threading.Event,
    stop: Callable[[], None],
) -> None:
    """Cancels the running tasks and stops the loop before the interpreter ends."""
    # After a fork the thread is another process's.
    if loop is not _loop or not thread.is_alive():
        return

    async def finish() -> None:
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.wait(others, timeout=1) if others else None
        ending.set()
        stop()

    asyncio.run_coroutine_threadsafe(finish(), loop)
    thread.join(timeout=5)
