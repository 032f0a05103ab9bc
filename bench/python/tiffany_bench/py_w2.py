"""``py_w2``: 200 concurrent runs with 20 durable steps each.

The time is taken from the first start to the last result. 20 other runs come before, so that files,
threads and connections exist, as in a long-running program.
"""

from __future__ import annotations

from pathlib import Path

from . import durable
from .harness import Better, Measure, Mode, OfBest, Sample


def _take(name: str, mode: Mode, directory: Path) -> Sample:
    runs, steps = mode.pick((200, 20), (5, 2))
    seconds = durable.program(name).many_runs(
        directory, warm=runs // 10 + 1, runs=runs, steps=steps
    )
    return Sample(runs * steps / seconds)


MEASURE = Measure(
    name="py_w2",
    what="200 runs at once, 20 durable steps each",
    unit="steps/s",
    better=Better.HIGHER,
    targets=(OfBest(10.0),),
    rounds=5,
    contenders=durable.contenders(_take),
)
