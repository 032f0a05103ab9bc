"""Programs of the book print what stands under them, and the chapter of the README works as written, from an empty environment."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

import pytest
from command_kit import Home, does, environment

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs/src"
BLOCK = re.compile(r"^```python\n(.*?)^```\n\n```text\n(.*?)^```", re.M | re.S)
BLOCKS = [
    pytest.param(*block, id=f"{page}-{number}")
    for page in ("python.md", "retention.md")
    for number, block in enumerate(BLOCK.findall((DOCS / page).read_text()))
]


@pytest.mark.parametrize(("page", "least"), [("python.md", 6), ("retention.md", 1)])
def test_a_page_has_programs_and_what_they_print(page: str, least: int) -> None:
    text = (DOCS / page).read_text()
    assert least <= len(BLOCK.findall(text)) == text.count("```python")


@pytest.mark.parametrize(("program", "printed"), BLOCKS)
def test_a_program_of_the_book_prints_what_stands_under_it(
    tmp_path: Path, program: str, printed: str
) -> None:
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
