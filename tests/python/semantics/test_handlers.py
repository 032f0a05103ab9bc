"""Handlers: what stands between a task's calls and the kernel."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest
import tiffany
from semantics.dialects import both
from tiffany.calls import (
    Answer,
    Ask,
    Get,
    GetHandlers,
    GetTid,
    Put,
    Refuse,
    Sleep,
    Spawn,
    SystemCall,
    Tell,
    Wait,
    Yield,
)


class Boom(Exception):
    pass


class Add(SystemCall[int]):
    """A call of our own."""

    def __init__(self, a: int, b: int) -> None:
        self.a, self.b = a, b

    def __repr__(self) -> str:
        return f"Add({self.a}, {self.b})"


def adder(call: SystemCall[Any], tid: int) -> object:
    return Answer(call.a + call.b) if isinstance(call, Add) else None


def passing(call: SystemCall[Any], tid: int) -> object:
    return None


@both
def test_innermost_first() -> None:
    """ "Handlers form a chain, innermost first." """
    seen: list[str] = []

    def seeing(name: str) -> Any:
        def handler(call: SystemCall[Any], tid: int) -> object:
            if isinstance(call, Get):
                seen.append(name)
            return None

        return handler

    async def child() -> None:
        await Get("key")

    async def main() -> None:
        await Wait(await Spawn(child(), handlers=[seeing("inner"), seeing("outer")]))
        await Get("key")

    tiffany.run(main(), handlers=[seeing("first"), seeing("second")])
    assert seen == ["inner", "outer", "first", "second"]


@both
def test_a_handler_may_answer_change_refuse_or_pass_on() -> None:
    """ "A handler may answer, change, refuse or pass on any call but the scheduling ones" """

    def handler(call: SystemCall[Any], tid: int) -> object:
        match call:
            case Get() if call.key == "answered":
                return Answer("from the handler")
            case Get() if call.key == "changed":
                return Get("other")
            case Put() if call.key == "forbidden":
                return Refuse("this is not allowed")
            case Put():
                return Put(call.key, call.value.upper())
            case _:
                return None

    async def main() -> list[Any]:
        await Put("other", "value")
        got = [await Get("answered"), await Get("changed"), await Get("other"), await Get("none")]
        try:
            await Put("forbidden", "x")
        except tiffany.errors.RefusedError as error:
            got.append((error.code, "this is not allowed" in str(error)))
        return got

    expected = ["from the handler", "VALUE", "VALUE", None, ("TFY0019", True)]
    assert tiffany.run(main(), handlers=[handler]) == expected


@both
def test_scheduling_calls_are_not_seen() -> None:
    """ "any call but the scheduling ones": a handler that refuses everything does not see them."""
    seen: set[str] = set()

    def refusing(call: SystemCall[Any], tid: int) -> object:
        seen.add(type(call).__name__)
        return Refuse("everything")

    async def child() -> str:
        await Yield()
        return "value"

    async def main() -> str:
        await GetTid()
        task = await Spawn(child())
        await Yield()
        await task.cancel()
        return await Wait(await Spawn(child()))

    assert tiffany.run(main(), handlers=[refusing]) == "value"
    assert seen == set()


@both
def test_a_handler_is_told_who_calls() -> None:
    """ "A handler may answer […] any call": it is given the call as it was made, and the number of the task."""
    seen: list[tuple[str, int]] = []

    def handler(call: SystemCall[Any], tid: int) -> object:
        seen.append((repr(call), tid))
        return None

    async def child() -> None:
        await Tell("entry")
        await Sleep(0)

    async def main() -> None:
        await Put("key", 1)
        await Wait(await Spawn(child()))

    tiffany.run(main(), handlers=[handler])
    assert seen == [("Put('key', 1)", 1), ("Tell('entry')", 2), ("Sleep(0)", 2)]


@both
def test_it_answers_calls_the_kernel_does_not_know() -> None:
    """ "answers calls the kernel doesn't know": the very object that was yielded."""

    async def main() -> tuple[int, int]:
        return await Add(1, 2), await Add(20, 22)

    assert tiffany.run(main(), handlers=[passing, adder]) == (3, 42)


@both
def test_new_calls_need_no_change_in_the_loop() -> None:
    """ "New calls need no change in the loop.": a class is enough, with or without a constructor."""

    class Twice(Add):
        def __init__(self, n: int) -> None:
            super().__init__(n, n)

    class Ping(SystemCall[str]):
        pass

    def handler(call: SystemCall[Any], tid: int) -> object:
        return Answer("pong") if isinstance(call, Ping) else adder(call, tid)

    async def main() -> tuple[int, str]:
        return await Twice(21), await Ping()

    assert tiffany.run(main(), handlers=[handler]) == (42, "pong")


@both
def test_a_handler_may_answer_with_a_program() -> None:
    """ "calls it makes itself see only the handlers outside it": the program's calls, in a task of its own."""
    seen: list[str] = []

    async def slowly(a: int, b: int) -> int:
        await Sleep(0.001)
        seen.append("program")
        return await Add(a, b) + 100

    def inner(call: SystemCall[Any], tid: int) -> object:
        if isinstance(call, Add):
            seen.append("inner")
            return slowly(call.a, call.b)
        return None

    async def main() -> int:
        return await Add(1, 2)

    assert tiffany.run(main(), handlers=[inner, adder]) == 103
    assert seen == ["inner", "program"]


@both
def test_a_program_that_fails_is_an_error_in_the_caller() -> None:
    """ "A handler may answer": what its program raises is raised at the call."""

    async def failing() -> None:
        raise Boom("in the handler")

    def handler(call: SystemCall[Any], tid: int) -> object:
        return failing() if isinstance(call, Add) else None

    async def main() -> str:
        try:
            await Add(1, 2)
        except Boom as error:
            return str(error)
        raise AssertionError

    assert tiffany.run(main(), handlers=[handler]) == "in the handler"


@both
def test_a_handler_that_raises() -> None:
    """ "The loop survives any task": a handler's exception is raised at the call that it was asked about."""

    def handler(call: SystemCall[Any], tid: int) -> object:
        if isinstance(call, Get):
            raise Boom("in the handler")
        return None

    async def main() -> list[str]:
        said: list[str] = []
        for _ in range(2):
            try:
                await Get("key")
            except Boom as error:
                said.append(str(error))
        return said

    assert tiffany.run(main(), handlers=[handler]) == ["in the handler"] * 2


@pytest.mark.parametrize("given", [3, "text", Ask("key"), Add])
def test_a_handler_that_gives_something_else(given: Any) -> None:
    """ "A handler may answer, change, refuse or pass on": what is none of these is an error at the call, and names the handler."""

    def odd(call: SystemCall[Any], tid: int) -> object:
        return given if isinstance(call, Get) else None

    def main() -> Generator[Any, Any, str]:
        try:
            yield Get("key")
        except tiffany.errors.BadArgumentError as error:
            return str(error)
        raise AssertionError

    said = tiffany.run(main(), handlers=[odd])
    assert "odd" in said and "TFY0032" in said


@both
def test_nobody_answers() -> None:
    """ "Nobody answers: an error in the caller that names the call." """

    async def main() -> str:
        try:
            await Add(1, 2)
        except tiffany.errors.UnansweredError as error:
            assert error.code == "TFY0018"
            return str(error)
        raise AssertionError

    assert "`Add`" in tiffany.run(main(), handlers=[passing])
    assert "`Add`" in tiffany.run(main())


@both
def test_get_handlers_gives_the_chain() -> None:
    """ "GetHandlers gives the chain.": the callables themselves, innermost first, whoever installed them."""

    class Callable:
        def __call__(self, call: SystemCall[Any], tid: int) -> object:
            return None

    own = Callable()

    async def child() -> list[Any]:
        return await GetHandlers()

    async def main() -> list[list[Any]]:
        inherited = await Wait(await Spawn(child()))
        given = await Wait(await Spawn(child(), handlers=[own, passing]))
        return [await GetHandlers(), inherited, given]

    chains = tiffany.run(main(), handlers=[passing, adder])
    assert chains == [[passing, adder], [passing, adder], [own, passing]]
