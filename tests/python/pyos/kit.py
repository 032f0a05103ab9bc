"""What the tests of pyos share."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from collections.abc import Callable, Generator
from typing import Any

from tiffany.pyos import Scheduler, SystemCall, Task

Program = Generator[Any, Any, Any]


class Quiet(Scheduler):
    """A scheduler that keeps what it would have said."""

    tells_end = False

    def __init__(self) -> None:
        super().__init__()
        self.over: list[int] = []
        self.failures: list[tuple[int, BaseException]] = []

    def exit(self, task: Task) -> None:
        self.over.append(task.tid)
        super().exit(task)

    def _failed(self, task: Task, error: BaseException) -> None:
        self.failures.append((task.tid, error))


Run = Callable[..., Quiet]


class Pause(SystemCall):
    """Waits until somebody schedules the task."""


def said_by(program: str) -> subprocess.CompletedProcess[str]:
    """Runs a program in a process of its own."""
    text = "from tiffany.pyos import *\n" + textwrap.dedent(program)
    return subprocess.run(
        [sys.executable, "-c", text], capture_output=True, text=True, timeout=60, check=False
    )
