"""``py_yield``: 100 generators that yield to the others 5,000 times each.

The tasks of tiffany and ``bare`` use ``yield``. The others have no generator tasks: theirs are
``async def`` with the yield of their own API, ``asyncio.sleep(0)`` and
``trio.lowlevel.checkpoint()``. Spawning and joining are included for all: one switch of 5,000.
"""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from pathlib import Path
from time import process_time
from typing import Any

import tiffany

from . import bare, loops
from .harness import Better, Contender, Measure, Mode, Of, Sample, ns_each

TASKS = 100


def _yields(mode: Mode) -> int:
    return mode.pick(5_000, 50)


def _sample(mode: Mode, seconds: float) -> Sample:
    return Sample(ns_each(seconds, TASKS * _yields(mode)))


def _yielding(yields: int) -> Generator[None, None, None]:
    for _ in range(yields):
        yield


def _ours(mode: Mode, _: Path) -> Sample:
    def main() -> Generator[Any, Any, float]:
        start = process_time()
        tasks = []
        for _ in range(TASKS):
            tasks.append((yield tiffany.calls.Spawn(_yielding(_yields(mode)))))
        for task in tasks:
            yield tiffany.calls.Wait(task)
        return process_time() - start

    return _sample(mode, tiffany.run(main()))


def _bare(mode: Mode, _: Path) -> Sample:
    def main() -> Generator[Any, Any, float]:
        start = process_time()
        tasks = []
        for _ in range(TASKS):
            tasks.append((yield bare.NewTask(_yielding(_yields(mode)))))
        for task in tasks:
            yield bare.WaitTask(task)
        return process_time() - start

    return _sample(mode, bare.run(main()))


async def _asyncio_main(mode: Mode) -> float:
    async def yielding(yields: int) -> None:
        for _ in range(yields):
            await asyncio.sleep(0)

    start = process_time()
    tasks = [asyncio.create_task(yielding(_yields(mode))) for _ in range(TASKS)]
    for task in tasks:
        await task
    return process_time() - start


def with_asyncio(mode: Mode, _: Path) -> Sample:
    """Also a peer of ``py_await``."""
    return _sample(mode, loops.with_asyncio(_asyncio_main(mode)))


def with_uvloop(mode: Mode, _: Path) -> Sample:
    """Also a peer of ``py_await``."""
    return _sample(mode, loops.with_uvloop(_asyncio_main(mode)))


def with_trio(mode: Mode, _: Path) -> Sample:
    """Also a peer of ``py_await``."""
    import trio

    async def yielding(yields: int) -> None:
        for _ in range(yields):
            await trio.lowlevel.checkpoint()

    async def main() -> float:
        start = process_time()
        async with trio.open_nursery() as nursery:
            for _ in range(TASKS):
                nursery.start_soon(yielding, _yields(mode))
        return process_time() - start

    return _sample(mode, loops.with_trio(main))


MEASURE = Measure(
    name="py_yield",
    what=f"a switch among {TASKS} tasks that are generators",
    unit="ns",
    better=Better.LOWER,
    targets=(Of("bare", 0.6), Of("uvloop", 0.25)),
    rounds=9,
    contenders=(
        Contender("tiffany", _ours),
        Contender("bare", _bare),
        Contender("uvloop", with_uvloop, needs=("uvloop",)),
        Contender("asyncio", with_asyncio),
        Contender("trio", with_trio, needs=("trio",)),
    ),
)
