"""A step may change the working directory; the log stays where it is."""

from __future__ import annotations

from pathlib import Path

from command_kit import Home

PROGRAM = """
import os
import tiffany
from tiffany import sleep, step


@step
def leave() -> None:
    os.chdir("/")


@step
def stay() -> str:
    return "done"


async def main() -> str:
    await leave()
    await sleep(0.05)
    return await stay()


print(tiffany.run(main(), wal="log", id="a"))
"""


def test_a_log_with_a_relative_name_outlives_a_change_of_the_directory(tmp_path: Path) -> None:
    home = Home(tmp_path)
    home.write("program.py", PROGRAM)
    for _ in range(2):
        with home.python("program.py") as started:
            assert started.end().ok() == "done\n"
    assert (tmp_path / "log/wal").is_dir()
