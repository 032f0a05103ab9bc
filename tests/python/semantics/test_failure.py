"""Failure, the end of a run, and deadlock."""

from __future__ import annotations

import contextlib
import time
import traceback
from typing import Any

import pytest
import tiffany
from semantics.dialects import both
from tiffany import Cancelled
from tiffany.calls import (
    CreateChannel,
    CreateExternalPromise,
    CreateMutex,
    CreatePromise,
    Race,
    Sleep,
    Spawn,
    Task,
    Wait,
    Yield,
)


class Boom(Exception):
    pass


class Unshowable(Exception):
    """One whose text cannot be had, and whose payload cannot be written down."""

    def __init__(self) -> None:
        super().__init__(object(), lambda: None)

    def __str__(self) -> str:
        raise RuntimeError("no text")


@both
def test_an_exception_ends_that_task_alone() -> None:
    """ "a panic or exception ends that task alone: Failed, […] its waiters told" """
    seen: list[str] = []

    async def bad() -> None:
        await Yield()
        raise Boom("here")

    async def good() -> str:
        for _ in range(5):
            await Yield()
        return "value"

    async def waiter(task: Task[None]) -> None:
        try:
            await Wait(task)
        except Boom as error:
            seen.append(str(error))

    async def main() -> str:
        other, task = await Spawn(good()), await Spawn(bad())
        for _ in range(2):
            await Spawn(waiter(task))
        return await Wait(other)

    assert tiffany.run(main()) == "value"
    assert seen == ["here", "here"]


@both
def test_the_chain_of_tasks(capsys: pytest.CaptureFixture[str]) -> None:
    """ "with the chain of tasks the error went through": in what is shown, and in the traceback."""

    async def inner() -> None:
        raise Boom("at the bottom")

    async def middle() -> None:
        await Wait(await Spawn(inner(), name="inner"))

    async def main() -> None:
        await Spawn(middle(), name="middle")

    tiffany.run(main())
    shown = capsys.readouterr().err
    assert shown.index("`inner`") < shown.index("at the bottom") < shown.index("through task 2")


@both
def test_the_traceback_has_the_lines_of_all_tasks() -> None:
    """ "with the chain of tasks the error went through": the traceback has the lines of each, the one that waited first."""

    async def inner() -> None:
        await Yield()
        raise Boom("at the bottom")

    async def middle() -> None:
        await Wait(await Spawn(inner()))

    async def main() -> None:
        await Wait(await Spawn(middle()))

    with pytest.raises(Boom) as caught:
        tiffany.run(main())
    names = [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]
    assert names[-3:] == ["main", "middle", "inner"]


@both
def test_one_that_nobody_waits_for_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    """ "one that nobody waits for is shown at the end of the run.": and one that somebody was told of is not."""

    async def bad(name: str) -> None:
        raise Boom(name)

    async def main() -> None:
        await Spawn(bad("lonely"))
        with contextlib.suppress(Boom):
            await Wait(await Spawn(bad("told")))

    tiffany.run(main())
    shown = capsys.readouterr().err
    assert "Boom: lonely" in shown
    assert "told" not in shown


@both
def test_a_failed_root_fixes_the_outcome_at_once() -> None:
    """ "A failed root fixes the run's outcome at once": what its other tasks raise while they are cancelled changes nothing."""

    async def child() -> None:
        try:
            await Sleep(60)
        finally:
            raise Boom("child")

    async def main() -> None:
        await Spawn(child())
        await Yield()
        raise Boom("root")

    with pytest.raises(Boom, match="root"):
        tiffany.run(main())


@both
def test_a_failed_root_cancels_the_tasks_that_are_left() -> None:
    """ "and cancels the tasks that are left (the run is *ending* until they are terminal).": their cleanup runs, and may make calls."""
    seen: list[str] = []

    async def child(name: str) -> None:
        channel = await CreateChannel()
        try:
            await channel.receive()
        finally:
            await Sleep(0.001)
            seen.append(name)

    async def main() -> None:
        await Spawn(child("a"))
        await Spawn(child("b"))
        await Yield()
        await Yield()
        raise Boom("root")

    with pytest.raises(Boom, match="root"):
        tiffany.run(main())
    assert seen == ["a", "b"]


@both
def test_an_exception_that_cannot_be_shown(capsys: pytest.CaptureFixture[str]) -> None:
    """ "The loop survives any task": one whose exception cannot be shown, or written down."""
    seen: list[str] = []

    async def bad() -> None:
        raise Unshowable

    async def main() -> str:
        await Spawn(bad())
        try:
            await Wait(await Spawn(bad()))
        except Unshowable:
            seen.append("caught")
        return "value"

    assert tiffany.run(main()) == "value"
    assert seen == ["caught"]
    assert "Unshowable, which cannot be shown" in capsys.readouterr().err


@pytest.mark.parametrize(
    "error", [StopIteration(1), StopAsyncIteration(), GeneratorExit(), Cancelled()]
)
def test_exceptions_with_a_meaning_of_their_own(error: BaseException) -> None:
    """ "a panic or exception ends that task alone": one that means something to generators or to us is a failure like any other."""

    def bad() -> Any:
        yield Yield()
        raise error

    async def worse() -> None:
        await Yield()
        raise error

    def main() -> Any:
        caught: list[str] = []
        for program in (bad(), worse()):
            task: Task[Any] = yield Spawn(program)
            try:
                yield Wait(task)
            except BaseException as raised:
                caught.append(type(raised).__name__)
        return caught

    # Python itself makes a RuntimeError of what would end the iteration.
    expected = "RuntimeError" if "Iteration" in type(error).__name__ else type(error).__name__
    caught = tiffany.run(main())
    assert caught[1] in (expected, "StopAsyncIteration")
    assert caught[0] in (expected, "StopAsyncIteration")


@pytest.mark.parametrize("error", [KeyboardInterrupt("now"), SystemExit(3)])
def test_what_ends_the_program_ends_the_run(error: BaseException) -> None:
    """ "The loop survives any task but those the language can't contain": what is meant for the whole program leaves the loop."""
    seen: list[str] = []

    async def bad() -> None:
        await Yield()
        raise error

    async def sleeper() -> None:
        try:
            await Sleep(60)
        finally:
            seen.append("closed")

    async def main() -> None:
        await Spawn(sleeper())
        await Spawn(bad())
        await Sleep(60)

    start = time.monotonic()
    with pytest.raises(type(error)) as caught:
        tiffany.run(main())
    assert caught.value is error
    assert seen == ["closed"]
    assert time.monotonic() - start < 30


@both
def test_a_run_ends_when_all_of_its_tasks_are_terminal() -> None:
    """ "a run ends when all of its tasks are terminal" """
    seen: list[str] = []

    async def child() -> None:
        await Sleep(0.002)
        seen.append("child")

    async def main() -> str:
        await Spawn(child())
        seen.append("root")
        return "value"

    assert tiffany.run(main()) == "value"
    assert seen == ["root", "child"]


@both
def test_if_asked_it_ends_with_the_root() -> None:
    """ "If asked (`End::Root`), the run ends with its root and the rest are cancelled.": their cleanup is waited for."""
    seen: list[str] = []

    async def child() -> None:
        try:
            await Sleep(60)
        finally:
            await Sleep(0.001)
            seen.append("clean")

    async def main() -> str:
        await Spawn(child())
        await Yield()
        return "value"

    assert tiffany.run(main(), end="root") == "value"
    assert seen == ["clean"]


@both
def test_a_root_that_fails_ends_its_run() -> None:
    """ "A root that fails always ends its run.": whatever its other tasks wait for."""

    async def main() -> None:
        await Spawn(Sleep(60))
        await Spawn(Sleep(60), daemon=True)
        raise Boom("root")

    start = time.monotonic()
    with pytest.raises(Boom, match="root"):
        tiffany.run(main())
    assert time.monotonic() - start < 30


@both
def test_a_daemon_task_keeps_no_run_alive() -> None:
    """ "a task spawned as `daemon` keeps no run alive, […] and it is cancelled when the others are over.": also if the last of these is not the
    root. What it spawned is a daemon task, too."""
    seen: list[str] = []

    async def daemon() -> None:
        await Spawn(Sleep(60))
        try:
            while True:
                await Sleep(0.001)
        finally:
            await Sleep(0.001)
            seen.append("clean")

    async def last() -> None:
        await Sleep(0.005)
        seen.append("last")

    async def main() -> str:
        await tiffany.spawn(daemon(), daemon=True)
        await Spawn(last())
        return "value"

    assert tiffany.run(main()) == "value"
    assert seen == ["last", "clean"]


@both
def test_the_timers_of_a_daemon_task_are_no_hope() -> None:
    """ "its timers are no hope against a deadlock": unless another task waits for it."""

    async def daemon() -> None:
        while True:
            await Sleep(0.001)

    async def main() -> None:
        await Spawn(daemon(), daemon=True)
        promise = await CreatePromise()
        await Wait(promise.future)

    with pytest.raises(tiffany.errors.DeadlockError):
        tiffany.run(main())

    async def waits() -> str:
        await Wait(await Spawn(Sleep(0.001), daemon=True))
        return "value"

    assert tiffany.run(waits()) == "value"


@both
def test_a_run_ends_daemon_tasks_aside() -> None:
    """ "a run ends when all of its tasks are terminal, daemon tasks aside": one that fails is shown, and changes no outcome."""

    async def bad() -> None:
        await Yield()
        raise Boom("daemon")

    async def main() -> str:
        await Spawn(bad(), daemon=True)
        await Sleep(0.001)
        return "value"

    assert tiffany.run(main()) == "value"


@both
def test_a_deadlock_fails_the_run() -> None:
    """ "no task ready, and no timer, descriptor, effect or live external waiter left to hope for: the run fails with DeadlockError,
    which lists who waits for what": for a promise, a message, a lock."""

    async def promise() -> None:
        made = await CreatePromise()
        await Wait(made.future)

    async def message() -> None:
        channel = await CreateChannel()
        await channel.receive()

    async def lock() -> None:
        mutex = await CreateMutex()
        held = await mutex.acquire()
        await mutex.acquire()
        held.release()

    for program, what in ((promise(), "promise 1"), (message(), "channel 1"), (lock(), "1")):
        with pytest.raises(tiffany.errors.DeadlockError) as caught:
            tiffany.run(program)
        said = str(caught.value)
        assert caught.value.code == "TFY0024"
        assert what in said and "task 1" in said and __file__ in said


@both
def test_the_cycle_is_told() -> None:
    """ "with the cycle where there is one." """

    async def waits(others: list[Task[Any]], n: int) -> None:
        while len(others) < 2:
            await Yield()
        await Wait(others[n])

    async def main() -> None:
        others: list[Task[Any]] = []
        first = await Spawn(waits(others, 1))
        others.append(first)
        others.append(await Spawn(waits(others, 0)))

    with pytest.raises(tiffany.errors.DeadlockError) as caught:
        tiffany.run(main())
    assert "cycle" in str(caught.value)
    assert "task 2" in str(caught.value) and "task 3" in str(caught.value)


@both
def test_those_in_a_deadlock_are_cancelled() -> None:
    """ "Never a panic, never a spin.": the tasks are cancelled, so their cleanup runs."""
    seen: list[str] = []

    async def main() -> None:
        promise = await CreatePromise()
        try:
            await Wait(promise.future)
        finally:
            seen.append("clean")

    start = time.process_time()
    with pytest.raises(tiffany.errors.DeadlockError):
        tiffany.run(main())
    assert seen == ["clean"]
    assert time.process_time() - start < 5


@both
def test_an_external_waiter_is_hope() -> None:
    """ "live external waiter left to hope for": who waits for the outside is no deadlock."""

    async def main() -> str:
        promise = await CreateExternalPromise()
        timer = await Spawn(settles(promise))
        value: str = await Wait(promise.future)
        await Wait(timer)
        return value

    async def settles(promise: Any) -> None:
        await Sleep(0.002)
        promise.complete("value")

    assert tiffany.run(main()) == "value"


@both
def test_the_loop_survives() -> None:
    """ "The loop survives any task": many failures, in every place a task can fail, and it goes on."""

    async def bad(n: int) -> None:
        for _ in range(n % 3):
            await Yield()
        raise Boom(str(n))

    async def main() -> int:
        failed = 0
        for n in range(300):
            task = await Spawn(bad(n))
            try:
                await Race(task)
            except Boom:
                failed += 1
        return failed

    assert tiffany.run(main()) == 300
