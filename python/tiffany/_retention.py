"""Rules about runs that are over, and what is told of what they do. Nothing here does anything."""

from __future__ import annotations

import uuid as _uuid
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal

from tiffany import _core
from tiffany._arguments import bad, seconds, several, whole

Outcome = Literal["completed", "failed", "cancelled"]
"""How a run ended."""

_OUTCOMES = ("completed", "failed", "cancelled")


@dataclass(frozen=True, kw_only=True)
class Retention:
    """A rule about runs that are over; one without parts keeps everything. Ages are seconds, or a ``timedelta``.

    Runs that ended longer ago than ``older_than`` are removed. ``keep`` so many, those that ended last, and remove the others. They may have ``max_bytes`` together, in
    their files and in the blobs they name; if they have more, those that ended first are removed. Runs that ended longer ago than ``compact_after`` and are not
    removed are compacted: what they were started with and what came of them is left. ``only`` runs that ended like this are meant, one word or several of
    ``"completed"``, ``"failed"`` and ``"cancelled"``.

    >>> from datetime import timedelta
    >>> Retention(only="failed", older_than=timedelta(days=90), keep=10_000)
    Retention(older_than=datetime.timedelta(days=90), keep=10000, max_bytes=None, only=('failed',), compact_after=None)
    """

    older_than: float | timedelta | None = None
    keep: int | None = None
    max_bytes: int | None = None
    only: Outcome | Iterable[Outcome] = ()
    compact_after: float | timedelta | None = None

    def __post_init__(self) -> None:
        for name, age in (("older_than", self.older_than), ("compact_after", self.compact_after)):
            if age is not None:
                seconds(f"`{name}` of a Retention", age)
        for name, count in (("keep", self.keep), ("max_bytes", self.max_bytes)):
            if count is not None:
                whole(f"`{name}` of a Retention", count)
        only = [self.only] if isinstance(self.only, str) else several("only", self.only)
        for word in only:
            if word not in _OUTCOMES:
                raise bad(
                    f"`only` of a Retention has no {word!r}",
                    'runs are "completed", "failed" or "cancelled"',
                )
        # In one order and each once, so that rules that mean the same are equal.
        object.__setattr__(self, "only", tuple(word for word in _OUTCOMES if word in only))


@dataclass(frozen=True)
class OldRun:
    """A run that a rule is about: how it ended and when, how many bytes its file has, and why it was chosen: by its ``"age"``, the ``"count"`` of runs or their ``"size"``."""

    run: _uuid.UUID
    id: str
    outcome: Outcome
    ended: datetime
    bytes: int
    why: Literal["age", "count", "size"]


@dataclass(frozen=True)
class KeptRun:
    """A run that is kept although a rule is against it, and a fork that needs it."""

    run: OldRun
    fork: _uuid.UUID


@dataclass(frozen=True)
class RefusedRun:
    """A run that was left as it is, and why: a fork was made of it meanwhile, say, or it is damaged."""

    run: _uuid.UUID
    error: BaseException


@dataclass(frozen=True)
class Collected:
    """Blobs that were removed because no run names them, and how many bytes they had. While some runs are ``damaged`` none is removed: nobody knows what
    these need."""

    blobs: int
    bytes: int
    damaged: int


@dataclass(frozen=True)
class Compacted:
    """What came of compacting: the runs that were compacted, those that stay as they are because nothing would be saved, those that were left, and how many
    bytes less their files have."""

    runs: list[_uuid.UUID]
    unchanged: list[_uuid.UUID]
    refused: list[RefusedRun]
    bytes: int


@dataclass(frozen=True)
class Pruned:
    """What rules did, or after a dry run what they would do. ``kept`` are runs that a fork needs. ``bytes`` is how much less there is in files of runs; a dry run counts
    those that would be removed, and nothing of what compacting would save."""

    removed: list[OldRun]
    compacted: list[OldRun]
    kept: list[KeptRun]
    refused: list[RefusedRun]
    bytes: int
    collected: Collected


def rules(given: Iterable[Any]) -> list[_core._RuleParts]:
    """Rules in the form that Rust takes."""
    return [_rule(rule) for rule in given]


def some_rules(given: tuple[Any, ...]) -> list[_core._RuleParts]:
    """The same for who must have given one."""
    if not given:
        raise bad("prune() was given no rule", "write prune(Retention(keep=10))")
    return rules(given)


def _rule(rule: Any) -> _core._RuleParts:
    if not isinstance(rule, Retention):
        raise bad(f"a rule about old runs is a Retention, not {rule!r}", "write Retention(keep=10)")
    older_than, compact_after = (
        None if age is None else seconds("an age", age)
        for age in (rule.older_than, rule.compact_after)
    )
    return older_than, rule.keep, rule.max_bytes, list(rule.only), compact_after


def pruned(parts: _core._PrunedParts) -> Pruned:
    """What rules did, from its parts."""
    (remove, compact, kept), done = parts
    removed, compacted = [_old_run(run) for run in remove], [_old_run(run) for run in compact]
    needed = [KeptRun(_old_run(run), _uuid.UUID(fork)) for run, fork in kept]
    if done is None:
        saved = sum(run.bytes for run in removed)
        return Pruned(removed, compacted, needed, [], saved, Collected(0, 0, 0))
    unchanged, refused, bytes, collected = done
    left = {_uuid.UUID(run) for run in (*unchanged, *(run for run, _ in refused))}
    return Pruned(
        [run for run in removed if run.run not in left],
        [run for run in compacted if run.run not in left],
        needed,
        _refused(refused),
        bytes,
        Collected(*collected),
    )


def compacted(parts: tuple[list[str], _core._DoneParts]) -> Compacted:
    """What came of compacting runs, from its parts."""
    runs, (same, refused, bytes, _) = parts
    unchanged, left = [_uuid.UUID(run) for run in same], _refused(refused)
    others = {*unchanged, *(run.run for run in left)}
    done = [run for run in map(_uuid.UUID, runs) if run not in others]
    return Compacted(done, unchanged, left, bytes)


def _old_run(parts: _core._OldRunParts) -> OldRun:
    run, id, outcome, ended, bytes, why = parts
    return OldRun(_uuid.UUID(run), id, outcome, datetime.fromisoformat(ended), bytes, why)


def _refused(parts: list[tuple[str, BaseException]]) -> list[RefusedRun]:
    return [RefusedRun(_uuid.UUID(run), error) for run, error in parts]
