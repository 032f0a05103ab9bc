"""Copies of a log while it is in use, and logs made of them."""

from __future__ import annotations

import os
import uuid as _uuid
from collections.abc import Callable
from dataclasses import dataclass

from tiffany import _core
from tiffany._arguments import bad, number


@dataclass(frozen=True)
class DamagedRun:
    """A run that is not whole in its log, and what is wrong with it."""

    run: _uuid.UUID
    what: str


@dataclass(frozen=True)
class Backup:
    """A backup that came to its end: when it began (what was durable then is in it), what is in it, how much of that was copied this time, and runs of which the log
    itself lacks something."""

    taken: str
    runs: int
    records: int
    blobs: int
    bytes: int
    copied_runs: int
    copied_blobs: int
    copied_bytes: int
    removed_files: int
    damaged: list[DamagedRun]


@dataclass(frozen=True)
class Restored:
    """What a backup has, all of which was read and is whole: when it was taken, and how many of its runs were ``damaged`` in the log already."""

    taken: str
    runs: int
    records: int
    blobs: int
    bytes: int
    damaged: int


def backup(
    wal: str | os.PathLike[str],
    to: str | os.PathLike[str],
    *,
    rate: float | None = None,
    on_progress: Callable[[int, int], object] | None = None,
) -> Backup:
    """Copies a log, which may be in use, to another directory: all runs as they stood at one moment. If that has a backup of the same log already, only what is new is
    copied.

    ``rate`` is how many bytes are copied in a second at most, and 0 is no limit; without one it is gentle where a process has the log. ``on_progress`` is told how many bytes are
    copied, and of how many. What it raises, and Ctrl-C, end the copying; the backup before it is as it was.

    >>> import tempfile
    >>> from tiffany import Runtime, workflow
    >>> @workflow(name="brief")
    ... def brief():
    ...     yield
    >>> with tempfile.TemporaryDirectory() as home:
    ...     with Runtime(wal=f"{home}/wal") as runtime:
    ...         runtime.run(brief(), id="brief-1")
    ...         taken = backup(f"{home}/wal", f"{home}/copy")
    ...     taken.runs, restore(f"{home}/copy", f"{home}/again").records
    (1, 3)
    """
    if rate is not None and number("`rate`", rate) < 0:
        raise bad(f"`rate` is 0 or more bytes in a second, not {rate!r}")
    if on_progress is not None and not callable(on_progress):
        raise bad(f"`on_progress` is a function that is given two numbers, not {on_progress!r}")
    taken, whole, copied, removed, damaged = _core._backup(wal, to, rate, on_progress)
    lost = [DamagedRun(_uuid.UUID(run), what) for run, what in damaged]
    return Backup(taken, *whole, *copied, removed, lost)


def restore(
    backup: str | os.PathLike[str], wal: str | os.PathLike[str], *, force: bool = False
) -> Restored:
    """Makes a log of a backup, in a directory that is empty or new. With ``force`` it may have a log that no process has, which is removed.

    A restored log goes back in time: what its runs did after the backup they do again, steps with the same keys.
    """
    taken, whole, damaged = _core._restore(backup, wal, force)
    return Restored(taken, *whole, damaged)


def check_backup(backup: str | os.PathLike[str]) -> Restored:
    """Reads a backup through, and tells what `restore` would make of it. One that is not as it was written is a `DamagedBackupError`."""
    taken, whole, damaged = _core._check_backup(backup)
    return Restored(taken, *whole, damaged)
