"""Lists of runs and what runs are started with: the same names and the same answers from both runtimes
and from both clients, over the socket and over HTTP.
"""

from __future__ import annotations

import asyncio
import importlib.util
import sys
from collections.abc import Coroutine, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from client_kit import KINDS, Daemon, Each, use
from command_kit import Home
from tiffany import AsyncRuntime, Client, Runtime
from tiffany.client._rest import http_of
from tiffany.durable import RunInfo
from tiffany.errors import (
    BadArgumentError,
    BadAttributeError,
    BadDeadlineError,
    DeadlinePassedError,
)

PROGRAM = """
from tiffany import receive_message, workflow


@workflow(name="listed")
async def listed(number: int) -> int:
    return await receive_message("number") if number == 4 else number
"""
RUNTIMES = ("runtime", "async runtime")
each_kind = pytest.mark.parametrize("kind", (*RUNTIMES, *KINDS))
DUE = datetime(2027, 1, 15, 8, 0, 0, 250_000, tzinfo=UTC)
ODD_TAG = 'a,b "ü" \\'


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with Daemon(Home(tmp_path_factory.mktemp("listed")), program=PROGRAM) as daemon:
        yield daemon


@pytest.fixture(scope="module")
def listed(daemon: Daemon) -> Iterator[Any]:
    """The workflow of the daemon, in this process too."""
    place = daemon.home.path / "app.py"
    spec = importlib.util.spec_from_file_location("listed_app", place)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["listed_app"] = module
    spec.loader.exec_module(module)
    yield module.listed
    del sys.modules["listed_app"]


def finished(scenario: Coroutine[Any, Any, Any]) -> Any:
    """Runs what awaits nothing, without an event loop, which `Runtime` would block."""
    try:
        scenario.send(None)
    except StopIteration as over:
        return over.value
    raise AssertionError("it waits for something")


async def result(of: Each, run: Any) -> Any:
    """The outcome of a run, whatever the method is called."""
    if isinstance(of.client, Runtime):
        return of.client.wait(run)
    return await (run.result() if isinstance(of.client, AsyncRuntime) else of.result(run))


def use_any(daemon: Daemon, kind: str, wal: Path, scenario: Any) -> Any:
    """Runs a scenario with a runtime or a client of this kind."""

    async def of_runtime() -> Any:
        async with AsyncRuntime(wal=wal) as runtime:
            return await scenario(Each(runtime))

    if kind == "async runtime":
        return asyncio.run(of_runtime())
    if kind == "runtime":
        with Runtime(wal=wal) as runtime:
            return finished(scenario(Each(runtime)))
    return use(daemon, kind, scenario)


LISTS: list[tuple[dict[str, Any], list[int]]] = [
    ({}, [0, 1, 2, 3, 4]),
    ({"descending": True}, [4, 3, 2, 1, 0]),
    ({"sort": "started", "descending": False}, [0, 1, 2, 3, 4]),
    ({"sort": "started"}, [4, 3, 2, 1, 0]),
    ({"state": "live"}, [4]),
    ({"state": ["live", "completed"]}, [0, 1, 2, 3, 4]),
    ({"state": ("failed", "held")}, []),
    ({"function": "listed"}, [0, 1, 2, 3, 4]),
    ({"function": "list"}, []),
    ({"text": " 2"}, [2]),
    ({"before": "2020-01-01"}, []),
    ({"before": datetime(1960, 1, 1)}, []),
    ({"since": datetime(2020, 1, 1), "before": "2200-01-01T00:00Z"}, [0, 1, 2, 3, 4]),
    ({"since": datetime(9000, 1, 1, tzinfo=UTC)}, []),
    ({"tags": ["even"]}, [0, 2, 4]),
    ({"tags": ("even", "odd")}, []),
    ({"tags": [ODD_TAG]}, [3]),
    ({"tags": ["a"]}, []),
    ({"attributes": {"number": 3}}, [3]),
    ({"attributes": {"number": "3"}}, []),
    ({"attributes": {"name": "a,b", "number": 3}}, [3]),
    ({"attributes": {"due": DUE + timedelta(2), "paid": False, "rate": 0.5}}, [2]),
    ({"attributes": ["number>=3"]}, [3, 4]),
    ({"attributes": "number>=3", "tags": ["even"]}, [4]),
    ({"attributes": ["name=a,b"]}, [3]),
    ({"attributes": ["name!=a,b", "number>2"]}, [4]),
    ({"attributes": [f"due<{(DUE + timedelta(1)).isoformat().replace('+00:00', 'Z')}"]}, [0]),
]
REFUSED: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"state": "lost"}, BadArgumentError, "there is no state 'lost'"),
    ({"state": 3}, BadArgumentError, "`state` is a list"),
    ({"tags": "even"}, BadArgumentError, r"write \['even'\]"),
    ({"attributes": ["number"]}, BadAttributeError, "`number` is not a filter"),
    ({"attributes": [3]}, BadAttributeError, "a condition is a str, not 3"),
    ({"attributes": {"a": None}}, BadArgumentError, "an attribute is a str"),
    ({"sort": "size"}, BadArgumentError, "one of started, ended, id, function"),
    ({"since": "noon"}, BadArgumentError, "`since` is a datetime"),
    ({"before": 3}, BadArgumentError, "`before` is a datetime"),
    ({"function": 3}, BadArgumentError, "`function` is a text"),
    ({"parent": 3}, BadArgumentError, "is not a run"),
]


def given(number: int, kind: str) -> dict[str, Any]:
    """What the run with this number is started with."""
    return {
        "tags": [kind, "even" if number % 2 == 0 else "odd", *([ODD_TAG] if number == 3 else [])],
        "attributes": {
            "number": number,
            "name": "a,b" if number == 3 else f"n{number}",
            "rate": 0.5,
            "whole": 2.0,
            "paid": False,
            "due": DUE + timedelta(number),
        },
    }


@each_kind
def test_all_take_the_same_filters(daemon: Daemon, listed: Any, kind: str, tmp_path: Path) -> None:
    async def scenario(of: Each) -> None:
        runs = []
        for number in range(5):
            id = f"{kind} {number}"
            runs.append(await of.submit(listed, number, id=id, **given(number, kind)))
        for run in runs[:4]:
            await result(of, run)
        for filters, expected in LISTS:
            asked: dict[str, Any] = {"sort": "id", **filters}
            asked["tags"] = [kind, *filters.get("tags", ())]
            found = await of.list(**asked)
            assert [run.id for run in found] == [f"{kind} {n}" for n in expected], filters
        found = await of.list(sort="id", tags=[kind])
        for number, info in enumerate(found):
            assert isinstance(info, RunInfo)
            asked = given(number, kind)
            assert info.tags == sorted(asked["tags"]) and info.attributes == asked["attributes"]
            assert [type(info.attributes[name]) for name in ("whole", "paid")] == [float, bool]
        fork = await of.fork(runs[0], 1, id=f"{kind} fork")
        assert [run.uuid for run in await of.list(parent=runs[0])] == [fork.uuid]
        for filters, error, says in REFUSED:
            with pytest.raises(error, match=says):
                await of.list(**filters)
        size = "limit" if kind in RUNTIMES else "page"
        for wrong in (0, 10_001, "many"):
            with pytest.raises(BadArgumentError, match=f"`{size}` is"):
                await of.list(**{size: wrong})

    use_any(daemon, kind, tmp_path, scenario)


@each_kind
def test_a_run_fails_at_its_deadline(
    daemon: Daemon, listed: Any, kind: str, tmp_path: Path
) -> None:
    """A number of seconds, a duration, or a moment."""

    async def scenario(of: Each) -> None:
        for number, soon in enumerate((0.1, timedelta(seconds=0.1))):
            run = await of.submit(listed, 4, id=f"{kind} late {number}", deadline=soon)
            with pytest.raises(DeadlinePassedError):
                await result(of, run)
        at = datetime.now(UTC) + timedelta(hours=1)
        await of.submit("listed", 4, id=f"{kind} at", deadline=at)
        await of.submit("listed", number=4, id=f"{kind} in", deadline=timedelta(hours=1))
        (until,) = await of.list(text=f"{kind} at")
        assert until.deadline == at
        (until,) = await of.list(text=f"{kind} in")
        assert until.deadline - until.started == timedelta(hours=1)
        for wrong in (datetime.now(UTC) - timedelta(seconds=1), 0, -1, "soon", True):
            with pytest.raises(BadDeadlineError, match="TFY0273"):
                await of.submit("listed", 4, id=f"{kind} never", deadline=wrong)
        for attributes in ({"a b": 1}, {"a": [1]}, {"a": None}, {"a": 2**63}, {1: 1}):
            with pytest.raises(BadAttributeError, match="TFY0270"):
                await of.submit("listed", 4, id=f"{kind} never", attributes=attributes)
        assert await of.list(text=f"{kind} never") == []

    use_any(daemon, kind, tmp_path, scenario)


@pytest.mark.parametrize("kind", RUNTIMES)
def test_the_next_page_of_a_runtime(daemon: Daemon, listed: Any, kind: str, tmp_path: Path) -> None:
    async def scenario(of: Each) -> None:
        for number in range(5):
            await of.submit(listed, number, id=f"r{number}")
        first = await of.runs(sort="id", limit=3)
        assert [run.id for run in first] == ["r0", "r1", "r2"]
        assert (len(first), first.total, first[-1].id) == (3, 5, "r2")
        rest = await of.runs(sort="id", limit=3, after=first.next)
        assert ([run.id for run in rest], rest.next) == (["r3", "r4"], None)

    use_any(daemon, kind, tmp_path, scenario)


def test_a_handle_of_a_runtime_knows_them_too(tmp_path: Path, listed: Any) -> None:
    with Runtime(wal=tmp_path) as runtime:
        handle = runtime.handle
        assert isinstance(handle, Client)

    async def of_service() -> list[str]:
        async with AsyncRuntime(wal=tmp_path) as runtime:

            def elsewhere() -> list[str]:
                runtime.handle.submit(listed, 4, id="h", tags=["gold"], attributes={"n": 1})
                return [run.id for run in runtime.handle.runs(tags=["gold"], attributes=["n<2"])]

            return await asyncio.to_thread(elsewhere)

    assert asyncio.run(of_service()) == ["h"]


def test_older_daemons_are_not_asked_what_they_do_not_know() -> None:
    """A request without tags, attributes and a deadline is the one that it was before."""
    plain: dict[str, Any] = {"function": "f", "id": "i", "input": {}, "options": None}
    assert http_of("submit", plain)[0].body == '{"function":"f","id":"i","input":{}}'
    asked: dict[str, Any] = {"states": [], "sort": "started", "descending": True, "limit": 100}
    assert http_of("runs", asked)[0].path == "/api/v1/runs?sort=started&limit=100&order=desc"
