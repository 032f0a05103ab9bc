"""Code that does not fit the log any more, and what durable code may not do."""

from __future__ import annotations

import contextlib
import linecache
import os
import socket
from pathlib import Path
from typing import Any

import pytest
import tiffany
import tiffany.net
from durable_kit import finish, python, types
from tiffany import Runtime, step
from tiffany.calls import Blocking, ReadWait, Sleep, WriteWait
from tiffany.errors import DivergedError, NotDurableError

PROGRAM = """
import sys
import tiffany
from tiffany import step
from tiffany.calls import ReceiveMessage

@step
def a(n): return n
@step
def b(n): return n

def main():
    {body}
    yield ReceiveMessage("go on")

if __name__ == "__main__":
    with tiffany.Runtime(wal=sys.argv[1]) as runtime:
        runtime.submit(main, id="a")
        runtime.run(wait())
"""
WAIT = """
def wait():
    from pathlib import Path
    while True:
        yield tiffany.calls.Sleep(0.01)
        files = list(Path(sys.argv[1], "wal").glob("*.wal"))
        if files and "receive_message" in files[0].read_text():
            return
"""


def edit(path: Path, body: str) -> None:
    head, tail = PROGRAM.format(body=body).split("if __name__")
    path.write_text(head + WAIT + "if __name__" + tail)


CASES = [
    ("yield a(1)", "yield b(1)", "renamed", "yield b(1)"),
    ("yield a(1)", "yield a(2)", "the input of the call changed", "yield a(2)"),
    ("yield a(1); yield b(2)", "yield b(2); yield a(1)", "changed places", "yield b(2)"),
    ("yield a(1); yield b(2)", "yield b(2)", "removed", "yield b(2)"),
    ("yield a(1)", "yield b(7); yield a(1)", "added", "yield b(7)"),
]


@pytest.mark.parametrize(("before", "after", "cause", "line"), CASES)
def test_a_run_that_does_not_fit_shows_both_lines(
    before: str, after: str, cause: str, line: str, tmp_path: Path
) -> None:
    program, wal = tmp_path / "program.py", tmp_path / "wal"
    edit(program, before)
    code, _, err = finish(python(program, wal))
    assert code == 0, err
    edit(program, after)
    code, _, err = finish(python(program, wal))
    assert code == 0, err
    assert "PausedRunWarning" in err
    assert "TFY0036" in err and cause in err
    at = program.read_text().splitlines().index(f"    {after}") + 1
    assert f"at {program}:{at} (`{after}`), where record" in err
    # How the recorded line read then cannot be known any more.
    assert f"at {program}:{at}: " in err
    assert "crates/" not in err and "hash seed" not in err


SETS = """
import sys
import tiffany
from tiffany import step
from tiffany.calls import ReceiveMessage

@step
def a(n): return n

def main():
    for name in {"ada", "grace", "edsger", "barbara", "tony"}:
        yield a(name)
    yield ReceiveMessage("go on")

if __name__ == "__main__":
    with tiffany.Runtime(wal=sys.argv[1]) as runtime:
        runtime.submit(main, id="a")
        runtime.run(wait())
"""


def test_the_order_of_a_set_is_named(tmp_path: Path) -> None:
    program, wal = tmp_path / "program.py", tmp_path / "wal"
    head, tail = SETS.split("if __name__")
    program.write_text(head + WAIT + "if __name__" + tail)
    assert finish(python(program, wal, env={"PYTHONHASHSEED": "1"}))[0] == 0
    same = finish(python(program, wal, env={"PYTHONHASHSEED": "1"}))
    assert (same[0], same[2]) == (0, "")
    _, _, err = finish(python(program, wal, env={"PYTHONHASHSEED": "2"}))
    assert "TFY0036" in err and "or the order of a set" in err and "PYTHONHASHSEED=0" in err
    # The file is as it was, so both lines are shown as they read.
    at = program.read_text().splitlines().index("        yield a(name)") + 1
    assert err.count(f"at {program}:{at} (`yield a(name)`)") == 2


ORDINARY = """
import sys
import tiffany

@tiffany.step
def one(n): return n

@tiffany.workflow
def main():
    first = yield one(1)
    yield tiffany.calls.ReceiveMessage("go on")

if __name__ == "__main__":
    with tiffany.Runtime(wal=sys.argv[1]) as runtime:
        runtime.submit(main, id="a")
        runtime.run(wait())
"""


def test_another_hash_seed_is_no_matter_for_a_program_that_does_the_same(tmp_path: Path) -> None:
    program, wal = tmp_path / "program.py", tmp_path / "wal"
    head, tail = ORDINARY.split("if __name__")
    program.write_text(head + WAIT + "if __name__" + tail)
    for seed in ("1", "2", "3"):
        code, _, err = finish(python(program, wal, env={"PYTHONHASHSEED": seed}))
        assert (code, err) == (0, "")


def test_the_error_is_raised_where_the_run_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Runtime(wal=tmp_path) as runtime:
        runtime.submit(before, id="a")
        runtime.flush()
        runtime.run(short())
    monkeypatch.setitem(globals(), "before", after)
    with pytest.warns(tiffany.errors.PausedRunWarning, match="TFY0036"):
        runtime = Runtime(wal=tmp_path)
    with runtime:
        with pytest.raises(DivergedError) as raised:
            runtime.wait("a")
        assert "now makes step `other`" in str(raised.value)
        assert runtime.paused()[0].code == "TFY0036"


@step
def one() -> int:
    return 1


@step
def other() -> int:
    return 2


def before() -> Any:
    yield one()
    yield Sleep(3600)


def after() -> Any:
    yield other()
    yield Sleep(3600)


def short() -> Any:
    yield Sleep(0.1)


def forbidden(which: str) -> Any:
    reader, writer = os.pipe()
    with contextlib.closing(socket.socket()) as free:
        calls: dict[str, Any] = {
            "read": ReadWait(reader),
            "write": WriteWait(writer),
            "socket": ReadWait(free),
            "blocking": Blocking(len, "x"),
            "listen": tiffany.net.listen("127.0.0.1", 0),
        }
        try:
            yield calls[which]  # here
        finally:
            os.close(reader)
            os.close(writer)


@pytest.mark.parametrize("which", ["read", "write", "socket", "blocking", "listen"])
def test_what_reaches_the_world_directly_is_refused_at_its_line(which: str, tmp_path: Path) -> None:
    with pytest.raises(NotDurableError, match="use a step") as raised:
        tiffany.run(forbidden(which), wal=tmp_path, id="a")
    place = raised.traceback[-1]
    assert place.name == "forbidden"
    assert linecache.getline(__file__, place.lineno + 1).strip().endswith("# here")
    assert types(tmp_path)[-1] == "TaskAbort"
    # And it is the same when the run is over.
    with pytest.raises(NotDurableError, match="use a step"):
        tiffany.run(forbidden(which), wal=tmp_path, id="a")
