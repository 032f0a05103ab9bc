"""``py_depth50``: a yield at the bottom of 50 generators that called each other by yielding, in 100
such tasks.

The column ``depth_1`` is the same with a task that itself yields; the two alternate in one process.
The way down and up is part of the time: 100 steps of it compared with 10,000 yields. ``bare`` uses
its trampoline. asyncio has no comparable call stack: a nested ``await`` there passes through every
level at each switch.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from pathlib import Path
from time import process_time
from typing import Any

import tiffany

from . import bare
from .harness import Better, Contender, Measure, Mode, OfBeside, Sample, ns_each

TASKS = 100
DEPTH = 50


def _yielding(depth: int, yields: int) -> Generator[Any, Any, None]:
    """Yields at this depth; it is itself at depth 1."""
    if depth > 1:
        yield _yielding(depth - 1, yields)
    else:
        for _ in range(yields):
            yield


def _sample(mode: Mode, seconds_at: Callable[[int, int], float]) -> Sample:
    yields, turns = mode.pick((10_000, 3), (50, 1))
    seconds_at(DEPTH, yields // 50)  # So that the first of the two is not the one that warms up.
    deep = flat = 0.0
    for _ in range(turns):
        deep += seconds_at(DEPTH, yields)
        flat += seconds_at(1, yields)
    operations = turns * TASKS * yields
    return Sample(ns_each(deep, operations), {"depth_1": ns_each(flat, operations)})


def _ours(mode: Mode, _: Path) -> Sample:
    def main(depth: int, yields: int) -> Generator[Any, Any, float]:
        start = process_time()
        tasks = []
        for _ in range(TASKS):
            tasks.append((yield tiffany.calls.Spawn(_yielding(depth, yields))))
        for task in tasks:
            yield tiffany.calls.Wait(task)
        return process_time() - start

    return _sample(mode, lambda depth, yields: tiffany.run(main(depth, yields)))


def _bare(mode: Mode, _: Path) -> Sample:
    def main(depth: int, yields: int) -> Generator[Any, Any, float]:
        start = process_time()
        tasks = []
        for _ in range(TASKS):
            tasks.append((yield bare.NewTask(_yielding(depth, yields))))
        for task in tasks:
            yield bare.WaitTask(task)
        return process_time() - start

    def seconds_at(depth: int, yields: int) -> float:
        seconds: float = bare.run(main(depth, yields), bare.StackTask)
        return seconds

    return _sample(mode, seconds_at)


MEASURE = Measure(
    name="py_depth50",
    what=f"a yield at depth {DEPTH} of the call stack",
    unit="ns",
    better=Better.LOWER,
    targets=(OfBeside("depth_1", 1.2),),
    rounds=9,
    contenders=(Contender("tiffany", _ours), Contender("bare", _bare)),
)
