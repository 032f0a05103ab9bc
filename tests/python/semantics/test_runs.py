"""Runs: what a run has for itself, and what its tasks may do."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
import traceback
from typing import Any

import tiffany
from semantics.dialects import both
from tiffany.calls import (
    Blocking,
    CompletePromise,
    CreateChannel,
    CreatePromise,
    Gather,
    NewUuid,
    Random,
    ReadWait,
    Sleep,
    Spawn,
    Wait,
    Yield,
)


@both
def test_one_run_never_changes_anothers_order() -> None:
    """ "Queue, rounds, policy, tids, clock and limits are per run, so one run never changes another's order.": the same alone as beside
    others on other threads."""

    async def worker(seen: list[str], name: str, turns: int) -> None:
        for _ in range(turns):
            seen.append(name)
            await Yield()

    async def main(seen: list[str]) -> str:
        for n, name in enumerate("abcd"):
            await Spawn(worker(seen, name, 3 + n))
        return "over"

    def run() -> str:
        seen: list[str] = []
        assert tiffany.run(main(seen), limits={"max_calls": 50}) == "over"
        return "".join(seen)

    alone = run()
    beside: list[str] = []
    threads = [threading.Thread(target=lambda: beside.append(run())) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert beside == [alone] * 4


@both
def test_ephemeral_tasks_may_use_anything() -> None:
    """ "In *ephemeral* runs tasks may use descriptors, foreign futures and anything else.": sockets, threads, child processes."""

    async def main() -> list[Any]:
        left, right = socket.socketpair()
        right.send(b"socket")
        await ReadWait(left)
        got: list[Any] = [left.recv(10)]
        left.close()
        right.close()
        command = [sys.executable, "-c", "print('process')"]
        done = await Blocking(subprocess.run, command, capture_output=True, check=True)
        got.append(done.stdout.strip())
        got.append(await Blocking(os.getpid) == os.getpid())
        return got

    assert tiffany.run(main()) == [b"socket", b"process", True]


@both
def test_blocking_work_is_done_on_a_thread() -> None:
    """ "In *ephemeral* runs tasks may use […] anything else.": others go on while it works, and what it raises is raised in the task."""
    seen: list[str] = []
    release = threading.Event()

    def work(how: str, *, fails: bool = False) -> str:
        assert release.wait(30)
        if fails:
            raise ValueError(how)
        return f"{how} {threading.current_thread() is threading.main_thread()}"

    async def other() -> None:
        seen.append("other")
        release.set()

    async def main() -> str:
        await Spawn(other())
        value = await Blocking(work, "work")
        try:
            await Blocking(work, "bad", fails=True)
        except ValueError as error:
            seen.append(str(error))
        return value

    assert tiffany.run(main()) == "work False"
    assert seen == ["other", "bad"]


@both
def test_tasks_of_one_run_share_memory() -> None:
    """ "Tasks of one run may share memory": between two calls nobody else runs, so no lock is needed."""
    shared = {"count": 0}

    async def worker() -> None:
        for _ in range(100):
            count = shared["count"]
            count += 1
            shared["count"] = count
            await Yield()

    async def main() -> None:
        for _ in range(10):
            await Spawn(worker())

    tiffany.run(main())
    assert shared["count"] == 1_000


def trace() -> list[str]:
    """The way of a program with all kinds of calls."""
    seen: list[str] = []

    async def worker(name: str, channel: Any, gate: Any) -> str:
        await Wait(gate)
        for n in range(3):
            await channel.send(f"{name}{n}")
            seen.append(f"{name} sent {n}")
        await Sleep(0)
        seen.append(f"{name} slept")
        return name

    async def main() -> None:
        channel, gate = await CreateChannel(2), await CreatePromise()
        tasks = [await Spawn(worker(name, channel, gate.future)) for name in "abc"]
        await CompletePromise(gate)
        for _ in range(9):
            seen.append(await channel.receive())
        seen.extend(await Gather(tasks))

    tiffany.run(main())
    return seen


def test_the_same_program_takes_the_same_way() -> None:
    """ "deterministic cooperative": the same program with the same answers takes the same way every time."""
    first = trace()
    assert len(first) == 24
    assert all(trace() == first for _ in range(20))


@both
def test_chance() -> None:
    """ "anything else": random numbers and identities come from the run."""

    async def main() -> tuple[list[float], set[str]]:
        numbers: list[float] = []
        names: set[str] = set()
        for _ in range(50):
            numbers.append(await Random())
            names.add(str(await NewUuid()))
        return numbers, names

    numbers, names = tiffany.run(main())
    assert all(0 <= number < 1 for number in numbers)
    assert len(set(numbers)) == len(names) == 50


@both
def test_errors_give_the_line_of_the_call_and_of_the_spawn() -> None:
    """ "Errors give the line of the call (`#[track_caller]`) and the line where the task was spawned": the first in the traceback, the
    second in the message."""

    async def settles() -> None:
        promise = await CreatePromise()
        await CompletePromise(promise, 1)
        await CompletePromise(promise, 2)  # here it happens

    async def main() -> None:
        task = await Spawn(settles(), name="settler")  # here it is spawned
        await Wait(task)

    said = ""
    try:
        tiffany.run(main())
    except tiffany.errors.AlreadySettledError as error:
        frame = traceback.extract_tb(error.__traceback__)[-1]
        assert frame.line is not None and "here it happens" in frame.line
        said = str(error)
    # The text of the error is made where it happens, so it has that task.
    with open(__file__) as file:
        lines = file.read().splitlines()
    spawned = next(n for n, line in enumerate(lines, 1) if line.endswith("# here it is spawned"))
    assert f"task 2 `settler` (spawned at {__file__}:{spawned})" in said
