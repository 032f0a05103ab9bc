"""A scheduler stepped by hand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Unpack

from tiffany import _core
from tiffany._arguments import check_names
from tiffany._settings import RunSettings, core_settings, shows_settings
from tiffany.durable._workflows import Functions
from tiffany.errors import BadArgumentError


@dataclass(frozen=True)
class TaskInfo:
    """The current state of a task."""

    tid: int
    """The number of the task."""
    name: str | None
    """The name of the task, if it has one."""
    state: str
    """The state: `Pending`, `Suspended`, `Blocked(sleep)`, `Completed`…"""
    waits_for: str | None
    """What the task waits for, in words."""
    line: str | None
    """The line at which the task waits, as `file:line`."""
    spawned_at: str
    """The line that spawned the task."""


@dataclass(frozen=True)
class Run:
    """A run that was started in a `Scheduler`."""

    place: int


class Scheduler:
    """Runs tasks step by step, with a clock that moves only when told to, and records a trace.

    >>> from tiffany.calls import Sleep, Spawn, Wait
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

    @shows_settings(RunSettings)
    def __init__(
        self,
        *programs: Any,
        now: float | datetime = 0.0,
        **settings: Unpack[RunSettings],
    ) -> None:
        """Creates a scheduler with a run for each of these programs. `now` is the initial time of
        its clock: seconds since 1970, or a `datetime`. The other settings are those of
        `tiffany.run`.
        """
        check_names("Scheduler", settings, RunSettings.__annotations__)
        self._answers = _Answers()
        # Installed as the outermost handler: calls that the program handles itself don't reach it.
        settings["handlers"] = [*(settings.get("handlers") or []), self._answers]
        self._core = _core._Scheduler(core_settings(Functions(), settings))
        self._core.set_clock(now.timestamp() if isinstance(now, datetime) else now)
        self._runs: list[Run] = []
        for program in programs:
            self.start(program)

    def start(self, program: Any) -> Run:
        """Starts another run of a program. It gets no turn before the next step."""
        run = Run(self._core.start(program))
        self._runs.append(run)
        return run

    def step(self) -> bool:
        """Gives the next ready task one turn. Returns `False` if no task is ready."""
        return self._core.step()

    def run_until_idle(self) -> None:
        """Gives turns until no task is ready. The clock does not advance. Work on other threads is
        not waited for: substitute an answer for it, or use `finish`.
        """
        self._core.run_until_idle()

    def advance(self, seconds: float | timedelta) -> None:
        """Advances the clock by this much, from timer to timer, and gives turns after each until no
        task is ready.
        """
        self._core.advance(seconds)

    def now(self) -> float:
        """Returns the time of the clock, in seconds since 1970."""
        return self._core.now()

    def finish(self, run: Run | None = None) -> Any:
        """Runs a run to its end and returns its value; by default the only run. Whenever all tasks
        are idle, the clock jumps to the next timer.
        """
        return self._core.finish(self._place(run))

    def tasks(self, run: Run | None = None) -> list[TaskInfo]:
        """Returns the known tasks of a run: unfinished tasks, and those whose result may still be
        requested.
        """
        return [TaskInfo(*parts) for parts in self._core.tasks(self._place(run))]

    def task(self, tid: int, run: Run | None = None) -> TaskInfo | None:
        """Returns one task of a run by its number, or ``None`` if it is not known."""
        return next((task for task in self.tasks(run) if task.tid == tid), None)

    def trace(self) -> list[str]:
        """Returns what happened so far, in lines that are the same in every run: the time, the
        task, and its action.
        """
        return self._core.trace()

    def answer(
        self,
        calls: type | Callable[[Any], bool],
        value: Any = None,
        *,
        error: BaseException | None = None,
        times: int | None = None,
    ) -> None:
        """Answers calls with a value, or with an exception, from now on: calls of a class, or calls
        that a function selects. These calls are then not made. The answer is used at most `times`
        times. If several answers match, the latest is used.

        >>> from tiffany.calls import Blocking
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
        """Answers calls with the value that a function returns for the call.

        >>> from tiffany.calls import Blocking
        >>> def main():
        ...     return (yield Blocking(pow, 2, 10))
        >>> scheduler = Scheduler(main())
        >>> scheduler.answer_with(Blocking, lambda call: f"{call.function.__name__}{call.args}")
        >>> scheduler.finish()
        'pow(2, 10)'
        """
        self._answers.add(calls, give, times)

    def close(self) -> None:
        """Closes the scheduler and its unfinished tasks."""
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
    """The handler that gives the substituted answers of a test."""

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
                    # The coroutine is discarded on purpose.
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
            raise BadArgumentError(f"`{calls.__name__}` is not a class of calls")
        return lambda call: isinstance(call, calls)
    if not callable(calls):
        kind = type(calls).__name__
        raise BadArgumentError(f"`{kind}` picks no calls; a class of calls or a function does")
    return calls
