"""Cancel: a task is asked to stop."""

from __future__ import annotations

import contextlib
import gc
import sys
import time
from typing import Any

import pytest
import tiffany
from semantics.dialects import both
from tiffany import Cancelled
from tiffany.calls import (
    Acquire,
    Cancel,
    CreateChannel,
    CreatePromise,
    CreateSemaphore,
    GetTid,
    KillTask,
    Put,
    Receive,
    Send,
    Sleep,
    Spawn,
    Task,
    Wait,
    Yield,
)
from tiffany.errors import TaskCancelledError


class Boom(Exception):
    pass


async def ended(task: Task[Any]) -> str:
    """How a task ended."""
    try:
        await Wait(task)
    except TaskCancelledError:
        return "cancelled"
    except Exception as error:
        return f"failed: {error}"
    return "completed"


@both
def test_cancel_never_blocks() -> None:
    """ "Cancel never blocks.": its answer is there before the other has cleaned up."""
    seen: list[str] = []

    async def child() -> None:
        try:
            await Sleep(60)
        finally:
            await Sleep(0.001)
            seen.append("clean")

    async def main() -> None:
        task = await Spawn(child())
        await Yield()
        await Cancel(task)
        seen.append("answered")

    tiffany.run(main())
    assert seen == ["answered", "clean"]


@both
def test_pending_never_runs() -> None:
    """ "Pending: Cancelled at once, never runs." And its program is closed without a warning."""
    seen: list[str] = []

    async def child() -> None:
        seen.append("ran")

    async def killer(tid: int) -> None:
        while not seen:
            await Yield()
        seen.append(f"alive: {await KillTask(tid)}")

    async def main() -> str:
        await Spawn(killer(3))
        seen.append("spawns")
        # The killer stood in the queue before the child, so it has its turn first.
        return await ended(await Spawn(child()))

    assert tiffany.run(main()) == "cancelled"
    assert seen == ["spawns", "alive: True"]


@both
def test_what_waits_is_cancelled_at_its_yield() -> None:
    """ "Suspended or Blocked: its waits are withdrawn and it becomes Cancelling": whatever it waits for, it gets `Cancelled` there."""
    seen: list[str] = []

    async def waiting(call: Any) -> None:
        try:
            await call
        except Cancelled:
            seen.append("cancelled")
            raise

    async def main() -> None:
        promise = await CreatePromise()
        channel, semaphore = await CreateChannel(), await CreateSemaphore(1)
        permit = await Acquire(semaphore)
        calls = [Sleep(60), Wait(promise.future), Receive(channel), Acquire(semaphore)]
        for call in calls:
            task = await Spawn(waiting(call))
            await Yield()
            await Cancel(task)
            assert await ended(task) == "cancelled"
        # What was withdrawn is not in the way of others.
        permit.release()
        await Acquire(semaphore)
        await Send(channel, "message")
        assert await Receive(channel) == "message"

    tiffany.run(main())
    assert seen == ["cancelled"] * 4


@both
def test_running_is_cancelled_at_its_next_call() -> None:
    """ "Running (itself included): the same at its next call." """
    seen: list[str] = []

    async def child() -> None:
        assert await KillTask(await GetTid())
        seen.append("goes on")
        try:
            await Yield()
        except Cancelled:
            seen.append("cancelled")
            raise

    async def main() -> str:
        return await ended(await Spawn(child()))

    assert tiffany.run(main()) == "cancelled"
    assert seen == ["goes on", "cancelled"]


@both
def test_unwound_innermost_first() -> None:
    """ "A Cancelling coroutine is unwound by the loop, innermost first": all levels of a CallStack."""
    seen: list[str] = []

    async def inner() -> None:
        try:
            await Sleep(60)
        finally:
            seen.append("inner")

    async def middle() -> None:
        try:
            await inner()
        finally:
            await Yield()
            seen.append("middle")

    async def outer() -> None:
        try:
            await middle()
        finally:
            seen.append("outer")

    async def main() -> str:
        task = await Spawn(outer())
        await Yield()
        await Cancel(task)
        return await ended(task)

    assert tiffany.run(main()) == "cancelled"
    assert seen == ["inner", "middle", "outer"]


@both
def test_python_gets_cancelled_a_base_exception() -> None:
    """ "Python gets `Cancelled`, a BaseException, at its yield": so `except Exception` does not stop it."""
    seen: list[str] = []

    async def child() -> None:
        try:
            await Sleep(60)
        except Exception:
            seen.append("exception")
        except BaseException as error:
            seen.append(type(error).__name__)
            raise

    async def main() -> str:
        task = await Spawn(child())
        await Yield()
        await task.cancel()
        return await ended(task)

    assert tiffany.run(main()) == "cancelled"
    assert seen == ["Cancelled"]
    assert not issubclass(Cancelled, Exception)


@both
def test_finally_runs_and_may_make_calls() -> None:
    """ "so `finally` runs and may make calls": any, as often as it likes, and calls functions that make calls."""
    seen: list[Any] = []

    async def tidy() -> int:
        await Sleep(0.001)
        return await GetTid()

    async def helper() -> str:
        return "helped"

    async def child() -> None:
        try:
            await Sleep(60)
        finally:
            await Put("key", 1)
            seen.append(await tidy())
            seen.append(await Wait(await Spawn(helper())))

    async def main() -> str:
        task = await Spawn(child())
        await Yield()
        await Cancel(task)
        return await ended(task)

    assert tiffany.run(main()) == "cancelled"
    assert seen == [2, "helped"]


@both
def test_a_second_cancel_ends_it() -> None:
    """ "a second cancel or a deadline ends it.": a cleanup that would take for ever."""
    seen: list[str] = []

    async def child() -> None:
        try:
            await Sleep(60)
        finally:
            seen.append("cleaning")
            await Sleep(60)
            seen.append("never")

    async def main() -> str:
        task = await Spawn(child())
        await Yield()
        await Cancel(task)
        await Yield()
        await Yield()
        await Cancel(task)
        return await ended(task)

    assert tiffany.run(main()) == "cancelled"
    assert seen == ["cleaning"]


@both
def test_a_deadline_ends_it() -> None:
    """ "a second cancel or a deadline ends it.": `cancel_grace`."""

    async def child() -> None:
        try:
            await Sleep(60)
        finally:
            await Sleep(60)

    async def main() -> str:
        task = await Spawn(child())
        await Yield()
        await Cancel(task)
        return await ended(task)

    start = time.monotonic()
    assert tiffany.run(main(), cancel_grace=0.01) == "cancelled"
    assert time.monotonic() - start < 30


@both
def test_one_that_ignores_its_cancellation() -> None:
    """ "a second cancel or a deadline ends it.": also one that swallows `Cancelled` again and again."""
    seen: list[str] = []

    async def stubborn() -> None:
        while True:
            try:
                await Sleep(60)
            except Cancelled:
                seen.append("swallowed")

    async def main() -> list[str]:
        first = await Spawn(stubborn())
        await Yield()
        await Cancel(first)
        await Yield()
        await Cancel(first)
        ends = [await ended(first)]
        second = await Spawn(stubborn())
        await Yield()
        await Cancel(second)
        ends.append(await ended(second))
        return ends

    assert tiffany.run(main(), cancel_grace=0.01) == ["cancelled", "cancelled"]
    assert seen == ["swallowed", "swallowed"]


@pytest.mark.unraisable
def test_one_that_ignores_its_end_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """ "a second cancel or a deadline ends it.": a generator that goes on after `GeneratorExit` is left, and said so once; the run goes
    on."""
    said: list[str] = []
    shown: list[BaseException | None] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda args: shown.append(args.exc_value))

    def stubborn() -> Any:
        for _ in range(100):
            with contextlib.suppress(BaseException):
                yield Sleep(60)

    def main() -> Any:
        task: Task[Any] = yield Spawn(stubborn())
        yield Yield()
        yield Cancel(task)
        yield Yield()
        yield Cancel(task)
        how: str = yield ended(task)
        said.append(how)
        return "over"

    assert tiffany.run(main()) == "over"
    assert said == ["cancelled"]
    gc.collect()
    [error] = shown
    assert isinstance(error, tiffany.errors.NotEndingError) and error.code == "TFY0054"
    assert "stubborn` should end, but yielded again" in str(error)
    assert "[TFY0054]; let" in str(error)


@both
def test_swallowing_it_and_returning_is_cancelled() -> None:
    """ "When it ends it is Cancelled, and its waiters get TaskCancelledError, an ordinary Exception.": also if it swallows the
    exception and returns a value."""

    async def child() -> str:
        with contextlib.suppress(Cancelled):
            await Sleep(60)
        return "value"

    async def main() -> str:
        task = await Spawn(child())
        await Yield()
        await Cancel(task)
        try:
            await Wait(task)
        except Exception as error:
            return type(error).__name__
        return "no error"

    assert tiffany.run(main()) == "TaskCancelledError"


@both
def test_raising_something_else_meanwhile_is_failed() -> None:
    """ "a panic or exception ends that task alone: Failed": also while it cleans up."""

    async def child() -> None:
        try:
            await Sleep(60)
        finally:
            raise Boom("while cleaning up")

    async def main() -> str:
        task = await Spawn(child())
        await Yield()
        await Cancel(task)
        return await ended(task)

    assert tiffany.run(main()) == "failed: while cleaning up"


@both
def test_a_cancelled_of_its_own_is_a_failure() -> None:
    """ "a panic or exception ends that task alone: Failed": a task that nobody cancelled and that raises `Cancelled` has failed."""

    async def child() -> None:
        raise Cancelled

    async def main() -> str:
        try:
            await Wait(await Spawn(child()))
        except Cancelled:
            return "Cancelled"
        return "nothing"

    assert tiffany.run(main()) == "Cancelled"


@both
def test_terminal_no_effect() -> None:
    """ "Terminal: no effect." """

    async def good() -> str:
        return "value"

    async def bad() -> None:
        raise Boom("here")

    async def main() -> list[str]:
        seen: list[str] = []
        for program in (good(), bad()):
            task: Task[Any] = await Spawn(program)
            await ended(task)
            await Cancel(task)
            await Cancel(task)
            seen.append(await ended(task))
        return seen

    assert tiffany.run(main()) == ["completed", "failed: here"]


@both
def test_kill_task_is_cancel_by_number() -> None:
    """ "KillTask(tid) is Cancel by number and answers whether that task was alive." """

    async def child() -> None:
        await Sleep(60)

    async def main() -> tuple[list[bool], str]:
        task = await Spawn(child())
        await Yield()
        first = await KillTask(task.tid)
        end = await ended(task)
        return [first, await KillTask(task.tid), await KillTask(4711)], end

    assert tiffany.run(main()) == ([True, False, False], "cancelled")


@both
def test_the_cancelled_task_alone_is_cancelled() -> None:
    """ "its waiters get TaskCancelledError, an ordinary Exception.": who waits is not cancelled itself."""

    async def child() -> None:
        await Sleep(60)

    async def waiter(task: Task[None]) -> str:
        try:
            await Wait(task)
        except Exception:
            return await ended(task)
        return "no error"

    async def main() -> str:
        task = await Spawn(child())
        other = await Spawn(waiter(task))
        await Yield()
        await Cancel(task)
        return await Wait(other)

    assert tiffany.run(main()) == "cancelled"


@both
def test_normal_exit_unwinds() -> None:
    """ "Only cancel and normal exit unwind.": a run that ends with its root cancels the rest, and their `finally` runs."""
    seen: list[str] = []

    async def child() -> None:
        try:
            await Sleep(60)
        finally:
            seen.append("clean")

    async def main() -> str:
        await Spawn(child())
        await Yield()
        return "value"

    assert tiffany.run(main(), end="root") == "value"
    assert seen == ["clean"]
