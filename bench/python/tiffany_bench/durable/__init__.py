"""The durable programs, one file for each library, written as its users would write them.

Each file has ``one_run``, ``many_runs`` and ``shown_steps``, and is independent: it is started as a
program without the package around it, so that no library pays for importing another. A library is
imported when it is used, because it need not be installed.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Protocol, cast

from ..harness import Contender, Mode, Sample


class Program(Protocol):
    """The functions that each file provides."""

    __file__: str

    def one_run(self, directory: Path, warm: int, steps: int) -> float:
        """Returns the seconds that this many steps of one run take, after a few to warm up."""

    def many_runs(self, directory: Path, warm: int, runs: int, steps: int) -> float:
        """Returns the seconds that this many concurrent runs take, with this many steps each, after
        some others.
        """


def program(name: str) -> Program:
    """Returns the program of this library."""
    return cast(Program, import_module(f"{__name__}.with_{name}"))


def file(name: str) -> Path:
    """Returns the file of that program, which is not imported."""
    return Path(__file__).with_name(f"with_{name}.py")


def contenders(take: Callable[[str, Mode, Path], Sample]) -> tuple[Contender, ...]:
    """Returns all contenders, each measured with ``take(name, mode, directory)``."""
    needs = {
        "tiffany": (),
        "dbos": ("dbos",),
        "langgraph": ("langgraph", "langgraph-checkpoint-sqlite"),
    }
    return tuple(Contender(name, partial(take, name), needs[name]) for name in needs)
