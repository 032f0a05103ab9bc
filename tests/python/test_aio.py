"""Coroutines of asyncio as calls."""

from __future__ import annotations

import asyncio
import contextvars
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Coroutine, Generator
from typing import Any

import pytest
import tiffany
from tiffany import aio
from tiffany.calls import Aio, Cancel, GatherSettled, Sleep, Spawn, Timeout, Wait, Yield

Steps = Generator[Any, Any, Any]


async def double(n: int) -> int:
    await asyncio.sleep(0)
    return 2 * n


def one(call: tiffany.calls.SystemCall[Any]) -> Steps:
    return (yield call)


def test_its_value_comes_back_in_both_dialects() -> None:
    def generator() -> Steps:
        return (yield Aio(double(21)))

    async def coroutine() -> int:
        return await aio(double(21))

    assert tiffany.run(generator()) == 42
    assert tiffany.run(coroutine()) == 42


def test_its_exception_comes_back_as_it_is_with_its_lines() -> None:
    class Wrong(Exception):
        pass

    async def fails() -> None:
        await asyncio.sleep(0)
        raise Wrong("so")

    def main() -> Steps:
        yield Aio(fails())

    with pytest.raises(Wrong, match="so") as caught:
        tiffany.run(main())
    assert [entry.name for entry in caught.traceback][-2:] == ["main", "fails"]


def test_it_is_a_real_loop_with_groups_generators_and_timeouts() -> None:
    async def numbers() -> AsyncIterator[int]:
        for n in range(3):
            await asyncio.sleep(0)
            yield n

    async def everything() -> tuple[list[int], list[int], str]:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(double(n)) for n in range(3)]
        seen = [n async for n in numbers()]
        try:
            async with asyncio.timeout(0.001):
                await asyncio.sleep(60)
        except TimeoutError:
            return [task.result() for task in tasks], seen, "late"
        return [], [], "in time"

    def main() -> Steps:
        return (yield Aio(everything()))

    assert tiffany.run(main()) == ([0, 2, 4], [0, 1, 2], "late")


def test_many_run_at_once_on_one_thread() -> None:
    threads = set()
    together, most = 0, 0

    async def work() -> None:
        nonlocal together, most
        threads.add(threading.current_thread().name)
        together += 1
        most = max(most, together)
        await asyncio.sleep(0.02)
        together -= 1

    def main() -> Steps:
        tasks = []
        for _ in range(500):
            tasks.append((yield Spawn(one(Aio(work())))))
        yield tiffany.calls.Gather(tasks)

    tiffany.run(main())
    assert threads == {"tiffany-asyncio"}
    assert most > 100


def test_other_tasks_go_on_meanwhile() -> None:
    begun = threading.Event()

    async def waits() -> str:
        while not begun.is_set():
            await asyncio.sleep(0.001)
        return "seen"

    def sets() -> Steps:
        yield Sleep(0.001)
        begun.set()

    def main() -> Steps:
        yield Spawn(sets())
        return (yield Aio(waits()))

    assert tiffany.run(main()) == "seen"


class Slow:
    """A coroutine that takes its time to end."""

    def __init__(self) -> None:
        self.events: list[str] = []
        self.begun = threading.Event()

    async def work(self, last: BaseException | None = None) -> None:
        try:
            self.begun.set()
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            self.events.append("cancelled")
            await asyncio.sleep(0.02)
            self.events.append("cleaned up")
            if last is not None:
                raise last from None
            raise

    def until_begun(self) -> Steps:
        while not self.begun.is_set():
            yield Sleep(0.001)


def test_a_cancelled_task_cancels_it_and_waits_for_its_end() -> None:
    slow = Slow()

    def child() -> Steps:
        try:
            yield Aio(slow.work())
        except tiffany.Cancelled:
            slow.events.append("the task knows")
            raise

    def main() -> Steps:
        task = yield Spawn(child())
        yield slow.until_begun()
        yield Cancel(task)
        yield GatherSettled(task)
        slow.events.append("over")

    tiffany.run(main())
    assert slow.events == ["cancelled", "cleaned up", "the task knows", "over"]


def test_a_timeout_does_the_same() -> None:
    slow = Slow()

    def main() -> Steps:
        try:
            yield Timeout(0.05, one(Aio(slow.work())))
        except tiffany.errors.TimedOutError:
            slow.events.append("late")

    tiffany.run(main())
    assert sorted(slow.events) == ["cancelled", "cleaned up", "late"]


def test_what_goes_wrong_while_it_ends_is_not_lost() -> None:
    slow = Slow()
    seen: list[BaseException | None] = []

    def child() -> Steps:
        try:
            yield Aio(slow.work(ValueError("in its cleanup")))
        except tiffany.Cancelled as error:
            seen.append(error.__context__)
            raise

    def main() -> Steps:
        task = yield Spawn(child())
        yield slow.until_begun()
        yield Cancel(task)
        yield GatherSettled(task)

    tiffany.run(main())
    assert repr(seen) == "[ValueError('in its cleanup')]"


def test_one_that_swallows_its_cancellation_is_left_after_the_grace() -> None:
    deaf = threading.Event()
    end = threading.Event()

    async def never() -> None:
        while not end.is_set():
            try:
                deaf.set()
                await asyncio.sleep(0.05)
            except asyncio.CancelledError:
                continue

    def child() -> Steps:
        yield Aio(never())

    def main() -> Steps:
        task = yield Spawn(child())
        while not deaf.is_set():
            yield Sleep(0.001)
        yield Cancel(task)
        return (yield GatherSettled(task))

    [settled] = tiffany.run(main(), cancel_grace=0.05)
    end.set()
    assert isinstance(settled.error, tiffany.errors.TaskCancelledError)


def test_a_run_that_ends_with_its_root_ends_it() -> None:
    slow = Slow()

    def child() -> Steps:
        yield Aio(slow.work())

    def main() -> Steps:
        yield Spawn(child())
        yield slow.until_begun()

    tiffany.run(main(), end="root")
    assert slow.events == ["cancelled", "cleaned up"]


def test_one_that_is_cancelled_on_its_own_loop_is_an_exception_of_the_task() -> None:
    async def gives_up() -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(1)

    def main() -> Steps:
        try:
            yield Aio(gives_up())
        except asyncio.CancelledError:
            return "told"

    assert tiffany.run(main()) == "told"


def test_it_has_a_copy_of_the_task_s_context() -> None:
    who = contextvars.ContextVar("who", default="nobody")

    async def looks() -> str:
        seen = who.get()
        who.set("changed over there")
        return seen

    def child(name: str) -> Steps:
        who.set(name)
        yield Yield()
        seen = yield Aio(looks())
        return seen, who.get()

    def main() -> Steps:
        tasks = []
        for name in ("a", "b"):
            tasks.append((yield Spawn(child(name))))
        return (yield tiffany.calls.Gather(tasks)), who.get()

    assert tiffany.run(main()) == ([("a", "a"), ("b", "b")], "nobody")


def test_system_exit_in_it_ends_the_run_and_not_the_loop() -> None:
    async def leaves() -> None:
        raise SystemExit(7)

    def main() -> Steps:
        yield Aio(leaves())

    with pytest.raises(SystemExit) as caught:
        tiffany.run(main())
    assert caught.value.code == 7
    assert tiffany.run(one(Aio(double(4)))) == 8


def refused(made: Any) -> str:
    with pytest.raises(tiffany.errors.BadArgumentError) as caught:
        Aio(made)
    assert caught.value.code == "TFY0032"
    return str(caught.value)


def test_what_is_no_coroutine_of_asyncio_is_refused_at_once() -> None:
    assert "`int` cannot be awaited" in refused(3)
    assert "call it first" in refused(double)
    assert "without `Aio`" in refused(Sleep(1))

    async def future() -> str:
        return refused(asyncio.get_running_loop().create_future())

    assert "belongs to the loop that made it" in asyncio.run(future())


def test_any_awaitable_will_do() -> None:
    class Doubled:
        def __init__(self, n: int) -> None:
            self.n = n

        def __await__(self) -> Generator[Any, Any, int]:
            return double(self.n).__await__()

    def main() -> Steps:
        return (yield Aio(Doubled(3)))

    assert tiffany.run(main()) == 6


def test_a_coroutine_is_run_once() -> None:
    call = Aio(double(1))

    def main() -> Steps:
        first = yield call
        with pytest.raises(tiffany.errors.AlreadyBegunError) as caught:
            yield call
        return first, caught.value.code

    assert tiffany.run(main()) == (2, "TFY0048")


def test_a_call_of_tiffany_in_it_is_an_error_there() -> None:
    async def confused() -> None:
        await tiffany.sleep(0)

    def main() -> Steps:
        yield Aio(confused())

    with pytest.raises(RuntimeError):
        tiffany.run(main())


def test_the_program_ends_while_it_runs() -> None:
    program = """
import asyncio, threading, tiffany
from tiffany.calls import Aio, Sleep, Spawn
begun = threading.Event()
async def work():
    try:
        begun.set()
        await asyncio.sleep(60)
    finally:
        print("cancelled", flush=True)
def child():
    yield Aio(work())
def main():
    yield Spawn(child())
    while not begun.is_set():
        yield Sleep(0.001)
    raise SystemExit(3)
tiffany.run(main())
"""
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (3, "cancelled\n", "")


def test_waiting_for_it_is_no_deadlock_and_stops_a_virtual_clock() -> None:
    async def later() -> str:
        await asyncio.sleep(0.02)
        return "now"

    def sleeper() -> Steps:
        yield Sleep(3600)
        return (yield tiffany.calls.Now())

    def main() -> Steps:
        task = yield Spawn(sleeper())
        said = yield Aio(later())
        at = yield tiffany.calls.Now()
        return said, at, (yield Wait(task))

    assert tiffany.run(main(), clock="virtual") == ("now", 0.0, 3600.0)


def test_what_is_not_yielded_is_python_s_own_warning() -> None:
    coroutine: Coroutine[Any, Any, int] = double(1)
    call = Aio(coroutine)
    assert call.coroutine is coroutine
    coroutine.close()
