"""DBOS with SQLite. As a program, ``with_dbos.py DIR`` starts or resumes a run whose steps each
write their number.

Settings: plain functions (``async`` ones were slower here), DBOS's own threads, and a database in
WAL mode, which is faster than SQLite's default journal that DBOS leaves alone, most of all with
many concurrent runs. ``synchronous`` stays at its default FULL: a step is on the disk before the
next one starts, as in tiffany.
"""

import os
import sqlite3
import sys
from collections.abc import Callable
from pathlib import Path
from time import perf_counter

NEVER = 1_000_000


def _launch(directory: Path) -> None:
    from dbos import DBOS

    database = directory / "dbos.sqlite"
    with sqlite3.connect(database) as connection:
        connection.execute("PRAGMA journal_mode=WAL")
        [synchronous] = connection.execute("PRAGMA synchronous").fetchone()
        assert synchronous == 2, "commits would not wait for the disk"
    connection.close()
    DBOS(
        config={
            "name": "bench",
            "system_database_url": f"sqlite:///{database}",
            "log_level": "ERROR",
        }
    )
    DBOS.launch()


def _workflow(step: Callable[[int], int]) -> Callable[[int], int]:
    """Returns a workflow that executes this step this many times."""
    from dbos import DBOS

    durable_step = DBOS.step(name="step")(step)

    def steps(count: int) -> int:
        total = 0
        for number in range(count):
            total += durable_step(number)
        return total

    workflow: Callable[[int], int] = DBOS.workflow(name="steps")(steps)
    return workflow


def one_run(directory: Path, warm: int, steps: int) -> float:
    """Returns the seconds that this many steps of one run take, after a few to warm up."""
    moments: list[float] = []

    def step(number: int) -> int:
        moments.append(perf_counter())
        return number

    workflow = _workflow(step)
    _launch(directory)
    total = warm + steps + 1
    assert workflow(total) == total * (total - 1) // 2
    return moments[-1] - moments[warm]


def many_runs(directory: Path, warm: int, runs: int, steps: int) -> float:
    """Returns the seconds that this many concurrent runs take, with this many steps each, after
    some others.
    """
    from dbos import DBOS

    workflow = _workflow(lambda number: number)
    _launch(directory)

    def all_at_once(runs: int) -> float:
        start = perf_counter()
        handles = [DBOS.start_workflow(workflow, steps) for _ in range(runs)]
        for handle in handles:
            assert handle.get_result() == steps * (steps - 1) // 2
        return perf_counter() - start

    all_at_once(warm)
    return all_at_once(runs)


def shown_steps(directory: Path) -> None:
    """Runs an endless run. DBOS finds out at launch whether there is one to resume."""
    from dbos import DBOS, SetWorkflowID

    def step(number: int) -> int:
        os.write(1, b"%d\n" % number)
        return number

    workflow = _workflow(step)
    _launch(directory)
    with SetWorkflowID("run"):
        DBOS.start_workflow(workflow, NEVER).get_result()


if __name__ == "__main__":
    shown_steps(Path(sys.argv[1]))
