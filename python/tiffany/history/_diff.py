"""The differences between two runs: record by record up to the first difference, then task by task."""

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
    """One of the two runs. ``unread`` says why part of it could not be read. The log has nothing
    from before the first record of its ``generation``.
    """

    run: _uuid.UUID
    id: str
    workflow: str
    is_over: bool
    generation: int
    records: int
    unread: str | None


@dataclass(frozen=True)
class RecordText:
    """A record in words: its number, its task, its type, its contents, and the line of code if it
    is a call.
    """

    number: int
    tid: int
    type: str
    text: str
    at: str | None


@dataclass(frozen=True)
class Change:
    """A value that differs: its place as a JSON pointer, and the value in each run. ``None`` can
    also mean that a run has no value there.
    """

    path: str
    a: Any
    b: Any


@dataclass(frozen=True)
class Parting:
    """The first record in which two runs differ. A run that has no more records has ``None`` here."""

    a: RecordText | None
    b: RecordText | None
    changes: list[Change]
    more_changes: int


@dataclass(frozen=True)
class Difference:
    """A difference in a task: its numbers ``tids`` in both runs, its name, which of its outward
    calls it is, what differs, and the values.
    """

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
    """The comparison of two runs. The first ``same_records`` records are the same; ``parting`` is
    the first one that differs. ``differences`` lists the first differences in the outward calls of
    the tasks and their answers, and ``more`` counts the rest.
    """

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
        """Whether nothing differs, including the order of events."""
        return self.parting is None and not self.differences


def diff(
    a: RunLike,
    b: RunLike,
    *,
    wal: str | os.PathLike[str],
    other: str | os.PathLike[str] | None = None,
    limit: int = 100,
) -> Diff:
    """Compares two runs of a log, or takes the second one from the ``other`` log. The runs may be
    unfinished or damaged. At most ``limit`` differences are listed in full.

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
