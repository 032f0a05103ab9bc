"""Spawn: a program becomes a task."""

from __future__ import annotations

import time
from typing import Any

import tiffany
from semantics.dialects import both
from tiffany.calls import (
    Answer,
    CreatePromise,
    Get,
    GetHandlers,
    GetLog,
    GetTid,
    NewTask,
    Put,
    Spawn,
    SystemCall,
    Task,
    Tell,
    Wait,
    WaitTask,
    Yield,
)


@both
def test_spawn_returns_a_task() -> None:
    """ "Spawn returns a Task.": its number is the child's own, its value the child's."""

    async def child() -> int:
        return await GetTid()

    async def main() -> tuple[Task[int], int]:
        task = await Spawn(child())
        return task, await Wait(task)

    task, tid = tiffany.run(main())
    assert isinstance(task, Task)
    assert (task.tid, task.id) == (tid, tid)


@both
def test_spawn_does_not_wait_for_the_child() -> None:
    """ "Spawn returns a Task." At once, whatever becomes of the child."""
    seen: list[str] = []

    async def child(gate: Any) -> None:
        await Wait(gate)
        seen.append("child")

    async def main() -> None:
        gate = await CreatePromise()
        task = await Spawn(child(gate.future))
        seen.append("main")
        await gate.complete()
        await Wait(task)

    tiffany.run(main())
    assert seen == ["main", "child"]


@both
def test_new_task_gives_the_number() -> None:
    """ "by bare number one learns only whether the task is over.": `NewTask` gives that number."""

    async def child() -> None:
        await Yield()

    async def main() -> tuple[int, bool, bool]:
        tid = await NewTask(child())
        return tid, await WaitTask(tid), await WaitTask(tid)

    assert tiffany.run(main()) == (2, True, False)


@both
def test_the_child_sees_the_store_as_it_was() -> None:
    """ "The child gets a snapshot of the parent's store": what either does later is its own affair."""

    async def child() -> tuple[Any, Any, list[Any]]:
        await Put("key", "child's")
        await Tell("child's")
        for _ in range(3):
            await Yield()
        return await Get("key"), await Get("later"), await GetLog()

    async def main() -> tuple[Any, Any]:
        await Put("key", "parent's")
        await Tell("before")
        task = await Spawn(child())
        await Put("later", 1)
        await Tell("after")
        seen = await Wait(task)
        return seen, (await Get("key"), await GetLog())

    child_saw, parent_saw = tiffany.run(main())
    assert child_saw == ("child's", None, ["before", "child's"])
    assert parent_saw == ("parent's", ["before", "after"])


@both
def test_the_snapshot_does_not_depend_on_the_size_of_the_store() -> None:
    """ "in O(1) (persistent structures, never a copy per switch)": from a store of ten thousand entries a thousand children cost about
    what they cost from an empty one. A copy would cost some hundred times as much."""

    async def nothing() -> None:
        pass

    async def thousand() -> float:
        start = time.perf_counter()
        for _ in range(1_000):
            await Wait(await Spawn(nothing()))
        return time.perf_counter() - start

    async def main() -> tuple[float, float]:
        await thousand()
        empty = await thousand()
        for n in range(10_000):
            await Put(f"key {n}", n)
        return empty, await thousand()

    empty, full = tiffany.run(main())
    assert full < 10 * empty + 0.05


class Name(SystemCall[str]):
    """Asks the handlers what they are called."""


def answering(name: str) -> Any:
    def handler(call: SystemCall[Any], tid: int) -> object:
        return Answer(name) if isinstance(call, Name) else None

    return handler


@both
def test_the_child_inherits_the_handlers() -> None:
    """ "inherits the parent's handler chain": over any number of generations."""

    async def grandchild() -> str:
        return await Name()

    async def child() -> str:
        return await Wait(await Spawn(grandchild()))

    async def main() -> str:
        return await Wait(await Spawn(child()))

    assert tiffany.run(main(), handlers=[answering("run")]) == "run"


@both
def test_the_child_takes_the_handlers_it_is_given() -> None:
    """ "or takes the one it is given.": which then replaces that of the parent; none is one too."""

    async def child() -> str:
        return await Name()

    async def bare() -> list[Any]:
        return await GetHandlers()

    async def main() -> tuple[str, str, list[Any]]:
        own = await Spawn(child(), [answering("own")])
        inner = await Spawn(child(), handlers=[answering("inner"), answering("outer")])
        none = await Spawn(bare(), handlers=[])
        return await Wait(own), await Wait(inner), await Wait(none)

    assert tiffany.run(main(), handlers=[answering("run")]) == ("own", "inner", [])
