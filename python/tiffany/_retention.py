"""Rules about finished runs, and reports of what they did, as plain data."""

from __future__ import annotations

import uuid as _uuid
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal

from tiffany import _core
from tiffany._arguments import bad, seconds, several, whole

Outcome = Literal["completed", "failed", "cancelled"]
"""The way a run ended."""

_OUTCOMES = ("completed", "failed", "cancelled")


@dataclass(frozen=True, kw_only=True)
class Retention:
    """A rule about finished runs. A rule without parts keeps everything. Ages are seconds or a
    ``timedelta``.

    - ``older_than`` removes runs that ended longer ago than this.
    - ``keep`` keeps this many runs, those that ended last, and removes the others.
    - ``max_bytes`` limits the total size of their files and of the blobs they refer to; if they
      have more, the runs that ended first are removed.
    - ``compact_after`` compacts runs that ended longer ago than this and are not removed: only
      their input and their outcome are kept.
    - ``only`` restricts the rule to runs that ended in this way: one or several of ``"completed"``,
      ``"failed"`` and ``"cancelled"``.

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
        # Sorted and without duplicates, so that equivalent rules are equal.
        object.__setattr__(self, "only", tuple(word for word in _OUTCOMES if word in only))


@dataclass(frozen=True)
class OldRun:
    """A run selected by a rule: how and when it ended, the size of its file in bytes, and why it
    was selected: its ``"age"``, the ``"count"`` of runs or their ``"size"``.
    """

    run: _uuid.UUID
    id: str
    outcome: Outcome
    ended: datetime
    bytes: int
    why: Literal["age", "count", "size"]


@dataclass(frozen=True)
class KeptRun:
    """A run that is kept despite a rule, and the fork that needs it."""

    run: OldRun
    fork: _uuid.UUID


@dataclass(frozen=True)
class RefusedRun:
    """A run that was left unchanged, and the reason: it was forked meanwhile, for example, or it is
    damaged.
    """

    run: _uuid.UUID
    error: BaseException


@dataclass(frozen=True)
class Collected:
    """Blobs that were removed because no run refers to them, and their size in bytes. While runs
    are ``damaged``, no blob is removed, because it is not known what these runs need.
    """

    blobs: int
    bytes: int
    damaged: int


@dataclass(frozen=True)
class Compacted:
    """The result of compacting: the compacted runs, those left as they are because nothing would be
    saved, those that were refused, and how many bytes were saved in their files.
    """

    runs: list[_uuid.UUID]
    unchanged: list[_uuid.UUID]
    refused: list[RefusedRun]
    bytes: int


@dataclass(frozen=True)
class Pruned:
    """The result of applying rules or, after a dry run, what they would do.

    ``kept`` are runs that a fork needs. ``bytes`` is how much space was freed in the files of runs;
    a dry run counts the runs that would be removed, but not what compacting would save.
    """

    removed: list[OldRun]
    compacted: list[OldRun]
    kept: list[KeptRun]
    refused: list[RefusedRun]
    bytes: int
    collected: Collected


def rules(given: Iterable[Any]) -> list[_core._RuleParts]:
    """Converts rules to the form that Rust takes."""
    return [_rule(rule) for rule in given]


def some_rules(given: tuple[Any, ...]) -> list[_core._RuleParts]:
    """Converts rules to the form that Rust takes, and requires at least one."""
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
    """Builds the result of applying rules from its parts."""
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
    """Builds the result of compacting runs from its parts."""
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
