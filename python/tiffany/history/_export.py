"""Exports of a run for other programs."""

from __future__ import annotations

import json
import os
import warnings
from typing import Any, Literal, overload

from tiffany import _core
from tiffany._records import RunLike


class DamagedLogWarning(UserWarning):
    """Part of a log could not be read."""


def warn_of(trouble: str | None) -> None:
    """Warns if part of the log could not be read."""
    if trouble is not None:
        warnings.warn(f"not all of the log is read: {trouble}", DamagedLogWarning, stacklevel=3)


@overload
def export(
    run: RunLike,
    *,
    wal: str | os.PathLike[str],
    format: Literal["chrome-trace", "json"],
    to: None = None,
) -> dict[str, Any]: ...
@overload
def export(
    run: RunLike,
    *,
    wal: str | os.PathLike[str],
    format: Literal["mermaid"],
    to: None = None,
) -> str: ...
@overload
def export(
    run: RunLike,
    *,
    wal: str | os.PathLike[str],
    format: Literal["chrome-trace", "mermaid", "json"],
    to: str | os.PathLike[str],
) -> None: ...
def export(
    run: RunLike,
    *,
    wal: str | os.PathLike[str],
    format: Literal["chrome-trace", "mermaid", "json"],
    to: str | os.PathLike[str] | None = None,
) -> dict[str, Any] | str | None:
    """Exports a run for other programs: its timeline for Perfetto (``"chrome-trace"``), its tasks
    as a Mermaid graph, or all of its records with large payloads included (``"json"``). With ``to``
    the export is written to that file; otherwise it is returned, the first and the last format as
    decoded JSON.

    >>> import tempfile
    >>> from tiffany import Runtime, workflow
    >>> @workflow(name="quick")
    ... def quick():
    ...     yield
    >>> with tempfile.TemporaryDirectory() as wal:
    ...     with Runtime(wal=wal) as runtime:
    ...         run = runtime.submit(quick, id="quick-1")
    ...         runtime.wait(run)
    ...     print(export(run, wal=wal, format="mermaid").splitlines()[0])
    ...     [record["type"] for record in export(run, wal=wal, format="json")["records"]][:2]
    flowchart TD
    ['RunStart', 'TaskYield']
    """
    text, trouble = _core._export(wal, run, format, to)
    warn_of(trouble)
    if text is None or format == "mermaid":
        return text
    document: dict[str, Any] = json.loads(text)
    return document
