"""``bare``: a scheduler that one could write in an afternoon, as a serious peer.

It runs generators from a deque, like the scheduler of David Beazley's course: a task has ``run()``,
and a yielded value is a call if it is a :class:`SystemCall`. It has tasks, joining and
sub-generators, and nothing else: no timers, descriptors, cancellation, handlers or log.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator
from types import GeneratorType
from typing import Any

Program = Generator[Any, Any, Any]


class SystemCall:
    """A request to the scheduler."""

    __slots__ = ()

    def handle(self, task: Task, scheduler: Scheduler) -> None:
        """Carries out the call and queues the task."""
        raise NotImplementedError


class Task:
    """A generator, and the value that it is sent next."""

    __slots__ = ("over", "send", "sendval", "target", "value", "waiting")

    def __init__(self, target: Program) -> None:
        self.target = target
        self.send = target.send
        self.sendval: Any = None
        self.over = False
        self.value: Any = None
        self.waiting: list[Task] = []

    def run(self) -> Any:
        """Runs to the next yield."""
        value = self.sendval
        self.sendval = None
        return self.send(value)


class StackTask(Task):
    """A task whose generators may call generators by yielding them: a trampoline."""

    __slots__ = ("stack",)

    def __init__(self, target: Program) -> None:
        super().__init__(target)
        self.stack: list[Program] = []

    def run(self) -> Any:
        """Runs to the next yield that is not a call of a generator."""
        value = self.sendval
        self.sendval = None
        stack = self.stack
        error: Exception | None = None
        while True:
            try:
                if error is None:
                    result = self.send(value)
                else:
                    result, error = self.target.throw(error), None
            except StopIteration as stop:
                if not stack:
                    raise
                value, error = stop.value, None
                self.enter(stack.pop())
            except Exception as raised:
                if not stack:
                    raise
                error = raised
                self.enter(stack.pop())
            else:
                if not isinstance(result, GeneratorType):
                    return result
                stack.append(self.target)
                value = None
                self.enter(result)

    def enter(self, target: Program) -> None:
        """Continues with this generator."""
        self.target = target
        self.send = target.send


class Scheduler:
    """A queue of ready tasks, and the loop over it."""

    def __init__(self) -> None:
        self.ready: deque[Task] = deque()

    def new(self, task: Task) -> Task:
        """Adds a task."""
        self.ready.append(task)
        return task

    def exit(self, task: Task, value: Any) -> None:
        """Records that a task has finished, and wakes the tasks that wait for it."""
        task.over = True
        task.value = value
        for waiting in task.waiting:
            waiting.sendval = value
            self.ready.append(waiting)
        task.waiting.clear()

    def mainloop(self) -> None:
        """Runs until no task is ready."""
        ready = self.ready
        pop, push = ready.popleft, ready.append
        while ready:
            task = pop()
            try:
                result = task.run()
            except StopIteration as stop:
                self.exit(task, stop.value)
                continue
            if isinstance(result, SystemCall):
                result.handle(task, self)
            else:
                push(task)


class NewTask(SystemCall):
    """Starts a task; the answer is the task."""

    __slots__ = ("target",)

    def __init__(self, target: Program) -> None:
        self.target = target

    def handle(self, task: Task, scheduler: Scheduler) -> None:
        """Queues the child, then its parent."""
        task.sendval = scheduler.new(type(task)(self.target))
        scheduler.ready.append(task)


class WaitTask(SystemCall):
    """Waits for a task; the answer is its value."""

    __slots__ = ("waited",)

    def __init__(self, waited: Task) -> None:
        self.waited = waited

    def handle(self, task: Task, scheduler: Scheduler) -> None:
        """Answers at once if the task has finished."""
        if self.waited.over:
            task.sendval = self.waited.value
            scheduler.ready.append(task)
        else:
            self.waited.waiting.append(task)


def run(program: Program, task: type[Task] = Task) -> Any:
    """Runs a program and everything it starts, and returns its value."""
    scheduler = Scheduler()
    root = scheduler.new(task(program))
    scheduler.mainloop()
    return root.value
