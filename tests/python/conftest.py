"""What all tests share: no run leaves anything behind, no test hangs, and several processes can divide the tests."""

from __future__ import annotations

import faulthandler
import functools
import gc
import itertools
import os
import sys
from collections.abc import Generator, Iterator
from pathlib import Path
from types import TracebackType

import pytest

collect_ignore_glob = ["programs/*"]
"""They are run by tests, as processes of their own."""

#: The variable that names the directory in which processes that divide the tests claim test files.
CLAIMS = "TIFFANY_TEST_CLAIMS"

#: So long a test may take before the process ends with the stacks of all threads.
TIMEOUT_SECONDS = 120

#: The real standard error: while a test runs it is captured, and what is written there by a process that ends is lost.
_real_stderr = 2


def pytest_configure() -> None:
    """Nothing is captured at this moment."""
    global _real_stderr
    _real_stderr = os.dup(2)


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    """Runs only the tests of this process, if several processes divide the tests."""
    if CLAIMS not in os.environ or session.testsfailed or session.config.option.collectonly:
        return None
    ours = (item for item in session.items if _is_ours(item.path))
    # pytest tears down what the following test does not need, so it has to be one that runs here.
    for item, following in itertools.pairwise(itertools.chain(ours, [None])):
        assert item is not None
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        if session.shouldfail:
            raise session.Failed(session.shouldfail)
        if session.shouldstop:
            raise session.Interrupted(session.shouldstop)
    return True


@functools.cache
def _is_ours(file: Path) -> bool:
    """Whether this process runs a test file: each belongs to the first process that claims it."""
    try:
        (Path(os.environ[CLAIMS]) / str(file).replace("/", "_")).touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


@pytest.fixture(autouse=True)
def bounded() -> Iterator[None]:
    """A test that hangs ends the process, and shows where."""
    faulthandler.dump_traceback_later(TIMEOUT_SECONDS, exit=True, file=_real_stderr)
    yield
    faulthandler.cancel_dump_traceback_later()


def pytest_collection_finish() -> None:
    """Everything that exists before the first test stays, so the collections after each test need
    not look at it.
    """
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def nothing_unraisable(request: pytest.FixtureRequest) -> Iterator[None]:
    """A test fails if something went wrong where nobody could catch it, unless it is marked with ``unraisable``."""
    seen: list[str] = []

    def see(what: sys.UnraisableHookArgs, /) -> None:
        seen.append(f"{what.exc_type.__name__}: {what.exc_value} in {what.object!r}")

    before = sys.unraisablehook
    sys.unraisablehook = see
    yield
    gc.collect()
    sys.unraisablehook = before
    if request.node.get_closest_marker("unraisable") is None:
        assert seen == []


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A test that is skipped without saying why fails."""
    report = yield
    if report.skipped and isinstance(report.longrepr, tuple):
        _, _, why = report.longrepr
        if why.removeprefix("Skipped").strip(": ") in ("", "unconditional skip"):
            report.outcome = "failed"
            report.longrepr = "it is skipped, and nobody says why"
    return report


def depth(traceback: TracebackType | None) -> int:
    """So many lines a traceback has."""
    lines = 0
    while traceback is not None:
        lines += 1
        traceback = traceback.tb_next
    return lines
