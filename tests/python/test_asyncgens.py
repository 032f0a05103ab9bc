"""Async generators that are left before their end: their `finally` runs, in the task that let them go, in every kind of run."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
import tiffany
from tiffany import cancel, now, sleep, spawn, testing, wait, yield_now
from tiffany.calls import Task


async def numbers(seen: list[str], name: str = "") -> AsyncGenerator[int, None]:
    try:
        for n in range(10):
            await yield_now()
            yield n
    finally:
        await sleep(0.001)
        seen.append(f"closed{name}")


async def first(items: AsyncIterator[int]) -> int:
    async for item in items:
        return item
    return -1


def test_one_that_is_left_by_break_is_closed_before_the_next_call() -> None:
    async def main() -> list[str]:
        seen: list[str] = []
        async for _ in numbers(seen):
            break
        seen.append("after the loop")
        await yield_now()
        seen.append("after the call")
        return seen

    assert tiffany.run(main()) == ["after the loop", "closed", "after the call"]


def test_the_call_that_comes_next_has_its_answer_and_its_error() -> None:
    async def bad() -> int:
        raise ValueError("no")

    async def main() -> tuple[int, str]:
        seen: list[str] = []
        await first(numbers(seen))
        number = await tiffany.wait(bad_or(3))
        await first(numbers(seen))
        try:
            await tiffany.wait(bad())
        except ValueError as error:
            return number, f"{error}{seen}"
        return number, "nothing"

    async def bad_or(n: int) -> int:
        return n

    assert tiffany.run(main()) == (3, "no['closed', 'closed']")


def test_one_that_is_left_by_the_end_of_the_task_is_closed_before_that() -> None:
    seen: list[str] = []

    async def main() -> int:
        items = numbers(seen)
        async for item in items:
            return item
        return -1

    assert tiffany.run(main()) == 0
    assert seen == ["closed"]


def test_one_that_is_left_by_an_exception_is_closed_and_the_exception_stays() -> None:
    seen: list[str] = []

    async def main() -> None:
        async for _ in numbers(seen):
            raise ValueError("enough")

    with pytest.raises(ValueError, match="enough") as raised:
        tiffany.run(main())
    raised.value.__traceback__ = None
    assert seen == ["closed"]


def test_one_that_is_left_by_a_cancel_is_closed() -> None:
    seen: list[str] = []

    async def reader() -> None:
        async for _ in numbers(seen):
            await sleep(60)

    async def main() -> str:
        task: Task[None] = await spawn(reader())
        await sleep(0.001)
        await cancel(task)
        try:
            await wait(task)
        except tiffany.errors.TaskCancelledError:
            return "cancelled"
        return "not"

    assert tiffany.run(main()) == "cancelled"
    assert seen == ["closed"]


def test_several_are_closed_in_the_order_in_which_they_were_left() -> None:
    async def main() -> list[str]:
        seen: list[str] = []
        await_first = [first(numbers(seen, str(n))) for n in range(3)]
        for program in await_first:
            await program
        await yield_now()
        return seen

    assert tiffany.run(main()) == ["closed0", "closed1", "closed2"]


def test_one_inside_another_is_closed_too() -> None:
    seen: list[str] = []

    async def outer() -> AsyncGenerator[int, None]:
        try:
            async for n in numbers(seen):
                yield n
        finally:
            seen.append("outer")

    async def main() -> None:
        await first(outer())

    tiffany.run(main())
    assert sorted(seen) == ["closed", "outer"]


@pytest.mark.unraisable
@pytest.mark.filterwarnings("default::pytest.PytestUnraisableExceptionWarning")
def test_what_goes_wrong_in_closing_is_shown_and_the_task_goes_on() -> None:
    async def bad() -> AsyncGenerator[int, None]:
        try:
            yield 1
        finally:
            await yield_now()
            raise ValueError("in finally")

    async def main() -> int:
        await first(bad())
        await yield_now()
        return 5

    shown: list[str] = []
    hook, sys.unraisablehook = sys.unraisablehook, lambda told: shown.append(str(told.exc_value))
    try:
        assert tiffany.run(main()) == 5
    finally:
        sys.unraisablehook = hook
    assert shown == ["in finally"]


def test_what_only_the_collector_finds_is_closed_and_may_make_no_calls() -> None:
    closed: list[str] = []

    async def quiet() -> AsyncGenerator[int, None]:
        me: list[Any] = []
        me.append(me)
        try:
            yield 1
        finally:
            closed.append("quiet")

    async def loud() -> AsyncGenerator[int, None]:
        try:
            yield 1
        finally:
            closed.append("loud")
            await now()
            closed.append("not this")

    async def main() -> None:
        for make in (quiet, loud):
            items = make()
            await anext(items)
            circle: list[Any] = [items]
            circle.append(circle)
            del items, circle
        gc.collect()
        await yield_now()

    shown: list[str] = []
    hook = sys.unraisablehook
    sys.unraisablehook = lambda told: shown.append(
        f"{told.exc_value}{getattr(told.exc_value, '__notes__', '')}"
    )
    gc.disable()
    try:
        tiffany.run(main())
    finally:
        gc.enable()
        sys.unraisablehook = hook
    assert closed == ["quiet", "loud"]
    assert len(shown) == 1
    assert "TFY0004" in shown[0] and "aclosing" in shown[0]


@pytest.mark.parametrize("run", [tiffany.run, lambda main: asyncio.run(tiffany.arun(main))])
def test_what_is_left_at_the_end_of_a_run_is_closed(run: Callable[[Any], Any]) -> None:
    closed: list[str] = []
    kept: list[AsyncGenerator[int, None]] = []

    async def items() -> AsyncGenerator[int, None]:
        try:
            yield 1
        finally:
            closed.append("closed")

    async def main() -> None:
        kept.append(items())
        await anext(kept[0])

    run(main())
    assert closed == ["closed"]


def test_the_hooks_are_restored() -> None:
    before = sys.get_asyncgen_hooks()
    tiffany.run(first(numbers([])))
    assert sys.get_asyncgen_hooks() == before


def test_beside_asyncio_each_closes_its_own() -> None:
    seen: list[str] = []

    async def of_asyncio() -> AsyncGenerator[int, None]:
        try:
            yield 1
        finally:
            await asyncio.sleep(0)
            seen.append("asyncio's")

    async def ours() -> None:
        await first(numbers(seen, " ours"))
        await tiffany.aio(asyncio.sleep(0.001))

    async def main() -> None:
        hooks = sys.get_asyncgen_hooks()
        both = asyncio.gather(tiffany.arun(ours()), tiffany.arun(ours()))
        await first(of_asyncio())
        await asyncio.sleep(0.01)
        await both
        assert sys.get_asyncgen_hooks() == hooks

    asyncio.run(main())
    assert sorted(seen) == ["asyncio's", "closed ours", "closed ours"]


def test_on_the_stepping_scheduler_they_are_closed() -> None:
    seen: list[str] = []
    with testing.Scheduler() as scheduler:
        scheduler.start(first(numbers(seen)))
        assert scheduler.finish() == 0
    assert seen == ["closed"]


@tiffany.step
def release(n: int) -> int:
    return n


@tiffany.workflow
async def leaves() -> list[int]:
    released: list[int] = []

    async def items() -> AsyncGenerator[int, None]:
        try:
            yield 1
            yield 2
        finally:
            released.append(await release(7))

    for _ in range(2):
        async for _item in items():
            break
        released.append(await release(1))
    return released


def held(seen: testing.Seen) -> None:
    assert seen.value == [7, 1, 7, 1]


def test_in_a_durable_run_closing_makes_the_same_calls_wherever_it_is_killed() -> None:
    report = testing.crash_everywhere(leaves(), holds=held)
    assert report.crashes > 0


def test_after_a_kill_nothing_is_closed_and_the_run_goes_on(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        """
import os, sys
import tiffany

@tiffany.step
def say(text):
    print(text, flush=True)

async def items():
    try:
        yield 1
    finally:
        await say("closed")

@tiffany.workflow
async def main():
    async for _ in items():
        await say("inside")
        if "die" in sys.argv:
            os._exit(9)
        break
    await say("after")

tiffany.run(main(), wal=sys.argv[1], id="one")
"""
    )
    run = [sys.executable, str(program), str(tmp_path / "wal")]
    died = subprocess.run([*run, "die"], capture_output=True, text=True, timeout=60)
    assert (died.returncode, died.stdout) == (9, "inside\n")
    went_on = subprocess.run(run, capture_output=True, text=True, timeout=60)
    # Whether the first step is done again depends on what the log had.
    assert went_on.stdout.removeprefix("inside\n") == "closed\nafter\n", went_on.stderr
