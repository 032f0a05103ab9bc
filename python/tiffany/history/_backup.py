"""Backups of a log that may be in use, and restoring them."""

from __future__ import annotations

import os
import uuid as _uuid
from collections.abc import Callable
from dataclasses import dataclass

from tiffany import _core
from tiffany._arguments import bad, number


@dataclass(frozen=True)
class DamagedRun:
    """A run that is incomplete in its log, and what is wrong with it."""

    run: _uuid.UUID
    what: str


@dataclass(frozen=True)
class Backup:
    """A finished backup: when it started (everything durable at that time is in it), what it
    contains, how much was copied this time, and the runs that are incomplete in the log itself.
    """

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
    """The contents of a backup, all of which were read and verified: when it was taken, and how
    many of its runs were already ``damaged`` in the log.
    """

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
    """Copies a log, which may be in use, to another directory: all runs as they were at one moment.
    If that directory already has a backup of the same log, only new data is copied.

    ``rate`` limits the speed in bytes per second; 0 means no limit, and by default the speed is
    limited if a process owns the log. ``on_progress`` is called with the number of bytes copied and
    the total. An exception that it raises, and Ctrl-C, stop the copying; the previous backup stays
    intact.

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
    """Creates a log from a backup, in a new or empty directory. With ``force`` the directory may
    contain a log that no process owns, which is removed.

    A restored log goes back in time: whatever its runs did after the backup, they do again, with
    the same keys for steps.
    """
    taken, whole, damaged = _core._restore(backup, wal, force)
    return Restored(taken, *whole, damaged)


def check_backup(backup: str | os.PathLike[str]) -> Restored:
    """Reads a backup and reports what `restore` would create from it. Raises `DamagedBackupError`
    if the backup has changed since it was written.
    """
    taken, whole, damaged = _core._check_backup(backup)
    return Restored(taken, *whole, damaged)
