"""The web services, one file for each library, written as its users would write them: a FastAPI
endpoint that starts a durable run of three steps and returns its result.

Each file is a program, ``with_NAME.py DIR``, that writes its port when it serves. It imports nothing
of the package around it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from ..harness import Contender, Mode, Sample

SERVER = ("fastapi", "uvicorn")


def file(name: str) -> Path:
    """Returns the program of this library."""
    return Path(__file__).with_name(f"with_{name}.py")


def contenders(take: Callable[[str, Mode, Path], Sample]) -> tuple[Contender, ...]:
    """Returns all contenders, each measured with ``take(name, mode, directory)``."""
    needs = {"tiffany": SERVER, "dbos": (*SERVER, "dbos")}
    return tuple(Contender(name, partial(take, name), needs[name]) for name in needs)
