"""Tools to examine durable runs. All of them read a log directory, which may be in use, and change
nothing in it.

`TimeTravel` shows a run as it was at any of its records, with the variables of its functions.
`check` and `try_` run the current code against existing logs. `diff` says where two runs diverge,
and `export` writes a run for other programs. `backup` copies a log, and `restore` creates a log
from the copy. To fork a run, use `tiffany.Runtime.fork`.

A run is given as a `Run`, its ``uuid.UUID``, or the id it was started with.
"""

from __future__ import annotations

from tiffany.history._backup import (
    Backup,
    DamagedRun,
    Restored,
    backup,
    check_backup,
    restore,
)
from tiffany.history._diff import (
    Change,
    Diff,
    Difference,
    Parting,
    RecordText,
    Side,
    diff,
)
from tiffany.history._export import DamagedLogWarning, export
from tiffany.history._travel import Frame, Moment, TaskMoment, TimeTravel
from tiffany.history._trial import Checked, Proposal, Trial, Upcoming, check, try_

__all__ = [
    "Backup",
    "Change",
    "Checked",
    "DamagedLogWarning",
    "DamagedRun",
    "Diff",
    "Difference",
    "Frame",
    "Moment",
    "Parting",
    "Proposal",
    "RecordText",
    "Restored",
    "Side",
    "TaskMoment",
    "TimeTravel",
    "Trial",
    "Upcoming",
    "backup",
    "check",
    "check_backup",
    "diff",
    "export",
    "restore",
    "try_",
]
