"""The guide's programs print what stands under them, and the chapter of the README works as written, from an empty environment."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

import pytest
from command_kit import Home, does, environment

ROOT = Path(__file__).parents[2]
GUIDE = ROOT / "docs/src/python.md"
BLOCKS = re.findall(r"^```python\n(.*?)^```\n\n```text\n(.*?)^```", GUIDE.read_text(), re.M | re.S)


def test_the_guide_has_programs() -> None:
    assert len(BLOCKS) >= 6
    assert len(BLOCKS) == GUIDE.read_text().count("```python")


@pytest.mark.parametrize("number", range(len(BLOCKS)))
def test_a_program_of_the_guide_prints_what_stands_under_it(tmp_path: Path, number: int) -> None:
    program, printed = BLOCKS[number]
    home = Home(tmp_path)
    home.write("program.py", program)
    with home.python("-W", "error", "program.py") as started:
        assert started.end().ok() == printed


def chapter() -> str:
    return (ROOT / "README.md").read_text().split("\n## Python\n")[1].split("\n## ")[0]


def test_the_chapter_of_the_readme_works_as_written(tmp_path: Path) -> None:
    wheel = os.environ.get("TIFFANY_WHEEL")
    if wheel is None:
        pytest.skip(
            "it needs a wheel, which `cargo xtask python` builds and names in TIFFANY_WHEEL"
        )
    files = re.findall(r"`(\w+\.py)`:\n\n```python\n(.*?)^```", chapter(), re.M | re.S)
    assert {name for name, _ in files} == {"squares.py", "shop.py"}
    for name, text in files:
        (tmp_path / name).write_text(text)
    commands = 0
    for block in re.findall(r"^```console\n(.*?)^```", chapter(), re.M | re.S):
        for part in re.split(r"^\$ ", block, flags=re.M)[1:]:
            command, *expected = part.splitlines()
            commands += 1
            if command == "cargo xtask wheel":
                # The one that was built for the tests.
                (tmp_path / "target/wheels").mkdir(parents=True)
                shutil.copy(wheel, tmp_path / "target/wheels")
                continue
            does(command, expected, tmp_path, environment())
    assert commands == 6
    installed = tmp_path / "env/lib"
    (packages,) = installed.glob("*/site-packages")
    names = {path.name.split("-")[0] for path in packages.glob("*.dist-info")}
    assert names <= {"tiffany", "pip", "setuptools"}, "the environment is not empty"
