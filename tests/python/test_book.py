"""Programs of the book print what stands under them, and the chapter of the README works as written, from an empty environment."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import sys
from pathlib import Path

import pytest
from command_kit import Home, Started, does, environment

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


def chapter(name: str = "Python") -> str:
    return (ROOT / "README.md").read_text().split(f"\n## {name}\n")[1].split("\n## ")[0]


def commands_in(text: str) -> list[tuple[str, list[str]]]:
    """What is typed in a chapter, each with the lines that stand under it."""
    blocks = re.findall(r"^```console\n(.*?)^```", text, re.M | re.S)
    parts = [part for block in blocks for part in re.split(r"^\$ ", block, flags=re.M)[1:]]
    return [(lines[0], lines[1:]) for lines in map(str.splitlines, parts)]


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
    commands = commands_in(chapter())
    assert len(commands) == 6
    for command, expected in commands:
        if command == "cargo xtask wheel":
            # The one that was built for the tests.
            (tmp_path / "target/wheels").mkdir(parents=True)
            shutil.copy(wheel, tmp_path / "target/wheels")
            continue
        does(command, expected, tmp_path, environment())
    installed = tmp_path / "env/lib"
    (packages,) = installed.glob("*/site-packages")
    names = {path.name.split("-")[0] for path in packages.glob("*.dist-info")}
    assert names <= {"tiffany", "pip", "setuptools"}, "the environment is not empty"


def test_the_chapter_on_the_daemon_works_as_written(tmp_path: Path) -> None:
    text = chapter("One process for all: the daemon")
    ((name, program),) = re.findall(r"`(\w+\.py)`:\n\n```python\n(.*?)^```", text, re.M | re.S)
    home = Home(tmp_path)
    # Whoever reads it has the time to kill the daemon meanwhile; the test needs less.
    home.write(name, program.replace("sleep(0.5)", "sleep(0.2)"))
    (serve, said), (submit, started), (watch, _), *decides = commands_in(text)

    def words(command: str) -> list[str]:
        first, *rest = shlex.split(command)
        assert first == "env/bin/tiffany"
        return rest

    def daemon() -> Started:
        """It serves on a port that is free."""
        serving = home.start(*words(serve), "--listen", "127.0.0.1:0")
        first = serving.line()
        assert re.fullmatch(".*".join(map(re.escape, said[0].split("…"))), first), first
        assert "http://127.0.0.1:" in serving.line()
        return serving

    def here(command: str) -> str:
        return shlex.join([sys.executable, "-m", "tiffany", *words(command)])

    with daemon() as first:
        assert [first.line(), first.line()][1] == said[-1]
        does(here(submit), started, tmp_path, environment())
        with home.start(*words(watch)) as watching:
            while "receipts read" not in watching.line():
                pass
            first.signal(signal.SIGKILL)
            first.end()
            with daemon():
                while "approve" not in watching.line():
                    pass
                assert len(decides) == 3
                for command, expected in decides[:2]:
                    does(here(command), expected, tmp_path, environment())
                assert watching.end().ok().splitlines()[-1] == '"20 EUR paid back"'
                command, expected = decides[2]
                does(here(command), expected, tmp_path, environment())
