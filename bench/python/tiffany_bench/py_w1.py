"""``py_w1``: one run, one durable step after the other.

A step is on the disk before the next one starts, and does no work, so that only the log is
measured. The time is taken from the start of one step to the start of another inside one run;
opening and closing are not included.
"""

from __future__ import annotations

from pathlib import Path

from . import durable
from .harness import Better, Measure, Mode, OfBest, Sample


def _take(name: str, mode: Mode, directory: Path) -> Sample:
    steps = mode.pick(1_000, 10)
    seconds = durable.program(name).one_run(directory, warm=steps // 4, steps=steps)
    return Sample(steps / seconds)


MEASURE = Measure(
    name="py_w1",
    what="one run, 1,000 durable steps one after the other",
    unit="steps/s",
    better=Better.HIGHER,
    targets=(OfBest(3.0),),
    rounds=7,
    contenders=durable.contenders(_take),
)
