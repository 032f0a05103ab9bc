"""Where two runs part: record by record up to the first difference, and then task by task."""

from __future__ import annotations

import json
import os
import uuid as _uuid
from dataclasses import dataclass
from typing import Any, Literal

from tiffany import _core
from tiffany._records import RunLike
from tiffany.history._export import warn_of


@dataclass(frozen=True)
class Side:
    """One of the two runs. ``unread`` says why not all of it could be read; what was before the first record of its ``generation`` is not in the log."""

    run: _uuid.UUID
    id: str
    workflow: str
    is_over: bool
    generation: int
    records: int
    unread: str | None


@dataclass(frozen=True)
class RecordText:
    """A record in words: its number, its task, its type, what it says, and the line of code if it is a call."""

    number: int
    tid: int
    type: str
    text: str
    at: str | None


@dataclass(frozen=True)
class Change:
    """A value that differs: where it is, as a JSON pointer, and what each run has there. ``None`` may also say that a run has nothing there."""

    path: str
    a: Any
    b: Any


@dataclass(frozen=True)
class Parting:
    """The first record in which two runs differ. Nothing is there of a run that has no more records."""

    a: RecordText | None
    b: RecordText | None
    changes: list[Change]
    more_changes: int


@dataclass(frozen=True)
class Difference:
    """Something in which a task differs: its numbers ``tids`` in both runs, its name, which of its calls to the world it is, what differs, and the values."""

    tids: tuple[int | None, int | None]
    name: str | None
    call: int | None
    kind: Literal["input", "call", "result", "attempts", "only", "end", "message"]
    a: RecordText | None
    b: RecordText | None
    changes: list[Change]
    more_changes: int


@dataclass(frozen=True)
class Diff:
    """Two runs side by side. ``same_records`` from the beginning on are the same; ``parting`` is the first one that is not; ``differences`` tell what the tasks asked of the
    world and got, the first ones, and ``more`` counts the others."""

    a: Side
    b: Side
    same_records: int
    parting: Parting | None
    differences: list[Difference]
    more: int
    tasks: int
    differing_tasks: int

    @property
    def is_same(self) -> bool:
        """Whether nothing differs, not even the order in which things happened."""
        return self.parting is None and not self.differences


def diff(
    a: RunLike,
    b: RunLike,
    *,
    wal: str | os.PathLike[str],
    other: str | os.PathLike[str] | None = None,
    limit: int = 100,
) -> Diff:
    """Compares two runs of a log, or the second one of an ``other`` log. They may be unfinished, or damaged. So many differences as ``limit`` are told in full.

    >>> import tempfile
    >>> from tiffany import Runtime, step, workflow
    >>> @step
    ... def count(text):
    ...     return len(text)
    >>> @workflow(name="length")
    ... async def length(text):
    ...     return await count(text)
    >>> with tempfile.TemporaryDirectory() as wal:
    ...     with Runtime(wal=wal) as runtime:
    ...         a = runtime.submit(length, "tea", id="a")
    ...         b = runtime.submit(length, "coffee", id="b")
    ...         runtime.wait(a), runtime.wait(b)
    ...     found = diff(a, b, wal=wal)
    ...     [(difference.kind, difference.changes[0]) for difference in found.differences][0]
    (3, 6)
    ('input', Change(path='/input/text', a='tea', b='coffee'))
    """
    text, trouble = _core._diff(wal, a, other, b, limit)
    warn_of(trouble)
    found = json.loads(text)
    parting = found["parting"]
    return Diff(
        _side(found["a"]),
        _side(found["b"]),
        found["same_records"],
        None if parting is None else Parting(*_both(parting)),
        [_difference(parts) for parts in found["differences"]],
        found["more"],
        found["tasks"],
        found["differing_tasks"],
    )


def _side(parts: dict[str, Any]) -> Side:
    return Side(
        _uuid.UUID(parts["run"]),
        parts["id"],
        parts["function"],
        parts["is_over"],
        parts["generation"],
        parts["records"],
        parts["unread"],
    )


def _record(parts: dict[str, Any] | None) -> RecordText | None:
    if parts is None:
        return None
    number, tid, kind = parts["record"], parts["task"], parts["type"]
    return RecordText(number, tid, kind, parts["text"], parts["at"])


def _both(
    parts: dict[str, Any],
) -> tuple[RecordText | None, RecordText | None, list[Change], int]:
    changes = [
        Change(change["path"], change.get("a"), change.get("b")) for change in parts["changes"]
    ]
    return _record(parts["a"]), _record(parts["b"]), changes, parts["more_changes"]


def _difference(parts: dict[str, Any]) -> Difference:
    tids = (parts["task"]["a"], parts["task"]["b"])
    return Difference(tids, parts["name"], parts["call"], parts["kind"], *_both(parts))
