"""The settings of runtimes and runs, as types for all functions that run programs."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any, Literal, TypedDict

from tiffany import _core
from tiffany._records import Chunk, Queue
from tiffany._retention import Retention


class RunSettings(TypedDict, total=False):
    """The settings of `tiffany.run` for a run that is not durable."""

    env: Mapping[str, Any] | None
    handlers: Sequence[_core._Handler] | None
    name: str | None
    end: Literal["all", "root"]
    limits: Mapping[str, Any] | None
    run_limits: Mapping[str, Any] | None
    cancel_grace: float | timedelta | None
    policy: Literal["fifo", "priority", "dependency"]
    threads: int
    step_slots: int
    clock: Literal["system", "virtual"]


class ReplaySettings(RunSettings, total=False):
    """The settings for running the code of a durable run again."""

    redact: Iterable[str]


class Settings(ReplaySettings, total=False):
    """The settings of `tiffany.Runtime`."""

    wal: str | os.PathLike[str] | None
    workflows: Iterable[Callable[..., Any]]
    queues: Mapping[str, Queue | int] | None
    on_chunk: Callable[[Chunk], Any] | None
    record: Literal["every", "outward"]
    snapshot_every: int
    retention: Iterable[Retention]
    retention_every: float | timedelta
