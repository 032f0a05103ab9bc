"""Store: a task's own state and log, and the environment that all share."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest
import tiffany
from semantics.dialects import both
from tiffany.calls import Ask, Gather, Get, GetLog, Lazy, Put, Sleep, Spawn, Task, Tell, Wait, Yield


class Boom(Exception):
    pass


@both
def test_calls_touch_the_tasks_own_store() -> None:
    """ "Get, Put and Tell touch only the task's own store": whatever runs beside it."""

    async def child(n: int) -> tuple[Any, list[Any]]:
        await Put("key", n)
        await Tell(n)
        await Yield()
        await Put("key", await Get("key") + 10)
        await Tell(n + 10)
        return await Get("key"), await GetLog()

    async def main() -> tuple[list[Any], Any, list[Any]]:
        tasks = [await Spawn(child(1)), await Spawn(child(2))]
        values: list[Any] = []
        for task in tasks:
            values.append(await Wait(task))
        return values, await Get("key"), await GetLog()

    assert tiffany.run(main()) == ([(11, [1, 11]), (12, [2, 12])], None, [])


@both
def test_what_is_not_there() -> None:
    """ "Get, Put and Tell": a key that is not there gives the default."""

    async def main() -> tuple[Any, Any, Any]:
        await Put("none", None)
        return await Get("key"), await Get("key", "default"), await Get("none", "default")

    assert tiffany.run(main()) == (None, "default", None)


@both
def test_ask_reads_the_shared_env() -> None:
    """ "Ask reads the shared env": the same object for all; a key that is not there is an error in who asks."""
    shared = object()

    async def child() -> object:
        return await Ask("shared")

    async def main() -> tuple[bool, str]:
        same = await Wait(await Spawn(child())) is await Ask("shared")
        try:
            await Ask("missing")
        except tiffany.errors.NoSuchKeyError as error:
            return same and await Ask("shared") is shared, str(error)
        raise AssertionError

    same, said = tiffany.run(main(), env={"shared": shared, "none": None})
    assert same
    assert "missing" in said and "TFY0022" in said


@both
def test_env_is_read_only() -> None:
    """ "`env` is shared and read-only": what a task puts under the same key is its own affair."""

    async def main() -> tuple[Any, Any]:
        await Put("key", "own")
        return await Ask("key"), await Get("key")

    assert tiffany.run(main(), env={"key": "shared"}) == ("shared", "own")


def find_async(found: list[int]) -> Any:
    async def find() -> int:
        await Sleep(0.001)
        found.append(1)
        return 42

    return find


def find_generator(found: list[int]) -> Any:
    def find() -> Generator[Any, Any, int]:
        yield Sleep(0.001)
        found.append(1)
        return 42

    return find


def find_plain(found: list[int]) -> Any:
    def find() -> int:
        found.append(1)
        return 42

    return find


@pytest.mark.parametrize("finder", [find_async, find_generator, find_plain])
def test_what_it_resolves_is_resolved_once_for_all(finder: Any) -> None:
    """ "what it resolves is resolved once for all.": by a function or a program, whoever asks first, or at once."""
    found: list[int] = []

    async def child() -> int:
        answer: int = await Ask("answer")
        return answer

    async def main() -> list[int]:
        tasks: list[Task[int]] = []
        for _ in range(5):
            tasks.append(await Spawn(child()))
        return [*await Gather(tasks), await Ask("answer")]

    assert tiffany.run(main(), env={"answer": Lazy(finder(found))}) == [42] * 6
    assert found == [1]


def test_what_cannot_be_resolved_is_an_error_in_who_asks() -> None:
    """ "what it resolves is resolved once for all.": its failure too."""
    found: list[int] = []

    def find() -> int:
        found.append(1)
        raise Boom("not to be found")

    async def main() -> list[str]:
        said: list[str] = []
        for _ in range(2):
            try:
                await Ask("answer")
            except Boom as error:
                said.append(str(error))
        return said

    assert tiffany.run(main(), env={"answer": Lazy(find)}) == ["not to be found"] * 2
    assert found == [1]
