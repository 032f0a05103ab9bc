"""``py_spawn_join``: batches of 1,000 tasks that return a number; each is spawned, then all are
joined.

The tasks of tiffany and asyncio are ``async def`` and are awaited in order through their handles;
those of ``bare`` are generators. trio's tasks have no values: they append to a list, and the
nursery joins them. Spawning is a scheduling point in tiffany and ``bare``; in the others the
children run when the parent first waits. All children run in all of them.
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

BATCH = 1_000


def _batches(mode: Mode) -> int:
    return mode.pick(100, 2)


def _sample(mode: Mode, seconds_and_sum: tuple[float, int]) -> Sample:
    seconds, total = seconds_and_sum
    batches = _batches(mode)
    assert total == batches * (BATCH * (BATCH - 1) // 2), total
    return Sample(ns_each(seconds, BATCH * batches))


async def _child(number: int) -> int:
    return number


def _ours(mode: Mode, _: Path) -> Sample:
    async def main() -> tuple[float, int]:
        start, total = process_time(), 0
        for _ in range(_batches(mode)):
            tasks = [await tiffany.spawn(_child(number)) for number in range(BATCH)]
            for task in tasks:
                total += await tiffany.wait(task)
        return process_time() - start, total

    return _sample(mode, tiffany.run(main()))


def _bare(mode: Mode, _: Path) -> Sample:
    def child(number: int) -> Generator[None, None, int]:
        return number
        yield

    def main() -> Generator[Any, Any, tuple[float, int]]:
        start, total = process_time(), 0
        for _ in range(_batches(mode)):
            tasks = []
            for number in range(BATCH):
                tasks.append((yield bare.NewTask(child(number))))
            for task in tasks:
                total += yield bare.WaitTask(task)
        return process_time() - start, total

    return _sample(mode, bare.run(main()))


async def _asyncio_main(mode: Mode) -> tuple[float, int]:
    start, total = process_time(), 0
    for _ in range(_batches(mode)):
        tasks = [asyncio.create_task(_child(number)) for number in range(BATCH)]
        for task in tasks:
            total += await task
    return process_time() - start, total


def _asyncio(mode: Mode, _: Path) -> Sample:
    return _sample(mode, loops.with_asyncio(_asyncio_main(mode)))


def _uvloop(mode: Mode, _: Path) -> Sample:
    return _sample(mode, loops.with_uvloop(_asyncio_main(mode)))


def _trio(mode: Mode, _: Path) -> Sample:
    import trio

    async def main() -> tuple[float, int]:
        start, total = process_time(), 0
        for _ in range(_batches(mode)):
            values: list[int] = []

            async def child(number: int, values: list[int] = values) -> None:
                values.append(number)

            async with trio.open_nursery() as nursery:
                for number in range(BATCH):
                    nursery.start_soon(child, number)
            total += sum(values)
        return process_time() - start, total

    return _sample(mode, loops.with_trio(main))


MEASURE = Measure(
    name="py_spawn_join",
    what="a task spawned and joined, in batches of 1,000",
    unit="ns",
    better=Better.LOWER,
    targets=(Of("uvloop", 0.3),),
    rounds=9,
    contenders=(
        Contender("tiffany", _ours),
        Contender("uvloop", _uvloop, needs=("uvloop",)),
        Contender("asyncio", _asyncio),
        Contender("trio", _trio, needs=("trio",)),
        Contender("bare", _bare),
    ),
)
