"""Retention of finished runs.

A `Retention` is a rule. A runtime applies its rules in the background: ``Runtime(wal="wal",
retention=[Retention(keep=1000)])``. To decide yourself when runs are removed, use the methods
`remove`, `compact` and `prune` of a `tiffany.Runtime`, or of the connection that `tiffany.connect`
returns for a directory, whether or not a process owns it. The other classes are the results of
these methods.

Unfinished runs are never touched, and neither is the parent of an unfinished fork.
"""

from __future__ import annotations

from tiffany._retention import (
    Collected,
    Compacted,
    KeptRun,
    OldRun,
    Outcome,
    Pruned,
    RefusedRun,
    Retention,
)

__all__ = [
    "Collected",
    "Compacted",
    "KeptRun",
    "OldRun",
    "Outcome",
    "Pruned",
    "RefusedRun",
    "Retention",
]
