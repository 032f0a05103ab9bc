"""Programs of the book print the output below them. The README's section on Python works as written, from an empty environment; so does the tutorial on the daemon."""

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


def section(page: Path, name: str) -> str:
    return page.read_text().split(f"\n## {name}\n")[1].split("\n## ")[0]


def files_in(text: str) -> list[tuple[str, str]]:
    """The programs that the reader is asked to write, with the names of their files."""
    return re.findall(r"`(\w+\.py)`:\n\n```python\n(.*?)^```", text, re.M | re.S)


def commands_in(text: str) -> list[tuple[str, list[str]]]:
    """The commands of a text, each with the output below it."""
    blocks = re.findall(r"^```console\n(.*?)^```", text, re.M | re.S)
    parts = [part for block in blocks for part in re.split(r"^\$ ", block, flags=re.M)[1:]]
    return [(lines[0], lines[1:]) for lines in map(str.splitlines, parts)]


def test_the_readme_works_as_written(tmp_path: Path) -> None:
    wheel = os.environ.get("TIFFANY_WHEEL")
    if wheel is None:
        pytest.skip(
            "it needs a wheel, which `cargo xtask python` builds and names in TIFFANY_WHEEL"
        )
    text = section(ROOT / "README.md", "Python")
    files = files_in(text)
    assert [name for name, _ in files] == ["shop.py"]
    for name, program in files:
        (tmp_path / name).write_text(program)
    commands = commands_in(text)
    assert len(commands) == 5
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


def test_the_tutorial_on_the_daemon_works_as_written(tmp_path: Path) -> None:
    text = (DOCS / "daemon-tutorial.md").read_text()
    ((name, program),) = files_in(text)
    home = Home(tmp_path)
    # A reader needs time to kill the daemon meanwhile; the test needs less.
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
