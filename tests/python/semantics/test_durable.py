"""What the specification says of durable runs. What becomes of them after a crash is in the tests of durable runs."""

from __future__ import annotations

import asyncio
import gc
import os
import socket
import subprocess
import sys
import threading
import time
import traceback
import uuid
import weakref
from pathlib import Path
from typing import Any

import pytest
import tiffany
from durable_kit import cut, first_rules, lines, records, types
from tiffany import Runtime, step
from tiffany.calls import (
    Ask,
    Blocking,
    CreateExternalPromise,
    CreatePromise,
    Now,
    Put,
    ReadWait,
    ReceiveMessage,
    SendMessage,
    Sleep,
    Spawn,
    SystemCall,
    Wait,
    WriteWait,
    Yield,
)
from tiffany.errors import NotDurableError
from tiffany.history import TimeTravel


class Boom(Exception):
    pass


@step
def effect(n: int) -> int:
    return n + 1


async def everything() -> list[Any]:
    promise = await CreatePromise()
    await promise.complete("promise")
    await SendMessage("a", "greeting", "message")
    start = await Now()
    await Sleep(0.001)
    timer = await Now() > start
    return [await effect(1), timer, await promise.future, await ReceiveMessage("greeting")]


def test_durable_tasks_use_effects_timers_promises_and_messages(tmp_path: Path) -> None:
    """ "In *durable* runs the world is reached through effects, timers, promises and messages only": these four work."""
    assert tiffany.run(everything(), wal=tmp_path, id="a") == [2, True, "promise", "message"]


def reads() -> Any:
    left, right = socket.socketpair()
    try:
        yield ReadWait(left)
    finally:
        left.close()
        right.close()


async def writes() -> None:
    await WriteWait(1)


async def blocks() -> None:
    await Blocking(os.getpid)


async def waits_for_asyncio() -> None:
    loop = asyncio.new_event_loop()
    try:
        await loop.create_future()
    finally:
        loop.close()


@pytest.mark.parametrize("program", [reads, writes, blocks])
def test_the_world_is_an_error_there(program: Any, tmp_path: Path) -> None:
    """ "ReadWait, WriteWait, sockets, child processes and foreign futures are errors there, which name the line and say: use a step." """
    with pytest.raises(NotDurableError, match="use a step") as caught:
        tiffany.run(program(), wal=tmp_path, id="a")
    assert caught.value.code == "TFY0020"
    frame = traceback.extract_tb(caught.value.__traceback__)[-1]
    assert (frame.filename, frame.name) == (__file__, program.__name__)


def test_foreign_futures_are_an_error_there(tmp_path: Path) -> None:
    """ "in a durable run that is an error.": in Python in any run."""
    with pytest.raises(tiffany.errors.NotDurableError):
        tiffany.run(waits_for_asyncio(), wal=tmp_path, id="a")


promises: list[str] = []


async def asks() -> Any:
    promise = await CreateExternalPromise()
    promises.append(promise.uuid)
    return await promise.future


def promised() -> str:
    """The promise, as soon as it is handed out."""
    while not promises:
        time.sleep(0.001)
    return promises[0]


def on_disk(wal: Path, text: str) -> bool:
    """Whether a text stands in a file of the log."""
    return any(text.encode() in path.read_bytes() for path in wal.rglob("*") if path.is_file())


def test_an_external_promise_is_recorded_before_it_is_handed_out(tmp_path: Path) -> None:
    """ "(random, recorded, handed out only once durable)": whoever has the UUID finds it on the disk."""
    promises.clear()
    found: list[bool] = []
    with Runtime(wal=tmp_path) as runtime:
        run = runtime.submit(asks, id="a")

        def settles() -> None:
            found.append(on_disk(tmp_path, promised()))
            tiffany.complete_by_uuid(promised(), "answer")

        thread = threading.Thread(target=settles)
        thread.start()
        assert runtime.wait(run) == "answer"
        thread.join()
    assert found == [True]
    assert uuid.UUID(promises[0]).version == 4


def test_a_promise_keeps_its_uuid(tmp_path: Path) -> None:
    """ "recorded": a run that is brought back has the same promise, and its answer may come then."""
    promises.clear()
    with Runtime(wal=tmp_path / "first") as runtime:
        run = runtime.submit(asks, id="a")
        thread = threading.Thread(target=lambda: tiffany.complete_by_uuid(promised(), "first"))
        thread.start()
        assert runtime.wait(run) == "first"
        thread.join()
    # Up to the promise, without its answer.
    count = 1 + next(n for n, line in enumerate(lines(tmp_path / "first")) if promises[0] in line)
    there = cut(tmp_path / "first", count, tmp_path / "again")
    with Runtime(wal=there) as runtime:
        run = runtime.submit(asks, id="a")
        threading.Timer(0.05, tiffany.complete_by_uuid, (promises[0], "again")).start()
        assert runtime.wait(run) == "again"
    assert set(promises) == {promises[0]}
    assert len(promises) == 2


def test_settling_is_acknowledged_after_commit(tmp_path: Path) -> None:
    """ "settling a durable one is acknowledged after commit": who is told that its answer was taken finds it on the disk."""
    promises.clear()
    found: list[bool] = []
    with Runtime(wal=tmp_path) as runtime:
        run = runtime.submit(asks, id="a")

        def settles() -> None:
            accepted = tiffany.complete_by_uuid(promised(), "a word that stands nowhere else")
            found.append(accepted and on_disk(tmp_path, "a word that stands nowhere else"))

        thread = threading.Thread(target=settles)
        thread.start()
        assert runtime.wait(run) == "a word that stands nowhere else"
        thread.join()
    assert found == [True]


def test_settled_from_another_process(tmp_path: Path) -> None:
    """ "or process": through the directory, by its UUID."""
    promises.clear()
    code = (
        "import sys, tiffany; tiffany.complete_by_uuid(sys.argv[2], 'elsewhere', wal=sys.argv[1])"
    )
    with Runtime(wal=tmp_path) as runtime:
        run = runtime.submit(asks, id="a")

        def settles() -> None:
            command = [sys.executable, "-c", code, str(tmp_path), promised()]
            subprocess.run(command, check=True, timeout=60)

        thread = threading.Thread(target=settles)
        thread.start()
        assert runtime.wait(run) == "elsewhere"
        thread.join()


acted: list[str] = []


async def unfinished() -> None:
    await Spawn(sleeps("child"))
    await sleeps("root")


async def sleeps(name: str) -> None:
    try:
        await effect(1)
        acted.append(f"{name} waits")
        await Sleep(3600)
    finally:
        acted.append(f"{name} acts on the world")


def test_at_shutdown_nothing_is_unwound(tmp_path: Path) -> None:
    """ "At shutdown, […] unfinished durable coroutines are not unwound: their `finally` and `Drop` must not act on the world" """
    acted.clear()
    with Runtime(wal=tmp_path) as runtime:
        runtime.submit(unfinished, id="a")

        async def other() -> None:
            while len(acted) < 2:
                await Sleep(0.001)

        runtime.run(other())
    assert sorted(acted) == ["child waits", "root waits"]
    assert types(tmp_path)[-1] == "ShutdownMarker"


def until_both_wait(runtime: Runtime) -> None:
    async def other() -> None:
        while len(acted) < 2:
            await Sleep(0.001)

    runtime.run(other())


def test_in_inspection_nothing_is_unwound(tmp_path: Path) -> None:
    """ "in inspection, […] unfinished durable coroutines are not unwound: their `finally` and `Drop` must not act on the world": at any of its moments,
    forwards and backwards, and when one has seen enough."""
    acted.clear()
    with Runtime(wal=tmp_path) as runtime:
        run = runtime.submit(unfinished, id="a")
        until_both_wait(runtime)
    with TimeTravel(run, wal=tmp_path, workflows=[unfinished]) as travel:
        numbers = range(1, len(travel) + 1)
        for number in [*numbers, *reversed(numbers)]:
            travel.at(number)
    gc.collect()
    assert not [what for what in acted if "acts" in what]


def test_an_abandoned_fork_is_not_unwound(tmp_path: Path) -> None:
    """ "and when a fork is abandoned, unfinished durable coroutines are not unwound: their `finally` and `Drop` must not act on the world" """
    acted.clear()
    with Runtime(wal=tmp_path) as runtime:
        run = runtime.submit(unfinished, id="a")
        until_both_wait(runtime)
    results = [n for n, one in enumerate(records(tmp_path), 1) if one["type"] == "EffectResult"]
    acted.clear()
    with Runtime(wal=tmp_path, workflows=[unfinished]) as runtime:
        until_both_wait(runtime)
        acted.clear()
        runtime.fork(run, results[-1], id="b")
        until_both_wait(runtime)
    gc.collect()
    assert sorted(acted) == ["child waits", "root waits"]


class Held:
    """Something that an unfinished program has."""


held: list[weakref.ref[Held]] = []


async def holds() -> None:
    thing = Held()
    held.append(weakref.ref(thing))
    await Sleep(3600)
    del thing


def test_what_is_not_unwound_is_leaked(tmp_path: Path) -> None:
    """ "(leak them, […])": what an unfinished program has is still there when its runtime is gone."""
    held.clear()
    with Runtime(wal=tmp_path) as runtime:
        runtime.submit(holds, id="a")

        async def other() -> None:
            while not held:
                await Sleep(0.001)

        runtime.run(other())
    gc.collect()
    assert held[0]() is not None


seen: list[str] = []


def watches(call: SystemCall[Any], tid: int) -> object:
    if isinstance(call, Put):
        seen.append(call.key)
    return None


async def puts() -> int:
    await Put("first", 1)
    value = await effect(1)
    await Put("second", 1)
    return value


def test_a_handler_runs_again_on_replay(tmp_path: Path) -> None:
    """ "it is pure and runs again on replay": it sees the calls that are replayed as it saw them first."""
    seen.clear()
    assert tiffany.run(puts(), wal=tmp_path / "whole", id="a", handlers=[watches]) == 2
    assert seen == ["first", "second"]
    count = len(lines(tmp_path / "whole"))
    there = cut(tmp_path / "whole", count - 1, tmp_path / "cut")
    assert tiffany.run(puts(), wal=there, id="a", handlers=[watches]) == 2
    assert seen == ["first", "second"] * 2


worked: list[int] = []


@step
def work(n: int) -> int:
    worked.append(n)
    return n * 10


def answers(call: SystemCall[Any], tid: int) -> object:
    return by_effect(call.key) if isinstance(call, Ask) else None


async def by_effect(key: str) -> int:
    return await work(len(key))


async def asks_the_handler() -> int:
    answer: int = await Ask("four")
    return answer


def test_a_handlers_work_goes_through_effects(tmp_path: Path) -> None:
    """ "(work goes through effects)": what a handler's program does by a step is not done again on replay."""
    worked.clear()
    run = tiffany.run(asks_the_handler(), wal=tmp_path / "whole", id="a", handlers=[answers])
    assert run == 40
    count = len(lines(tmp_path / "whole"))
    there = cut(tmp_path / "whole", count - 1, tmp_path / "cut")
    assert tiffany.run(asks_the_handler(), wal=there, id="a", handlers=[answers]) == 40
    assert worked == [4]


async def fails() -> None:
    await Yield()
    raise Boom("as it was")


async def family() -> str:
    try:
        await Wait(await Spawn(fails()))
    except Boom as error:
        return str(error)
    return "no error"


def test_a_failure_is_recorded(tmp_path: Path) -> None:
    """ "a panic or exception ends that task alone: Failed, recorded" """
    assert tiffany.run(family(), wal=tmp_path, id="a") == "as it was"
    ends = [record for record in records(tmp_path) if record["type"].startswith("Task")]
    assert any("as it was" in str(record) and record["tid"] == 2 for record in ends)
    with pytest.raises(Boom, match="as it was"):
        tiffany.run(fails(), wal=tmp_path / "root", id="a")
    # The outcome is read from the log.
    with pytest.raises(Boom, match="as it was"):
        tiffany.run(fails(), wal=tmp_path / "root", id="a")


@tiffany.workflow
async def fails_beside_a_listener() -> None:
    await Spawn(listener(), name="listener")
    await Sleep(0.001)
    raise Boom("no money")


async def listener() -> str:
    try:
        return str(await ReceiveMessage("news"))
    finally:
        await ReceiveMessage("leave")


async def nap() -> None:
    await Sleep(0.005)


def ends(wal: Path) -> list[tuple[str, int]]:
    kinds = ("TaskExit", "TaskAbort", "TaskCancel")
    return [(record["type"], record["tid"]) for record in records(wal) if record["type"] in kinds]


def test_a_failed_root_is_told_as_soon_as_it_is_durable(tmp_path: Path) -> None:
    """ "is told as soon as it is durable, and cancels the tasks that are left (the run is *ending* until they are terminal).": after a restart,
    too, and the outcome stays what was told."""
    with Runtime(wal=tmp_path) as runtime:
        run = runtime.submit(fails_beside_a_listener, id="a")
        with pytest.raises(Boom, match="no money"):
            runtime.wait(run)
        assert not runtime.is_finished(run)
    assert ends(tmp_path) == [("TaskAbort", 1)]
    with Runtime(wal=tmp_path, workflows=[fails_beside_a_listener]) as runtime:
        run = runtime.submit(fails_beside_a_listener, id="a")
        with pytest.raises(Boom, match="no money"):
            runtime.wait(run)
        runtime.send(run, "leave", None)
        while not runtime.is_finished(run):
            runtime.run(nap())
        with pytest.raises(Boom, match="no money"):
            runtime.wait(run)
    assert ends(tmp_path) == [("TaskAbort", 1), ("TaskCancel", 2)]


def test_the_log_says_by_which_rules_a_run_ends(tmp_path: Path) -> None:
    """ "RunStart carries `rules: 2` for this": and each daemon task is one in the log."""

    assert tiffany.run(beside_a_daemon(), wal=tmp_path, id="a") == 5
    assert records(tmp_path)[0]["rules"] == 2
    spawned = [record for record in records(tmp_path) if record["type"] == "TaskSpawn"]
    assert [record.get("daemon") for record in spawned] == [True, None]


async def beside_a_daemon() -> int:
    await Spawn(Sleep(60), daemon=True)
    await Wait(await Spawn(Sleep(0.001), daemon=False))
    return 5


def test_logs_without_rules_replay_by_the_rule_they_began_with(tmp_path: Path) -> None:
    """ "logs without it replay by the rule they began with.": a failed root leaves the other tasks alone, and the run is over when they are."""
    with Runtime(wal=tmp_path / "today") as runtime:
        run = runtime.submit(fails_beside_a_listener, id="a")
        with pytest.raises(Boom, match="no money"):
            runtime.wait(run)
    count = types(tmp_path / "today").index("TaskAbort") + 1
    old = cut(tmp_path / "today", count, tmp_path / "old")
    first_rules(old)
    with Runtime(wal=old, workflows=[fails_beside_a_listener]) as runtime:
        runtime.run(nap())
        assert runtime.paused() == []
        assert not runtime.is_finished(run)
        runtime.send(run, "news", "good")
        runtime.send(run, "leave", None)
        with pytest.raises(Boom, match="no money"):
            runtime.wait(run)
    assert ends(old) == [("TaskAbort", 1), ("TaskExit", 2)]
