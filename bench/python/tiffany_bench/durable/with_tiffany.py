"""tiffany. As a program, ``with_tiffany.py DIR`` starts or resumes a run whose steps each write
their number.

All settings are defaults: steps are plain functions on the pool's threads, every call is recorded,
and a step is on the disk before the next one starts.
"""

import os
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from time import perf_counter
from typing import Any

import tiffany

NEVER = 1_000_000


def _workflow(step: Callable[[int], int]) -> Callable[[int], Coroutine[Any, Any, int]]:
    """Returns a workflow that executes this step this many times."""
    durable_step = tiffany.step(step)

    async def steps(count: int) -> int:
        total = 0
        for number in range(count):
            total += await durable_step(number)
        return total

    return tiffany.workflow(name="steps")(steps)


def one_run(directory: Path, warm: int, steps: int) -> float:
    """Returns the seconds that this many steps of one run take, after a few to warm up."""
    moments: list[float] = []

    def step(number: int) -> int:
        moments.append(perf_counter())
        return number

    total = warm + steps + 1
    assert tiffany.run(_workflow(step)(total), wal=directory, id="run") == total * (total - 1) // 2
    return moments[-1] - moments[warm]


def many_runs(directory: Path, warm: int, runs: int, steps: int) -> float:
    """Returns the seconds that this many concurrent runs take, with this many steps each, after
    some others.
    """

    def step(number: int) -> int:
        return number

    workflow = _workflow(step)

    def all_at_once(name: str, runs: int) -> float:
        start = perf_counter()
        started = [runtime.submit(workflow, steps, id=f"{name} {run}") for run in range(runs)]
        for run in started:
            assert runtime.wait(run) == steps * (steps - 1) // 2
        return perf_counter() - start

    with tiffany.Runtime(wal=directory) as runtime:
        all_at_once("before", warm)
        return all_at_once("run", runs)


def shown_steps(directory: Path) -> None:
    """Starts or resumes an endless run."""

    def step(number: int) -> int:
        os.write(1, b"%d\n" % number)
        return number

    tiffany.run(_workflow(step)(NEVER), wal=directory, id="run")


if __name__ == "__main__":
    shown_steps(Path(sys.argv[1]))
