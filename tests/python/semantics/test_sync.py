"""Also there: channels, locks, groups, names, limits."""

from __future__ import annotations

import gc
from typing import Any

import pytest
import tiffany
from semantics.dialects import both
from tiffany.calls import (
    Acquire,
    Cancel,
    Channel,
    Charge,
    CreateChannel,
    CreateGroup,
    CreateMutex,
    CreateSemaphore,
    GetTid,
    JoinGroup,
    Receive,
    Send,
    Sleep,
    Spawn,
    SystemCall,
    Task,
    Wait,
    Yield,
)
from tiffany.errors import ChannelClosedError


class Boom(Exception):
    pass


@both
def test_yield_and_get_tid() -> None:
    """ "Yield, GetTid": nothing, and the number of the task that asks."""

    async def child() -> int:
        return await GetTid()

    async def main() -> list[object]:
        calls: list[SystemCall[object]] = [Yield(), GetTid()]
        got = [await calls[0], await calls[1]]
        return [*got, await Wait(await Spawn(child()))]

    assert tiffany.run(main()) == [None, 1, 2]


@both
def test_channels_are_first_in_first_out() -> None:
    """ "channels": any number of senders and receivers; what is sent first is received first."""
    seen: list[int] = []

    async def sends(channel: Channel[int], first: int) -> None:
        for n in range(first, first + 3):
            await Send(channel, n)

    async def main() -> list[int]:
        channel: Channel[int] = await CreateChannel()
        await Wait(await Spawn(sends(channel, 0)))
        await Wait(await Spawn(sends(channel, 3)))
        for _ in range(6):
            seen.append(await Receive(channel))
        return seen

    assert tiffany.run(main()) == [0, 1, 2, 3, 4, 5]


@both
def test_a_full_channel_makes_senders_wait() -> None:
    """ "channels": one with so much room; without any, sender and receiver meet."""
    seen: list[str] = []

    async def sends(channel: Channel[int]) -> None:
        for n in range(3):
            await channel.send(n)
            seen.append(f"sent {n}")

    async def receives(capacity: int) -> list[int]:
        seen.clear()
        channel: Channel[int] = await CreateChannel(capacity)
        task = await Spawn(sends(channel))
        for _ in range(10):
            await Yield()
        assert seen == [f"sent {n}" for n in range(capacity)]
        got = [await channel.receive(), await channel.receive(), await channel.receive()]
        await Wait(task)
        return got

    async def main() -> None:
        for capacity in (2, 1, 0):
            assert await receives(capacity) == [0, 1, 2]

    tiffany.run(main())
    assert seen == ["sent 0", "sent 1", "sent 2"]


@both
def test_a_closed_channel() -> None:
    """ "channels": what is in it can still be received; then that and sending are errors."""

    async def main() -> list[Any]:
        channel = await CreateChannel()
        await channel.send("last")
        channel.close()
        channel.close()
        seen = [await channel.receive()]
        for call in (channel.receive(), channel.send("more")):
            try:
                await call
            except ChannelClosedError as error:
                seen.append(error.code)
        return seen

    assert tiffany.run(main()) == ["last", "TFY0023", "TFY0023"]


@both
def test_closing_wakes_those_who_wait() -> None:
    """ "channels": who waits for a message is told that none will come."""

    async def receives(channel: Channel[Any]) -> str:
        try:
            await channel.receive()
        except ChannelClosedError:
            return "closed"
        return "message"

    async def main() -> str:
        channel = await CreateChannel()
        task = await Spawn(receives(channel))
        await Yield()
        channel.close()
        return await Wait(task)

    assert tiffany.run(main()) == "closed"


def test_async_for_takes_what_comes() -> None:
    """ "channels": `async for` goes on until it is closed."""

    async def sends(channel: Channel[int]) -> None:
        for n in range(5):
            await channel.send(n)
            await Sleep(0)
        channel.close()

    async def main() -> list[int]:
        channel: Channel[int] = await CreateChannel(1)
        await Spawn(sends(channel))
        return [n async for n in channel]

    assert tiffany.run(main()) == [0, 1, 2, 3, 4]


@both
def test_a_message_survives_a_cancelled_receiver() -> None:
    """ "a reply delivered but not yet taken goes back (a message to the front of its channel, a permit to its semaphore)." """

    told = False

    async def receives(channel: Channel[str]) -> str:
        return await channel.receive()

    async def sends(channel: Channel[str]) -> None:
        while not told:
            await Yield()
        await channel.send("first")

    async def main() -> list[str]:
        nonlocal told
        channel: Channel[str] = await CreateChannel()
        task = await Spawn(receives(channel))
        await Spawn(sends(channel))
        told = True
        await Yield()
        # In this round it was answered, and is cancelled before its turn.
        await Cancel(task)
        await channel.send("second")
        return [await channel.receive(), await channel.receive()]

    assert tiffany.run(main()) == ["first", "second"]


@both
def test_mutex() -> None:
    """ "mutex": one at a time, in the order they asked."""
    seen: list[str] = []

    async def worker(name: str, mutex: tiffany.calls.Mutex) -> None:
        with await Acquire(mutex):
            seen.append(f"{name} in")
            await Yield()
            await Yield()
            seen.append(f"{name} out")

    async def main() -> None:
        mutex = await CreateMutex()
        for name in "abc":
            await Spawn(worker(name, mutex))

    tiffany.run(main())
    assert seen == ["a in", "a out", "b in", "b out", "c in", "c out"]


def test_async_with_holds_a_permit() -> None:
    """ "mutex, semaphore": `async with` gives the permit back, after an exception and a cancellation too."""
    inside = 0
    most = 0

    async def worker(semaphore: tiffany.calls.Semaphore, how: str) -> None:
        nonlocal inside, most
        async with semaphore:
            inside += 1
            most = max(most, inside)
            try:
                await Sleep(0.001 if how != "cancel" else 60)
                if how == "fail":
                    raise Boom
            finally:
                inside -= 1

    async def main() -> None:
        semaphore = await CreateSemaphore(2)
        tasks = [
            await Spawn(worker(semaphore, how)) for how in ("fail", "cancel", "", "fail", "", "")
        ]
        await Sleep(0.005)
        await Cancel(tasks[1])
        results = await tiffany.calls.GatherSettled(tasks)
        assert sum(isinstance(result, tiffany.Err) for result in results) == 3
        # Both permits are back.
        await Acquire(semaphore, 2)

    tiffany.run(main())
    assert most == 2


@both
def test_semaphore_is_first_in_first_out() -> None:
    """ "semaphore (FIFO": who asks for many is not passed by who asks for few."""
    seen: list[str] = []

    async def worker(name: str, permits: int, semaphore: tiffany.calls.Semaphore) -> None:
        permit = await Acquire(semaphore, permits)
        seen.append(name)
        permit.release()

    async def main() -> None:
        semaphore = await CreateSemaphore(3)
        held = await semaphore.acquire()
        for name, permits in (("many", 3), ("few", 1), ("more", 2)):
            await Spawn(worker(name, permits, semaphore))
        await Yield()
        held.release()

    tiffany.run(main())
    assert seen == ["many", "few", "more"]


@both
def test_a_permit_survives_a_cancelled_receiver() -> None:
    """ "the permit survives a cancelled receiver": whether it still waits, or has the permit and was not told."""

    async def worker(semaphore: tiffany.calls.Semaphore) -> None:
        await Acquire(semaphore)
        await Sleep(60)

    async def main() -> str:
        semaphore = await CreateSemaphore(1)
        held = await Acquire(semaphore)
        first, second = await Spawn(worker(semaphore)), await Spawn(worker(semaphore))
        await Yield()
        await Cancel(first)
        held.release()
        await Cancel(second)
        await Acquire(semaphore)
        return "has it"

    assert tiffany.run(main()) == "has it"


@both
def test_a_permit_goes_back_when_nobody_has_it() -> None:
    """ "semaphore": a permit that is dropped is given back."""

    async def forgets(semaphore: tiffany.calls.Semaphore) -> None:
        await Acquire(semaphore)

    async def main() -> str:
        semaphore = await CreateSemaphore(1)
        await Wait(await Spawn(forgets(semaphore)))
        gc.collect()
        await Acquire(semaphore)
        return "has it"

    assert tiffany.run(main()) == "has it"


@both
def test_more_permits_than_there_are() -> None:
    """ "semaphore": more permits than there are in all are an error at the call."""

    async def main() -> str:
        semaphore = await CreateSemaphore(2)
        try:
            await Acquire(semaphore, 3)
        except tiffany.errors.BadArgumentError as error:
            return error.code
        raise AssertionError

    assert tiffany.run(main()) == "TFY0033"


@both
def test_a_failed_member_cancels_the_others() -> None:
    """ "task groups that cancel their members": when one fails; who joins gets that error."""
    seen: list[str] = []

    async def sleeper() -> None:
        try:
            await Sleep(60)
        finally:
            seen.append("cancelled")

    async def bad() -> None:
        for _ in range(3):
            await Yield()
        raise Boom("first")

    async def main() -> str:
        group = await CreateGroup()
        for program in (sleeper(), sleeper(), bad()):
            await Spawn(program, group=group)
        try:
            await JoinGroup(group)
        except Boom as error:
            return str(error)
        raise AssertionError

    assert tiffany.run(main()) == "first"
    assert seen == ["cancelled", "cancelled"]


@both
def test_a_dropped_group_cancels_its_members() -> None:
    """ "task groups that cancel their members": when nobody has the group any more."""
    seen: list[str] = []

    async def sleeper() -> None:
        try:
            await Sleep(60)
        finally:
            seen.append("cancelled")

    async def main() -> None:
        group = await CreateGroup()
        await Spawn(sleeper(), group=group)
        await Yield()
        del group
        gc.collect()

    tiffany.run(main())
    assert seen == ["cancelled"]


@both
def test_joining_waits_for_all() -> None:
    """ "task groups": joining waits for all members; an empty group is joined at once."""
    seen: list[int] = []

    async def worker(n: int) -> None:
        for _ in range(n):
            await Yield()
        seen.append(n)

    async def main() -> None:
        group = await CreateGroup()
        await group.join()
        for n in (3, 1, 2):
            await Spawn(worker(n), group=group)
        await JoinGroup(group)
        seen.append(0)

    tiffany.run(main())
    assert sorted(seen[:3]) == [1, 2, 3]
    assert seen[3:] == [0]


def test_async_with_joins_a_group() -> None:
    """ "task groups that cancel their members": `async with` joins at the end; after an exception it cancels them first."""
    seen: list[str] = []

    async def worker(seconds: float) -> None:
        try:
            await Sleep(seconds)
            seen.append("done")
        except BaseException:
            await Yield()
            seen.append("cancelled")
            raise

    async def main() -> str:
        async with await CreateGroup() as group:
            await Spawn(worker(0.001), group=group)
        seen.append("joined")
        try:
            async with await CreateGroup() as group:
                await Spawn(worker(60), group=group)
                await Yield()
                raise Boom("the body's")
        except Boom as error:
            seen.append("left")
            return str(error)

    assert tiffany.run(main()) == "the body's"
    assert seen == ["done", "joined", "cancelled", "left"]


@both
def test_task_names(capsys: pytest.CaptureFixture[str]) -> None:
    """ "task names": in errors, and in what is shown."""

    async def child() -> None:
        raise Boom("here")

    async def main() -> None:
        await Spawn(child(), name="fetch")

    tiffany.run(main(), name="root")
    assert "`fetch`" in capsys.readouterr().err


@both
def test_priorities() -> None:
    """ "priorities": with the policy that looks at them, the highest goes first."""
    seen: list[int] = []

    async def worker(priority: int, gate: Any) -> None:
        await Wait(gate)
        seen.append(priority)

    async def main() -> None:
        gate = await tiffany.calls.CreatePromise()
        for priority in (0, 200, 7, 255):
            await Spawn(worker(priority, gate.future), priority=priority)
        for _ in range(5):
            await Yield()
        await gate.complete()

    tiffany.run(main(), policy="priority")
    assert seen == [255, 200, 7, 0]


@both
def test_a_limit_of_tasks() -> None:
    """ "per-run limits (tasks, calls, wall time, cost).": too many live tasks is an error in who spawns, and it can go on."""

    async def sleeper() -> None:
        await Sleep(0.002)

    async def main() -> tuple[str, int]:
        tasks: list[Task[None]] = []
        try:
            while True:
                tasks.append(await Spawn(sleeper()))
        except tiffany.errors.LimitError as error:
            await Wait(tasks[0])
            await Wait(await Spawn(sleeper()))
            return error.code, len(tasks)

    assert tiffany.run(main(), limits={"max_tasks": 4}) == ("TFY0014", 3)


@both
def test_a_limit_of_calls() -> None:
    """ "per-run limits (tasks, calls, wall time, cost).": too many calls end the run."""

    async def main() -> None:
        while True:
            await Yield()

    with pytest.raises(tiffany.errors.LimitError) as caught:
        tiffany.run(main(), limits={"max_calls": 1_000})
    assert caught.value.code == "TFY0015"


@both
def test_a_limit_of_time() -> None:
    """ "per-run limits (tasks, calls, wall time, cost).": too much time ends the run, whether it works or waits."""

    async def main(busy: bool) -> None:
        while busy:
            await Yield()
        await Sleep(60)

    for busy in (True, False):
        with pytest.raises(tiffany.errors.LimitError) as caught:
            tiffany.run(main(busy), limits={"max_time": 0.01})
        assert caught.value.code == "TFY0016"


@both
def test_a_limit_of_cost() -> None:
    """ "per-run limits (tasks, calls, wall time, cost).": too much cost is an error in who charges."""

    async def main() -> str:
        await Charge(60)
        try:
            await Charge(50)
        except tiffany.errors.LimitError as error:
            await Charge(40)
            return error.code
        raise AssertionError

    assert tiffany.run(main(), limits={"max_cost": 100}) == "TFY0017"


@pytest.mark.parametrize(
    "settings",
    [
        {"limits": {"max_luck": 1}},
        {"limits": {"max_time": -1}},
        {"end": "never"},
        {"policy": "mine"},
        {"cancel_grace": "soon"},
        {"handlers": [3]},
    ],
)
def test_settings_that_mean_nothing(settings: dict[str, Any]) -> None:
    """ "per-run limits": what is no setting is an error before anything runs, and says what may be given."""

    def main() -> Any:
        raise AssertionError("it ran")
        yield

    with pytest.raises(tiffany.errors.BadArgumentError, match="TFY00"):
        tiffany.run(main(), **settings)
