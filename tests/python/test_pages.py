"""The tutorials of the book, as they stand: their files are written, and their commands print what stands there."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest
from command_kit import does, environment

DOCS = Path(__file__).parents[2] / "docs/src"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.M | re.S)


@pytest.mark.parametrize(
    ("page", "count"),
    [
        ("python-bridges.md", 4),
        ("python-testing.md", 4),
        ("time-travel.md", 2),
        ("changing-code.md", 3),
    ],
)
def test_a_page_works_as_written(page: str, count: int, tmp_path: Path) -> None:
    text = (DOCS / page).read_text()
    scripts = str(Path(sys.executable).parent)
    env = environment() | {"PATH": f"{scripts}:{os.environ['PATH']}"}
    files = 0
    for block in BLOCK.finditer(text):
        kind, body = block.groups()
        if kind == "python":
            named = re.search(r"Put this into `(\w+\.py)`:\n\n$", text[: block.start()])
            assert named, f"no file is named for:\n{body}"
            (tmp_path / named[1]).write_text(body)
            files += 1
            continue
        for part in re.split(r"^\$ ", body, flags=re.M)[1:]:
            command, *expected = part.splitlines()
            does(command, expected, tmp_path, env)
    assert files == count
