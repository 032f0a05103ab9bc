"""A scheduler stepped by hand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Unpack

from tiffany import _core
from tiffany._arguments import check_names
from tiffany._runtime import settings as core_settings
from tiffany._settings import RunSettings
from tiffany._workflows import Functions
from tiffany.errors import BadArgumentError


@dataclass(frozen=True)
class TaskInfo:
    """A task, as it is just now."""

    tid: int
    """Its number."""
    name: str | None
    """Its name, if it has one."""
    state: str
    """`Pending`, `Suspended`, `Blocked(sleep)`, `Completed`…"""
    waits_for: str | None
    """What it waits for, in words."""
    line: str | None
    """The line it waits at, as `file:line`."""
    spawned_at: str
    """The line that spawned it."""


@dataclass(frozen=True)
class Run:
    """A run that was started in a `Scheduler`."""

    place: int


class Scheduler:
    """Runs tasks step by step, on a clock that moves when it is told to, and notes what happens.

    >>> from tiffany import Sleep, Spawn, Wait
    >>> def child():
    ...     yield Sleep(60)
    ...     return 7
    >>> def main():
    ...     return (yield Wait((yield Spawn(child(), name="child"))))
    >>> scheduler = Scheduler(main())
    >>> scheduler.run_until_idle()
    >>> [(task.tid, task.state, task.waits_for) for task in scheduler.tasks()]
    [(1, 'Blocked(join)', 'task 2 `child`'), (2, 'Blocked(sleep)', 'a timer')]
    >>> scheduler.advance(60)
    >>> scheduler.finish()
    7
    """

    def __init__(
        self,
        *programs: Any,
        now: float | datetime = 0.0,
        **settings: Unpack[RunSettings],
    ) -> None:
        """A scheduler with a run for each of these programs. `now` is what its clock shows first: seconds since 1970, or a `datetime`.
        The other settings are those of `tiffany.run`."""
        check_names("Scheduler", settings, RunSettings.__annotations__)
        self._answers = _Answers()
        # The outermost one: what a program handles itself is not the test's business.
        settings["handlers"] = [*(settings.get("handlers") or []), self._answers]
        self._core = _core._Scheduler(core_settings(Functions(), **settings))
        self._core.set_clock(now.timestamp() if isinstance(now, datetime) else now)
        self._runs: list[Run] = []
        for program in programs:
            self.start(program)

    def start(self, program: Any) -> Run:
        """Starts a run of a program beside the others. It has no turn before the next step."""
        run = Run(self._core.start(program))
        self._runs.append(run)
        return run

    def step(self) -> bool:
        """Gives the next ready task one turn. `False`: nobody is ready."""
        return self._core.step()

    def run_until_idle(self) -> None:
        """Gives turns until nobody is ready. The clock stands still. What is done on other threads meanwhile is not waited for: put in
        an answer for it, or `finish`."""
        self._core.run_until_idle()

    def advance(self, seconds: float | timedelta) -> None:
        """Lets so much time pass: from timer to timer, with turns until nobody is ready after each."""
        self._core.advance(seconds)

    def now(self) -> float:
        """The clock, in seconds since 1970."""
        return self._core.now()

    def finish(self, run: Run | None = None) -> Any:
        """Runs a run to its end, and gives its value; by default the only one there is. Whenever all are idle, the clock jumps to the
        next timer."""
        return self._core.finish(self._place(run))

    def tasks(self, run: Run | None = None) -> list[TaskInfo]:
        """The tasks of a run that are known: those that live, and those whose result somebody may still want."""
        return [TaskInfo(*parts) for parts in self._core.tasks(self._place(run))]

    def task(self, tid: int, run: Run | None = None) -> TaskInfo | None:
        """One of them."""
        return next((task for task in self.tasks(run) if task.tid == tid), None)

    def trace(self) -> list[str]:
        """What happened so far, in lines that are the same each time: the time, the task, and what it did."""
        return self._core.trace()

    def answer(
        self,
        calls: type | Callable[[Any], bool],
        value: Any = None,
        *,
        error: BaseException | None = None,
        times: int | None = None,
    ) -> None:
        """Answers calls with a value from now on, or with an exception: those of a class, or those that a function says yes to. They are
        then not made. After so many `times` the answer is used up. Of several that fit, the latest counts.

        >>> from tiffany import Blocking
        >>> import urllib.request
        >>> def main():
        ...     return (yield Blocking(urllib.request.urlopen, "http://example.org"))
        >>> scheduler = Scheduler(main())
        >>> scheduler.answer(Blocking, "a page")
        >>> scheduler.finish()
        'a page'
        """

        def give(_: Any) -> Any:
            if error is not None:
                raise error
            return value

        self._answers.add(calls, give, times)

    def answer_with(
        self,
        calls: type | Callable[[Any], bool],
        give: Callable[[Any], Any],
        *,
        times: int | None = None,
    ) -> None:
        """The same with what a function makes of the call.

        >>> from tiffany import Blocking
        >>> def main():
        ...     return (yield Blocking(pow, 2, 10))
        >>> scheduler = Scheduler(main())
        >>> scheduler.answer_with(Blocking, lambda call: f"{call.function.__name__}{call.args}")
        >>> scheduler.finish()
        'pow(2, 10)'
        """
        self._answers.add(calls, give, times)

    def close(self) -> None:
        """Ends it: tasks that are not over are closed."""
        self._core.close()

    def __enter__(self) -> Scheduler:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _place(self, run: Run | None) -> int:
        if run is not None:
            return run.place
        if len(self._runs) != 1:
            raise BadArgumentError(f"this scheduler has {len(self._runs)} runs; say which one")
        return self._runs[0].place


class _Answers:
    """The handler that answers what a test has put in an answer for."""

    __qualname__ = "answers of the test"

    def __init__(self) -> None:
        self._table: list[_Entry] = []

    def add(
        self, calls: type | Callable[[Any], bool], give: Callable[[Any], Any], times: int | None
    ) -> None:
        self._table.insert(0, _Entry(_matcher(calls), give, times))

    def __call__(self, call: Any, tid: int) -> Any:
        for entry in self._table:
            if entry.times != 0 and entry.fits(call):
                if entry.times is not None:
                    entry.times -= 1
                if isinstance(call, _core.Aio):
                    # It is not run, and that is meant.
                    call.coroutine.close()
                return _core.Answer(entry.give(call))
        return None


@dataclass
class _Entry:
    fits: Callable[[Any], bool]
    give: Callable[[Any], Any]
    times: int | None


def _matcher(calls: type | Callable[[Any], bool]) -> Callable[[Any], bool]:
    if isinstance(calls, type):
        if not issubclass(calls, _core.SystemCall):
            raise BadArgumentError(f"`{calls.__name__}` is no class of calls")
        return lambda call: isinstance(call, calls)
    if not callable(calls):
        kind = type(calls).__name__
        raise BadArgumentError(f"`{kind}` picks no calls; a class of calls or a function does")
    return calls
