"""Runs that are over, and how long they are kept.

A `Retention` is a rule. A runtime keeps rules by itself, in the background: ``Runtime(wal="wal", retention=[Retention(keep=1000)])``. A program that decides when
uses the methods `remove`, `compact` and `prune` of a `tiffany.Runtime`, or of what `tiffany.connect` gives for a directory, whether a process has it or not. The other
classes are what these tell.

Runs that are not over are never touched, and neither is the parent of a fork that is not over.
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
