"""Tools for testing programs: a scheduler stepped by hand, a virtual clock, substituted answers for
calls.

>>> from tiffany.calls import Sleep
>>> from tiffany.testing import run
>>> def nap():
...     yield Sleep(24 * 60 * 60)
...     return "awake"
>>> run(nap())
'awake'

A pytest plugin is included and needs no configuration: tests marked ``@pytest.mark.tiffany`` may be
generators or ``async def``, and there are the fixtures ``tiffany_scheduler`` and ``golden_log``.
"""

from __future__ import annotations

from typing import TypeVar, Unpack

from tiffany import _core
from tiffany._settings import RunSettings, shows_settings
from tiffany.durable._run import run as _run
from tiffany.testing._crashes import Attempt, Report, Seen, crash_everywhere
from tiffany.testing._golden import GoldenLog
from tiffany.testing._scheduler import Run, Scheduler, TaskInfo

_T = TypeVar("_T")


@shows_settings(RunSettings)
def run(program: _core._Program[_T], **settings: Unpack[RunSettings]) -> _T:
    """Runs a program as `tiffany.run` does, but with a virtual clock: when no task is ready, it
    jumps to the next timer. The clock starts in 1970, and random numbers and UUIDs are the same in
    every run.

    >>> from tiffany.calls import Now, Sleep
    >>> def main():
    ...     yield Sleep(3600)
    ...     return (yield Now())
    >>> run(main())
    3600.0
    """
    settings["clock"] = "virtual"
    return _run(program, **settings)


__all__ = [
    "Attempt",
    "GoldenLog",
    "Report",
    "Run",
    "Scheduler",
    "Seen",
    "TaskInfo",
    "crash_everywhere",
    "run",
]
