"""Types: what a checker infers for calls. The assertions are the checker's; run, they check that what is inferred is what comes."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, assert_type
from uuid import UUID

import tiffany
from tiffany import (
    Err,
    Ok,
    cancel,
    continue_as,
    create_channel,
    create_external_promise,
    create_group,
    create_mutex,
    create_semaphore,
    gather,
    gather_settled,
    new_uuid,
    now,
    race,
    random,
    sleep,
    spawn,
    step,
    timeout,
    wait,
    workflow,
    yield_now,
)
from tiffany.calls import (
    Acquire,
    Answer,
    Channel,
    ExternalPromise,
    Future,
    Group,
    Mutex,
    Permit,
    Promise,
    RaceResult,
    Semaphore,
    Spawn,
    SystemCall,
    Task,
    Wait,
    acquire,
    ask,
    blocking,
    call,
    create_promise,
    get,
    get_log,
    get_tid,
    join_group,
    kill_task,
    new_task,
    put,
    receive,
    send,
    tell,
    wait_task,
)


async def number() -> int:
    await yield_now()
    return 1


async def text() -> str:
    return "text"


def plain(n: int, *, twice: bool = False) -> float:
    return n * 2.0 if twice else float(n)


def generator() -> Generator[Any, Any, bytes]:
    yield sleep(0)
    return b"bytes"


class Add(SystemCall[int]):
    def __init__(self, a: int, b: int) -> None:
        self.sum = a + b


def handler(call: SystemCall[Any], tid: int) -> object:
    return Answer(call.sum) if isinstance(call, Add) else None


async def simple() -> None:
    assert_type(await sleep(0), None)
    assert_type(await now(), float)
    assert_type(await random(), float)
    assert_type(await new_uuid(), UUID)
    assert_type(await get_tid(), int)
    assert_type(await get("key"), Any)
    assert_type(await put("key", 1), None)
    assert_type(await tell("entry"), None)
    assert_type(await get_log(), list[Any])
    assert_type(await ask("key"), Any)
    assert_type(await Add(1, 2), int)
    assert_type(await blocking(plain, 3, twice=True), float)
    assert_type(await call(number()), int)
    assert_type(await call(generator()), bytes)
    assert_type(await timeout(10, text()), str)


async def tasks() -> None:
    first: Task[int] = await spawn(number())
    second = await spawn(text(), name="text")
    third = await Spawn(generator())
    assert_type(second, Task[str])
    assert_type(third, Task[bytes])
    assert_type(await wait(first), int)
    assert_type(await Wait(second), str)
    assert_type(await third, bytes)
    both = await gather(first, second)
    assert_type(both, list[int | str])
    assert both == [1, "text"]
    assert_type(await gather(first, second, third), list[int | str | bytes])
    assert_type(await gather([first, first]), list[int])
    assert_type(await gather(*[first, first]), list[int])
    assert_type(await gather(number(), text(), third), list[int | str | bytes])
    assert_type(await gather(first, now()), list[int | float])
    assert_type(await gather([number(), number()]), list[int])
    assert_type(await gather(number() for _ in range(2)), list[int])
    assert_type(await wait(text()), str)
    assert_type(await wait(now()), float)
    assert_type(await timeout(10, second), str)
    assert_type(await timeout(10, now()), float)
    assert_type(await spawn(now()), Task[float])
    assert_type((await race(number(), number())).value, int)
    raced = await race(first, first)
    assert_type(raced, RaceResult[int])
    assert_type(raced.value, int)
    match (await gather_settled(second))[0]:
        case Ok(value):
            assert_type(value, str)
        case Err(error):
            assert_type(error, BaseException)
    assert_type(await cancel(first), None)
    assert_type(await first.cancel(), None)
    assert_type(await new_task(number()), int)
    assert_type(await wait_task(1_000), bool)
    assert_type(await kill_task(1_000), bool)


async def objects() -> None:
    promise: Promise[int] = await create_promise()
    assert_type(promise.future, Future[int])
    assert_type(await promise.complete(3), None)
    assert_type(await promise.future, int)
    external: ExternalPromise[str] = await create_external_promise()
    assert_type(external.complete("text"), bool)
    assert_type(await wait(external.future), str)
    channel: Channel[int] = await create_channel(3)
    assert_type(await send(channel, 1), None)
    assert_type(await receive(channel), int)
    await channel.send(2)
    channel.close()
    async for message in channel:
        assert_type(message, int)
    semaphore = await create_semaphore(2)
    assert_type(semaphore, Semaphore)
    assert_type(await acquire(semaphore), Permit)
    mutex = await create_mutex()
    assert_type(mutex, Mutex)
    async with mutex as held:
        assert_type(held, Mutex)
    with await Acquire(mutex):
        pass
    async with await create_group() as group:
        assert_type(group, Group)
        await spawn(number(), group=group)
    assert_type(await join_group(group), None)


@step
def priced(item: str, cents: int = 0) -> int:
    return cents or len(item)


@dataclass(frozen=True)
class Till:
    @step
    def paid(self, cents: int) -> str:
        return str(cents)


async def steps() -> None:
    assert_type(await priced("tea"), int)
    assert_type(await priced.with_options(retries=3)("tea", cents=3), int)
    assert_type(await priced("tea").with_options(timeout=5), int)
    assert_type(await Till().paid(3), str)


@workflow(name="test_typing.order")
async def order(item: str, cents: int = 0) -> int:
    return await priced(item, cents)


@workflow(name="test_typing.counted")
async def counted(number: int) -> str:
    """A checker knows that nothing comes after `continue_as`: there is no value to return."""
    if number == 0:
        return "over"
    await continue_as(number - 1)


@workflow(name="test_typing.returned")
async def returned(number: int) -> str:
    return "over" if number == 0 else await continue_as(number - 1)


def test_a_run_that_continues(tmp_path: Path) -> None:
    assert_type(tiffany.run(counted(2), wal=tmp_path, id="counted"), str)
    assert tiffany.run(returned(2), wal=tmp_path, id="returned") == "over"


def test_runs_that_are_submitted(tmp_path: Path) -> None:
    """What a run gives is known from its function, or from its program."""
    with tiffany.Runtime(wal=tmp_path) as runtime:
        first = runtime.submit(order, "tea", 3, id="first")
        assert_type(first, tiffany.durable.Run[int])
        assert_type(runtime.wait(first), int)
        second = runtime.submit(order("tea", cents=3), id="second")
        assert_type(second, tiffany.durable.Run[int])
        assert_type(runtime.submit(order, "tea", id="third"), tiffany.durable.Run[int])
        assert runtime.wait(first) == runtime.wait(second) == 3


async def clients(client: tiffany.Client, other: tiffany.AsyncClient) -> None:
    """It is never called: what clients give is known from the function too."""
    run = client.submit(order, "tea", 3, tags=["gold"], attributes={"n": 1}, deadline=3)
    assert_type(run, tiffany.durable.Run[int])
    assert_type(client.result(run), int)
    same = await other.submit(order, "tea", 3, tags=["gold"], attributes={"n": 1}, deadline=3)
    assert_type(await other.result(same), int)
    client.submit(order, 3, tags=["gold"])  # type: ignore[arg-type]
    client.submit("order", tags=3)  # type: ignore[call-overload]
    await other.submit("order", deadline="soon")  # type: ignore[call-overload]
    client.runs(sort="size")  # type: ignore[arg-type]


def mistakes(runtime: tiffany.Runtime) -> None:
    """It is never called: each line is an error for the checker, which says so if one is not."""
    priced(3)  # type: ignore[arg-type]
    priced("tea", colour=3)  # type: ignore[call-arg]
    priced.with_options(retry=3)  # type: ignore[call-arg]
    priced.with_options(retries=3)(3)  # type: ignore[arg-type]
    priced.with_options(retries="3")  # type: ignore[arg-type]
    Till().paid("3")  # type: ignore[arg-type]
    runtime.submit(order, 3, id="a")  # type: ignore[arg-type]
    runtime.submit(order, id="a")  # type: ignore[call-arg, arg-type]
    runtime.submit(order("tea", "3"), id="a")  # type: ignore[arg-type]
    tiffany.run(order("tea"), threads="3")  # type: ignore[arg-type]
    tiffany.run(order("tea"), limit=3)  # type: ignore[call-arg]


async def main() -> str:
    await simple()
    await tasks()
    await objects()
    await steps()
    return "over"


def test_what_is_inferred_is_what_comes() -> None:
    """The program whose types are checked runs to its end."""
    assert_type(tiffany.run(main(), env={"key": 1}, handlers=[handler]), str)


def test_generic_classes_can_be_written_with_their_types() -> None:
    """The classes that are generic for a checker can be subscripted at run time."""
    classes: list[Any] = [Task, Future, Promise, ExternalPromise, RaceResult, Ok, Channel]
    classes += [SystemCall, tiffany.calls.Program]
    for cls in classes:
        assert cls[int] is not None
