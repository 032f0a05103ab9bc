"""What the tests of pyos are given."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any

import pytest
from pyos.kit import Quiet, Run


@pytest.fixture
def sched() -> Iterator[Quiet]:
    """A scheduler without tasks."""
    sched = Quiet()
    yield sched
    # Tracebacks lead back to the programs.
    sched.failures.clear()
    sched.taskmap.clear()
    gc.collect()


@pytest.fixture
def run(sched: Quiet) -> Run:
    """Runs programs to their end."""

    def run(*targets: Any) -> Quiet:
        for target in targets:
            sched.new(target)
        sched.mainloop()
        assert not sched.taskmap
        assert sched.ready.empty()
        assert not sched.read_waiting
        assert not sched.write_waiting
        return sched

    return run
