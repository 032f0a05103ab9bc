"""``py_await``: 100 ``async def`` tasks that yield to the others 5,000 times each.

The peers are those of ``py_yield``, except ``bare``, whose tasks are generators.
"""

from __future__ import annotations

from pathlib import Path
from time import process_time

import tiffany

from . import py_yield
from .harness import Better, Contender, Measure, Mode, Of, Sample, ns_each

TASKS = py_yield.TASKS


def _ours(mode: Mode, _: Path) -> Sample:
    yields = mode.pick(5_000, 50)

    async def yielding() -> None:
        for _ in range(yields):
            await tiffany.yield_now()

    async def main() -> float:
        start = process_time()
        tasks = [await tiffany.spawn(yielding()) for _ in range(TASKS)]
        for task in tasks:
            await tiffany.wait(task)
        return process_time() - start

    return Sample(ns_each(tiffany.run(main()), TASKS * yields))


MEASURE = Measure(
    name="py_await",
    what=f"a switch among {TASKS} tasks that are `async def`",
    unit="ns",
    better=Better.LOWER,
    targets=(Of("uvloop", 0.35),),
    rounds=9,
    contenders=(
        Contender("tiffany", _ours),
        Contender("uvloop", py_yield.with_uvloop, needs=("uvloop",)),
        Contender("asyncio", py_yield.with_asyncio),
        Contender("trio", py_yield.with_trio, needs=("trio",)),
    ),
)
