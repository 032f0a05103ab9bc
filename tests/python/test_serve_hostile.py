"""`tiffany serve` with code that keeps a loop, disarms what would end it, or raises where an input is read."""

from __future__ import annotations

import json
import re
import signal
import time
from pathlib import Path

import pytest
from command_kit import Home, Started
from serve_kit import ask, refused, submit

PROGRAM = """
import asyncio
import dataclasses
import signal
import socket
import sys
import time

import tiffany


class EndlessDel:
    def __del__(self):
        while True:
            pass


@tiffany.workflow
async def deletes():
    while True:
        EndlessDel()


@tiffany.workflow
async def ignores():
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGINT, lambda *_: None)


async def spin(path):
    with open(path, "a") as file:
        file.write("begun ")
    while True:
        try:
            while True:
                pass
        except BaseException:
            pass


@tiffany.step(retries=1, backoff=0.01)
async def spins_async(path):
    await spin(path)


@tiffany.workflow
async def awaits(path):
    await spins_async(path)


@tiffany.step
async def spins_inside(path):
    await asyncio.create_task(spin(path))


@tiffany.workflow
async def awaits_inside(path):
    await spins_inside(path)


@tiffany.step
async def spins_and_raises(path):
    try:
        await spin(path)
    except BaseException:
        raise


@tiffany.workflow
async def awaits_raising(path):
    await spins_and_raises(path)


@tiffany.step
async def greet_async(name):
    await asyncio.sleep(0.01)
    return f"hello {name}"


@tiffany.workflow
async def quick_async(name):
    return await greet_async(name)


@tiffany.workflow
async def quick():
    return "quick"


def spins(*_):
    while True:
        pass


def spins_on():
    while True:
        try:
            while True:
                pass
        except BaseException:
            pass


async def spinning_generator():
    try:
        yield
    finally:
        spins()


@tiffany.step
async def leaves(kind):
    loop = asyncio.get_running_loop()
    if kind == "soon":
        loop.call_soon(spins)
    if kind == "again":
        loop.call_later(0.01, spins_on)
    if kind == "threadsafe":
        loop.call_soon_threadsafe(spins)
    if kind == "done":
        future = loop.create_future()
        future.add_done_callback(spins)
        future.set_result(None)
    if kind == "reader":
        ends = socket.socketpair()
        loop.add_reader(ends[0], spins, ends)
        ends[1].send(b"x")
    if kind == "blocked":
        loop.call_soon(time.sleep, 3)
    if kind == "generator":
        generator = spinning_generator()
        await anext(generator)
        del generator


@tiffany.workflow
async def leaves_callback(kind):
    await leaves(kind)


@tiffany.step
async def keeps_on(kind):
    loop = asyncio.get_running_loop()

    def tick():
        loop.call_soon(tick)
        spins()

    if kind == "fails":
        tick()
    loop.call_soon(tick)
    await asyncio.sleep(3600)


@tiffany.workflow
async def keeps_on_spinning(kind):
    await keeps_on(kind)
"""


def served(home: Home, program: str = PROGRAM, *, turn: str = "1s") -> Started:
    home.write("hostile.py", program)
    home.write("tiffany.toml", f'app = "hostile.py"\n[run_limits]\nturn = "{turn}"\n')
    listen = ("--listen", "127.0.0.1:0", "--grace", "2s")
    return home.start("serve", "--json", "--config", "tiffany.toml", *listen)


def test_a_spin_in_del_is_interrupted(tmp_path: Path) -> None:
    with served(Home(tmp_path)) as daemon:
        url = json.loads(daemon.line())["url"]
        deletes = submit(url, "deletes", {})
        assert ask(f"{submit(url, 'quick', {})}?wait=20")["value"] == "quick"
        shown = ask(deletes)
        assert (shown["state"], shown["error"]["code"]) == ("held", "TFY0235"), shown
        daemon.signal(signal.SIGTERM)
        ended = daemon.end()
        assert ended.code == 0 and "Exception ignored" not in ended.err, ended


BLOCKS = """
import os
import signal
import subprocess
import threading
import time

import tiffany

lock = threading.Lock()
lock.acquire()


@tiffany.workflow
async def sleeps():
    time.sleep(60)


@tiffany.workflow
async def locks():
    lock.acquire(timeout=60)


@tiffany.workflow
async def runs_a_process():
    subprocess.run(["sleep", "60"])


@tiffany.workflow
async def reads():
    os.read(os.pipe()[0], 1)


@tiffany.workflow
async def sleeps_again():
    for _ in range(10):
        try:
            time.sleep(60)
        except BaseException:
            pass


@tiffany.workflow
async def quick():
    return "quick"
"""


def blocking(home: Home, more: str = "") -> Started:
    home.write("blocks.py", BLOCKS + more)
    home.write("tiffany.toml", 'app = "blocks.py"\n[run_limits]\nturn = "1s"\n')
    return home.start("serve", "--json", "--config", "tiffany.toml", "--listen", "127.0.0.1:0")


@pytest.mark.parametrize("function", ["sleeps", "locks", "runs_a_process", "reads", "sleeps_again"])
def test_a_call_that_blocks_is_interrupted_and_its_run_held(tmp_path: Path, function: str) -> None:
    with blocking(Home(tmp_path)) as daemon:
        url = json.loads(daemon.line())["url"]
        blocks = submit(url, function, {})
        begun = time.monotonic()
        assert ask(f"{submit(url, 'quick', {})}?wait=20")["value"] == "quick"
        assert time.monotonic() - begun < 15
        shown = ask(blocks)
        assert (shown["state"], shown["error"]["code"]) == ("held", "TFY0235"), shown
        daemon.signal(signal.SIGTERM)
        assert daemon.end().code == 0


OWN_HANDLER = """
def mine(number, frame):
    pass


signal.signal(signal.SIGURG, mine)


@tiffany.workflow
async def handler():
    return signal.getsignal(signal.SIGURG) is mine


@tiffany.workflow
async def sleeps_for_a_while():
    time.sleep(4)
    return "slept"
"""


def test_a_handler_of_the_program_is_left_alone(tmp_path: Path) -> None:
    with blocking(Home(tmp_path), OWN_HANDLER) as daemon:
        url = json.loads(daemon.line())["url"]
        assert ask(f"{submit(url, 'handler', {})}?wait=20")["value"] is True
        # The call is not ended, but the code after it is interrupted.
        begun = time.monotonic()
        sleeps = submit(url, "sleeps_for_a_while", {})
        assert ask(f"{submit(url, 'quick', {})}?wait=20")["value"] == "quick"
        assert time.monotonic() - begun > 3
        assert ask(sleeps)["state"] == "held"


@pytest.mark.parametrize(
    ("function", "step"),
    [
        ("awaits", "spins_async"),
        ("awaits_inside", "spins_inside"),
        ("awaits_raising", "spins_and_raises"),
    ],
)
def test_an_async_step_that_spins_fails_and_the_others_go_on(
    tmp_path: Path, function: str, step: str
) -> None:
    home, path = Home(tmp_path), tmp_path / "begun"
    with served(home, turn="2s") as daemon:
        url = json.loads(daemon.line())["url"]
        spins = submit(url, function, {"path": str(path)})
        quick = submit(url, "quick_async", {"name": "Ada"})
        seen: list[str] = []
        deadline = time.monotonic() + 20
        while ask(quick)["state"] == "live" and time.monotonic() < deadline:
            turns = ask(url + "/api/v1/stuck")["turns"]
            seen += [turn["name"] for turn in turns if not turn["is_over"]]
            time.sleep(0.02)
        assert ask(quick)["value"] == "hello Ada"
        assert set(seen) == {f"async step `{step}`"}, seen
        shown = ask(f"{spins}?wait=20")
        assert (shown["state"], shown["error"]["code"]) == ("failed", "TFY0240"), shown
        assert f"async step `{step}` kept the loop" in shown["error"]["message"], shown
        # It was tried again, as its policy says.
        assert path.read_text() == ("begun begun " if function == "awaits" else "begun ")
        daemon.signal(signal.SIGTERM)
        ended = daemon.end()
        assert ended.code == 0 and f"async step `{step}`" in ended.err, ended


@pytest.mark.parametrize(
    "kind", ["soon", "again", "threadsafe", "done", "reader", "blocked", "generator"]
)
def test_a_callback_that_spins_is_interrupted_and_named_and_async_steps_go_on(
    tmp_path: Path, kind: str
) -> None:
    home = Home(tmp_path)
    with served(home) as daemon:
        url = json.loads(daemon.line())["url"]
        leaves = submit(url, "leaves_callback", {"kind": kind})
        # It keeps the loop when its step is over.
        assert ask(f"{leaves}?wait=20")["state"] == "completed"
        quick = submit(url, "quick_async", {"name": "Ada"})
        assert ask(f"{quick}?wait=20")["value"] == "hello Ada"
        turns = ask(url + "/api/v1/stuck")["turns"]
        assert {turn["name"] for turn in turns if kind != "reader"} <= {"async step `leaves`"}
        daemon.signal(signal.SIGTERM)
        ended = daemon.end()
        assert ended.code == 0 and "Traceback" not in ended.err, ended
        if kind != "generator":
            said = [line for line in ended.err.splitlines() if "[TFY0240]" in line]
            assert len(said) == 1 and "of async step `leaves` of run " in said[0], ended
            assert ("sleep" if kind == "blocked" else "spins") in said[0], ended


@pytest.mark.parametrize("kind", ["fails", "waits"])
def test_a_step_that_is_interrupted_again_and_again_is_not_run_any_more(
    tmp_path: Path, kind: str
) -> None:
    with served(Home(tmp_path)) as daemon:
        url = json.loads(daemon.line())["url"]
        shown = ask(f"{submit(url, 'keeps_on_spinning', {'kind': kind})}?wait=20")
        assert (shown["state"], shown["error"]["code"]) == ("failed", "TFY0240"), shown
        quick = submit(url, "quick_async", {"name": "Ada"})
        assert ask(f"{quick}?wait=20")["value"] == "hello Ada"

        def turns() -> list[bool]:
            all_turns = ask(url + "/api/v1/stuck")["turns"]
            return [turn["is_over"] for turn in all_turns if "keeps_on" in turn["name"]]

        deadline = time.monotonic() + 20
        while turns() != [True] * 3 and time.monotonic() < deadline:
            time.sleep(0.02)
        assert turns() == [True] * 3
        daemon.signal(signal.SIGTERM)
        assert daemon.end().code == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_workflow_that_replaces_signal_handlers_does_not_keep_the_daemon_from_ending(
    tmp_path: Path, number: signal.Signals
) -> None:
    home = Home(tmp_path)
    with served(home) as daemon:
        said = json.loads(daemon.line())
        run = submit(said["url"], "ignores", {})
        assert ask(f"{run}?wait=20")["state"] == "completed"

        def is_ignored() -> bool:
            status = Path(f"/proc/{said['pid']}/status").read_text()
            ignored = int(re.findall(r"SigIgn:\s*([0-9a-f]+)", status)[0], 16)
            return bool(ignored & 1 << signal.SIGTERM - 1)

        deadline = time.monotonic() + 10
        while is_ignored() and time.monotonic() < deadline:
            time.sleep(0.02)
        assert not is_ignored()
        # Both were put back at the same time.
        daemon.signal(number)
        ended = daemon.end()
        assert ended.code == 0, ended


CHECKED = """
import dataclasses
import sys

import tiffany


class Odd(Exception):
    def __str__(self):
        raise RuntimeError("it has no text")


@dataclasses.dataclass
class Item:
    name: str

    def __post_init__(self):
        if self.name == "empty":
            raise ValueError("a name is wanted")
        if self.name == "key":
            raise KeyError("key")
        if self.name == "surrogate":
            raise ValueError("no \\ud800")
        if self.name == "odd":
            raise Odd
        if self.name == "interrupt":
            raise KeyboardInterrupt
        if self.name == "exit":
            sys.exit(4)


@tiffany.workflow(name="buy")
async def buy(item: Item):
    return item.name
"""


def test_an_input_that_a_validator_does_not_like_is_refused_with_its_parameter(
    tmp_path: Path,
) -> None:
    home = Home(tmp_path)
    with served(home, CHECKED) as daemon:
        runs = json.loads(daemon.line())["url"] + "/api/v1/runs"
        for name, said in [
            ("empty", "ValueError: a name is wanted"),
            ("key", "KeyError: 'key'"),
            ("surrogate", "ValueError: no \\ud800"),
            ("odd", "Odd"),
            ("interrupt", "KeyboardInterrupt"),
            ("exit", "SystemExit: 4"),
        ]:
            given = {"function": "buy", "id": name, "input": {"item": {"name": name}}}
            problem = refused(runs, given)
            assert (problem["status"], problem["code"]) == (422, "TFY0035"), problem
            assert f"`item` was refused: {said};" in problem["title"], problem
        # Nothing of them is left.
        assert ask(runs)["runs"] == []
        ask(runs, {"function": "buy", "id": "b", "input": {"item": {"name": "tea"}}})
        assert ask(f"{runs}/b?wait=20")["value"] == "tea"
        daemon.signal(signal.SIGTERM)
        assert daemon.end().code == 0
