"""What tests of programs are made of: a scheduler stepped by hand, a clock that does not pass by itself, answers put in for calls.

>>> from tiffany import Sleep
>>> from tiffany.testing import run
>>> def nap():
...     yield Sleep(24 * 60 * 60)
...     return "awake"
>>> run(nap())
'awake'

With pytest there is a plugin, which needs no setting up: tests marked ``@pytest.mark.tiffany`` may be generators or ``async def``, and there
are the fixtures ``tiffany_scheduler`` and ``golden_log``.
"""

from __future__ import annotations

from typing import TypeVar, Unpack

from tiffany import _core
from tiffany._run import run as _run
from tiffany._settings import RunSettings
from tiffany.testing._crashes import Attempt, Report, Seen, crash_everywhere
from tiffany.testing._golden import GoldenLog
from tiffany.testing._scheduler import Run, Scheduler, TaskInfo

_T = TypeVar("_T")


def run(program: _core._Program[_T], **settings: Unpack[RunSettings]) -> _T:
    """Runs a program as `tiffany.run` does, but on a clock that does not pass by itself: when nobody is ready, it jumps to the next
    timer. It starts in 1970, and random numbers and identities are the same every time.

    >>> from tiffany import Now, Sleep
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
