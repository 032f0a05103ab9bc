"""The pytest plugin. It is found through its entry point and needs no configuration."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tiffany.testing import GoldenLog, Scheduler, run


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.getgroup("tiffany").addoption(
        "--golden-update",
        action="store_true",
        help="record the golden logs again instead of comparing the code with them",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        "tiffany(**settings): run the test, a generator or `async def`, as a task with a virtual clock; the settings are those of"
        " `tiffany.run`.",
    )


def _is_program(function: object) -> bool:
    return inspect.isgeneratorfunction(function) or inspect.iscoroutinefunction(function)


@pytest.hookimpl(tryfirst=True)
def pytest_pycollect_makeitem(
    collector: pytest.Module | pytest.Class, name: str, obj: object
) -> list[pytest.Function] | None:
    """Collects marked generators, which pytest itself does not treat as tests."""
    if not (inspect.isgeneratorfunction(obj) and collector.funcnamefilter(name)):
        return None
    marks = [*collector.iter_markers(), *getattr(obj, "pytestmark", [])]
    if not any(mark.name == "tiffany" for mark in marks):
        return None
    return list(collector._genfunctions(name, obj))


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    mark = pyfuncitem.get_closest_marker("tiffany")
    if mark is None:
        return None
    function = pyfuncitem.obj
    if not _is_program(function):
        pytest.fail(
            f"{pyfuncitem.name} is marked `tiffany`, but is neither a generator nor `async def`"
        )
    wanted = pyfuncitem._fixtureinfo.argnames
    given = {name: pyfuncitem.funcargs[name] for name in wanted}
    run(function(**given), **mark.kwargs)
    return True


@pytest.fixture
def tiffany_scheduler() -> Iterator[Callable[..., Scheduler]]:
    """Creates a `Scheduler` from programs and settings, and closes it after the test."""
    made: list[Scheduler] = []

    def make(*programs: Any, **settings: Any) -> Scheduler:
        made.append(Scheduler(*programs, **settings))
        return made[-1]

    yield make
    for scheduler in made:
        scheduler.close()


@pytest.fixture
def golden_log(request: pytest.FixtureRequest) -> GoldenLog:
    """The golden log of this test: `golden/<file>-<test>.wal` beside its file. Call it with a
    durable program.
    """
    name = re.sub(r"[^\w.-]+", "-", request.node.name).strip("-")
    path = request.path.parent / "golden" / f"{request.path.stem}-{name}.wal"
    return GoldenLog(path, update=request.config.getoption("--golden-update"))
