"""One loop of asyncio in a thread, which everything shares that has to run on one. It is started when it is first needed."""

from __future__ import annotations

import asyncio
import atexit
import contextvars
import os
import threading
from collections.abc import Coroutine
from typing import Any

from tiffany.errors import _Ended

_lock = threading.Lock()
_loop: asyncio.AbstractEventLoop | None = None
_process = 0


def background() -> asyncio.AbstractEventLoop:
    """The loop. After a fork the new process has one of its own.

    >>> import asyncio
    >>> async def one():
    ...     return 1
    >>> asyncio.run_coroutine_threadsafe(one(), background()).result()
    1
    """
    global _loop, _process
    if _loop is not None and _process == os.getpid():
        return _loop
    with _lock:
        if _loop is None or _process != os.getpid():
            loop = asyncio.new_event_loop()
            thread = threading.Thread(
                target=_serve, args=(loop,), name="tiffany-asyncio", daemon=True
            )
            thread.start()
            atexit.register(_end, loop, thread, os.getpid())
            _loop, _process = loop, os.getpid()
        return _loop


async def contained(work: Coroutine[Any, Any, Any]) -> Any:
    """Awaits something that must not end the loop."""
    try:
        return await work
    except (SystemExit, KeyboardInterrupt) as error:
        raise _Ended(f"{type(error).__name__}: {error}") from error


def run_here(work: Coroutine[Any, Any, Any], context: contextvars.Context) -> Any:
    """Runs something to its end on this thread, on a loop of its own."""
    with asyncio.Runner() as runner:
        return runner.run(contained(work), context=context)


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    while True:
        try:
            loop.run_forever()
            break
        except (KeyboardInterrupt, SystemExit):
            # Who waits for the task has it; the others go on.
            continue
    loop.close()


def _end(loop: asyncio.AbstractEventLoop, thread: threading.Thread, process: int) -> None:
    """Before the interpreter ends: cancels what runs there, and stops."""
    if process != os.getpid() or not thread.is_alive():
        return

    async def finish() -> None:
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.wait(others, timeout=1) if others else None
        loop.stop()

    asyncio.run_coroutine_threadsafe(finish(), loop)
    thread.join(timeout=5)
