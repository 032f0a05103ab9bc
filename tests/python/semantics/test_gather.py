"""Gather: several at once."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
import tiffany
from semantics.dialects import both
from tiffany import Err, Ok
from tiffany.calls import (
    Cancel,
    CreatePromise,
    Gather,
    GatherSettled,
    Get,
    GetLog,
    Put,
    Sleep,
    Spawn,
    Task,
    Tell,
    Wait,
    Yield,
)
from tiffany.errors import TaskCancelledError


class Boom(Exception):
    pass


@both
def test_nothing_gives_an_empty_list() -> None:
    """ "`[]` for nothing" """

    async def main() -> tuple[list[Any], list[Any], list[Any]]:
        none: list[Task[Any]] = []
        return await Gather(), await Gather(none), await GatherSettled(none)

    assert tiffany.run(main()) == ([], [], [])


@both
def test_values_come_in_input_order() -> None:
    """ "values in input order": whatever the order they end in; some are over before the call, and promises are gathered too."""

    async def child(turns: int) -> int:
        for _ in range(turns):
            await Yield()
        return turns

    async def main() -> tuple[Any, Any]:
        tasks: list[Task[int]] = []
        for turns in (5, 0, 3, 1):
            tasks.append(await Spawn(child(turns)))
        promise = await CreatePromise()
        await Wait(tasks[1])
        await promise.complete("promised")
        return await Gather(tasks), await Gather(tasks[3], promise.future, tasks[0])

    values, mixed = tiffany.run(main())
    assert values == [5, 0, 3, 1]
    assert isinstance(values, list)
    assert mixed == [1, "promised", 5]


@both
def test_duplicates_are_allowed() -> None:
    """ "duplicates allowed": pending and over."""

    async def child() -> str:
        await Yield()
        return "value"

    async def main() -> tuple[Any, Any]:
        task = await Spawn(child())
        return await Gather(task, task, task), await Gather(task, task)

    assert tiffany.run(main()) == (["value"] * 3, ["value"] * 2)


@both
def test_it_fails_at_once_on_the_earliest_failure() -> None:
    """ "fails at once on the earliest failure or cancellation, the others go on running": earliest by time, not by input order, before
    the call as after it."""
    seen: list[str] = []

    async def child(turns: int, name: str) -> None:
        for _ in range(turns):
            await Yield()
        seen.append(name)
        raise Boom(name)

    async def slow() -> str:
        for _ in range(20):
            await Yield()
        seen.append("slow")
        return "value"

    async def main() -> tuple[str, str, str]:
        late, early = await Spawn(child(8, "late")), await Spawn(child(3, "early"))
        other = await Spawn(slow())
        said = ""
        try:
            await Gather(other, late, early)
        except Boom as error:
            said = str(error)
            seen.append("told")
        value = await Wait(other)
        try:
            await Gather(late, other, early)
        except Boom as error:
            return said, value, str(error)
        raise AssertionError

    assert tiffany.run(main()) == ("early", "value", "early")
    assert seen == ["early", "told", "late", "slow"]


@both
def test_a_cancellation_counts_like_a_failure() -> None:
    """ "fails at once on the earliest failure or cancellation" """

    async def child() -> None:
        await Sleep(60)

    async def main() -> str:
        first, second = await Spawn(child()), await Spawn(child())
        await Yield()
        await Cancel(second)
        try:
            await Gather(first, second)
        except TaskCancelledError as error:
            await Cancel(first)
            return error.code
        raise AssertionError

    assert tiffany.run(main()) == "TFY0003"


@both
def test_a_variant_returns_results_and_errors() -> None:
    """ "a variant returns results and errors side by side." When all are over."""
    error = Boom("one")

    async def good() -> str:
        await Yield()
        return "value"

    async def bad() -> None:
        raise error

    async def cancelled() -> None:
        await Sleep(60)

    async def main() -> list[Ok[Any] | Err]:
        tasks: list[Task[Any]] = [await Spawn(good()), await Spawn(bad())]
        tasks.append(await Spawn(cancelled()))
        await Yield()
        await Cancel(tasks[2])
        return await GatherSettled(tasks)

    results = tiffany.run(main())
    assert results[:2] == [Ok("value"), Err(error)]
    match results:
        case [Ok(value), Err(first), Err(TaskCancelledError())]:
            assert (value, first) == ("value", error)
        case _:
            pytest.fail(repr(results))


@both
def test_logs_are_appended_in_input_order() -> None:
    """ "On success the entries each distinct child added to its log since its spawn are appended to the parent's log in input order,
    once per child" """

    async def child(name: str, turns: int) -> None:
        for n in range(turns):
            await Tell(f"{name}{n}")

    async def main() -> list[Any]:
        await Tell("before")
        a, b = await Spawn(child("a", 3)), await Spawn(child("b", 1))
        await Gather(b, a, b)
        return await GetLog()

    assert tiffany.run(main()) == ["before", "b0", "a0", "a1", "a2"]


@both
def test_a_failed_gather_and_a_wait_append_nothing() -> None:
    """ "On success the entries […] are appended": a Gather that fails leaves the log as it was, and so does a Wait."""

    async def child() -> None:
        await Tell("child's")

    async def bad() -> None:
        await Tell("bad")
        raise Boom

    async def main() -> list[Any]:
        good, failed = await Spawn(child()), await Spawn(bad())
        await Wait(good)
        with contextlib.suppress(Boom):
            await Gather(good, failed)
        return await GetLog()

    assert tiffany.run(main()) == []


@both
def test_state_is_never_merged() -> None:
    """ "state is never merged." """

    async def child() -> None:
        await Put("key", "child's")

    async def main() -> Any:
        await Put("key", "parent's")
        await Gather(await Spawn(child()))
        return await Get("key")

    assert tiffany.run(main()) == "parent's"
