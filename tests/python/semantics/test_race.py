"""Race: the first of several."""

from __future__ import annotations

from typing import Any

import pytest
import tiffany
from semantics.dialects import both
from tiffany.calls import (
    Cancel,
    CreatePromise,
    Gather,
    Race,
    RaceResult,
    Sleep,
    Spawn,
    Task,
    Wait,
    Yield,
)
from tiffany.errors import TaskCancelledError


class Boom(Exception):
    pass


@both
def test_the_earliest_wins() -> None:
    """ "the earliest terminal waitable wins": whatever its place in the arguments, before the call or after it."""

    async def child(turns: int) -> int:
        for _ in range(turns):
            await Yield()
        return turns

    async def main() -> tuple[int, int]:
        tasks: list[Task[int]] = []
        for turns in (9, 3, 6):
            tasks.append(await Spawn(child(turns)))
        after = await Race(tasks)
        await Gather(tasks)
        return after.value, (await Race(tasks[0], tasks[2])).value

    assert tiffany.run(main()) == (3, 6)


@both
def test_ties_go_by_argument_order() -> None:
    """ "ties by argument order": the same waitable twice is the one tie there can be."""

    async def child() -> str:
        return "value"

    async def main() -> RaceResult[str]:
        task = await Spawn(child())
        return await Race(task, task)

    result = tiffany.run(main())
    assert (result.value, len(result.rest)) == ("value", 1)
    assert result.first == result.rest[0]


@both
def test_a_failed_or_cancelled_winner_raises() -> None:
    """ "a failed or cancelled winner raises" """
    seen: list[str] = []

    async def bad() -> None:
        raise Boom

    async def sleeper() -> None:
        await Sleep(60)

    async def main() -> None:
        slow = await Spawn(sleeper())
        try:
            await Race(slow, await Spawn(bad()))
        except Boom:
            seen.append("failed")
        other = await Spawn(sleeper())
        await Yield()
        await Cancel(other)
        try:
            await Race(slow, other)
        except TaskCancelledError:
            seen.append("cancelled")
        await Cancel(slow)

    tiffany.run(main())
    assert seen == ["failed", "cancelled"]


@both
def test_nothing_to_race_is_an_error_at_the_call() -> None:
    """ "nothing to race is an error at the call": it can be caught there."""

    async def main() -> list[str]:
        said: list[str] = []
        for call in (Race(), Race([])):
            try:
                await call
            except tiffany.errors.BadArgumentError as error:
                said.append(error.code)
        return said

    assert tiffany.run(main()) == ["TFY0006", "TFY0006"]


@both
def test_the_answer_names_the_first_its_value_and_the_rest() -> None:
    """ "the answer is RaceResult { first, value, rest }": promises race like tasks."""

    async def child() -> str:
        await Sleep(60)
        return "never"

    async def main() -> None:
        task, promise = await Spawn(child()), await CreatePromise()
        future = promise.future
        await promise.complete("promised")
        result: RaceResult[Any] = await Race(task, future)
        assert result.first is future
        assert result.value == "promised"
        assert result.rest == [task]
        match result:
            case RaceResult(first, value, rest):
                assert (first, value, rest) == (future, "promised", [task])
            case _:
                pytest.fail(repr(result))
        await Cancel(task)

    tiffany.run(main())


@both
def test_losers_go_on_running() -> None:
    """ "losers go on running.": to their own end, and can be raced again; dropped ones too."""
    seen: list[int] = []

    async def child(turns: int) -> int:
        for _ in range(turns):
            await Yield()
        seen.append(turns)
        return turns

    async def main() -> int:
        tasks: list[Task[int]] = []
        for turns in (20, 2, 10, 30):
            tasks.append(await Spawn(child(turns)))
        result = await Race(tasks)
        again = await Race(result.rest[:2])
        tasks.clear()
        await Wait(again.first)
        return again.value

    assert tiffany.run(main()) == 10
    assert seen == [2, 10, 20, 30]
