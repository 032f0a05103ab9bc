"""What tasks ask of their scheduler. A call is yielded; its ``handle`` does what is asked, by the methods of the scheduler."""

from __future__ import annotations

from typing import Any

from tiffany._core import _PyosCall
from tiffany.pyos._scheduler import Scheduler
from tiffany.pyos._task import HasFileno, Task, descriptor


class SystemCall(_PyosCall):
    """Something that is asked of the scheduler. Derive from it for calls of your own.

    Before ``handle`` is called, ``task`` is the task that asks and ``sched`` its scheduler. The answer is what ``handle`` leaves in
    ``task.sendval``. The task goes on when it is scheduled, by ``handle`` or later by somebody else.

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
        """Does what is asked."""


class GetTid(SystemCall):
    """The number of the task that asks."""

    def handle(self) -> None:
        self.task.sendval = self.task.tid
        self.sched.schedule(self.task)


class NewTask(SystemCall):
    """Starts a task, and gives its number."""

    def __init__(self, target: Any) -> None:
        self.target = target

    def handle(self) -> None:
        self.task.sendval = self.sched.new(self.target)
        self.sched.schedule(self.task)


class KillTask(SystemCall):
    """Ends a task: all its generators, the innermost first. ``False``: there is no such task."""

    def __init__(self, tid: int) -> None:
        self.tid = tid

    def handle(self) -> None:
        task = self.sched.taskmap.get(self.tid)
        self.task.sendval = task is not None
        if task is not None:
            self.sched._kill(task)
        self.sched.schedule(self.task)


class WaitTask(SystemCall):
    """Waits for the end of a task, and gives ``True`` then. ``False``, at once: there is no such task."""

    def __init__(self, tid: int) -> None:
        self.tid = tid

    def handle(self) -> None:
        self.task.sendval = self.sched.waitforexit(self.task, self.tid)
        if not self.task.sendval:
            self.sched.schedule(self.task)


class ReadWait(SystemCall):
    """Waits until a descriptor, or something that has one, can be read."""

    def __init__(self, f: int | HasFileno) -> None:
        self.f = f

    def handle(self) -> None:
        self.sched.waitforread(self.task, descriptor(self.f))


class WriteWait(SystemCall):
    """Waits until a descriptor, or something that has one, can be written."""

    def __init__(self, f: int | HasFileno) -> None:
        self.f = f

    def handle(self) -> None:
        self.sched.waitforwrite(self.task, descriptor(self.f))
