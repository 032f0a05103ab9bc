"""Plain data about runs: runs, doubts, chunks, queues."""

from __future__ import annotations

import uuid as _uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Generic, TypeVar, overload

from tiffany import _attributes
from tiffany._arguments import bad, number, seconds, whole

T = TypeVar("T")


@dataclass(frozen=True)
class Run(Generic[T]):
    """A durable run: the id it was started with, and its UUID, which is the name of its log file."""

    id: str
    uuid: _uuid.UUID


RunLike = Run[Any] | _uuid.UUID | str


@dataclass(frozen=True)
class RunError:
    """Why a run failed or does not continue: the code, and the message or its beginning."""

    code: str
    message: str


@dataclass(frozen=True)
class RunInfo(Run[Any]):
    """A run in a list. It can be given wherever a run is.

    ``state`` is ``live``, ``ending``, ``paused``, ``held``, ``completed``, ``failed``,
    ``cancelled``, ``damaged`` or ``removed``. ``tasks`` counts its unfinished tasks, and ``waits``
    says what they wait for. ``parent`` is the run that it was forked from, and ``parent_at`` the
    record there.
    """

    function: str
    state: str
    started: datetime | None
    ended: datetime | None = None
    error: RunError | None = None
    tasks: int = 0
    waits: tuple[str, ...] = ()
    parent: _uuid.UUID | None = None
    parent_at: int | None = None
    tags: list[str] = field(default_factory=list)
    attributes: dict[str, _attributes.Attribute] = field(default_factory=dict)
    deadline: datetime | None = None


@dataclass(frozen=True)
class RunPage(Sequence[RunInfo]):
    """Some of the runs that were asked for, as a sequence; the number of all of them; and the mark
    of the next page, or ``None`` on the last one.
    """

    runs: list[RunInfo]
    total: int
    next: str | None = None

    def __len__(self) -> int:
        return len(self.runs)

    @overload
    def __getitem__(self, at: int) -> RunInfo: ...
    @overload
    def __getitem__(self, at: slice) -> list[RunInfo]: ...
    def __getitem__(self, at: int | slice) -> RunInfo | list[RunInfo]:
        return self.runs[at]


def run_info(told: dict[str, Any]) -> RunInfo:
    """Builds a run of a list from its parts."""
    error, parent = told.get("error"), told.get("parent")
    return RunInfo(
        told["id"],
        _uuid.UUID(told["uuid"]),
        told["function"],
        told["state"],
        _moment(told.get("started")),
        _moment(told.get("ended")),
        None if error is None else RunError(error["code"], error["message"]),
        told.get("tasks", 0),
        tuple(told.get("waits", ())),
        None if parent is None else _uuid.UUID(parent["run"]),
        None if parent is None else parent["at"],
        told.get("tags", []),
        _attributes.values(told.get("attributes", {})),
        _moment(told.get("deadline")),
    )


def run_page(told: dict[str, Any]) -> RunPage:
    """Builds a page of runs from its parts."""
    return RunPage([run_info(run) for run in told["runs"]], told["total"], told.get("next"))


def _moment(text: str | None) -> datetime | None:
    """Parses a time of a log. Digits beyond microseconds are dropped.

    >>> _moment("2026-11-05T09:41:00.123456789Z")
    datetime.datetime(2026, 11, 5, 9, 41, 0, 123456, tzinfo=datetime.timezone.utc)
    """
    return datetime.fromisoformat(text) if text else None


@dataclass(frozen=True)
class Paused:
    """A run that cannot continue with this program, and the reason."""

    run: _uuid.UUID
    code: str
    error: str


@dataclass(frozen=True)
class Doubt:
    """A step that must not run twice and was interrupted: only a person can find out whether it
    happened.

    ``waits`` says whether its task waits for a decision.
    """

    key: str
    run: _uuid.UUID
    step: str
    attempt: int
    waits: bool


@dataclass(frozen=True)
class Chunk:
    """A partial result of a step, as passed to ``on_chunk``. ``lost`` counts the chunks that were
    lost just before it.
    """

    key: str
    step: str
    attempt: int
    number: int
    lost: int
    value: Any


@dataclass(frozen=True)
class Status:
    """The status of the process that owns a log."""

    pid: int
    version: str
    workflows: list[str]
    live: int
    paused: list[Paused] = field(default_factory=list)


@dataclass(frozen=True)
class Queue:
    """The limits of a named queue of steps: how many run at once, and how many start in any ``per``
    seconds.

    >>> Queue(concurrency=2)
    Queue(concurrency=2, starts=None, per=1.0)
    """

    concurrency: int | None = None
    starts: int | None = None
    per: float = 1.0

    def __post_init__(self) -> None:
        for name, count in (("concurrency", self.concurrency), ("starts", self.starts)):
            if count is not None:
                whole(f"`{name}` of a Queue", count, least=1)
        if seconds("`per` of a Queue", self.per) == 0:
            raise bad("`per` of a Queue is more than 0 seconds")


@dataclass(frozen=True)
class Backoff:
    """The delay before a step is retried: ``first`` seconds, then ``factor`` times as long each
    time, at most ``max``.

    Each delay is shortened by a random part, at most the fraction ``jitter``, so that steps that
    failed together are not all retried at the same moment.
    """

    first: float = 0.1
    factor: float = 2.0
    max: float = 60.0
    jitter: float = 0.1

    def __post_init__(self) -> None:
        seconds("`first` of a Backoff", self.first)
        seconds("`max` of a Backoff", self.max)
        if number("`factor` of a Backoff", self.factor) < 0:
            raise bad(f"`factor` of a Backoff is 0 or more, not {self.factor!r}")
        if not 0 <= number("`jitter` of a Backoff", self.jitter) <= 1:
            raise bad(f"`jitter` of a Backoff is a fraction from 0 to 1, not {self.jitter!r}")


def paused_run(parts: tuple[str, str, str]) -> Paused:
    """Builds a paused run from its parts."""
    run, code, error = parts
    return Paused(_uuid.UUID(run), code, error)


def doubt(parts: tuple[str, str, str, int, bool]) -> Doubt:
    """Builds a doubt from its parts."""
    key, run, step, attempt, waits = parts
    return Doubt(key, _uuid.UUID(run), step, attempt, waits)
