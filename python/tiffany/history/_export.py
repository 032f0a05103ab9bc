"""A run in the forms that other programs show."""

from __future__ import annotations

import json
import os
import warnings
from typing import Any, Literal, overload

from tiffany import _core
from tiffany._records import RunLike


class DamagedLogWarning(UserWarning):
    """Not all of a log could be read."""


def warn_of(trouble: str | None) -> None:
    """Says that not all could be read, if so."""
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
    """A run for other programs: its timeline for Perfetto (``"chrome-trace"``), its tasks as a graph of Mermaid, or all of its records with large payloads in their
    place (``"json"``). With ``to`` it is written to that file, and without it is given: the first and the last as what their JSON says.

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
