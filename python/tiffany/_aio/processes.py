"""The processes that `InProcess` calls share. This module knows nothing about tasks and calls.

Each process has its own executor, so a process that dies takes only its own call with it. Also, no
executor has to start a process while another of its processes dies, which the standard library
cannot do safely: it may wait forever for the new one.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from multiprocessing import get_context
from typing import Any

Submit = Callable[[Executor], "Future[Any]"]


class Processes(Executor):
    """A pool of as many processes as there are processors, started when they are needed.

    >>> with Processes() as processes:
    ...     processes.submit(divmod, 7, 2).result()
    (3, 1)
    """

    def __init__(self, limit: int | None = None) -> None:
        self._limit = limit or os.cpu_count() or 1
        self._lock = threading.Lock()
        self._all: set[Executor] = set()
        self._idle: list[Executor] = []
        self._waiting: deque[tuple[Future[Any], Submit]] = deque()

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Calls a function in a process, now or when one is free."""
        future: Future[Any] = Future()
        with self._lock:
            self._waiting.append((future, lambda executor: executor.submit(fn, *args, **kwargs)))
        self._begin()
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Lets the processes end when they have finished the work they have started."""
        with self._lock:
            executors, waiting = list(self._all), list(self._waiting)
            self._waiting.clear()
        for future, _ in waiting:
            future.cancel()
        for executor in executors:
            executor.shutdown(wait, cancel_futures=cancel_futures)

    def _begin(self) -> None:
        """Starts waiting work, as far as there are processes."""
        while True:
            with self._lock:
                if not self._waiting or not (self._idle or len(self._all) < self._limit):
                    return
                future, submit = self._waiting.popleft()
                executor = self._idle.pop() if self._idle else self._another()
            if future.set_running_or_notify_cancel():
                self._start(executor, future, submit)
            else:
                self._release(executor)

    def _start(self, executor: Executor, future: Future[Any], submit: Submit) -> None:
        while True:
            try:
                inner = submit(executor)
            except BrokenProcessPool:  # Its process died while it had nothing to do.
                with self._lock:
                    self._all.discard(executor)
                    executor = self._another()
            except BaseException as error:  # There can be no process, or the interpreter ends.
                self._release(executor, is_usable=False)
                future.set_exception(error)
                return
            else:
                inner.add_done_callback(partial(self._done, executor, future))
                return

    def _done(self, executor: Executor, future: Future[Any], inner: Future[Any]) -> None:
        error = inner.exception()
        self._release(executor, is_usable=not isinstance(error, BrokenProcessPool))
        if error is None:
            future.set_result(inner.result())
        else:
            future.set_exception(error)
        self._begin()

    def _another(self) -> Executor:
        # The processes are spawned: a fork would copy our threads' locks, and not our threads.
        executor = ProcessPoolExecutor(1, mp_context=get_context("spawn"))
        self._all.add(executor)
        return executor

    def _release(self, executor: Executor, is_usable: bool = True) -> None:
        with self._lock:
            if is_usable:
                self._idle.append(executor)
            else:
                self._all.discard(executor)
