"""Tasks, and the tables that contain them while they wait. Resuming a task is done in Rust."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from queue import Empty, Queue
from typing import Any, ClassVar, Literal, Protocol

from tiffany._arguments import bad
from tiffany._core import _PyosKernel, _PyosTask


class HasFileno(Protocol):
    """An object that has a descriptor."""

    def fileno(self) -> int: ...


def descriptor(file: int | HasFileno) -> int:
    """Returns the number of a descriptor, or of an object that has one."""
    return file if isinstance(file, int) else file.fileno()


class Task(_PyosTask):
    """A generator that runs as a task.

    ``tid`` is its number, ``target`` the running generator, ``stack`` the generators that called it
    and wait for it, and ``sendval`` the value that it is resumed with. Without a scheduler, run it
    by hand:

    >>> def twice():
    ...     got = yield
    ...     print("got", got)
    ...     yield
    >>> task = Task(twice())
    >>> task.run()
    >>> task.sendval = 7
    >>> task.run()
    got 7
    """

    taskid: ClassVar[int] = 0
    """The number assigned last."""

    def __init__(self, target: Any) -> None:
        if not hasattr(target, "send"):
            kind = type(target).__name__
            hint = "call it first: " if callable(target) else ""
            raise bad(f"`{kind}` is not a task; {hint}pass a generator or a coroutine")
        Task.taskid += 1
        self.tid = Task.taskid
        self.target = target
        self.sendval = None
        self.stack = []

    def __repr__(self) -> str:
        return f"<Task {self.tid}>"


class Ready(Queue[Task]):
    """The ready tasks, as a queue: putting a task into it schedules the task, and a task that is
    taken out does not run until it is scheduled again.
    """

    def __init__(self, kernel: _PyosKernel) -> None:
        self._kernel = kernel
        super().__init__()

    def _init(self, maxsize: int) -> None:
        pass

    def _qsize(self) -> int:
        return self._kernel.count_ready()

    def _put(self, item: Task) -> None:
        self._kernel.schedule(item)

    def _get(self) -> Task:
        task = self._kernel.take_first()
        if not isinstance(task, Task):
            raise Empty
        return task

    def get(self, block: bool = True, timeout: float | None = None) -> Task:
        """Returns the task that has been ready longest. Inside the main loop this never blocks,
        because nothing could end the wait.
        """
        return super().get(block and not self._kernel.is_running, timeout)


class Waiting(MutableMapping[int, Task]):
    """The tasks that wait for a descriptor, by its number. If several wait for the same one, the
    first of them is shown, and served first.
    """

    def __init__(self, what: Literal["read", "write"], kernel: _PyosKernel) -> None:
        self._reads = what == "read"
        self._kernel = kernel
        self._tasks: dict[int, list[Task]] = {}

    def __getitem__(self, file: int | HasFileno) -> Task:
        return self._tasks[descriptor(file)][0]

    def __setitem__(self, file: int | HasFileno, task: Task) -> None:
        fd = descriptor(file)
        waiting = self._tasks.setdefault(fd, [])
        if not any(other is task for other in waiting):
            waiting.append(task)
            if self._reads:
                task._wait_read(fd)
            else:
                task._wait_write(fd)
            self._kernel.nudge(task)

    def __delitem__(self, file: int | HasFileno) -> None:
        self.leave(descriptor(file), self[file])

    def __iter__(self) -> Iterator[int]:
        return iter(self._tasks)

    def __len__(self) -> int:
        return len(self._tasks)

    def __repr__(self) -> str:
        return repr({fd: waiting[0] for fd, waiting in self._tasks.items()})

    def leave(self, fd: int, task: _PyosTask) -> bool:
        """Removes a task from the waiting ones. Returns ``False`` if it was not waiting."""
        waiting = self._tasks.get(fd, [])
        left = [other for other in waiting if other is not task]
        if len(left) == len(waiting):
            return False
        if left:
            self._tasks[fd] = left
        else:
            del self._tasks[fd]
        if self._reads:
            task._stop_read(fd)
        else:
            task._stop_write(fd)
        return True
