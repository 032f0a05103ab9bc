"""``py_w3``: a process is killed with SIGKILL after 500 steps; the time from starting it again to
its next step.

Importing the library is included, as it is for a user who waits. ``begun`` is the time of a process
that finds nothing to resume, so the difference is the cost of resuming alone.
"""

from __future__ import annotations

from pathlib import Path
from time import perf_counter

from . import durable
from .harness import Better, Measure, Mode, OfBest, Sample
from .process import Child


def _take(name: str, mode: Mode, directory: Path) -> Sample:
    steps = mode.pick(500, 20)
    # `-P`: the directory of the file is no place to import from.
    arguments = ("-P", str(durable.file(name)), str(directory))
    start = perf_counter()
    with Child(*arguments) as first:
        last = int(first.line())
        begun = perf_counter() - start
        while last < steps - 1:
            last = int(first.line())
        first.kill()
    start = perf_counter()
    with Child(*arguments) as second:
        next_ = int(second.line())
        resumed = perf_counter() - start
    # The one that was cut short may be done again, no earlier one.
    assert next_ >= last, f"killed at step {last}, it went on at {next_}"
    return Sample(resumed * 1e3, {"begun": begun * 1e3})


MEASURE = Measure(
    name="py_w3",
    what="killed after 500 steps: from process start to the next step",
    unit="ms",
    better=Better.LOWER,
    targets=(OfBest(0.5),),
    rounds=7,
    contenders=durable.contenders(_take),
)
