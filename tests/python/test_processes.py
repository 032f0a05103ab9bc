"""Other processes: one settles a promise through the directory, one was forked and uses what is not its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from durable_kit import HERE, types


def run(program: str, *args: str) -> str:
    ended = subprocess.run(
        [sys.executable, str(HERE / "programs" / program), *args],
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    return ended.stdout


@pytest.mark.parametrize("method", ["spawn", "fork", "forkserver"])
def test_another_process_settles_a_promise_by_its_uuid(method: str, tmp_path: Path) -> None:
    wal = tmp_path / "wal"
    said = run("other_process.py", method, str(wal))
    assert said == "((True, False), {'approved': True, 'by': ('somebody', 'else')})\n"
    assert types(wal).count("PromiseSettled") == 1


def test_a_forked_child_cannot_use_what_is_its_parent_s() -> None:
    seen = ["'TFY0047'"] * 4 + ["\"'nothing'\"", "'True'"]
    assert run("forked.py") == f"([{', '.join(seen)}], 'from the parent', 'nothing')\n"
