"""What is waited for and is no task yet: programs and calls become tasks of the call that waits for them, and end with it."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest
import tiffany
from semantics.dialects import both
from tiffany import Err, Ok, step, testing, workflow
from tiffany.calls import (
    Cancel,
    CreatePromise,
    Gather,
    GatherSettled,
    GetLog,
    GetTid,
    Race,
    Sleep,
    Spawn,
    Tell,
    Timeout,
    Wait,
    Yield,
)
from tiffany.errors import BadArgumentError, TaskCancelledError


@both
def test_tasks_promises_programs_and_calls_are_gathered_alike() -> None:
    async def child(n: int) -> int:
        await Sleep(1 / n)
        return n

    async def main() -> Any:
        promise = await CreatePromise()
        await promise.complete(1)
        task = await Spawn(child(2))
        return await Gather(task, promise.future, child(3), GetTid(), Sleep(0))

    # The tasks that were made have the numbers after that of the spawned one, in the order of the arguments.
    assert list(tiffany.run(main(), clock="virtual")) == [2, 1, 3, 4, None]


@both
def test_they_are_spawned_in_the_order_of_the_arguments() -> None:
    seen: list[str] = []

    async def child(name: str) -> str:
        seen.append(f"{name} is {await GetTid()}")
        return name

    async def main() -> Any:
        return await Gather([child(name) for name in "abc"])

    assert tiffany.run(main()) == ["a", "b", "c"]
    assert seen == ["a is 2", "b is 3", "c is 4"]


@both
def test_a_list_or_an_expression_is_several_and_a_generator_of_a_function_is_a_program() -> None:
    async def child(n: int) -> int:
        await Yield()
        return n

    async def main() -> Any:
        alone = await Gather(child(7))
        return alone, await Gather(child(n) for n in range(3)), await Gather((child(1), child(2)))

    assert tiffany.run(main()) == ([7], [0, 1, 2], [1, 2])


@both
def test_a_failure_cancels_what_was_made_and_leaves_what_was_given() -> None:
    seen: list[str] = []

    async def bad() -> None:
        await Sleep(1)
        raise ValueError("no")

    async def long(name: str) -> str:
        try:
            await Sleep(10)
        finally:
            seen.append(f"{name} is over")
        return name

    async def main() -> str:
        given = await Spawn(long("given"))
        try:
            await Gather(given, long("made"), bad())
        except ValueError:
            seen.append("failed")
        await Yield()
        await Yield()
        seen.append("later")
        return await Wait(given)

    assert tiffany.run(main(), clock="virtual") == "given"
    assert seen == ["failed", "made is over", "later", "given is over"]


@both
def test_one_that_fails_does_not_cancel_the_others_when_all_are_settled() -> None:
    async def bad() -> None:
        raise ValueError("no")

    async def good() -> int:
        await Sleep(1)
        return 1

    async def main() -> Any:
        return await GatherSettled(bad(), good(), Sleep(2))

    first, second, third = tiffany.run(main(), clock="virtual")
    assert isinstance(first, Err) and isinstance(first.error, ValueError)
    assert (second, third) == (Ok(1), Ok(None))


@both
def test_the_losers_of_a_race_that_were_made_are_cancelled() -> None:
    seen: list[str] = []

    async def after(seconds: float) -> float:
        try:
            await Sleep(seconds)
        finally:
            seen.append(f"{seconds} is over")
        return seconds

    async def main() -> Any:
        slow, quick, given = after(3), after(1), await Spawn(after(2))
        result = await Race(slow, given, quick)
        assert result.first is quick
        assert result.rest == [slow, given]
        return result.value

    assert tiffany.run(main(), clock="virtual") == 1
    assert seen == ["1 is over", "3 is over", "2 is over"]


@both
def test_who_waits_is_cancelled_with_what_it_made() -> None:
    seen: list[str] = []

    async def long() -> None:
        try:
            await Sleep(10)
        finally:
            seen.append("over")

    async def waits() -> None:
        await Gather(long(), Wait(long()), Timeout(20, long()))

    async def main() -> str:
        task = await Spawn(waits())
        await Sleep(1)
        await Cancel(task)
        try:
            await Wait(task)
        except TaskCancelledError:
            return "cancelled"
        return "not cancelled"

    assert tiffany.run(main(), clock="virtual") == "cancelled"
    assert seen == ["over"] * 3


@both
def test_wait_and_spawn_take_programs_and_calls() -> None:
    async def child() -> int:
        return await GetTid()

    async def main() -> Any:
        task = await Spawn(GetTid(), name="asks")
        return await Wait(task), await Wait(child()), await Wait(GetTid())

    assert tiffany.run(main()) == (2, 3, 4)


@both
def test_a_timeout_cancels_what_it_made_and_leaves_what_it_was_given() -> None:
    async def child() -> str:
        await Sleep(5)
        return "slept"

    async def main() -> Any:
        given = await Spawn(child())
        late = 0
        for program in (given, Sleep(5), child()):
            try:
                await Timeout(1, program)
            except TimeoutError:
                late += 1
        return late, await Timeout(10, given), await Timeout(1, GetTid())

    late, value, tid = tiffany.run(main(), clock="virtual")
    assert (late, value) == (3, "slept")
    assert tid > 1


@both
def test_logs_of_what_was_made_are_appended_like_those_of_tasks() -> None:
    async def child(n: int) -> None:
        await Tell(n)

    async def main() -> Any:
        await Gather(child(1), child(2), Tell(3))
        return await GetLog()

    assert tiffany.run(main()) == [1, 2, 3]


@both
def test_a_call_can_be_made_again_and_a_program_cannot() -> None:
    async def child() -> int:
        return 1

    async def main() -> Any:
        asks = GetTid()
        tids = await Gather(asks, asks)
        once = Gather(child())
        await once
        try:
            await once
        except tiffany.errors.AlreadyBegunError:
            return list(tids)
        return None

    assert tiffany.run(main()) == [2, 3]


def test_what_cannot_be_waited_for_is_an_error_at_the_call() -> None:
    async def items() -> AsyncGenerator[int, None]:
        yield 1

    calls: list[Any] = [
        Wait,
        lambda it: Gather([it]),
        lambda it: GatherSettled([it]),
        lambda it: Race([it]),
        lambda it: Timeout(1, it),
    ]
    for wrong in (3, "text", items(), Sleep, len):
        for call in calls:
            with pytest.raises(BadArgumentError, match="cannot be waited for"):
                call(wrong)


def test_an_error_shows_the_line_of_the_program() -> None:
    async def bad() -> None:
        raise ValueError("here")

    async def main() -> None:
        await Gather(bad(), Sleep(1))

    with pytest.raises(ValueError, match="here") as raised:
        tiffany.run(main())
    names = [entry.name for entry in raised.traceback]
    assert names[-1] == "bad" and "main" in names


@step
def double(n: int) -> int:
    return 2 * n


@workflow
async def doubles() -> list[int]:
    first, second = await Gather(double(1), double(2))
    raced = (await Race(double(3), Sleep(1000))).value
    last = await Timeout(1000, double(4))
    return [first, second, raced or 0, last]


def held(seen: testing.Seen) -> None:
    assert seen.value == [2, 4, 6, 8]


def test_in_a_durable_run_steps_are_gathered_and_survive_every_crash() -> None:
    report = testing.crash_everywhere(doubles(), holds=held)
    assert report.crashes > 10


def test_in_a_durable_run_they_are_in_the_log_as_tasks(tmp_path: Path) -> None:
    assert tiffany.run(doubles(), wal=tmp_path, id="one") == [2, 4, 6, 8]
    assert tiffany.run(doubles(), wal=tmp_path, id="one") == [2, 4, 6, 8]
    (log,) = (tmp_path / "wal").glob("*.wal")
    spawns = log.read_text().count('"type":"TaskSpawn"')
    assert spawns == 5
