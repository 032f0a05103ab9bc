"""What can be learnt of durable runs afterwards. All of it looks at a log directory, which may be in use, and changes nothing there.

`TimeTravel` shows a run as it was at any of its records, with the variables of its functions. `check` and `try_` run the code of today against logs that are there.
`diff` says where two runs part, and `export` writes a run for other programs. `backup` and `restore` copy a log, and make one of the copy.
Forks are made by `tiffany.Runtime.fork`.

A run is a `Run`, its ``uuid.UUID``, or the id it was started under.
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
