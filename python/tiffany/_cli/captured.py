"""Tests of captured runs, as ``tiffany replay --capture`` writes them. This module knows nothing about logs."""

from __future__ import annotations

import os
from pathlib import PurePath

from tiffany._cli.program_file import module_name


def test(
    app: str, out: str | os.PathLike[str], name: str, fixture: str, made_by: str
) -> tuple[str, str, str]:
    """Returns the file of a test, its contents, and the command that runs it.

    >>> file, text, command = test("shop.py", "tests", "order_17", "order_17.wal", "capture order-17")
    >>> file, command
    ('test_order_17.py', 'pytest tests/test_order_17.py')
    >>> print(text.splitlines()[-1].strip())
    GoldenLog(HERE / "order_17.wal").replay(app=HERE / "../shop.py")
    >>> _, text, _ = test("shop.orders", "tests", "order_17", "order_17.wal", "capture order-17")
    >>> print(text.splitlines()[-1].strip())
    GoldenLog(HERE / "order_17.wal").replay(app="shop.orders")
    """
    file = f"test_{name}.py"
    if module_name(app) is not None:
        code = _quoted(app)
    else:
        code = f"HERE / {_quoted(PurePath(os.path.relpath(app, out)).as_posix())}"
    typed = f"tiffany --app {app} {made_by}".replace("\\", "\\\\").replace('"', '\\"')
    text = _TEXT.format(typed=typed, fixture=fixture, name=name, code=code)
    command = f"pytest {PurePath(out, file).as_posix()}"
    return file, text, command


def _quoted(text: str) -> str:
    """Quotes a text as a code formatter would.

    >>> print(_quoted("../shop.py"))
    "../shop.py"
    """
    plain = '"' not in text and "\\" not in text and text.isprintable()
    return f'"{text}"' if plain else repr(text)


_TEXT = '''\
"""A run captured with `{typed}`: the code must make the calls in `{fixture}` and reach the same
outcome. None of its steps is executed.

If a change is intended, capture the run again with `--force`. If runs of the old code may still be
unfinished, use `patched` to support both.
"""

from pathlib import Path

from tiffany.testing import GoldenLog

HERE = Path(__file__).parent


def test_{name}() -> None:
    GoldenLog(HERE / "{fixture}").replay(app={code})
'''
