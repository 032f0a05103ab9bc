"""Programs written for the course's pyos8: they run when only the import changes, and say what they said there.

Each has what it prints beside it. Numbers of tasks that were started by tasks are one lower than in the original, whose poller had one.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAMS = Path(__file__).parent / "programs"

# Where the network says who is first, only what was printed counts.
IN_ANY_ORDER = {"echo_server", "echo_socket"}


def with_our_import(text: str) -> str:
    changed = text.replace("from pyos8 import", "from tiffany.pyos import")
    assert changed != text
    return changed.replace("from sockwrap import", "from tiffany.pyos.sockwrap import")


@pytest.mark.parametrize("name", sorted(path.stem for path in PROGRAMS.glob("*.pyos8")))
def test_runs_when_only_the_import_changes(name: str, tmp_path: Path) -> None:
    program = tmp_path / f"{name}.py"
    program.write_text(with_our_import((PROGRAMS / f"{name}.pyos8").read_text()))
    done = subprocess.run(
        [sys.executable, str(program)], capture_output=True, text=True, timeout=60, check=False
    )
    expected = (PROGRAMS / f"{name}.out").read_text()
    said = done.stdout
    if name in IN_ANY_ORDER:
        said = "".join(sorted(said.splitlines(keepends=True)))
        expected = "".join(sorted(expected.splitlines(keepends=True)))
    assert (said, done.stderr, done.returncode) == (expected, "", 0)
