"""Runs replayed with the current code, to test it before a deploy. No step starts, and nothing is
written.
"""

from __future__ import annotations

import os
import uuid as _uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Unpack

from tiffany import _core
from tiffany._arguments import several
from tiffany._records import RunLike
from tiffany._settings import ReplaySettings, shows_settings
from tiffany.history._program import program


@dataclass(frozen=True)
class Checked:
    """The result of replaying a run with the current code. ``error`` says why it would not
    continue, if so; a `DivergedError` means that it behaves differently from its log.
    """

    run: _uuid.UUID
    id: str
    workflow: str
    error: BaseException | None

    @property
    def goes_on(self) -> bool:
        """Whether the run would continue."""
        return self.error is None


@dataclass(frozen=True)
class Upcoming:
    """A call that a run would make next: its task, its kind as in the log, its name if it is a
    step, and its line.
    """

    tid: int
    call: str
    name: str | None
    at: str


@dataclass(frozen=True)
class Proposal:
    """Code that could be inserted where code and log diverge: the line, the ``id`` for ``patched``,
    the code, and its effect.
    """

    at: str
    id: str
    lines: list[str]
    why: str


@dataclass(frozen=True)
class Trial:
    """What a run would do next with the current code. ``calls`` counts the outward calls that
    matched the log. ``outcome`` is `Ok` or `Err` if the run would end. ``error`` says why it would
    not continue, and ``proposal`` how to fix that.
    """

    run: _uuid.UUID
    id: str
    workflow: str
    calls: int
    upcoming: list[Upcoming]
    outcome: _core.Ok[Any] | _core.Err | None
    error: BaseException | None
    proposal: Proposal | None


@shows_settings(ReplaySettings)
def check(
    wal: str | os.PathLike[str],
    runs: Iterable[RunLike] | None = None,
    *,
    workflows: Iterable[Callable[..., Any]] = (),
    **settings: Unpack[ReplaySettings],
) -> list[Checked]:
    """Replays the unfinished runs of a log, or the given ones, with the current code, and reports
    for each whether it would continue.

    ``workflows`` and the other settings are those of `tiffany.Runtime`.

    >>> import tempfile
    >>> from tiffany import Runtime, workflow
    >>> from tiffany.calls import ReceiveMessage
    >>> @workflow(name="patient")
    ... def patient():
    ...     return (yield ReceiveMessage("go"))
    >>> with tempfile.TemporaryDirectory() as wal:
    ...     with Runtime(wal=wal) as runtime:
    ...         run = runtime.submit(patient, id="patient-1")
    ...         runtime.flush()
    ...     [(checked.id, checked.goes_on) for checked in check(wal)]
    [('patient-1', True)]
    """
    given = None if runs is None else several("runs", runs)
    checked = _core._check(program("check()", workflows, settings), wal, given)
    return [Checked(_uuid.UUID(run), id, name, error) for run, id, name, error in checked]


@shows_settings(ReplaySettings)
def try_(
    run: RunLike,
    *,
    wal: str | os.PathLike[str],
    workflows: Iterable[Callable[..., Any]] = (),
    **settings: Unpack[ReplaySettings],
) -> Trial:
    """Replays an unfinished run with the current code, as far as possible without executing steps,
    and reports what it would do next. Raises `RunOverError` if the run has finished.

    ``workflows`` and the other settings are those of `tiffany.Runtime`.
    """
    tried = _core._try(program("try_()", workflows, settings), wal, run)
    (uuid, id, workflow), calls, upcoming, ended, error, proposal = tried
    outcome: _core.Ok[Any] | _core.Err | None = None
    if ended is not None:
        value, failed = ended
        outcome = _core.Ok(value) if failed is None else _core.Err(failed)
    return Trial(
        _uuid.UUID(uuid),
        id,
        workflow,
        calls,
        [Upcoming(*parts) for parts in upcoming],
        outcome,
        error,
        None if proposal is None else Proposal(*proposal),
    )
