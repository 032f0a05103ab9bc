"""``py_leak``: the growth of resident memory after 1,000,000 tasks were spawned and joined in
batches of 1,000.

20 batches are run before, so that pools and free lists have reached their size. The garbage
collector is off meanwhile, so that it cannot hide cycles; ``cycles`` is the number of objects it
then finds that only keep each other alive. The peers are there for comparison: the target is a
fixed figure.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Generator
from pathlib import Path
from typing import Any

import tiffany

from . import bare, loops
from .harness import Beside, Better, Contender, Figure, Measure, Mode, Sample

BATCH = 1_000
WARM_BATCHES = 20


def resident_bytes() -> int:
    """Returns the resident memory of this process in bytes."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError("/proc/self/status has no VmRSS")


class Watch:
    """Compares the memory before and after."""

    def begin(self) -> None:
        """Records the memory before, which does not count."""
        gc.collect()
        gc.disable()
        self.before = resident_bytes()

    def end(self) -> Sample:
        """Returns the growth in MB, and what the collector finds."""
        grown = resident_bytes() - self.before
        return Sample(grown / 1e6, {"cycles": gc.collect()})


def _batches(mode: Mode) -> int:
    return mode.pick(1_000, 20)


async def _child(number: int) -> int:
    return number


def _ours(mode: Mode, _: Path) -> Sample:
    async def batches(count: int) -> None:
        for _ in range(count):
            tasks = [await tiffany.spawn(_child(number)) for number in range(BATCH)]
            for task in tasks:
                await tiffany.wait(task)

    async def main() -> Sample:
        await batches(WARM_BATCHES)
        watch = Watch()
        watch.begin()
        await batches(_batches(mode))
        return watch.end()

    sample: Sample = tiffany.run(main())
    return sample


def _bare(mode: Mode, _: Path) -> Sample:
    def child(number: int) -> Generator[None, None, int]:
        return number
        yield

    def batches(count: int) -> Generator[Any, Any, None]:
        for _ in range(count):
            tasks = []
            for number in range(BATCH):
                tasks.append((yield bare.NewTask(child(number))))
            for task in tasks:
                yield bare.WaitTask(task)

    def main() -> Generator[Any, Any, Sample]:
        yield from batches(WARM_BATCHES)
        watch = Watch()
        watch.begin()
        yield from batches(_batches(mode))
        return watch.end()

    sample: Sample = bare.run(main())
    return sample


async def _asyncio_main(mode: Mode) -> Sample:
    async def batches(count: int) -> None:
        for _ in range(count):
            tasks = [asyncio.create_task(_child(number)) for number in range(BATCH)]
            for task in tasks:
                await task

    await batches(WARM_BATCHES)
    watch = Watch()
    watch.begin()
    await batches(_batches(mode))
    return watch.end()


def _asyncio(mode: Mode, _: Path) -> Sample:
    return loops.with_asyncio(_asyncio_main(mode))


def _uvloop(mode: Mode, _: Path) -> Sample:
    return loops.with_uvloop(_asyncio_main(mode))


MEASURE = Measure(
    name="py_leak",
    what="memory after 1,000,000 tasks, in batches of 1,000",
    unit="MB",
    better=Better.LOWER,
    targets=(Figure(5.0), Beside("cycles", 0)),
    rounds=3,
    contenders=(
        Contender("tiffany", _ours),
        Contender("uvloop", _uvloop, needs=("uvloop",)),
        Contender("asyncio", _asyncio),
        Contender("bare", _bare),
    ),
)
