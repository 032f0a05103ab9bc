"""What a client is told of single runs, as plain data."""

from __future__ import annotations

import json
import uuid as _uuid
from dataclasses import dataclass, field
from typing import Any

from tiffany import _core
from tiffany._records import RunInfo, run_info


@dataclass(frozen=True)
class TaskInfo:
    """A task of a run: its number, its name, its state, what it waits for, and the line of that
    call.
    """

    tid: int
    name: str | None
    state: str
    waits_for: str | None = None
    at: str | None = None


@dataclass(frozen=True)
class RunDetail(RunInfo):
    """A run with its tasks, the external promises that are not settled yet, and its value if it
    has completed.
    """

    task_list: tuple[TaskInfo, ...] = ()
    promises: tuple[_uuid.UUID, ...] = ()
    value: Any = field(default=None)


def decoded(value: Any) -> Any:
    """Makes objects of a value that came as JSON."""
    return _core._decode(json.dumps(value))


def run_detail(told: dict[str, Any]) -> RunDetail:
    """Builds a run with its tasks from its parts."""
    tasks = (
        TaskInfo(
            task["tid"], task.get("name"), task["state"], task.get("waits_for"), task.get("at")
        )
        for task in told.get("task_list", ())
    )
    promises = tuple(map(_uuid.UUID, told.get("promises", ())))
    recorded = told.get("recorded") or {}
    # Over HTTP there is only the plain form.
    value = decoded(recorded["Ok"]) if "Ok" in recorded else told.get("value")
    return RunDetail(**vars(run_info(told)), task_list=tuple(tasks), promises=promises, value=value)
