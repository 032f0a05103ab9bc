"""A run as it was at any of its records. The run is replayed up to that record with the answers
from its log: no step starts, nothing is written, and no code of its tasks is unwound when another
record is shown.
"""

from __future__ import annotations

import json
import os
import uuid as _uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Unpack

from tiffany import _core
from tiffany._arguments import whole
from tiffany._records import RunLike
from tiffany._settings import ReplaySettings, shows_settings
from tiffany.history._program import program


@dataclass(frozen=True)
class Frame:
    """A function that a task is inside: the current line, and its variables as ``repr`` shows them."""

    function: str
    file: str
    line: int
    locals: dict[str, str]


@dataclass(frozen=True)
class TaskMoment:
    """A task at a moment.

    Its ``state`` is ``new``, ``ready``, ``waiting``, ``cancelling``, ``completed``, ``failed`` or
    ``cancelled``. ``frames`` are the functions that it is inside, the innermost last, or those in
    which it failed. ``store`` is its store, as ``repr`` shows it.

    ``error`` is the exception with which it failed. It has its traceback, so
    ``pdb.post_mortem(task.error.__traceback__)`` opens a debugger there.
    """

    tid: int
    name: str | None
    spawned_at: str
    state: str
    waits_for: str | None
    waits_at: str | None
    store: dict[str, str]
    frames: list[Frame]
    error: BaseException | None


@dataclass(frozen=True)
class Moment:
    """A run at one of its records: the number of the record, the record itself, and all tasks known
    at that point, in the order of their numbers.
    """

    number: int
    record: dict[str, Any]
    tasks: list[TaskMoment]

    def task(self, tid: int) -> TaskMoment | None:
        """Returns a task by its number."""
        return next((task for task in self.tasks if task.tid == tid), None)


class TimeTravel:
    """Moves through the records of one run. Records are numbered from 1.

    ``workflows`` and the other settings are those of `tiffany.Runtime`: the code of the run, and
    its environment. At a record, everything that a task did in the same turn has happened. Examined
    moments stay in memory, because ``finally`` blocks must not run; to examine thousands of them,
    use another process. The object belongs to the thread that created it. Close it when you are
    done, preferably with ``with``.

    >>> import tempfile
    >>> from tiffany import Runtime, step, workflow
    >>> @step
    ... def price(item):
    ...     return len(item) * 10
    >>> @workflow(name="add up")
    ... async def add_up(*items):
    ...     total = 0
    ...     for item in items:
    ...         total += await price(item)
    ...     return total
    >>> with tempfile.TemporaryDirectory() as wal:
    ...     with Runtime(wal=wal) as runtime:
    ...         run = runtime.submit(add_up, "tea", "cake", id="shop-1")
    ...         runtime.wait(run)
    ...     with TimeTravel(run, wal=wal) as travel:
    ...         moment = travel.at(5)
    ...         moment.record["type"], moment.tasks[0].frames[0].locals["total"]
    ...         travel.back().record["value"]
    70
    ('TaskYield', '30')
    30
    """

    @shows_settings(ReplaySettings)
    def __init__(
        self,
        run: RunLike,
        *,
        wal: str | os.PathLike[str],
        workflows: Iterable[Callable[..., Any]] = (),
        **settings: Unpack[ReplaySettings],
    ) -> None:
        self._core = _core._TimeTravel(program("TimeTravel()", workflows, settings), wal, run)
        self._here = self._core.records()

    def __enter__(self) -> TimeTravel:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes it. No code of the run is unwound."""
        self._core.close()

    @property
    def run(self) -> _uuid.UUID:
        """The run."""
        return _uuid.UUID(self._core.run())

    def __len__(self) -> int:
        """Returns the number of records."""
        return self._core.records()

    @property
    def here(self) -> int:
        """The number of the current record; at first, the last record of the run."""
        return self._here

    def record(self, number: int) -> dict[str, Any]:
        """Returns a record as it is in the log."""
        line = self._core.record(number)
        if line is None:
            # Raises an error that lists the existing records.
            self._core.seek(number)
        record: dict[str, Any] = json.loads(line or "{}")
        return record

    def at(self, number: int) -> Moment:
        """Returns the run as it was when this record was written. Raises `NoRecordError` if there
        is no such record.
        """
        found, line, tasks = self._core.seek(number)
        self._here = found
        return Moment(found, json.loads(line), [_task(parts) for parts in tasks])

    def next(self) -> Moment:
        """Moves one record forward."""
        return self.at(self._here + 1)

    def back(self) -> Moment:
        """Moves one record back."""
        return self.at(self._here - 1)

    def next_of(self, tid: int) -> Moment | None:
        """Moves to the next record of a task, if there is one."""
        number = self._core.next_of(whole("`tid`", tid), self._here)
        return None if number is None else self.at(number)

    def failure(self) -> Moment | None:
        """Moves to the record at which the run failed: the end of the task whose error it was, or
        of its root. A failure that was caught does not count. Returns ``None`` if the run did not
        fail.
        """
        number = self._core.failure()
        return None if number is None else self.at(number)


def _task(parts: Any) -> TaskMoment:
    tid, name, spawned_at, state, waits_for, waits_at, store, frames, error = parts
    seen = [Frame(function, file, line, dict(names)) for function, file, line, names in frames]
    return TaskMoment(tid, name, spawned_at, state, waits_for, waits_at, dict(store), seen, error)
