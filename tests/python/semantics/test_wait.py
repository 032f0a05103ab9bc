"""Wait: the value of a task, or what went wrong with it."""

from __future__ import annotations

import contextlib
import gc
import weakref
from collections.abc import Generator
from typing import Any

import pytest
import tiffany
from semantics.dialects import both
from tiffany.calls import (
    Cancel,
    CreatePromise,
    Gather,
    GetTid,
    Race,
    Sleep,
    Spawn,
    Task,
    Wait,
    WaitTask,
    Yield,
)
from tiffany.errors import TaskCancelledError


class Boom(Exception):
    pass


@both
def test_completed_gives_the_value() -> None:
    """ "Wait on Completed gives the value (shared: many may wait)": before the end and after it, each gets the same object."""
    value = object()

    async def child() -> object:
        await Yield()
        return value

    async def waiter(task: Task[object]) -> object:
        return await Wait(task)

    async def main() -> list[object]:
        task = await Spawn(child())
        early = [await Spawn(waiter(task)), await Spawn(waiter(task))]
        await Wait(task)
        late = await Spawn(waiter(task))
        return [await Wait(task), await Wait(early[0]), await Wait(early[1]), await Wait(late)]

    got = tiffany.run(main())
    assert all(one is value for one in got)
    assert len(got) == 4


@both
def test_waiters_are_woken_in_order() -> None:
    """ "(shared: many may wait)": in the order they came."""
    seen: list[int] = []

    async def child(gate: Any) -> None:
        await Wait(gate)

    async def waiter(n: int, task: Task[None]) -> None:
        await Wait(task)
        seen.append(n)

    async def main() -> None:
        gate = await CreatePromise()
        task = await Spawn(child(gate.future))
        for n in range(5):
            await Spawn(waiter(n, task))
        await gate.complete()

    tiffany.run(main())
    assert seen == [0, 1, 2, 3, 4]


def test_a_task_can_be_awaited_itself() -> None:
    """ "Wait on Completed gives the value": `await task` is the same."""

    async def child() -> int:
        return 3

    async def main() -> tuple[int, int]:
        task = await Spawn(child())
        promise: tiffany.calls.Promise[int] = await CreatePromise()
        await promise.complete(4)
        return await task, await promise.future

    assert tiffany.run(main()) == (3, 4)


@both
def test_failed_raises_that_error() -> None:
    """ "on Failed raises that error": the same object for all, before the end and after it."""
    error = Boom("here")

    async def child() -> None:
        await Yield()
        raise error

    async def waiter(task: Task[None]) -> BaseException | None:
        try:
            await Wait(task)
        except Boom as caught:
            return caught
        return None

    async def main() -> list[BaseException | None]:
        task = await Spawn(child())
        early = await Spawn(waiter(task))
        first = await Wait(early)
        late = await Spawn(waiter(task))
        return [first, await Wait(late)]

    assert [one is error for one in tiffany.run(main())] == [True, True]


@both
def test_cancelled_raises_task_cancelled_error() -> None:
    """ "on Cancelled raises TaskCancelledError": before and after."""
    seen: list[str] = []

    async def child() -> None:
        await Sleep(60)

    async def waiter(task: Task[None]) -> None:
        try:
            await Wait(task)
        except TaskCancelledError as error:
            seen.append(error.code)

    async def main() -> None:
        task = await Spawn(child())
        early = await Spawn(waiter(task))
        await Yield()
        await Cancel(task)
        await Wait(early)
        late = await Spawn(waiter(task))
        await Wait(late)

    tiffany.run(main())
    assert seen == ["TFY0003", "TFY0003"]


@both
def test_on_itself_is_an_error() -> None:
    """ "on itself is an error": by handle, by number, among others in a Gather and in a Race."""
    seen: list[str] = []

    async def child(mine: list[Task[Any]]) -> None:
        await Yield()
        me = mine[0]
        for call in (Wait(me), WaitTask(me.tid), Gather(me, me), Race(me)):
            try:
                await call
            except tiffany.errors.BadArgumentError as error:
                seen.append(error.code)

    async def main() -> None:
        mine: list[Task[Any]] = []
        mine.append(await Spawn(child(mine)))

    tiffany.run(main())
    assert seen == ["TFY0005"] * 4


@both
def test_else_it_blocks() -> None:
    """ "else blocks." Until the end, however long that takes."""
    seen: list[str] = []

    async def child(gate: Any) -> str:
        await Wait(gate)
        await Sleep(0.002)
        seen.append("end")
        return "value"

    async def waiter(task: Task[str]) -> None:
        seen.append(await Wait(task))

    async def main() -> None:
        gate = await CreatePromise()
        task = await Spawn(child(gate.future))
        await Spawn(waiter(task))
        for _ in range(20):
            await Yield()
        seen.append("still")
        await gate.complete()

    tiffany.run(main())
    assert seen == ["still", "end", "value"]


class Value:
    """Something that can be watched."""


@both
def test_a_result_is_kept_while_a_handle_lives() -> None:
    """ "A result is kept while a handle to it lives": and no longer."""
    watched: list[weakref.ref[Value]] = []

    async def child() -> Value:
        value = Value()
        watched.append(weakref.ref(value))
        return value

    async def main() -> tuple[bool, bool, bool]:
        task = await Spawn(child())
        for _ in range(3):
            await Yield()
        kept = watched[0]() is not None
        same = await Wait(task) is watched[0]()
        del task
        await Yield()
        gc.collect()
        return kept, same, watched[0]() is None

    assert tiffany.run(main()) == (True, True, True)


@both
def test_without_a_handle_the_result_goes_at_once() -> None:
    """ "A result is kept while a handle to it lives": without any, it goes when the task ends."""
    watched: list[weakref.ref[Value]] = []

    async def child() -> Value:
        value = Value()
        watched.append(weakref.ref(value))
        return value

    async def main() -> bool:
        await Spawn(child())
        for _ in range(3):
            await Yield()
        gc.collect()
        return watched[0]() is None

    assert tiffany.run(main())


@both
def test_failures_leave_nothing_behind() -> None:
    """ "A result is kept while a handle to it lives": an error too, although its traceback has frames that had the handle."""
    watched: list[weakref.ref[Boom]] = []

    async def child() -> None:
        await Yield()
        error = Boom()
        watched.append(weakref.ref(error))
        raise error

    async def catches() -> None:
        task = await Spawn(child())
        try:
            await Wait(task)
        except Boom:
            await Yield()

    async def passes_on() -> None:
        task = await Spawn(child())
        await Wait(task)

    async def raises_another() -> None:
        task = await Spawn(child())
        try:
            await Wait(task)
        except Boom as error:
            raise ValueError("another") from error

    async def one(program: Any) -> None:
        with contextlib.suppress(Exception):
            task: Task[Any] = await Spawn(program)
            await Wait(task)

    async def main() -> list[bool]:
        for program in (catches(), passes_on(), raises_another()):
            await Wait(await Spawn(one(program)))
        for _ in range(5):
            await Yield()
        gc.collect()
        return [error() is None for error in watched]

    assert tiffany.run(main()) == [True, True, True]


@both
def test_by_number_one_learns_whether_it_is_over() -> None:
    """ "by bare number one learns only whether the task is over.": true if it was alive, false if not; no handle is needed."""

    async def child() -> str:
        await Sleep(0.001)
        return "value"

    async def main() -> list[bool]:
        tid = (await Spawn(child())).tid
        alive = await WaitTask(tid)
        return [alive, await WaitTask(tid), await WaitTask(4711), await WaitTask(0)]

    assert tiffany.run(main()) == [True, False, False, False]


@both
def test_waiting_by_number_does_not_count_as_being_told(capsys: pytest.CaptureFixture[str]) -> None:
    """ "one learns only whether the task is over": so nobody was told of a failure, and it is shown at the end of the run."""

    async def child() -> None:
        await Yield()
        raise Boom("nobody was told")

    async def main() -> bool:
        return await WaitTask((await Spawn(child())).tid)

    assert tiffany.run(main()) is True
    assert "nobody was told" in capsys.readouterr().err


@both
def test_numbers_are_given_in_order() -> None:
    """ "tids […] are per run": given in order from 1, in each run anew."""

    async def child() -> int:
        return await GetTid()

    async def main() -> list[int]:
        tids = [await GetTid()]
        for _ in range(3):
            tids.append(await Wait(await Spawn(child())))
        return tids

    assert tiffany.run(main()) == [1, 2, 3, 4]
    assert tiffany.run(main()) == [1, 2, 3, 4]


@pytest.mark.parametrize("make", [Wait, Gather, Race, Cancel])
def test_what_cannot_be_waited_for_is_an_error_at_once(make: Any) -> None:
    """ "Waitable: what Wait, Gather and Race take: a Task or a Future (read side of a Promise or ExternalPromise)": what is neither and
    cannot become a task is refused where it is given, with the way out. Only a Task can be cancelled."""

    def generator() -> Generator[Any, Any, None]:
        yield Yield()

    async def coroutine() -> None:
        pass

    program = coroutine()
    wrong: list[Any] = [3, "text", None, generator, coroutine, Yield]
    for given in [*wrong, generator(), program, Yield()] if make is Cancel else wrong:
        with pytest.raises((tiffany.errors.BadArgumentError, TypeError)) as caught:
            make(given)
        assert "TFY0032" in str(caught.value)
        if given in (generator, coroutine) and make is not Cancel:
            assert "call it first" in str(caught.value)
    program.close()
