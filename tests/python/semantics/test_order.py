"""Order: who runs when."""

from __future__ import annotations

import os
import threading
from typing import Any, Literal

import pytest
import tiffany
from semantics.dialects import both
from tiffany.calls import (
    Acquire,
    Ask,
    Cancel,
    Charge,
    CompletePromise,
    CreateChannel,
    CreateExternalPromise,
    CreateGroup,
    CreateMutex,
    CreatePromise,
    CreateSemaphore,
    Gather,
    Get,
    GetHandlers,
    GetLog,
    GetTid,
    KillTask,
    NewUuid,
    Now,
    Put,
    Random,
    ReadWait,
    Receive,
    Send,
    Sleep,
    Spawn,
    SystemCall,
    Task,
    Tell,
    Wait,
    WaitTask,
    Yield,
)


@both
def test_first_in_first_out() -> None:
    """ "FIFO by default." """
    seen: list[str] = []

    async def worker(name: str, gate: Any) -> None:
        await Wait(gate)
        for _ in range(3):
            seen.append(name)
            await Yield()

    async def main() -> None:
        gate = await CreatePromise()
        for name in "abc":
            await Spawn(worker(name, gate.future))
        await CompletePromise(gate)

    tiffany.run(main())
    assert "".join(seen) == "abcabcabc"


@both
def test_every_call_is_a_scheduling_point() -> None:
    """ "Every system call is a scheduling point: the caller goes to the back of the queue, even for GetTid.": while each call is
    made, another task that is ready has exactly one turn."""
    turns = 0
    over = False
    seen: dict[str, int] = {}

    async def other() -> None:
        nonlocal turns
        while not over:
            turns += 1
            await Yield()

    async def nothing() -> None:
        pass

    async def main() -> None:
        nonlocal over
        ended = await Spawn(nothing())
        await Wait(ended)
        promise = await CreatePromise()
        channel = await CreateChannel()
        await channel.send("message")
        semaphore = await CreateSemaphore(3)
        group = await CreateGroup()
        await Spawn(other())
        await Yield()
        calls: list[SystemCall[Any]] = [
            *(Yield(), GetTid(), Now(), Random(), NewUuid(), GetHandlers(), GetLog(), Charge(1)),
            *(Get("key"), Put("key", 1), Tell("entry"), Ask("asked"), Gather(), Wait(ended)),
            *(Cancel(ended), WaitTask(999), KillTask(999), Spawn(nothing())),
            *(CreatePromise(), CompletePromise(promise, 1), CreateExternalPromise()),
            *(CreateChannel(), Send(channel, 1), Receive(channel), CreateMutex()),
            *(CreateSemaphore(1), Acquire(semaphore), CreateGroup(), group.join()),
        ]
        for call in calls:
            before = turns
            await call
            seen[repr(call)] = turns - before
        over = True

    tiffany.run(main(), env={"asked": 1})
    assert len(seen) > 25
    assert {call: turns for call, turns in seen.items() if turns != 1} == {}


@both
def test_woken_waiters_come_first() -> None:
    """ "A round takes the waiters woken before it began, then the tasks that were ready when it began": those that were ready stood in
    the queue long before, and still come after."""
    seen: list[str] = []
    over = False

    async def ready(name: str) -> None:
        while not over:
            seen.append(name)
            await Yield()

    async def waiter(gate: Any) -> None:
        await Wait(gate)
        seen.append("woken")

    async def main() -> None:
        nonlocal over
        gate = await CreatePromise()
        await Spawn(waiter(gate.future))
        await Spawn(ready("x"))
        await Spawn(ready("y"))
        await Yield()
        seen.clear()
        await CompletePromise(gate)
        seen.append("main")
        over = True

    tiffany.run(main())
    assert seen == ["woken", "x", "y", "main"]


@both
def test_what_is_woken_meanwhile_waits_for_the_next_round() -> None:
    """ "what becomes ready meanwhile waits for the next round.": a waiter woken by the first of a round runs after its last."""
    seen: list[str] = []
    over = False

    async def ready(name: str) -> None:
        while not over:
            seen.append(name)
            await Yield()

    async def waiter(gate: Any) -> None:
        await Wait(gate)
        seen.append("woken")

    async def waker(gate: Any) -> None:
        nonlocal over
        for _ in range(4):
            await Yield()
        seen.clear()
        await CompletePromise(gate)
        seen.append("waker")
        over = True

    async def main() -> None:
        gate = await CreatePromise()
        await Spawn(waiter(gate.future))
        await Spawn(waker(gate))
        await Spawn(ready("x"))
        await Spawn(ready("y"))

    tiffany.run(main())
    assert seen == ["x", "y", "woken", "waker"]


@both
def test_what_is_spawned_meanwhile_waits_for_the_next_round() -> None:
    """ "what becomes ready meanwhile waits for the next round." A child too."""
    seen: list[str] = []
    over = False

    async def ready(name: str) -> None:
        while not over:
            seen.append(name)
            await Yield()

    async def child() -> None:
        seen.append("child")

    async def main() -> None:
        nonlocal over
        await Spawn(ready("x"))
        await Spawn(ready("y"))
        await Yield()
        seen.clear()
        await Spawn(child())
        seen.append("main")
        over = True

    tiffany.run(main())
    assert seen == ["x", "y", "child", "main"]


@both
def test_no_kind_of_work_starves_another() -> None:
    """ "Between rounds I/O, timers and external completions are collected without blocking, so no kind of work starves another.":
    beside a task that is always ready."""
    seen: set[str] = set()
    reader, writer = os.pipe()

    async def busy() -> None:
        while len(seen) < 3:
            await Yield()

    async def timer() -> None:
        await Sleep(0.001)
        seen.add("timer")

    async def reads() -> None:
        await ReadWait(reader)
        seen.add("descriptor")

    async def asked() -> None:
        promise = await CreateExternalPromise()
        threading.Thread(target=promise.complete, args=(1,)).start()
        await Wait(promise.future)
        seen.add("external")
        os.write(writer, b"x")

    async def main() -> None:
        for program in (busy(), timer(), reads(), asked()):
            await Spawn(program)

    tiffany.run(main())
    os.close(reader)
    os.close(writer)
    assert seen == {"timer", "descriptor", "external"}


@both
def test_a_lone_task_has_its_cancel_check() -> None:
    """ "A lone ready task may be resumed at once, after its cancel check." """
    turns = 0

    async def main() -> None:
        nonlocal turns
        await KillTask(await GetTid())
        while True:
            turns += 1
            await Yield()

    with pytest.raises(tiffany.errors.TaskCancelledError):
        tiffany.run(main())
    assert turns == 1, "it learns of it at its next call"


@both
def test_spawn_queues_the_child_then_the_parent() -> None:
    """ "Spawn queues the child, then the parent." """
    seen: list[str] = []

    async def child(name: str) -> None:
        seen.append(name)

    async def main() -> None:
        for name in "abc":
            await Spawn(child(name))
            seen.append("main")

    tiffany.run(main())
    assert seen == ["a", "main", "b", "main", "c", "main"]


def by_policy(policy: Literal["fifo", "priority", "dependency"]) -> str:
    """Who runs when: three that are ready at once, the last of which has the highest priority, and the middle one most waiters."""
    seen: list[str] = []

    async def worker(name: str, gate: Any) -> None:
        await Wait(gate)
        for _ in range(2):
            seen.append(name)
            await Yield()

    async def waiter(task: Task[None]) -> None:
        await Wait(task)

    async def main() -> None:
        gate = await CreatePromise()
        tasks: list[Task[None]] = []
        for priority, name in enumerate("abc"):
            tasks.append(await Spawn(worker(name, gate.future), priority=priority))
        for _ in range(3):
            await Spawn(waiter(tasks[1]))
        for _ in range(3):
            await Yield()
        await CompletePromise(gate)

    tiffany.run(main(), policy=policy)
    return "".join(seen)


def test_policies() -> None:
    """ "FIFO, priority (FIFO inside a level), dependency-aware (the task most others wait for first)" """
    assert by_policy("fifo") == "abcabc"
    assert by_policy("priority")[0] == "c"
    assert by_policy("dependency")[0] == "b"


def test_priority_is_first_in_first_out_inside_a_level() -> None:
    """ "priority (FIFO inside a level)" """
    seen: list[str] = []

    async def worker(name: str, gate: Any) -> None:
        await Wait(gate)
        seen.append(name)

    async def main() -> None:
        gate = await CreatePromise()
        for name, priority in (("a", 1), ("b", 2), ("c", 1), ("d", 2)):
            await Spawn(worker(name, gate.future), priority=priority)
        for _ in range(3):
            await Yield()
        await CompletePromise(gate)

    tiffany.run(main(), policy="priority")
    assert "".join(seen) == "bdac"


@pytest.mark.parametrize("policy", ["fifo", "priority", "dependency"])
def test_each_policy_is_deterministic(policy: Literal["fifo", "priority", "dependency"]) -> None:
    """ "each deterministic": the same program takes the same way each time."""
    assert {by_policy(policy) for _ in range(5)} == {by_policy(policy)}


def test_the_lowest_priority_does_not_starve() -> None:
    """ "with ageing so that none starves." """
    over = False

    async def high() -> None:
        while not over:
            await Yield()

    async def low() -> None:
        nonlocal over
        await Yield()
        over = True

    async def main() -> None:
        await Spawn(low(), priority=0)
        for _ in range(2):
            await Spawn(high(), priority=255)

    tiffany.run(main(), policy="priority", limits={"max_calls": 100_000})
    assert over
