"""What a client is told of runs, as plain data."""

from __future__ import annotations

import json
import uuid as _uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from tiffany import _core
from tiffany._arguments import bad
from tiffany._records import RunInfo, run_info

STATES = (
    "live",
    "ending",
    "paused",
    "held",
    "completed",
    "failed",
    "cancelled",
    "damaged",
    "removed",
)
"""The states of runs."""


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


def states(given: str | Sequence[str] | None) -> list[str]:
    """Checks the states of a filter.

    >>> states("failed")
    ['failed']
    >>> states(["live", "lost"])
    Traceback (most recent call last):
        ...
    tiffany.errors.BadArgumentError: there is no state 'lost' of runs [TFY0032]; there are live, ending, paused, held, completed, failed, cancelled, damaged, removed
    """
    wanted = [given] if isinstance(given, str) else list(given or ())
    for state in wanted:
        if state not in STATES:
            raise bad(f"there is no state {state!r} of runs", f"there are {', '.join(STATES)}")
    return wanted


def nanoseconds(name: str, given: datetime | str | None) -> int | None:
    """Returns a moment of a filter in nanoseconds since 1970. Without a time zone it is in UTC.

    >>> nanoseconds("since", "2026-11-05")
    1793836800000000000
    """
    if given is None:
        return None
    try:
        at = datetime.fromisoformat(given) if isinstance(given, str) else given
        at = at if at.tzinfo is not None else at.replace(tzinfo=UTC)
        whole = at - datetime(1970, 1, 1, tzinfo=UTC)
    except (ValueError, TypeError, AttributeError):
        raise bad(
            f"`{name}` is a datetime, or a text such as '2026-11-05T09:41Z', not {given!r}"
        ) from None
    return (whole.days * 86_400 + whole.seconds) * 1_000_000_000 + whole.microseconds * 1_000
