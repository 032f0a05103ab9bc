"""The durable programs, one file for each library, written as its users would.

Each file has ``one_run``, ``many_runs`` and ``shown_steps``, and stands alone: as a program it is started
without the package around it, so that nobody pays for importing somebody else. A library is imported when it is used, because
it need not be installed.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Protocol, cast

from ..harness import Contender, Mode, Sample


class Program(Protocol):
    """What each of the files can do."""

    __file__: str

    def one_run(self, directory: Path, warm: int, steps: int) -> float:
        """Seconds of so many steps of one run, after a few to warm up."""

    def many_runs(self, directory: Path, warm: int, runs: int, steps: int) -> float:
        """Seconds of so many runs at once of so many steps each, after some others."""


def program(name: str) -> Program:
    """The program of this library."""
    return cast(Program, import_module(f"{__name__}.with_{name}"))


def file(name: str) -> Path:
    """The file of that program, which is not imported."""
    return Path(__file__).with_name(f"with_{name}.py")


def contenders(take: Callable[[str, Mode, Path], Sample]) -> tuple[Contender, ...]:
    """All of them, each measured by ``take(name, mode, directory)``."""
    needs = {
        "tiffany": (),
        "dbos": ("dbos",),
        "langgraph": ("langgraph", "langgraph-checkpoint-sqlite"),
    }
    return tuple(Contender(name, partial(take, name), needs[name]) for name in needs)
