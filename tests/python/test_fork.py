"""A process that forks: a child may make runtimes of its own, and never continues as the runtime of its parent."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
import time
import urllib.error
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from command_kit import TIMEOUT_SECONDS, Home, Started, environment
from serve_kit import ask, submit

PROGRAM = """
import os, threading, time, tiffany

async def sleepers(count):
    async def one():
        return await tiffany.calls.blocking(time.sleep, 0.05)
    return len(await tiffany.gather([await tiffany.spawn(one()) for _ in range(count)]))

def run_all():
    # Threads of Python's take the places in memory of those that are gone.
    threads = [threading.Thread(target=lambda: time.sleep(0.02)) for _ in range(20)]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
    assert tiffany.run(sleepers(40), threads=40) == 40

runtime = tiffany.Runtime(threads=6)
runtime.run(sleepers(6))  # Six threads are idle now.
for _ in range(4):
    child = os.fork()
    if child == 0:
        run_all()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
assert runtime.run(sleepers(6)) == 6
print("done")
"""


def test_a_child_has_threads_and_locks_of_its_own() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=TIMEOUT_SECONDS,
    )
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr


FORKS = """
import multiprocessing, os, time
import tiffany
from tiffany import sleep, spawn, step, workflow


def note(path, *words):
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.write(file, (" ".join(map(str, (os.getpid(), *words))) + "\\n").encode())
    os.close(file)


@workflow(name="in_turn")
async def in_turn(path: str) -> str:
    child = os.fork()
    if child:
        note(path, child)
        await sleep(0.05)
    return "parent"


@workflow(name="catches")
async def catches(path: str) -> str:
    child = os.fork()
    if child:
        note(path, child)
    try:
        await sleep(0.05)
    except BaseException:
        pass
    finally:
        if not child:
            note(path, "goes on")
    await sleep(0.05)
    return "parent"


@step
def forking(path):
    child = os.fork()
    if child:
        note(path, child)
    return "parent" if child else "child"


@workflow(name="in_step")
async def in_step(path: str) -> str:
    return await forking(path)


@step
async def forking_async(path):
    import asyncio
    child = os.fork()
    if child:
        note(path, child)
    await asyncio.sleep(0.01)
    return "parent" if child else "child"


@workflow(name="in_async_step")
async def in_async_step(path: str) -> str:
    return await forking_async(path)


@step
def work(path, number):
    note(path, number)
    return number


@step
async def work_async(path, number):
    note(path, number)
    return number


@workflow(name="works")
async def works(path: str, count: int) -> int:
    for number in range(count):
        await (work_async if number % 2 else work)(path, number)
        await sleep(0.005)
    return count


def waits():
    time.sleep(60)


@step
def terminates():
    process = multiprocessing.get_context("fork").Process(target=waits)
    process.start()
    process.terminate()
    process.join(20)
    return process.exitcode


@workflow(name="pools")
async def pools() -> int:
    return await terminates()


@workflow(name="keeps_its_turn")
async def keeps_its_turn(path: str) -> None:
    note(path)
    while not os.path.exists(path + ".end"):
        time.sleep(0.01)
"""


def serving(home: Home) -> Started:
    home.write("forks.py", FORKS)
    return home.start("--app", "forks.py", "serve", "--json", "--listen", "127.0.0.1:0")


def lines_of(path: Path) -> list[list[str]]:
    return [line.split() for line in path.read_text().splitlines()]


def runs(process: int) -> bool:
    """Whether a process runs: it is there, and not merely waited for."""
    try:
        stat = Path(f"/proc/{process}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.mark.parametrize("function", ["in_turn", "catches", "in_step", "in_async_step"])
def test_children_of_a_daemon_end_where_they_return_and_all_runs_go_on(
    tmp_path: Path, function: str
) -> None:
    home, count, forks = Home(tmp_path), 20, 10
    path, worked = tmp_path / "forked", tmp_path / "worked"
    with serving(home) as daemon:
        said = json.loads(daemon.line())
        url, pid = said["url"], said["pid"]
        works = [
            submit(url, "works", {"path": f"{worked}-{n}", "count": count}, f"works-{n}")
            for n in range(4)
        ]
        forking = [submit(url, function, {"path": str(path)}, f"fork-{n}") for n in range(forks)]
        assert {ask(f"{run}?wait=20")["value"] for run in forking} == {"parent"}
        assert {ask(f"{run}?wait=20")["value"] for run in works} == {count}
        # Each step was done once, by the daemon.
        for n in range(4):
            assert lines_of(Path(f"{worked}-{n}")) == [[str(pid), str(i)] for i in range(count)]
        noted = lines_of(path)
        assert len(noted) == forks and {line[0] for line in noted} == {str(pid)}, noted
        until(lambda: not any(runs(int(line[1])) for line in noted))
        daemon.signal(signal.SIGTERM)
        ended = daemon.end()
        assert ended.code == 0, ended
        told = ended.err.splitlines()
        assert len(told) == forks and all("[TFY0047]" in line for line in told), told
        assert {f"process {line[1]} ended" in ended.err for line in noted} == {True}


def test_a_daemon_is_not_told_of_signals_to_its_children(tmp_path: Path) -> None:
    with serving(Home(tmp_path)) as daemon:
        url = json.loads(daemon.line())["url"]
        run = submit(url, "pools", {})
        assert ask(f"{run}?wait=30")["value"] == -signal.SIGTERM
        assert ask(f"{url}/readyz")
        daemon.signal(signal.SIGTERM)
        ended = daemon.end()
        assert (ended.code, ended.err) == (0, ""), ended


def test_requests_that_waited_begin_nothing_after_sigterm(tmp_path: Path) -> None:
    home, path = Home(tmp_path), tmp_path / "turn"
    with serving(home) as daemon:
        url = json.loads(daemon.line())["url"]
        answers: dict[str, Any] = {}

        def submitted(function: str, id: str, **given: object) -> threading.Thread:
            def asks() -> None:
                try:
                    answers[id] = submit(url, function, given, id)
                except urllib.error.HTTPError as error:
                    answers[id] = json.load(error)

            thread = threading.Thread(target=asks)
            thread.start()
            return thread

        first = submitted("keeps_its_turn", "first", path=str(path))
        until(path.exists)
        late = submitted("works", "late", path=str(tmp_path / "late"), count=1)
        # Its intent is in the audit, and it waits for the loop.
        until(lambda: '"late"' in (tmp_path / ".tiffany" / "audit.jsonl").read_text())
        daemon.signal(signal.SIGTERM)
        # The loop is free again once the daemon knows that it is to end.
        Path(f"{path}.end").touch()
        assert daemon.end().code == 0
        first.join()
        late.join()
        told = answers["late"]
        assert (told["status"], told["code"]) == (503, "TFY0159"), told
    assert not (tmp_path / "late").exists()
    assert "late" not in home.run("ls").ok()


SCRIPT = """
import os, sys, tiffany

async def other():
    for _ in range(20):
        await tiffany.yield_now()
        if os.getpid() != parent:
            os.write(1, b"another task ran\\n")

async def main():
    await tiffany.spawn(other())
    child = os.fork()
    try:
        await tiffany.yield_now()
        return child
    finally:
        if os.getpid() != parent:
            os.write(1, b"cleaned up\\n")

parent = os.getpid()
print("said once, when the parent ends")
child = tiffany.run(main())
assert os.getpid() == parent
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
assert tiffany.run(main()) > 0
"""


def test_a_child_of_a_script_ends_where_it_returns(tmp_path: Path) -> None:
    home = Home(tmp_path)
    home.write("script.py", SCRIPT)
    with home.python("script.py") as script:
        ended = script.end()
    assert (ended.code, ended.out) == (0, "said once, when the parent ends\n1\n"), ended
    assert [line.count("[TFY0047]") for line in ended.err.splitlines()] == [1, 1], ended
