"""Tracebacks in the form in which they are recorded: readable lines, without the values of
variables.
"""

from __future__ import annotations

import os
import sysconfig
import traceback
from types import TracebackType

_PACKAGE = os.path.dirname(os.path.abspath(__file__)) + os.sep
#: Code that is not the program's own: Python itself, and installed packages.
_OTHERS = tuple(
    os.path.abspath(path) + os.sep
    for path in {
        sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")
    }
)
#: The number of frames in the message: the first few show the caller, the others the place of the
#: error.
_FIRST, _LAST = 4, 12


def of(lines: TracebackType) -> tuple[str, int, list[str]] | None:
    """Returns the innermost line that belongs to the program, and the lines that lead to it.

    >>> def fail(): raise ValueError("no tea")
    >>> try: fail()
    ... except ValueError as error: file, line, way = of(error.__traceback__)
    >>> line, way[-1].strip()
    (1, 'def fail(): raise ValueError("no tea")')
    """
    frames = [
        frame
        for frame in traceback.extract_tb(lines)
        if not os.path.abspath(frame.filename).startswith(_PACKAGE)
    ]
    if not frames:
        return None
    own = [frame for frame in frames if not _is_foreign(frame.filename)] or frames
    left = len(frames) - _FIRST - _LAST
    shown: list[str] = []
    for number, frame in enumerate(frames):
        if left > 0 and _FIRST <= number < _FIRST + left:
            if number == _FIRST:
                shown.append(f"... {left} more ...")
            continue
        shown.append(f'File "{frame.filename}", line {frame.lineno}, in {frame.name}')
        if frame.line:
            shown.append(f"    {frame.line}")
    return own[-1].filename, own[-1].lineno or 0, shown


def _is_foreign(file: str) -> bool:
    return file.startswith("<frozen") or os.path.abspath(file).startswith(_OTHERS)
