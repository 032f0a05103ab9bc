"""System calls. A task yields a call, and the call's ``handle`` carries it out with the methods of
the scheduler.
"""

from __future__ import annotations

from typing import Any

from tiffany._core import _PyosCall
from tiffany.pyos._scheduler import Scheduler
from tiffany.pyos._task import HasFileno, Task, descriptor


class SystemCall(_PyosCall):
    """A request to the scheduler. Derive from it to define your own calls.

    Before ``handle`` is called, ``task`` is set to the calling task and ``sched`` to its scheduler.
    The answer is the value that ``handle`` leaves in ``task.sendval``. The task continues when it
    is scheduled, by ``handle`` or later by other code.

    >>> from tiffany.pyos import Scheduler
    >>> class CountTasks(SystemCall):
    ...     def handle(self):
    ...         self.task.sendval = len(self.sched.taskmap)
    ...         self.sched.schedule(self.task)
    >>> def main():
    ...     print((yield CountTasks()))
    >>> scheduler = Scheduler()
    >>> _ = scheduler.new(main())
    >>> scheduler.mainloop()  # doctest: +ELLIPSIS
    1
    Task ... terminated
    """

    task: Task
    sched: Scheduler

    def handle(self) -> None:
        """Carries out the call."""


class GetTid(SystemCall):
    """Returns the number of the calling task."""

    def handle(self) -> None:
        self.task.sendval = self.task.tid
        self.sched.schedule(self.task)


class NewTask(SystemCall):
    """Starts a task and returns its number."""

    def __init__(self, target: Any) -> None:
        self.target = target

    def handle(self) -> None:
        self.task.sendval = self.sched.new(self.target)
        self.sched.schedule(self.task)


class KillTask(SystemCall):
    """Ends a task with all its generators, the innermost first. Returns ``False`` if the task does
    not exist.
    """

    def __init__(self, tid: int) -> None:
        self.tid = tid

    def handle(self) -> None:
        task = self.sched.taskmap.get(self.tid)
        self.task.sendval = task is not None
        if task is not None:
            self.sched._kill(task)
        self.sched.schedule(self.task)


class WaitTask(SystemCall):
    """Waits until a task has ended and returns ``True``. Returns ``False`` at once if the task does
    not exist.
    """

    def __init__(self, tid: int) -> None:
        self.tid = tid

    def handle(self) -> None:
        self.task.sendval = self.sched.waitforexit(self.task, self.tid)
        if not self.task.sendval:
            self.sched.schedule(self.task)


class ReadWait(SystemCall):
    """Waits until a descriptor, or an object that has one, is readable."""

    def __init__(self, f: int | HasFileno) -> None:
        self.f = f

    def handle(self) -> None:
        self.sched.waitforread(self.task, descriptor(self.f))


class WriteWait(SystemCall):
    """Waits until a descriptor, or an object that has one, is writable."""

    def __init__(self, f: int | HasFileno) -> None:
        self.f = f

    def handle(self) -> None:
        self.sched.waitforwrite(self.task, descriptor(self.f))
