"""Programs: generators, coroutines, and mixtures of them, nested through the CallStack."""

from __future__ import annotations

import asyncio
import sys
import traceback
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager
from contextvars import ContextVar
from decimal import Decimal, getcontext, localcontext
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import tiffany
from conftest import depth
from tiffany.calls import Blocking, Call, Cancel, GetTid, Sleep, Spawn, Wait, Yield, call
from tiffany.errors import AlreadyBegunError, NotACallError, TaskCancelledError

Program = Generator[Any, Any, Any]
DEEP = 100_000


class Boom(Exception):
    pass


def generator(value: Any) -> Program:
    yield
    return value


async def coroutine(value: Any) -> Any:
    await Yield()
    return value


def test_a_yielded_program_is_called() -> None:
    """A yielded generator or coroutine is a call: its return value is the value of the call."""

    def main() -> Program:
        first = yield generator(1)
        second = yield coroutine(2)
        third = yield Call(generator(3))
        return [first, second, third]

    assert tiffany.run(main()) == [1, 2, 3]


def test_an_awaited_program_is_called() -> None:
    """In `async def` it is `await call(program)`; plain `await` of a coroutine nests too."""

    async def main() -> list[Any]:
        return [await call(coroutine(1)), await call(generator(2)), await coroutine(3)]

    assert tiffany.run(main()) == [1, 2, 3]


def test_yield_from_nests() -> None:
    """`yield from` nests generators, and what it yields is the task's."""

    def inner() -> Program:
        tid = yield GetTid()
        value = yield coroutine(10)
        return tid + value

    def main() -> Program:
        return (yield from inner()) + (yield from coroutine(100).__await__())

    assert tiffany.run(main()) == 111


def test_mixtures() -> None:
    """All four ways of nesting, each inside each other."""

    def by_yield(n: int) -> Program:
        return 1 if n == 0 else 1 + (yield by_await(n - 1))

    async def by_await(n: int) -> Any:
        return 1 if n == 0 else 1 + await call(by_yield_from(n - 1))

    def by_yield_from(n: int) -> Program:
        if n == 0:
            return 1
        return 1 + (yield from by_yield(n - 1))

    assert tiffany.run(by_yield(300)) == 301
    assert tiffany.run(by_await(300)) == 301


def test_a_bare_yield_is_a_cooperative_yield() -> None:
    """A bare `yield` lets the others run, and gives nothing."""
    seen: list[str] = []

    def worker(name: str) -> Program:
        for _ in range(3):
            seen.append(name)
            assert (yield) is None

    def main() -> Program:
        gate = yield tiffany.calls.CreatePromise()

        def waits(name: str) -> Program:
            yield Wait(gate.future)
            yield worker(name)

        for name in "ab":
            yield Spawn(waits(name))
        yield gate.complete()

    tiffany.run(main())
    assert "".join(seen) == "ababab"


def deep_generator(n: int, bottom: Any) -> Program:
    if n == 0:
        return (yield bottom)
    return (yield deep_generator(n - 1, bottom)) + 1


async def deep_coroutine(n: int, bottom: Any) -> Any:
    if n == 0:
        return await bottom
    return await call(deep_coroutine(n - 1, bottom)) + 1


@pytest.mark.parametrize("deep", [deep_generator, deep_coroutine])
def test_a_hundred_thousand_levels(deep: Any) -> None:
    """A hundred thousand levels deep without a RecursionError, and Python's own limit is never raised."""
    limit = sys.getrecursionlimit()
    assert tiffany.run(deep(DEEP, GetTid())) == DEEP + 1
    assert sys.getrecursionlimit() == limit


def test_plain_nesting_goes_to_pythons_own_limit() -> None:
    """`yield from` and plain `await` nest to Python's own limit: beyond it is a RecursionError in the task, and the loop goes on."""

    async def endless() -> None:
        await endless()

    def forever() -> Program:
        yield from forever()

    def main() -> Program:
        seen: list[str] = []
        for program in (endless(), forever()):
            try:
                yield Wait((yield Spawn(program)))
            except RecursionError:
                seen.append("RecursionError")
        return seen

    limit = sys.getrecursionlimit()
    assert tiffany.run(main()) == ["RecursionError", "RecursionError"]
    assert sys.getrecursionlimit() == limit


async def failing(n: int) -> None:
    if n == 0:
        raise Boom("at the bottom")
    await call(failing(n - 1))


def test_exceptions_have_the_whole_chain() -> None:
    """An exception is raised at the call, with the whole chain in the traceback."""

    def outer() -> Program:
        yield middle()

    async def middle() -> None:
        await call(inner())

    def inner() -> Program:
        yield
        raise Boom("at the bottom")

    with pytest.raises(Boom) as caught:
        tiffany.run(outer())
    frames = traceback.extract_tb(caught.value.__traceback__)
    assert [frame.name for frame in frames][-3:] == ["outer", "middle", "inner"]
    assert frames[-1].line == 'raise Boom("at the bottom")'

    with pytest.raises(Boom) as caught:
        tiffany.run(failing(300))
    assert depth(caught.value.__traceback__) > 300


def test_long_tracebacks_are_trimmed() -> None:
    """Of a traceback that is thousands deep, both ends are kept, and a note says how much is left out."""
    with pytest.raises(Boom) as caught:
        tiffany.run(failing(DEEP))
    lines = depth(caught.value.__traceback__)
    assert 300 < lines < 1_000
    [note] = caught.value.__notes__
    left_out = int(note.split(":")[1].split()[0])
    assert left_out + lines == pytest.approx(DEEP, abs=10)
    # Both ends are there: the one that called, and the line that raised.
    frames = traceback.extract_tb(caught.value.__traceback__)
    assert frames[-1].line == 'raise Boom("at the bottom")'


def test_an_exception_may_be_caught_at_any_level() -> None:
    """What a program raises is raised at the call, where it may be caught; what is raised instead has it as its context."""

    def bottom() -> Program:
        yield
        raise Boom("first")

    def changes() -> Program:
        try:
            yield bottom()
        except Boom as error:
            raise ValueError("second") from error

    def main() -> Program:
        try:
            yield changes()
        except ValueError as error:
            yield
            return error
        raise AssertionError

    error = tiffany.run(main())
    assert isinstance(error.__cause__, Boom)
    names = [frame.name for frame in traceback.extract_tb(error.__cause__.__traceback__)]
    assert names == ["changes", "bottom"]


def test_an_exception_changed_at_every_level() -> None:
    """Thousands of levels, each of which raises another exception: nothing overflows when they are dropped."""

    def deep(n: int) -> Program:
        if n == 0:
            raise Boom("0")
        try:
            yield deep(n - 1)
        except Boom:
            raise Boom(str(n)) from None

    with pytest.raises(Boom, match="3000"):
        tiffany.run(deep(3_000))


def test_cancelling_a_deep_stack() -> None:
    """All levels are unwound, innermost first, and each may make calls."""
    seen: list[int] = []

    def deep(n: int) -> Program:
        try:
            yield (deep(n - 1) if n else Sleep(60))
        finally:
            if n % 1_000 == 0:
                yield
            seen.append(n)

    def main() -> Program:
        task = yield Spawn(deep(DEEP))
        yield
        yield Cancel(task)
        try:
            yield Wait(task)
        except TaskCancelledError:
            return "cancelled"

    assert tiffany.run(main()) == "cancelled"
    assert seen == list(range(DEEP + 1))


class Awaitable:
    def __await__(self) -> Program:
        return (yield GetTid()) + 10


@pytest.mark.parametrize(
    ("given", "hint"),
    [
        (5, "`int`"),
        ("text", "`str`"),
        ([1], "Gather"),
        (lambda: None, "called first"),
        (Sleep, "write `()` after it"),
        (Awaitable(), "await it in an `async def`"),
        (iter([]), "`list_iterator`"),
    ],
)
def test_what_is_no_call_is_an_error_at_that_line(given: Any, hint: str) -> None:
    """Yielding something that is no call is an error at that line: it can be caught there, and the task goes on."""

    def main() -> Program:
        try:
            yield given
        except NotACallError as error:
            assert isinstance(error, TypeError)
            assert error.code == "TFY0045"
            line = traceback.extract_tb(error.__traceback__)[-1].line
            return str(error), line, (yield GetTid())

    said, line, tid = tiffany.run(main())
    assert hint in said
    assert (line, tid) == ("yield given", 1)


def test_a_task_is_waited_for_by_wait() -> None:
    """Yielding a task or a future is an error that says how to wait."""

    def main() -> Program:
        task = yield Spawn(generator(1))
        said: list[str] = []
        for given in (task, (yield tiffany.calls.CreatePromise()).future):
            try:
                yield given
            except NotACallError as error:
                said.append(str(error))
        return said

    said = tiffany.run(main())
    assert len(said) == 2
    assert all("`Wait` waits for it" in text for text in said)


def test_awaitables_of_others() -> None:
    """An object with `__await__` is awaited as Python has it."""

    async def main() -> int:
        value: int = await Awaitable()
        return value

    assert tiffany.run(main()) == 11


def test_a_program_that_has_begun_is_an_error() -> None:
    """A program runs once, from its beginning: itself, one that waits for this one, one of another task, and one that is over."""
    said: list[str] = []

    def tries(given: Any) -> Program:
        try:
            yield given
        except AlreadyBegunError as error:
            assert error.code == "TFY0048"
            said.append(str(error))

    def itself() -> Program:
        yield
        yield tries(mine[0])
        yield from tries(mine[0])

    def sleeper() -> Program:
        yield Sleep(60)

    mine = [itself()]
    tiffany.run(mine[0])
    assert len(said) == 2

    def main() -> Program:
        over, elsewhere = generator(1), sleeper()
        task = yield Spawn(elsewhere)
        assert (yield over) == 1
        yield tries(over)
        yield tries(Call(over))
        yield tries(elsewhere)
        yield Cancel(task)
        done = coroutine(2)
        assert (yield done) == 2
        yield tries(done)
        return "goes on"

    assert tiffany.run(main()) == "goes on"
    assert len(said) == 6


def test_a_program_is_spawned_once() -> None:
    """A program runs once: the second task fails, or the second call does."""

    def main() -> Program:
        program = generator(1)
        spawn = Spawn(program)
        first = yield spawn
        codes: list[str] = []
        try:
            yield spawn
        except AlreadyBegunError as error:
            codes.append(error.code)
        second = yield Spawn(program)
        try:
            yield Wait(second)
        except AlreadyBegunError as error:
            codes.append(error.code)
        return (yield Wait(first)), codes

    assert tiffany.run(main()) == (1, ["TFY0048", "TFY0048"])
    over = generator(1)
    list(over)
    with pytest.raises(AlreadyBegunError):
        tiffany.run(over)


@pytest.mark.parametrize("given", [3, None, "text", generator, coroutine, Sleep, Awaitable()])
def test_what_is_no_program(given: Any) -> None:
    """What is no program cannot be run, spawned, called or limited; the error says what can."""
    limited: Any = partial(tiffany.calls.Timeout, 1)
    for make in (tiffany.run, Spawn, Call, tiffany.calls.NewTask, limited):
        with pytest.raises(tiffany.errors.BadArgumentError, match="TFY0032") as caught:
            make(given)
        assert "generator or" in str(caught.value)
        if given in (generator, coroutine):
            assert "call it first" in str(caught.value)


def test_asyncio_objects() -> None:
    """Awaiting an asyncio object directly is an error that says how to do it."""
    loop = asyncio.new_event_loop()

    async def awaits_future() -> None:
        await loop.create_future()

    async def awaits_sleep() -> None:
        await asyncio.sleep(1)

    with pytest.raises(NotACallError, match=r"await aio\(coro\)"):
        tiffany.run(awaits_future())
    with pytest.raises(
        NotACallError, match=r"no running event loop.*await aio\(coro\).*TFY0045"
    ) as caught:
        tiffany.run(awaits_sleep())
    names = [entry.name for entry in caught.traceback]
    assert names.index("awaits_sleep") < names.index("sleep")
    loop.close()


def test_asyncio_objects_in_a_durable_run(tmp_path: Path) -> None:
    """What a durable run is told to use instead of asyncio is what it may use."""
    with pytest.raises(
        tiffany.errors.NotDurableError, match="`async def` function under `@step`"
    ) as caught:
        tiffany.run(sleeps_by_asyncio(), wal=tmp_path, id="a")
    assert "aio(" not in str(caught.value).lower()
    with pytest.raises(tiffany.errors.NotDurableError, match="`async def` function under `@step`"):
        tiffany.run(awaits_asyncio(), wal=tmp_path, id="b")
    assert tiffany.run(steps_by_asyncio(), wal=tmp_path, id="c") == "slept"


async def sleeps_by_asyncio() -> None:
    await asyncio.sleep(1)


async def awaits_asyncio() -> None:
    loop = asyncio.new_event_loop()
    future = loop.create_future()
    loop.close()
    await future


@tiffany.step
async def asleep() -> str:
    return await asyncio.sleep(0, "slept")


async def steps_by_asyncio() -> str:
    return await asleep()


def test_async_generators() -> None:
    """Async generators run inside tasks; `async for` and `async with` make calls of the task."""
    seen: list[str] = []

    async def numbers(n: int) -> AsyncGenerator[int, None]:
        try:
            for i in range(n):
                await Sleep(0)
                yield i
        finally:
            await Yield()
            seen.append("closed")

    @asynccontextmanager
    async def around() -> AsyncGenerator[int, None]:
        await Yield()
        seen.append("in")
        try:
            yield 7
        finally:
            await Yield()
            seen.append("out")

    async def main() -> list[int]:
        got = [i async for i in numbers(3)]
        async with around() as value:
            got.append(value)
            async for i in numbers(1):
                got.append(i)
        stopped = numbers(5)
        async for i in stopped:
            if i == 1:
                break
        await stopped.aclose()
        return got

    assert tiffany.run(main()) == [0, 1, 2, 7, 0]
    assert seen == ["closed", "in", "closed", "out", "closed"]


def test_an_async_generator_is_no_program() -> None:
    """An async generator cannot be run; the error says what to do with it."""

    async def numbers() -> AsyncGenerator[int, None]:
        yield 1

    def main() -> Program:
        yield numbers()

    with pytest.raises(NotACallError, match="async for"):
        tiffany.run(main())


variable: ContextVar[str] = ContextVar("variable", default="default")


def test_each_task_has_its_own_context() -> None:
    """Context variables: a child has its parent's as they were when it was spawned; what it sets is its own."""

    async def child(name: str) -> tuple[str, str]:
        inherited = variable.get()
        variable.set(name)
        await Yield()
        await call(generator(1))
        return inherited, variable.get()

    def main() -> Program:
        variable.set("main")
        first = yield Spawn(child("first"))
        variable.set("later")
        second = yield Spawn(child("second"))
        values = yield tiffany.calls.Gather(first, second)
        yield sets()
        return values, variable.get()

    def sets() -> Program:
        # The same task, so the same context.
        yield
        variable.set("set by a call")

    variable.set("outside")
    values, mine = tiffany.run(main())
    assert values == [("main", "first"), ("later", "second")]
    assert mine == "set by a call"
    assert variable.get() == "outside"


def test_cleanup_and_threads_have_the_context_too() -> None:
    """Context variables are there in `finally`, whoever runs it, and on the threads of `Blocking`."""
    seen: list[str] = []

    async def child() -> None:
        variable.set("child")
        try:
            await Sleep(60)
        finally:
            seen.append(variable.get())
            await Sleep(60)

    async def main() -> str:
        variable.set("main")
        task = await Spawn(child())
        await Yield()
        await Cancel(task)
        await Yield()
        await Cancel(task)
        return await Blocking(variable.get)

    assert tiffany.run(main()) == "main"
    assert seen == ["child"]


def test_decimal_contexts_do_not_mix() -> None:
    """What the standard library keeps in context variables is the task's own."""

    async def third(digits: int) -> Decimal:
        with localcontext() as context:
            context.prec = digits
            await Yield()
            return Decimal(1) / Decimal(3)

    async def main() -> list[int]:
        tasks = [await Spawn(third(digits)) for digits in (3, 9)]
        values = await tiffany.calls.Gather(tasks)
        return [len(str(value)) - 2 for value in values]

    assert tiffany.run(main()) == [3, 9]
    assert getcontext().prec == 28


def test_programs_that_never_ran_are_closed_quietly() -> None:
    """A program that is spawned and never runs leaves no "never awaited" behind."""

    async def never() -> None:
        raise AssertionError("it ran")

    async def main() -> None:
        # The last call that is allowed; the run is over before the child has its turn.
        await Spawn(never())

    with pytest.raises(tiffany.errors.LimitError):
        tiffany.run(main(), limits={"max_calls": 0})
    never_run = never()
    with pytest.raises(tiffany.errors.BadArgumentError):
        tiffany.run(never_run, end="never")  # type: ignore[arg-type]
    never_run.close()
