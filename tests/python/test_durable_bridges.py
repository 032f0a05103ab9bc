"""Durable runs and the bridges: inside a loop of asyncio, on a virtual clock, and what they may not do."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
import tiffany
from tiffany import arun, step, workflow
from tiffany.calls import (
    Aio,
    Blocking,
    CreateExternalPromise,
    InProcess,
    InThread,
    Now,
    Sleep,
    Wait,
)

Steps = Generator[Any, Any, Any]

DONE: list[str] = []
PROMISES: list[str] = []


@step
def note(text: str) -> str:
    DONE.append(text)
    return text.upper()


@step
async def fetch(text: str) -> str:
    await asyncio.sleep(0.001)
    DONE.append(text)
    return text.upper()


@workflow
def notes() -> Steps:
    first = yield note("first")
    second = yield fetch("second")
    return first, second


@workflow
def waits() -> Steps:
    yield note("begun")
    try:
        promise = yield CreateExternalPromise()
        PROMISES.append(promise.uuid)
        said = yield Wait(promise.future)
    finally:
        DONE.append("cleaned up")
    yield note("going on")
    return said


@pytest.fixture(autouse=True)
def fresh() -> None:
    DONE.clear()
    PROMISES.clear()


async def until(condition: Any) -> None:
    while not condition():
        await asyncio.sleep(0.001)


def test_a_durable_run_inside_a_loop(tmp_path: Path) -> None:
    async def main() -> Any:
        return await arun(notes(), wal=tmp_path, id="notes-1")

    assert asyncio.run(main()) == ("FIRST", "SECOND")
    assert asyncio.run(main()) == ("FIRST", "SECOND"), "its outcome is in the log"
    assert DONE == ["first", "second"]


def test_several_directories_at_once(tmp_path: Path) -> None:
    async def main() -> Any:
        runs = [arun(notes(), wal=tmp_path / str(n), id="notes") for n in range(3)]
        return await asyncio.gather(*runs)

    assert asyncio.run(main()) == [("FIRST", "SECOND")] * 3


def test_its_promise_is_settled_from_the_same_loop(tmp_path: Path) -> None:
    async def main() -> Any:
        run = asyncio.create_task(arun(waits(), wal=tmp_path, id="waits-1"))
        await until(lambda: PROMISES)
        settled = await asyncio.to_thread(
            tiffany.complete_by_uuid, PROMISES[0], "yes", wal=tmp_path
        )
        return settled, await run

    assert asyncio.run(main()) == (True, "yes")


def test_cancelled_a_durable_run_is_left_as_it_is_and_goes_on_later(tmp_path: Path) -> None:
    async def leave() -> None:
        run = asyncio.create_task(arun(waits(), wal=tmp_path, id="waits-1"))
        await until(lambda: PROMISES)
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run

    async def go_on() -> Any:
        run = asyncio.create_task(arun(waits(), wal=tmp_path, id="waits-1"))
        await until(lambda: len(PROMISES) == 2)
        await asyncio.to_thread(tiffany.complete_by_uuid, PROMISES[1], "yes", wal=tmp_path)
        return await run

    asyncio.run(leave())
    assert DONE == ["begun"]
    assert asyncio.run(go_on()) == "yes"
    assert DONE == ["begun", "cleaned up", "going on"]
    assert PROMISES[0] == PROMISES[1]


def test_both_a_log_and_an_id_or_neither(tmp_path: Path) -> None:
    program = notes()
    with pytest.raises(tiffany.errors.BadArgumentError, match="wal was given without id"):
        asyncio.run(arun(program, wal=tmp_path))
    with pytest.raises(tiffany.errors.BadArgumentError, match="id was given without wal"):
        asyncio.run(arun(program, id="notes-1"))


@workflow
def naps() -> Steps:
    begun = yield Now()
    yield Sleep(24 * 3600)
    return begun, (yield Now())


def test_a_virtual_clock_of_a_durable_run_starts_now(tmp_path: Path) -> None:
    before = time.time()
    begun, ended = tiffany.run(naps(), wal=tmp_path, id="nap-1", clock="virtual")
    assert before - 1 < begun < time.time() + 1
    assert 24 * 3600 <= ended - begun < 24 * 3600 + 1
    assert time.time() - before < 60


async def coroutine() -> None: ...


@workflow
def forbidden(what: str) -> Steps:
    if what == "aio":
        made = coroutine()
        try:
            yield Aio(made)
        finally:
            made.close()
    elif what == "in_thread":
        yield InThread(print)
    elif what == "in_process":
        yield InProcess(print)
    else:
        yield Blocking(print)


@pytest.mark.parametrize(
    ("what", "said"),
    [
        ("aio", "a function that is `async def` under `@step`"),
        ("in_thread", "a function under `@step` runs on a thread"),
        ("in_process", "a function under `@step` runs on a thread"),
        ("blocking", "use a step"),
    ],
)
def test_what_a_durable_run_may_not_do_says_what_to_do_instead(
    what: str, said: str, tmp_path: Path
) -> None:
    with pytest.raises(tiffany.errors.NotDurableError, match=said) as caught:
        tiffany.run(forbidden(what), wal=tmp_path, id=what)
    assert caught.value.code == "TFY0020"
    names = [entry.name for entry in caught.traceback]
    assert "forbidden" in names, "it is raised at the line of the call"
