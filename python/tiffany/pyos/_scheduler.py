"""The scheduler: its tables, and the methods that calls use. The main loop is the kernel's."""

from __future__ import annotations

import select
import sys
import time
import traceback
from collections.abc import Iterator
from typing import Any, Literal

from tiffany._core import _PyosKernel
from tiffany.pyos._task import HasFileno, Ready, Task, Waiting


class Scheduler:
    """Runs tasks.

    ``ready`` contains the tasks that could run now, ``taskmap`` all unfinished tasks by their
    number, ``exit_waiting`` the tasks that wait for the end of another, ``read_waiting`` and
    ``write_waiting`` those that wait for a descriptor. The running task is only in ``taskmap``.
    """

    tells_end: bool = True
    """Whether the end of a task is printed, as in the original."""

    ready: Ready
    taskmap: dict[int, Task]
    exit_waiting: dict[int, list[Task]]
    read_waiting: Waiting
    write_waiting: Waiting

    def __init__(self) -> None:
        self._kernel = _PyosKernel()
        self.ready = Ready(self._kernel)
        self.taskmap = {}
        self.exit_waiting = {}
        self.read_waiting = Waiting("read", self._kernel)
        self.write_waiting = Waiting("write", self._kernel)

    def new(self, target: Any) -> int:
        """Starts a task and returns its number."""
        task = Task(target)
        self.taskmap[task.tid] = task
        self.schedule(task)
        return task.tid

    def exit(self, task: Task) -> None:
        """Called when a task has ended: the tasks that wait for it continue. If called for a task
        that has not ended, ends it.
        """
        if self.tells_end:
            print(f"Task {task.tid} terminated")
        self.taskmap.pop(task.tid, None)
        self._kernel.retire(task)
        for waiting in self.exit_waiting.pop(task.tid, []):
            self.schedule(waiting)

    def waitforexit(self, task: Task, waittid: int) -> bool:
        """Makes a task wait for the end of another. Returns ``False`` if that task does not exist."""
        other = self.taskmap.get(waittid)
        if other is None:
            return False
        self.exit_waiting.setdefault(waittid, []).append(task)
        task._wait_exit(other)
        self._kernel.nudge(task)
        return True

    def waitforread(self, task: Task, fd: int | HasFileno) -> None:
        """Makes a task wait until a descriptor is readable."""
        self.read_waiting[fd] = task

    def waitforwrite(self, task: Task, fd: int | HasFileno) -> None:
        """Makes a task wait until a descriptor is writable."""
        self.write_waiting[fd] = task

    def iopoll(self, timeout: float | None) -> None:
        """Schedules the tasks whose descriptors are ready.

        The main loop does this by itself, and inside it this method does not wait. In your own loop
        it waits for this many seconds, or without limit.
        """
        if not self.read_waiting and not self.write_waiting:
            return
        poll = select.poll()
        for fd in self.read_waiting.keys() | self.write_waiting.keys():
            wanted = select.POLLIN if fd in self.read_waiting else 0
            poll.register(fd, wanted | (select.POLLOUT if fd in self.write_waiting else 0))
        if self._kernel.is_running:
            timeout = 0
        trouble = select.POLLERR | select.POLLHUP | select.POLLNVAL
        for fd, happened in poll.poll(None if timeout is None else timeout * 1000):
            if happened & (select.POLLIN | trouble) and fd in self.read_waiting:
                self.schedule(self.read_waiting.pop(fd))
            if happened & (select.POLLOUT | trouble) and fd in self.write_waiting:
                self.schedule(self.write_waiting.pop(fd))

    def iotask(self) -> Iterator[None]:
        """A task that polls, for your own loop. It ends when it is the last task, and at once in
        the main loop, which does not need it.
        """
        while not self._kernel.is_running and len(self.taskmap) > 1:
            if not self.ready.empty():
                self.iopoll(0)
            elif self.read_waiting or self.write_waiting:
                self.iopoll(None)
            else:
                # Only another thread can schedule a task now.
                time.sleep(0.01)
            yield

    def schedule(self, task: Task) -> None:
        """Makes a task ready. It may be called on any thread."""
        if self._kernel.is_running:
            self._kernel.schedule(task)
        else:
            # Code that runs tasks by hand may wait for one.
            self.ready.put(task)

    def mainloop(self) -> None:
        """Runs until all tasks have finished. Raises ``DeadlockError`` if nothing is left that
        could wake the waiting tasks.
        """
        self._kernel.mainloop(self)

    def _kill(self, task: Task) -> None:
        self._kernel.kill(task)

    def _io_ready(self, task: Task, what: Literal["read", "write"], fd: int) -> None:
        table = self.read_waiting if what == "read" else self.write_waiting
        if table.leave(fd, task):
            self.schedule(task)

    def _stop_waiting(self, task: Task, what: Literal["read", "write", "exit"], key: int) -> None:
        if what != "exit":
            (self.read_waiting if what == "read" else self.write_waiting).leave(key, task)
            return
        left = [other for other in self.exit_waiting.get(key, []) if other is not task]
        if left:
            self.exit_waiting[key] = left
        else:
            self.exit_waiting.pop(key, None)

    def _failed(self, task: Task, error: BaseException) -> None:
        text = "".join(traceback.format_exception(error))
        print(f"Task {task.tid} failed:\n{text}", end="", file=sys.stderr)
